package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/secret"
)

// QuorumTLS configures TLS on the links between servers. The files are PEM. Load reads
// them once, so that an unusable file is an error at the start.
type QuorumTLS struct {
	// Dial uses TLS on the links that this server opens: sslQuorum.
	Dial bool
	// Accept accepts links with TLS on the quorum port: sslQuorum or portUnification.
	Accept bool
	// AcceptPlain accepts links without TLS: portUnification, or no TLS at all.
	AcceptPlain bool
	// KeyStore is the file with this server's private key and its certificate, followed
	// by the certificates of the chain to the authority.
	KeyStore string
	// KeyPassword decrypts the private key; empty if it is not encrypted.
	KeyPassword secret.Text
	// TrustStore is the file with the certificates of the authorities.
	TrustStore string
	// HostnameVerification requires the certificate of a server to name the host of its
	// server line, whichever of the two dials. Default true.
	HostnameVerification bool
	// MinVersion and MaxVersion are constants of crypto/tls. Default TLS 1.2 and
	// TLS 1.3.
	MinVersion, MaxVersion uint16
}

// rawTLS holds the values of the TLS keys.
type rawTLS struct {
	quorum, unified         bool
	keyType, keyPwPath      string
	caType, caPwPath        string
	keyPassword, caPassword secret.Text
	protocol                string
	protocols               []string
}

func quorumTLSKeys(c *Config) []Key {
	t, raw := &c.QuorumTLS, &c.raw.tls
	return []Key{
		{Name: "sslQuorum", Default: "false", value: truth(&raw.quorum), Protects: true,
			Doc: "TLS on the links between servers. Needs ssl.quorum.keyStore.location and ssl.quorum.trustStore.location."},
		{Name: "portUnification", Default: "false", value: truth(&raw.unified),
			Doc: "Accept links between servers with TLS and without, to change from one to the other server by server."},
		{Name: "ssl.quorum.keyStore.location", value: path(&t.KeyStore),
			Doc: "PEM file with this server's private key and its certificate, followed by those that lead to the authority. It is read again when it changes."},
		{Name: "ssl.quorum.keyStore.type", value: text(&raw.keyType, "PEM", ""),
			Doc: "PEM. Default: by the end of the file's name, `.pem`; a file with another name is taken as PEM too."},
		{Name: "ssl.quorum.keyStore.password", value: hidden(&raw.keyPassword),
			Doc: "Password of the private key, if that is encrypted (PKCS #8)."},
		{Name: "ssl.quorum.keyStore.passwordPath", value: text(&raw.keyPwPath),
			Doc: "File with that password."},
		{Name: "ssl.quorum.trustStore.location", value: path(&t.TrustStore),
			Doc: "PEM file with the certificates of the authorities that signed the servers' certificates. It is read again when it changes."},
		{Name: "ssl.quorum.trustStore.type", value: text(&raw.caType, "PEM", ""),
			Doc: "PEM, as ssl.quorum.keyStore.type."},
		{Name: "ssl.quorum.trustStore.password", value: hidden(&raw.caPassword, "x"),
			Doc: "Not needed: PEM certificates have no password."},
		{Name: "ssl.quorum.trustStore.passwordPath", value: text(&raw.caPwPath),
			Doc: "Not needed."},
		{Name: "ssl.quorum.hostnameVerification", Default: "true", value: truth(&t.HostnameVerification),
			Doc: "The certificate of a server must name the host of its server.N line, whether it dials or is dialled."},
		{Name: "ssl.quorum.protocol", value: text(&raw.protocol, "TLSv1.2", "TLSv1.3", "TLS"),
			Doc: "The only version of TLS: TLSv1.2 or TLSv1.3. Default: both."},
		{Name: "ssl.quorum.enabledProtocols", value: list(&raw.protocols, "TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3"),
			Doc: "Versions of TLS that may be used: TLSv1.2, TLSv1.3 or both. It wins over ssl.quorum.protocol."},
	}
}

// resolveTLS computes QuorumTLS and reads its files.
func (l *loader) resolveTLS() {
	t, raw := &l.c.QuorumTLS, &l.c.raw.tls
	t.Dial = raw.quorum
	t.Accept = raw.quorum || raw.unified
	t.AcceptPlain = !raw.quorum || raw.unified
	l.tlsVersions()
	if !t.Accept {
		if p, given := l.set["ssl.quorum.keyStore.location"]; given {
			l.warn(p, "has no effect without sslQuorum=true or portUnification=true")
		}
		return
	}
	l.keyStore()
	l.trustStore()
}

var tlsVersions = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

