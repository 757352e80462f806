// Package sasl is the server's side of SASL: the mechanisms by which clients prove who they
// are, and the identities of the scheme "sasl" that they get for it.
//
// A client sends its tokens as requests of their own (opcode 102), which do not name the
// mechanism. Where Apache's server has one mechanism, which its login configuration
// chooses, [Server.Begin] returns an [Exchange] that chooses by the first token: an empty
// one begins DIGEST-MD5, and one of GSS-API begins GSSAPI, which is Kerberos.
//
// A new mechanism is a type with the method step, and a line in [Exchange.choose].
//
// A mechanism yields a principal, of which [Names] makes the id of the identity by
// Kerberos' rules, also if the principal is the plain name of a user.
//
// # Goroutines
//
// A Server may be used from any goroutine. An Exchange belongs to one connection, whose
// reader calls it. It does no I/O.
package sasl
