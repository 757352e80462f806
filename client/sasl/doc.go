// Package sasl authenticates a ZooKeeper client to its servers by SASL: DIGEST-MD5,
// PLAIN, or a mechanism of the program. Its values go into client.Options.SASL. SCRAM and
// Kerberos are in packages scram and kerberos, because of the libraries that they need.
//
// Authenticate does no I/O besides that of its Conn, and starts no goroutine. A
// Mechanism serves one exchange, and one goroutine at a time.
package sasl
