package pemfile

import (
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
	want, err := os.ReadFile("testdata/plain.pem")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := privateKey(b, "changeit")
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		for password, text := range map[string]string{"wrong": "password is wrong", "": ErrNoPassword.Error()} {
			if _, err := privateKey(b, password); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s with password %q: %v", name, password, err)
			}
		}
	}
}
