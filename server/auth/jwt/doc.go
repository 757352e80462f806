// Package jwt is the scheme jwt: a client proves its identity by a token of an OpenID
// Connect provider, a signed JSON Web Token (RFC 7519), which it sends in an auth packet.
//
// The token must be signed with a public key of the issuer, be meant for this service
// (audience), and not be over. The identity is one of its claims, and ends with the token;
// with a later token the client keeps it.
//
// # Expired tokens
//
// A token that is over proves nothing, but is no error: stock clients send all tokens that
// they ever had on each new connection, and give up their session at the first that is
// refused. Its signature is not checked, since nothing depends on it.
//
// # Keys
//
// The issuer's keys are a JSON Web Key Set, which Config.Fetch reads. They are read again
// when they are older than Config.Refresh, or when a token names an unknown key, in the
// goroutine that wants to check a token, and at most every 10 s. If they can't be read, the
// old ones are used for up to 24 h. Only public keys of RSA, ECDSA and Ed25519 are used.
//
// # Purity
//
// The package reads no clock and no files; they come in with Config. It has no goroutines.
// A Provider may be used from any goroutine.
package jwt
