package transport

// TLS configures the encryption of connections and the trusted certificates. Files are PEM,
// and are read again when they have changed.
type TLS struct {
	Mode TLSMode
	// CertFile has the certificate followed by its chain, KeyFile the private key. Without
	// KeyFile the key is in CertFile as well: Apache's key store of type PEM.
	CertFile, KeyFile string
	// TrustFile has the certificates of the authorities: Apache's trust store of type PEM.
	TrustFile string
	// KeyPassword decrypts the key, if it is encrypted.
	KeyPassword string
	// MinVersion and MaxVersion are crypto/tls versions; 0 means TLS 1.2, and the newest.
	MinVersion, MaxVersion uint16
	// CipherSuites are those of TLS 1.2, by crypto/tls's ids; nil means Go's choice.
	CipherSuites []uint16
	// VerifyHost requires the certificate of a dialed server to be valid for the dialed host, and
	// that of a server that connects for one of its hosts in Peers.
	VerifyHost bool
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
