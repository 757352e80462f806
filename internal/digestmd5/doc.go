// Package digestmd5 has what both sides of the SASL mechanism DIGEST-MD5 (RFC 2831) share:
// the syntax of its messages, and the proofs of the password. There are no integrity and
// privacy layers.
package digestmd5
