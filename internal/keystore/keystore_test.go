package keystore

import (
	"bytes"
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/secret"
)

// The stores in testdata were made by keytool and by openssl. All have the same key, of
// zk1.example.com, and the same authority; the password is "changeit".

func TestReadKey(t *testing.T) {
	want, err := Store{File: "testdata/key.pem"}.ReadKey(osRead)
	if err != nil {
		t.Fatal(err)
	}
	if want.Leaf.Subject.CommonName != "zk1.example.com" || len(want.Certificate) != 2 {
		t.Fatalf("%v, and %d certificates", want.Leaf.Subject, len(want.Certificate))
	}
	for _, name := range []string{"key.jks", "key.p12", "openssl.p12", "legacy.p12"} {
		t.Run(name, func(t *testing.T) {
			s := Store{File: "testdata/" + name, Password: secret.NewText("changeit")}
			got, err := s.ReadKey(osRead)
			if err != nil {
				t.Fatal(err)
			}
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
				if _, err := s.ReadKey(osRead); err == nil || !strings.Contains(err.Error(), text) {
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
	} {
		certs, err := Store{File: "testdata/" + name, Password: secret.NewText("changeit")}.ReadTrust(osRead)
		if err != nil || len(certs) != 1 || certs[0].Subject.CommonName != want {
			t.Errorf("%s: %v, %v", name, certs, err)
		}
	}
	if _, err := (Store{File: "testdata/trust.jks"}).ReadTrust(osRead); err != nil {
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
		if _, err := (Store{File: "testdata/key.p12", Password: secret.NewText("no"), PasswordFile: name}).ReadKey(osRead); err != nil {
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
	if _, err := (Store{File: cert, KeyFile: key}).ReadKey(osRead); err != nil {
		t.Error(err)
	}
	if _, err := (Store{File: "testdata/ca.pem", KeyFile: key}).ReadKey(osRead); err == nil || !strings.Contains(err.Error(), "does not match") {
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
		{"testdata/two.jks", "keytool -delete -alias"},
		{"testdata/trust.jks", "there is none"},
		{"testdata/untrusted.p12", "keytool -importcert"},
		{write("store.bcfks", bcfks), "-srcstoretype BCFKS -providerclass"},
		{write("cert.der", "\x30\x03\x30\x01\x00"), "openssl x509 -inform der"},
		{write("text.pem", "hello"), "it has no BEGIN line"},
		{write("old.pem", old), "openssl pkcs8 -topk8"},
		{write("cut.jks", string(jks[:len(jks)/2])), "the password is wrong, or the file is damaged"},
		{write("large", strings.Repeat("x", maxFileSize+1)), "is it a file of keys or certificates?"},
		{filepath.Join(dir, "nosuch"), "no such file"},
	} {
		_, err := Store{File: test.file, Password: secret.NewText("changeit")}.ReadKey(osRead)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: %v", test.file, err)
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
			if got := s.Contents().Authorities[0].Subject.CommonName; got != want || len(events) != changes || s.Failures() != int64(failures) {
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
