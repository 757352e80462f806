// Package identities makes the authentication schemes that a configuration turns on: who a
// client is by its certificate, its token, or its login. It reads the keys of tokens, from a file or
// from the issuer, and has people sign in at the issuer.
//
// # Goroutines
//
// There are none of its own: a connection that needs the keys of tokens reads them, one at a time.
// All methods may be called from any goroutine.
package identities
