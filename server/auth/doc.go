// Package auth determines the identities of a connection and what an ACL permits them.
//
// A connection has a set of identities ([jute.ID], a scheme and a name within it), its
// [Credentials]. They start with ("ip", remote address). Auth packets and the client's
// certificate add to them ([Schemes.Authenticate], [Schemes.AuthenticateCertificate]), and
// some end at a given time. An ACL is a list of entries, each of which grants permissions
// to an identity ([Schemes.Allowed]). An ACL in a request is checked and expanded once,
// before it is stored ([Schemes.FixACL]).
//
// Each scheme is a [Provider]; a new one is a new type and an entry in Config.Providers.
// Built in are digest (user and password), ip (an address or a CIDR block) and holder (the
// session that holds a lock, [Schemes.AllowedHolder]); [Ensemble] is
// a guard without identities, package certid has x509 (certificates), and package jwt
// has jwt (signed tokens). World
// (everybody), auth (the writer of the ACL, only while it is being written) and super (may
// do everything, and can't be named in an ACL) are no providers. A scheme without a
// provider is not configured: no connection gets it, no ACL may name it, and an entry that
// is already stored matches nobody.
//
// An edge, a proxy on a client's host, may speak for its clients ([EdgeRule]): with the scheme edge it gives the connection
// the identity of one of them, instead of its own.
//
// # Invariants
//
//   - Credentials are immutable: Authenticate returns new ones. So a request may keep the
//     identities that its connection had when it arrived.
//   - Lists that FixACL and Redact return are never modified.
//   - Allowed only reads its arguments, and allocates nothing.
//
// # Goroutines
//
// The package is pure. A Schemes is immutable, but for the rules of SetEdges, and may be used from any goroutine.
package auth
