package sasl

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReload changes a file of users. What can't be used leaves the users as they are.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bob plain:a\n")
	f, err := OpenUsers(path, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	errs := 0
	f.OnError(func(error) { errs++ })
	now := time.Unix(1e9, 0)
	expect := func(want string, wantErrs int) {
		t.Helper()
		if got, _ := passwordOf([]*Users{f.current(now)}, "bob"); got != want || errs != wantErrs {
			t.Errorf("password %q after %d errors, want %q after %d", got, errs, want, wantErrs)
		}
	}
	expect("a", 0)
	write("bob plain:longer\n")
	expect("a", 0) // looked at a moment ago
	now = now.Add(checkInterval)
	expect("longer", 0)
	write("bob nothing of the kind\n")
	now = now.Add(checkInterval)
	expect("longer", 1)
	expect("longer", 1)
	os.Remove(path)
	now = now.Add(checkInterval)
	expect("longer", 2)
	write("bob plain:again\n")
	now = now.Add(checkInterval)
	expect("again", 2)
}
