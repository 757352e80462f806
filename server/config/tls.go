package config

import (
	"bytes"
	"crypto/fips140"
	"crypto/tls"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/secure"
)

// QuorumTLS configures TLS on the links between servers. Load reads the files once, so that
// an unusable file is an error at the start.
type QuorumTLS struct {
	secure.Settings
	// Dial uses TLS on the links that this server opens: sslQuorum.
	Dial bool
	// Accept accepts links with TLS on the quorum port: sslQuorum or portUnification.
	Accept bool
	// AcceptPlain accepts links without TLS: portUnification, or no TLS at all.
	AcceptPlain bool
}

// ClientTLS configures TLS for clients. Load reads the files once, as those of QuorumTLS.
type ClientTLS struct {
	secure.Settings
	// Port is the TCP port of the listener for clients with TLS; -1, the default, means none.
	Port int
	// Address is the host name or address to listen on, without brackets; "", the default,
	// means all addresses.
	Address string
	// AuthScheme is the scheme that takes identities from the certificates of clients.
	// Default x509.
	AuthScheme string
	// Unified accepts TLS on ClientPort, too. Default false.
	Unified bool
	// Addable means that there are keys for a port that a change of the members may open.
	Addable bool
}

// Used reports whether there is a port that takes connections with TLS, or can be.
func (t *ClientTLS) Used() bool { return t.Port >= 0 || t.Unified || t.Addable }

// resolveTLS computes QuorumTLS and ClientTLS, and reads their files.
func (l *loader) resolveTLS() {
	q := &l.c.QuorumTLS
	unified := l.c.raw.unifiedQuorum
	if unified && !q.Dial && q.Key.File == "" {
		l.warn(l.set["portUnification"], "has no effect without ssl.quorum.keyStore.location: only links without TLS are accepted")
		unified = false
	}
	q.Accept = q.Dial || unified
	q.AcceptPlain = !q.Dial || unified
	admin := &l.c.raw.admin
	l.settings(quorumTLSPrefix, &q.Settings, &l.c.raw.quorumTLS, q.Accept || admin.unified || admin.forceHTTPS,
		"sslQuorum=true, portUnification=true, admin.portUnification=true or admin.forceHttps=true")
	l.resolveAdminTLS()

	t, raw := &l.c.ClientTLS, &l.c.raw.clientTLS
	if t.Port == 0 { // not set, as in Apache's server
		t.Port = -1
	}
	_, keys := l.set["ssl.keyStore.location"]
	t.Addable = keys && l.c.Replicated() && l.c.ReconfigEnabled
	if t.Unified && l.c.ClientPort < 0 && !t.Addable && !l.failed("clientPort") {
		l.warn(l.set["client.portUnification"], "has no effect: there is no clientPort")
		t.Unified = false
	}
	t.ClientAuth = map[string]secure.ClientAuth{
		"need": secure.NeedClientAuth, "want": secure.WantClientAuth, "none": secure.NoClientAuth,
	}[raw.clientAuth]
	l.settings(clientTLSPrefix, &t.Settings, raw, t.Used(), "secureClientPort or client.portUnification=true")
	if p := l.set["ssl.clientHostnameVerification"]; t.VerifyClientHost && !t.VerifyHost {
		l.fail(p, "needs ssl.hostnameVerification=true")
	}
	if t.VerifyClientHost && t.ClientAuth == secure.NoClientAuth {
		l.fail(l.set["ssl.clientHostnameVerification"], "can't be with ssl.clientAuth=none, which asks for no certificate")
	}
	if l.c.FIPS && !fips140.Enabled() {
		l.unprotected = append(l.unprotected, unprotected{l.set["fips-mode"],
			"this process does not run in FIPS 140-3 mode; start it with GODEBUG=fips140=on in the environment"})
	}
}

// settings computes the settings of one port, whose keys begin with prefix. need are the keys that make use of them.
func (l *loader) settings(prefix string, s *secure.Settings, raw *rawTLS, used bool, need string) {
	l.tlsVersions(prefix, s, raw)
	l.cipherSuites(prefix, s, raw)
	l.storeType(prefix+"keyStore.type", raw.keyType)
	l.storeType(prefix+"trustStore.type", raw.caType)
	if !used {
		if p, given := l.set[prefix+"keyStore.location"]; given {
			l.warn(p, "has no effect without %s", need)
		}
		return
	}
	l.keyStore(s, prefix, need)
	if s.ClientAuth != secure.NoClientAuth {
		l.trustStore(s, prefix, need)
	}
	if p, given := l.set["zkd."+prefix+"crlFiles"]; given && len(s.CRLs) > 0 {
		if !s.CRL {
			l.fail(p, "needs %scrl=true", prefix)
		} else if _, err := (keystore.Files{CRLs: s.CRLs}).Read(l.read); err != nil {
			l.fail(p, "%v", err)
		}
	}
}

var tlsVersions = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

