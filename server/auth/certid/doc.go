// Package certid is the scheme x509: it finds the identity of a client in the client's
// certificate.
//
// The identity is, by [Config.From]:
//
//   - the subject, spelled as Java spells it (X500Principal.getName), so that ACLs that
//     Apache's server has stored keep their meaning;
//   - a part of the one subject alternative name that a pattern selects;
//   - the SPIFFE ID, the one URI of an X.509-SVID.
//
// A certificate in which the rule finds nothing, or more than one name, is refused: there
// is no other identity to fall back to. A certificate with an empty subject has no
// identity by its subject, but is not refused.
//
// TLS has verified the certificate before; this package decides only on the name.
//
// The package is pure. A Provider is immutable and may be used from any goroutine.
package certid
