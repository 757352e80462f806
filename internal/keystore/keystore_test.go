package keystore

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// The stores in testdata were made by keytool and by openssl. All have the same key, of
// zk1.example.com, and the same authority; the password is "changeit".

func readKeys(t *testing.T, s Store) []*tls.Certificate {
	t.Helper()
	keys, skipped, err := s.ReadKeys(osRead)
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	return keys
}

func TestReadKey(t *testing.T) {
	want := readKeys(t, Store{File: "testdata/key.pem"})[0]
	if want.Leaf.Subject.CommonName != "zk1.example.com" || len(want.Certificate) != 2 {
		t.Fatalf("%v, and %d certificates", want.Leaf.Subject, len(want.Certificate))
	}
	for _, name := range []string{"key.jks", "key.p12", "openssl.p12", "legacy.p12"} {
		t.Run(name, func(t *testing.T) {
			s := Store{File: "testdata/" + name, Password: secret.NewText("changeit")}
			got := readKeys(t, s)[0]
			for i, cert := range want.Certificate {
				if i >= len(got.Certificate) || !bytes.Equal(got.Certificate[i], cert) {
					t.Errorf("certificate %d differs", i)
				}
			}
			if !want.PrivateKey.(interface{ Equal(crypto.PrivateKey) bool }).Equal(got.PrivateKey) {
				t.Error("the key differs")
			}
			for password, text := range map[string]string{"wrong": "the password is wrong, or the file is damaged", "": "there is no password"} {
				s.Password = secret.NewText(password)
				if _, _, err := s.ReadKeys(osRead); err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("with password %q: %v", password, err)
				}
			}
		})
	}
}

// TestReadTrust reads authorities, also from the store of a key: Java then trusts the
// certificate of the key.
func TestReadTrust(t *testing.T) {
	for name, want := range map[string]string{
		"ca.pem": "Test CA", "trust.jks": "Test CA", "trust.p12": "Test CA", "key.jks": "zk1.example.com", "key.p12": "zk1.example.com",
		"openssl.p12": "zk1.example.com", "legacy.p12": "zk1.example.com",
		// Keys and authorities in one file; also with a key of another password, which is not needed here.
		"both.p12": "Test CA, zk1.example.com", "both.jks": "Test CA, zk1.example.com", "otherpass.jks": "Test CA, zk1.example.com",
		"two.jks": "other, zk1.example.com", "two.p12": "other, zk1.example.com",
	} {
		certs, skipped, err := Store{File: "testdata/" + name, Password: secret.NewText("changeit")}.ReadTrust(osRead)
		var names []string
		for _, c := range certs {
			names = append(names, c.Subject.CommonName)
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); err != nil || len(skipped) > 0 || got != want {
			t.Errorf("%s: %v, %v, %v", name, got, skipped, err)
		}
	}
	if _, _, err := (Store{File: "testdata/trust.jks"}).ReadTrust(osRead); err != nil {
		t.Errorf("the certificates of a JKS file need no password, as in Java: %v", err)
	}
}

