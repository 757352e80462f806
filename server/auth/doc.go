// Package auth decides who a connection is and what an ACL lets it do.
//
// A connection has a set of identities ([jute.ID], a scheme and a name within
// it). It starts with ("ip", remote address), and auth packets add to it
// ([Schemes.Authenticate]). An ACL is a list of entries, each of which grants
// permissions to an identity ([Schemes.Allowed]). What a client writes as an
// ACL is checked and expanded once, before it is stored ([Schemes.FixACL]).
//
// The schemes are world (everybody), auth (the writer of the ACL, only while it
// is being written), digest (user and password), ip (an address or a CIDR
// block) and super (who may do everything, and can't be named in an ACL). Each
// is one row of the table that [New] makes; a scheme without a row is not
// configured: nobody gets it, no ACL may name it, and an entry that is stored
// already matches nobody.
//
// # Invariants
//
//   - Slices of identities are immutable: Authenticate returns a longer copy. So
//     a request may keep the slice that its connection had when it arrived.
//   - Lists that FixACL and Redact return are never written again.
//   - Allowed only reads what it is given, and allocates nothing.
//
// # Goroutines
//
// The package is pure. A Schemes never changes and may be used from anywhere.
package auth
