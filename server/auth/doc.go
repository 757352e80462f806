// Package auth determines the identities of a connection and what an ACL permits them.
//
// A connection has a set of identities ([jute.ID], a scheme and a name within it). It
// starts with ("ip", remote address), and auth packets add to it
// ([Schemes.Authenticate]). An ACL is a list of entries, each of which grants permissions
// to an identity ([Schemes.Allowed]). An ACL in a request is checked and expanded once,
// before it is stored ([Schemes.FixACL]).
//
// The schemes are world (everybody), auth (the writer of the ACL, only while it is being
// written), digest (user and password), ip (an address or a CIDR block) and super (may do
// everything, and can't be named in an ACL). Each is one row of the table that [New]
// makes. A scheme without a row is not configured: no connection gets it, no ACL may name
// it, and an entry that is already stored matches nobody.
//
// # Invariants
//
//   - Slices of identities are immutable: Authenticate returns a longer copy. So a
//     request may keep the slice that its connection had when it arrived.
//   - Lists that FixACL and Redact return are never modified.
//   - Allowed only reads its arguments, and allocates nothing.
//
// # Goroutines
//
// The package is pure. A Schemes is immutable and may be used from any goroutine.
package auth
