package transport

import "github.com/zkd-project/zkd/server/secure"

// TLS configures the encryption of connections and the trusted certificates.
type TLS struct {
	Mode TLSMode
	// Settings have a key and a trust store. VerifyHost also requires the certificate of a server
	// that connects to be valid for one of its hosts in Peers. A server always has to show a
	// certificate.
	secure.Settings
	// IDName ties ids to certificates. It is a name with {id} in it, such as
	// "zk-{id}.example.com": the certificate of server 3 must have zk-3.example.com as a DNS name
	// or as its common name. Empty means that any trusted certificate may claim any id.
	IDName string
}

// TLSMode says where TLS is used.
type TLSMode uint8

const (
	TLSOnly     TLSMode = iota // on each connection
	PlainAndTLS                // dial with TLS, accept both: sslQuorum and portUnification
	AcceptTLS                  // dial plain, accept both: portUnification alone
)