func (l *loader) tlsVersions() {
	t, raw := &l.c.QuorumTLS, &l.c.raw.tls
	t.MinVersion, t.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	key, names := "ssl.quorum.enabledProtocols", raw.protocols
	if len(names) == 0 && raw.protocol != "" {
		key, names = "ssl.quorum.protocol", []string{raw.protocol}
	}
	if len(names) == 0 || len(names) == 1 && names[0] == "TLS" {
		return
	}
	var versions []uint16
	for _, name := range names {
		if v, known := tlsVersions[name]; known {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		l.fail(l.set[key], "must be TLSv1.2 or TLSv1.3: older versions are not safe")
		return
	}
	if len(versions) < len(names) {
		l.warn(l.set[key], "only TLSv1.2 and TLSv1.3 are used")
	}
	t.MinVersion, t.MaxVersion = slices.Min(versions), slices.Max(versions)
}

// keyStore checks the file with the private key and the certificate.
func (l *loader) keyStore() {
	raw := &l.c.raw.tls
	p, text, ok := l.store("ssl.quorum.keyStore", l.c.QuorumTLS.KeyStore, raw.keyType,
		"openssl pkcs12 -in FILE.p12 -nodes -out FILE.pem (a JKS first: keytool -importkeystore -srckeystore FILE.jks -destkeystore FILE.p12 -deststoretype PKCS12)")
	if !ok {
		return
	}
	encrypted := encryptedKey(text)
	password := l.keyPassword()
	if encrypted {
		if !password.IsSet() {
			l.fail(p, "the private key is encrypted: set ssl.quorum.keyStore.password or .passwordPath")
		}
		l.c.QuorumTLS.KeyPassword = password
		return // the key is decrypted and compared with the certificate at the start
	}
	if _, err := tls.X509KeyPair(text, text); err != nil {
		l.fail(p, "%s: a private key and the certificate that belongs to it must be there", strings.TrimPrefix(err.Error(), "tls: "))
	}
	if password.IsSet() {
		l.warn(l.firstSet("ssl.quorum.keyStore.password", "ssl.quorum.keyStore.passwordPath"), "is not needed: the private key is not encrypted")
	}
}

// keyPassword returns the password of the private key. As in Apache's server, a file
// takes precedence over the text.
func (l *loader) keyPassword() secret.Text {
	raw := &l.c.raw.tls
	if raw.keyPwPath == "" {
		return raw.keyPassword
	}
	text, err := l.read(raw.keyPwPath)
	if err != nil {
		l.fail(l.set["ssl.quorum.keyStore.passwordPath"], "can't be read: %v", err)
	}
	return secret.NewText(strings.TrimSpace(string(text)))
}

// trustStore checks the file with the authorities' certificates.
func (l *loader) trustStore() {
	raw := &l.c.raw.tls
	p, text, ok := l.store("ssl.quorum.trustStore", l.c.QuorumTLS.TrustStore, raw.caType,
		"keytool -list -rfc -keystore FILE.jks > FILE.pem")
	if !ok {
		return
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		l.fail(p, "there is no certificate in it")
	}
	if raw.caPassword.IsSet() || raw.caPwPath != "" {
		l.warn(l.firstSet("ssl.quorum.trustStore.password", "ssl.quorum.trustStore.passwordPath"), "is not needed: PEM certificates have no password")
	}
}

// store reads a file of keys or certificates. convert is the command that converts other
// formats to PEM.
func (l *loader) store(key, file, kind, convert string) (p property, text []byte, ok bool) {
	p, given := l.set[key+".location"]
	if !given || file == "" {
		l.fail(l.missing(key+".location"), "is missing: sslQuorum and portUnification need a PEM file")
		return p, nil, false
	}
	if k, typed := l.set[key+".type"]; typed && !strings.EqualFold(kind, "PEM") && kind != "" {
		l.fail(k, "zkd reads PEM only; convert it: %s", convert)
		return p, nil, false
	}
	if kind == "" && slices.Contains([]string{".jks", ".p12", ".pfx", ".bcfks"}, strings.ToLower(filepath.Ext(file))) {
		l.fail(p, "zkd reads PEM only; convert it: %s", convert)
		return p, nil, false
	}
	text, err := l.read(file)
	if err != nil {
		l.fail(p, "can't be read: %v", err)
		return p, nil, false
	}
	return p, text, true
}

// encryptedKey reports whether text has a private key that needs a password.
func encryptedKey(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}

// firstSet returns the property of the first of the keys that is set.
func (l *loader) firstSet(keys ...string) property {
	for _, key := range keys {
		if p, given := l.set[key]; given {
			return p
		}
	}
	return property{}
}
