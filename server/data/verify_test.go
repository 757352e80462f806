package data

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/datadirs"
)

// filesIn returns the contents of all files below dir.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// verified returns what Verify writes about dir, and its error.
func verified(t *testing.T, dir string) (string, error) {
	t.Helper()
	before := filesIn(t, dir)
	var text strings.Builder
	err := Verify(t.Context(), &text, dir, dir)
	if !maps.Equal(before, filesIn(t, dir)) {
		t.Error("Verify has changed something")
	}
	if err != nil && !errors.Is(err, ErrUnsound) || (err != nil) != strings.Contains(text.String(), "NOT SOUND") {
		t.Errorf("%v, and the text is\n%s", err, text.String())
	}
	return text.String(), err
}

func newest(t *testing.T, pattern ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v: %v, %v", pattern, found, err)
	}
	return found[len(found)-1]
}

// TestVerify verifies sound data, and damaged ones.
func TestVerify(t *testing.T) {
	dir := dataWithSnapshots(t)
	snap := newest(t, dir, "snap", "*.db")
	text, err := verified(t, dir)
	if err != nil || !strings.Contains(text, snap+": sound, zxid") || !strings.Contains(text, "journal: sound, entries after") {
		t.Fatalf("%v\n%s", err, text)
	}
	segment := newest(t, dir, "journal", "0*.wal")
	flip := func(file string, at int) func(t *testing.T) {
		return func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b[min(at, len(b)/2)] ^= 1
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T)
		says   string
	}{
		{"a snapshot's byte", flip(snap, 20_000), "NOT SOUND: " + snap + " is damaged"},
		{"no snapshot", func(t *testing.T) {
			if err := os.Remove(snap); err != nil {
				t.Fatal(err)
			}
		}, "NOT SOUND: " + snap + " is missing"},
		{"the log's header", flip(segment, 10), "NOT SOUND: verify log: log corrupt"},
		{"no owner", func(t *testing.T) {
			if err := os.Remove(filepath.Join(dir, datadirs.OwnerFile)); err != nil {
				t.Fatal(err)
			}
		}, "NOT SOUND: " + dir + ": there is no IDENTITY"},
		{"the owner's byte", flip(filepath.Join(dir, datadirs.OwnerFile), 60), "NOT SOUND: " + filepath.Join(dir, datadirs.OwnerFile) + " is damaged"},
		{"an interrupted import", func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, datadirs.UnfinishedFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "NOT SOUND: " + dir + ": the command that was writing it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := filesIn(t, dir)
			tt.damage(t)
			if text, err := verified(t, dir); err == nil || !strings.Contains(text, tt.says) {
				t.Errorf("%v, want %q in\n%s", err, tt.says, text)
			}
			for file, text := range good {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestVerifySnapshot verifies a copy of a snapshot, which no log refers to.
func TestVerifySnapshot(t *testing.T) {
	dir := dataWithSnapshots(t)
	b, err := os.ReadFile(newest(t, dir, "snap", "*.db"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "backup")
	for name, change := range map[string]func([]byte) []byte{
		"sound":            func(b []byte) []byte { return b },
		"cut short":        func(b []byte) []byte { return b[:len(b)/2] },
		"empty":            func([]byte) []byte { return nil },
		"without an end":   func(b []byte) []byte { return b[:len(b)-1] },
		"no pages of meta": func(b []byte) []byte { clear(b[:8192]); return b },
	} {
		if err := os.WriteFile(file, change([]byte(string(b))), 0o600); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := VerifySnapshot(t.Context(), &text, file); (err == nil) != (name == "sound") {
			t.Errorf("%s: %v\n%s", name, err, text.String())
		}
	}
}