func (l *loader) tlsVersions(prefix string, s *secure.Settings, raw *rawTLS) {
	s.MinVersion, s.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	key, names := prefix+"enabledProtocols", raw.protocols
	if len(names) == 0 && raw.protocol != "" {
		key, names = prefix+"protocol", []string{raw.protocol}
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
	s.MinVersion, s.MaxVersion = slices.Min(versions), slices.Max(versions)
}

// cipherSuites resolves the names of cipher suites. As in Java, a version of TLS without a
// suite is not used.
func (l *loader) cipherSuites(prefix string, s *secure.Settings, raw *rawTLS) {
	if len(raw.suites) == 0 {
		return
	}
	p := l.set[prefix+"ciphersuites"]
	known := make(map[string]*tls.CipherSuite)
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		known[c.Name] = c
	}
	var new13 []string // of TLS 1.3
	for name, c := range known {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS13) {
			new13 = append(new13, name)
		}
	}
	slices.Sort(new13)
	var chosen13 int
	var unknown, unsafe []string
	for _, name := range raw.suites {
		if old, ok := strings.CutPrefix(name, "SSL_"); ok { // Java's names of the oldest ones; IBM's of all
			name = "TLS_" + old
		}
		c := known[name]
		switch {
		case c == nil:
			unknown = append(unknown, name)
		case slices.Contains(new13, name):
			chosen13++
		default:
			s.CipherSuites = append(s.CipherSuites, c.ID)
			if c.Insecure {
				unsafe = append(unsafe, name)
			}
		}
	}
	if len(unknown) > 0 && len(s.CipherSuites)+chosen13 == 0 {
		safe := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(name string) bool { return known[name].Insecure })
		l.fail(p, "zkd has no cipher suite %s: name others; there are %s", strings.Join(unknown, ", "), strings.Join(safe, ", "))
		return
	}
	if len(unknown) > 0 {
		l.warn(p, "only the others are used, as zkd has no cipher suite %s", strings.Join(unknown, ", "))
	}
	if len(unsafe) > 0 {
		l.warn(p, "%s is not safe", strings.Join(unsafe, ", "))
	}
	switch {
	case chosen13 == 0:
		s.MaxVersion = min(s.MaxVersion, tls.VersionTLS12)
	case chosen13 < len(new13) && s.MaxVersion >= tls.VersionTLS13:
		l.unprotected = append(l.unprotected, unprotected{p,
			"the suites of TLS 1.3 can't be chosen: name all of " + strings.Join(new13, ", ") + ", or none, which turns TLS 1.3 off"})
	}
	if len(s.CipherSuites) == 0 {
		s.MinVersion = max(s.MinVersion, tls.VersionTLS13)
	}
	if s.MinVersion > s.MaxVersion {
		l.fail(p, "there is no cipher suite for the version of TLS that is allowed")
	}
}

// storeType checks the type of a file. What a file is, its contents tell.
func (l *loader) storeType(key, kind string) {
	p, given := l.set[key]
	if !given || slices.ContainsFunc(storeTypes, func(t string) bool { return strings.EqualFold(t, kind) }) {
		return
	}
	remedy := "must be PEM, JKS or PKCS12"
	if strings.EqualFold(kind, "BCFKS") {
		remedy += "; convert it with: keytool -importkeystore -srckeystore FILE.bcfks -srcstoretype BCFKS " +
			"-providerclass org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider -providerpath bc-fips.jar -destkeystore FILE.p12 -deststoretype PKCS12"
	}
	l.fail(p, "%s", remedy)
}

// keyStore checks the file with the private key and the certificate.
func (l *loader) keyStore(s *secure.Settings, prefix, need string) {
	l.checkStore(prefix+"keyStore", s.Key, need, "the private key is not encrypted", func(s keystore.Store) ([]error, error) {
		_, skipped, err := s.ReadKeys(l.read)
		return skipped, err
	})
}

// trustStore checks the file with the authorities' certificates.
func (l *loader) trustStore(s *secure.Settings, prefix, need string) {
	l.checkStore(prefix+"trustStore", s.Trust, need, "PEM certificates have no password", func(s keystore.Store) ([]error, error) {
		_, skipped, err := s.ReadTrust(l.read)
		return skipped, err
	})
}

// checkStore checks that a file can be read, and warns of a password of a PEM file that can be read without, with the reason.
func (l *loader) checkStore(key string, s keystore.Store, need, unlocked string, read func(keystore.Store) (skipped []error, err error)) {
	p, ok := l.store(key, s.File, need)
	if !ok {
		return
	}
	skipped, err := read(s)
	if err != nil {
		l.storeError(p, key, err)
		return
	}
	l.skipped(p, skipped)
	if !s.Password.IsSet() && s.PasswordFile == "" {
		return
	}
	s.Password, s.PasswordFile = secret.Text{}, ""
	text, err := l.read(s.File)
	if err != nil || !bytes.Contains(text, []byte("-----BEGIN ")) {
		return
	}
	if _, err := read(s); err == nil {
		l.warn(l.firstSet(key+".password", key+".passwordPath"), "is not needed: %s", unlocked)
	}
}

// skipped warns of what is in a file and can't be used.
func (l *loader) skipped(p property, reasons []error) {
	p.value = "" // the reasons have it
	for _, err := range reasons {
		l.warn(p, "%v", err)
	}
}

// store returns the property with the name of a file.
func (l *loader) store(key, file, need string) (property, bool) {
	p, given := l.set[key+".location"]
	if !given || file == "" {
		l.fail(l.missing(key+".location"), "is missing: %s needs it", need)
		return p, false
	}
	return p, true
}

func (l *loader) storeError(p property, key string, err error) {
	p.value = "" // the error has it
	if errors.Is(err, keystore.ErrNoPassword) {
		l.fail(p, "%v: set %s.password or .passwordPath", err, key)
		return
	}
	l.fail(p, "%v", err)
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
