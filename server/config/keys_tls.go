package config

import (
	"time"

	"github.com/zkd-project/zkd/server/secure"
)

// rawTLS holds the values of the keys of one TLS configuration from which its settings are
// computed.
type rawTLS struct {
	keyType, caType   string
	protocol          string
	protocols, suites []string
	clientAuth        string
}

// storeTypes are the values of the keys for the type of a store.
var storeTypes = []string{"PEM", "JKS", "PKCS12", ""}

// tlsKeys returns the rows of the keys that the port for clients and the one between servers
// both have.
func tlsKeys(prefix string, s *secure.Settings, raw *rawTLS) []Key {
	own := "zkd." + prefix
	return []Key{
		{Name: prefix + "keyStore.location", HoldsSecret: true, value: path(&s.Key.File), Protects: true,
			Doc: "File with this server's private key and its certificate, followed by those that lead to the authority: PEM, JKS or PKCS12. It is read again when it changes. Of several keys the one is used whose certificate is valid and expires last."},
		{Name: prefix + "keyStore.type", value: text(&raw.keyType, storeTypes...),
			Doc: "PEM, JKS or PKCS12. Not needed: a file is taken as what its contents are."},
		{Name: prefix + "keyStore.password", value: hidden(&s.Key.Password, "not needed"),
			Doc: "Password of the file and of its private key. A PEM file needs one if the key is encrypted (PKCS #8)."},
		{Name: prefix + "keyStore.passwordPath", HoldsSecret: true, value: text(&s.Key.PasswordFile),
			Doc: "File with that password. It wins over the password."},
		{Name: prefix + "trustStore.location", value: path(&s.Trust.File), Protects: true,
			Doc: "File with the certificates of the authorities of the other side: PEM, JKS or PKCS12. It is read again when it changes."},
		{Name: prefix + "trustStore.type", value: text(&raw.caType, storeTypes...),
			Doc: "PEM, JKS or PKCS12, as " + prefix + "keyStore.type."},
		{Name: prefix + "trustStore.password", value: hidden(&s.Trust.Password, "not needed"),
			Doc: "Password of the file. PEM files have none; a JKS file is checked with it."},
		{Name: prefix + "trustStore.passwordPath", HoldsSecret: true, value: text(&s.Trust.PasswordFile),
			Doc: "File with that password. It wins over the password."},
		{Name: prefix + "hostnameVerification", Default: "true", value: truth(&s.VerifyHost), Protects: true,
			Doc: hostDocs[prefix]},
		{Name: prefix + "protocol", value: text(&raw.protocol, "TLSv1.2", "TLSv1.3", "TLS"), Protects: true,
			Doc: "The only version of TLS: TLSv1.2 or TLSv1.3. Default: both."},
		{Name: prefix + "enabledProtocols", value: list(&raw.protocols, "TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3"), Protects: true,
			Doc: "Versions of TLS that may be used: TLSv1.2, TLSv1.3 or both. It wins over " + prefix + "protocol."},
		{Name: prefix + "ciphersuites", value: list(&raw.suites, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ""), Protects: true,
			Doc: "Cipher suites that may be used, by their names in Java. A version of TLS of which none is listed is off. Those of TLS 1.3 can only be allowed all together. Default: those that Go takes for safe."},
		{Name: prefix + "crl", Default: "false", value: truth(&s.CRL), Protects: true,
			Doc: "Refuse certificates that are in the revocation list of their issuer: of " + own + "crlFiles, else of the distribution points that the certificate names (HTTP). Without a valid list every certificate is refused."},
		{Name: own + "crlFiles", value: list(&s.CRLs), Protects: true,
			Doc: "Files with revocation lists, PEM or DER. They are read again when they change. Needs " + prefix + "crl=true."},
		{Name: prefix + "ocsp", Default: "false", value: truth(&s.OCSP), Protects: true,
			Doc: "Ask the OCSP responder that a certificate names (HTTP) whether it has been revoked. If it does not answer, a stapled answer counts (TLS 1.3). Without a valid one the certificate is refused, unless " + prefix + "crl=true and a list is valid."},
	}
}