// TestPasswordFile has a line end after the password, and a wrong password that does not
// count.
func TestPasswordFile(t *testing.T) {
	for _, text := range []string{"changeit", "changeit\n", "changeit\r\n"} {
		name := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := (Store{File: "testdata/key.p12", Password: secret.NewText("no"), PasswordFile: name}).ReadKeys(osRead); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSeparateKey has the key and the certificate in two PEM files.
func TestSeparateKey(t *testing.T) {
	b, err := os.ReadFile("testdata/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("-----BEGIN CERTIFICATE"))
	dir := t.TempDir()
	key, cert := filepath.Join(dir, "key"), filepath.Join(dir, "cert")
	if err := os.WriteFile(key, b[:at], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, b[at:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (Store{File: cert, KeyFile: key}).ReadKeys(osRead); err != nil {
		t.Error(err)
	}
	if _, _, err := (Store{File: "testdata/ca.pem", KeyFile: key}).ReadKeys(osRead); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("key of another certificate: %v", err)
	}
}

// TestRemedies checks that the errors say what to do.
func TestRemedies(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	old := "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,00\n\neA==\n-----END RSA PRIVATE KEY-----\n"
	bcfks := "\x30\x82\x01\x00\x30\x81\x80\x30\x40\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
	jks, err := os.ReadFile("testdata/key.jks")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ file, want string }{
		{"testdata/key.jceks", "keytool -importkeystore -srckeystore testdata/key.jceks -destkeystore testdata/key.p12"},
		{"testdata/trust.jks", "there is none"},
		{"testdata/untrusted.p12", "there is none"},
		{"testdata/otherpass.jks", "the password is wrong, or the file is damaged"},
		{write("store.bcfks", bcfks), "-srcstoretype BCFKS -providerclass"},
		{write("cert.der", "\x30\x03\x30\x01\x00"), "openssl x509 -inform der"},
		{write("text.pem", "hello"), "it has no BEGIN line"},
		{write("old.pem", old), "openssl pkcs8 -topk8"},
		{write("cut.jks", string(jks[:len(jks)/2])), "the password is wrong, or the file is damaged"},
		{write("large", strings.Repeat("x", maxFileSize+1)), "is it a file of keys or certificates?"},
		{filepath.Join(dir, "nosuch"), "no such file"},
	} {
		_, _, err := Store{File: test.file, Password: secret.NewText("changeit")}.ReadKeys(osRead)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: %v", test.file, err)
		}
	}
}

// TestTwoKeys has two keys in one file, and one that its password does not open.
func TestTwoKeys(t *testing.T) {
	for _, name := range []string{"two.jks", "two.p12"} {
		keys := readKeys(t, Store{File: "testdata/" + name, Password: secret.NewText("changeit")})
		if len(keys) != 2 || keys[0].Leaf.Equal(keys[1].Leaf) {
			t.Errorf("%s: %d keys", name, len(keys))
		}
	}
	if _, _, err := (Store{File: "testdata/untrusted.p12", Password: secret.NewText("changeit")}).ReadTrust(osRead); err == nil || !strings.Contains(err.Error(), "keytool -importcert") {
		t.Error(err)
	}
}

// TestKeysAt has an RSA key, and two EC keys of which one replaces the other.
func TestKeysAt(t *testing.T) {
	at := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	key := func(alg x509.PublicKeyAlgorithm, from, until int) *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{PublicKeyAlgorithm: alg, NotBefore: at(from), NotAfter: at(until)}}
	}
	rsa, old, renewed := key(x509.RSA, 2020, 2030), key(x509.ECDSA, 2020, 2022), key(x509.ECDSA, 2021, 2030)
	c := Contents{Keys: []*tls.Certificate{old, rsa, renewed}}
	for year, want := range map[int]*tls.Certificate{2020: old, 2021: renewed, 2023: renewed, 2031: renewed} {
		if got := c.KeysAt(at(year)); len(got) != 2 || got[0] != want || got[1] != rsa {
			t.Errorf("%d: %v", year, got)
		}
	}
}

// TestChainBySignature has authorities of one name with different keys: the chain has the one
// that signed. The order in the file does not matter.
func TestChainBySignature(t *testing.T) {
	root := certs.New(t, "root")
	authority := func() *certs.Authority { return certs.NewBelow(t, root, "issuing") }
	old, now := authority(), authority()
	leaf := now.Issue("zk1")
	for _, order := range [][]certs.Pair{{leaf, old.Pair, now.Pair}, {leaf, now.Pair, old.Pair}, {root.Pair, old.Pair, leaf, now.Pair}} {
		var text []byte
		for _, p := range order {
			text = append(text, p.CertPEM()...)
		}
		file := certs.Write(t, t.TempDir(), "key.pem", append(leaf.PEM(t), text...))
		got := readKeys(t, Store{File: file})[0].Certificate
		if len(got) < 2 || !bytes.Equal(got[0], leaf.Cert.Raw) || !bytes.Equal(got[1], now.Cert.Raw) {
			t.Errorf("the chain has not the authority that signed")
		}
	}
}

