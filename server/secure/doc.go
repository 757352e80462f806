// Package secure makes TLS of the settings of a port: that of clients, or the one between
// servers. It reads the keys and the trusted authorities again when their files change,
// verifies certificates, asks whether they have been revoked, and counts handshakes.
//
// A certificate about which nothing can be found out is refused: an unreachable OCSP
// responder, or a revocation list that is out of date, closes the port to it.
//
// Sessions are never resumed, because a resumed session would outlive its certificate.
//
// # Goroutines
//
// A TLS may be used from any goroutine. Its verification blocks while it asks for the
// revocation of a certificate, for at most a few seconds. To staple an OCSP answer, Tick
// starts a goroutine that asks the responder; there is one at most, and it ends after a few
// seconds.
package secure
