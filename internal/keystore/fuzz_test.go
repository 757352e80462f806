package keystore

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// FuzzDecode decodes files of all formats. It must not panic, and must not take much more
// memory than the file.
func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "changeit")
	}
	f.Fuzz(func(t *testing.T, b []byte, password string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := decode(b, password)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20+100*uint64(len(b)) {
			t.Errorf("%d bytes allocated for %d", n, len(b))
		}
		if err != nil {
			return
		}
		for _, e := range c.keys {
			Store{}.readKey(e)
		}
	})
}

// FuzzJKS decodes JKS files without the check of the password, which hides what follows
// from the fuzzer.
func FuzzJKS(f *testing.F) {
	for _, name := range []string{"key.jks", "trust.jks", "two.jks"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeJKS(b, "")
		for _, e := range c.keys {
			if _, errKey := e.open(); err == nil && errKey == nil {
				t.Error("a key without a password")
			}
		}
		decryptJKSKey(b, utf16Bytes("changeit"))
	})
}

// FuzzCRL decodes revocation lists.
func FuzzCRL(f *testing.F) {
	f.Add([]byte("-----BEGIN X509 CRL-----\n-----END X509 CRL-----\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { parseCRLs(b) })
}
