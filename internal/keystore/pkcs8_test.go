package keystore

import (
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The key of a certificate in the ways that openssl and Java encrypt it. They are
// of one key; the password is "changeit".
func TestEncryptedKeys(t *testing.T) {
	files, err := filepath.Glob("testdata/key-*.pem")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	key := func(name, password string) (any, error) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := decodePEM(b, password)
		if err != nil {
			return nil, err
		}
		return c.keys[0].open()
	}
	plain, err := key("testdata/plain.pem", "")
	if err != nil {
		t.Fatal(err)
	}
	want := plain.(interface{ Equal(crypto.PrivateKey) bool })
	for _, name := range files {
		got, err := key(name, "changeit")
		if err != nil || !want.Equal(got) {
			t.Errorf("%s: %v\n%v", name, err, got)
		}
		for password, text := range map[string]string{"wrong": "password is wrong", "": ErrNoPassword.Error()} {
			if _, err := key(name, password); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s with password %q: %v", name, password, err)
			}
		}
	}
}