// TestUnparsable has a certificate among others that can't be parsed: it is named and skipped.
func TestUnparsable(t *testing.T) {
	b, err := os.ReadFile("testdata/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	bad := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("\x30\x03\x02\x01\x00")})
	file := certs.Write(t, t.TempDir(), "key.pem", slices.Concat(bad, b, bad))
	keys, skippedOfKeys, err := Store{File: file}.ReadKeys(osRead)
	if err != nil || len(keys) != 1 {
		t.Error(keys, err)
	}
	trusted, skipped, err := Store{File: file}.ReadTrust(osRead)
	if err != nil || len(trusted) != 2 {
		t.Error(trusted, err)
	}
	for _, list := range [][]error{skippedOfKeys, skipped} {
		if text := errors.Join(list...); len(list) != 2 || !strings.Contains(text.Error(), `certificate "number 1"`) || !strings.Contains(text.Error(), `"number 4"`) || !strings.Contains(text.Error(), file) {
			t.Error(text)
		}
	}
	file = certs.Write(t, t.TempDir(), "trust.pem", bad)
	if _, _, err := (Store{File: file}).ReadTrust(osRead); err == nil || !strings.Contains(err.Error(), `"number 1"`) {
		t.Error(err)
	}
}

// TestPBMAC1 has a file whose MAC is that of RFC 9579.
func TestPBMAC1(t *testing.T) {
	b, err := os.ReadFile("testdata/trust.p12")
	if err != nil {
		t.Fatal(err)
	}
	var file pfx
	if _, err := asn1.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	body, err := octets(file.Contents)
	if err != nil {
		t.Fatal(err)
	}
	der := func(v any) asn1.RawValue {
		b, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: b}
	}
	sha256ID := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}}
	kdf := pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: der(pbkdf2Params{[]byte("salt"), 10, 32, sha256ID})}
	key, err := pbkdf2.Key(sha256.New, "changeit", []byte("salt"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	file.MAC = macData{Salt: []byte("none"), Iterations: 1}
	file.MAC.Digest.Algorithm = pkix.AlgorithmIdentifier{Algorithm: oidPBMAC1, Parameters: der(struct{ KDF, Scheme pkix.AlgorithmIdentifier }{kdf, sha256ID})}
	file.MAC.Digest.Sum = mac.Sum(nil)
	b = der(file).FullBytes
	if c, err := decodePKCS12(b, "changeit"); err != nil || len(c.trusted) != 1 {
		t.Error(c, err)
	}
	if _, err := decodePKCS12(b, "wrong"); err != errWrongPassword {
		t.Error(err)
	}
}

// TestRC2 has vectors of RFC 2268, section 5, whose keys have no fewer bits than bytes.
func TestRC2(t *testing.T) {
	for _, v := range [][3]string{
		{"ffffffffffffffff", "278b27e42e2f0d49", "ffffffffffffffff"},
		{"3000000000000000", "30649edf9be7d2c2", "1000000000000001"},
		{"88bca90e90875a7f0f79c384627bafb2", "2269552ab0f85ca6", "0000000000000000"},
	} {
		key, _ := hex.DecodeString(v[0])
		block, _ := hex.DecodeString(v[1])
		newRC2(key).Decrypt(block, block)
		if got := hex.EncodeToString(block); got != v[2] {
			t.Errorf("key %s: %s, want %s", v[0], got, v[2])
		}
	}
}

// TestSource changes a file, breaks it, and repairs it.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "trust")
	install := func(content []byte) { // replaces the file in one step, as tools do
		if err := os.WriteFile(name+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	install(read("ca.pem"))
	var events []string
	s, err := Open(Files{Trust: Store{File: name, Password: secret.NewText("changeit")}}, func(c *Contents, err error) {
		if err != nil {
			events = append(events, err.Error())
		} else {
			events = append(events, c.Authorities[0].Subject.CommonName)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, changes, failures int) {
		t.Helper()
		for range 2 { // the second time nothing has changed
			if got := s.Contents().Authorities[0].Subject.CommonName; got != want || len(events) != changes || s.Failures() != int64(failures) || (s.Failure() != nil) != (failures > 0 && changes < 4) {
				t.Errorf("%s, %d failures, events %q", got, s.Failures(), events)
			}
		}
	}
	check("Test CA", 0, 0)
	install(read("key.p12"))
	check("zk1.example.com", 1, 0)
	install([]byte("nonsense"))
	check("zk1.example.com", 2, 1)
	os.Remove(name)
	check("zk1.example.com", 3, 2)
	install(read("trust.jks"))
	check("Test CA", 4, 2)
}

// TestSourceThatCannotRead replaces a file while the process has no descriptor to read it, the disk does not answer, or it may
// not: that is told once, and the file is read when it can be, although it has not changed again.
func TestSourceThatCannotRead(t *testing.T) {
	for _, no := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EACCES} {
		name := filepath.Join(t.TempDir(), "trust")
		install := func(from string) {
			b, err := os.ReadFile("testdata/" + from)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(name+".new", b, 0o600), os.Rename(name+".new", name)); err != nil {
				t.Fatal(err)
			}
		}
		install("ca.pem")
		told := 0
		s, err := Open(Files{Trust: Store{File: name, Password: secret.NewText("changeit")}}, func(*Contents, error) { told++ })
		if err != nil {
			t.Fatal(err)
		}
		s.read = func(name string) ([]byte, error) {
			return nil, &os.PathError{Op: "open", Path: name, Err: no}
		}
		install("key.p12")
		for range 3 {
			if cn := s.Contents().Authorities[0].Subject.CommonName; cn != "Test CA" || told != 1 || s.Failures() != 1 || !errors.Is(s.Failure(), no) {
				t.Errorf("%v: %s, told %d times, %v", no, cn, told, s.Failure())
			}
		}
		s.read = nil
		if cn := s.Contents().Authorities[0].Subject.CommonName; cn != "zk1.example.com" || told != 2 || s.Failure() != nil {
			t.Errorf("after %v: %s, told %d times, %v", no, cn, told, s.Failure())
		}
	}
}