var hostDocs = map[string]string{
	clientTLSPrefix: "Must be true for ssl.clientHostnameVerification to have an effect.",
	quorumTLSPrefix: "The certificate of a server must name the host of its server.N line: in an alternative name or, if it has none, in its common name.",
}

const (
	clientTLSPrefix = "ssl."
	quorumTLSPrefix = "ssl.quorum."
)

func quorumTLSKeys(c *Config) []Key {
	q := &c.QuorumTLS
	return append([]Key{
		{Name: "sslQuorum", Default: "false", value: truth(&q.Dial), Protects: true,
			Doc: "TLS on the links between servers. Needs ssl.quorum.keyStore.location and ssl.quorum.trustStore.location."},
		{Name: "portUnification", Default: "false", value: truth(&c.raw.unifiedQuorum),
			Doc: "Accept links between servers with TLS and without, to change from one to the other server by server."},
	}, tlsKeys(quorumTLSPrefix, &q.Settings, &c.raw.quorumTLS)...)
}

func clientTLSKeys(c *Config) []Key {
	t := &c.ClientTLS
	return append(append([]Key{
		{Name: "secureClientPort", Default: "-1", value: number(&t.Port, -1, 65535), Protects: true,
			Doc: "TCP port for clients with TLS; -1 or 0 for none. Needs ssl.keyStore.location and, unless ssl.clientAuth=none, ssl.trustStore.location."},
		{Name: "serverCnxnFactory", value: text(&c.raw.cnxnFactory, "org.apache.zookeeper.server.NettyServerCnxnFactory", "org.apache.zookeeper.server.NIOServerCnxnFactory"),
			Doc: "Any value is accepted. zkd has one network implementation, with TLS and without."},
		{Name: "secureClientPortAddress", value: host(&t.Address), Protects: true,
			Doc: "Host name or address that secureClientPort listens on. Default: all addresses."},
		{Name: "client.portUnification", Default: "false", value: truth(&t.Unified), Protects: true,
			Doc: "clientPort takes connections with TLS, too. The first byte tells which it is."},
	}, tlsKeys(clientTLSPrefix, &t.Settings, &c.raw.clientTLS)...), []Key{
		{Name: "ssl.clientAuth", Default: "need", value: oneOf(&c.raw.clientTLS.clientAuth, "need", "want", "none"), Protects: true,
			Doc: "`need`: a client must show a certificate of an authority of ssl.trustStore.location. `want`: it may. `none`: it is not asked."},
		{Name: "zkd.ssl.ocspStapling", Default: "false", value: truth(&t.Staple), Protects: true,
			Doc: "Give clients the OCSP responder's answer about the server's own certificate. That of its authority must be in the key or trust store."},
		{Name: "ssl.authProvider", Default: "x509", value: text(&t.AuthScheme), Protects: true,
			Doc: "Scheme of identities that takes them from the certificates of clients."},
		{Name: "ssl.clientHostnameVerification", Default: "false", value: truth(&t.VerifyClientHost), Protects: true,
			Doc: "The certificate of a client must name its address."},
		{Name: "ssl.allowReverseDnsLookup", Default: "false", value: truth(&t.ReverseDNS),
			Doc: "With ssl.clientHostnameVerification, the certificate may name a host name of the client's address, which must lead back to it."},
		{Name: "ssl.handshakeDetectionTimeoutMillis", Default: "5000", value: span(&t.DetectionTimeout, "ms", time.Millisecond, 1, maxInt),
			Doc: "Time for a TLS handshake, and for the first bytes at a port with client.portUnification."},
		{Name: "fips-mode", Default: "false", value: truth(&c.FIPS), Protects: true,
			Doc: "Require Go's FIPS 140-3 mode: start zkd with GODEBUG=fips140=on in the environment."},
	}...)
}
