package vfs_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
)

const large = 9 << 20 // three steps

func writeFile(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, large), 0)
	if err := errors.Join(err, f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveInStepsAfterTheName checks that a file loses no content before the removal of its name is
// durable: after a power cut it is whole or gone.
func TestRemoveInStepsAfterTheName(t *testing.T) {
	for seed := range uint64(20) {
		disk := crashfs.New(seed)
		writeFile(t, disk, "large")
		var kinds []crashfs.OpKind
		disk.SetHook(func(op crashfs.Op) error {
			kinds = append(kinds, op.Kind)
			crashed := disk.Crash(rand.New(rand.NewPCG(seed, uint64(len(kinds)))))
			switch info, err := crashed.Stat("large"); {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil || info.Size() != large:
				t.Errorf("before %v: the file has %d bytes, %v", op, info.Size(), err)
			}
			return nil
		})
		if err := vfs.RemoveInSteps(t.Context(), disk, "large"); err != nil {
			t.Fatal(err)
		}
		steps := 0
		for _, k := range kinds {
			if k == crashfs.OpTruncate {
				steps++
			}
		}
		if steps != 2 {
			t.Fatalf("%d steps: %v", steps, kinds)
		}
	}
}

// TestRemoveInStepsLeavesReadersTheirFile checks that a file that is open elsewhere stays whole.
func TestRemoveInStepsLeavesReadersTheirFile(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS{}, "crashfs": crashfs.New(1)} {
		t.Run(name, func(t *testing.T) {
			path := "large"
			if name == "os" {
				path = filepath.Join(t.TempDir(), path)
			}
			writeFile(t, fsys, path)
			reader, err := fsys.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if err := vfs.RemoveInSteps(t.Context(), fsys, path); err != nil {
				t.Fatal(err)
			}
			if _, err := fsys.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file has its name: %v", err)
			}
			if n, err := reader.ReadAt(make([]byte, 10), large-10); err != nil || n != 10 {
				t.Errorf("read the end: %d bytes, %v", n, err)
			}
		})
	}
}

// TestRemoveInStepsEnds checks what happens without time, without the file, and when it may not be
// opened.
func TestRemoveInStepsEnds(t *testing.T) {
	fsys, path := vfs.OS{}, filepath.Join(t.TempDir(), "large")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	writeFile(t, fsys, path)
	if err := vfs.RemoveInSteps(ended, fsys, path); err != nil {
		t.Errorf("without time: %v", err)
	}
	if err := vfs.RemoveInSteps(ended, fsys, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	writeFile(t, fsys, path)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := vfs.RemoveInSteps(t.Context(), fsys, path); err != nil {
		t.Errorf("of a file that may not be written: %v", err)
	}
}

// TestRemoveInStepsLeavesOtherNames checks that a file with a second name, as some backups give it,
// stays whole under that.
func TestRemoveInStepsLeavesOtherNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	writeFile(t, vfs.OS{}, path)
	if err := os.Link(path, path+".backup"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.RemoveInSteps(t.Context(), vfs.OS{}, path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + ".backup"); err != nil || info.Size() != large {
		t.Errorf("under its other name the file is %v, %v", info, err)
	}
}

// TestOrphaned checks that a name and a second opener are noticed. Not every system can tell that
// there is neither.
func TestOrphaned(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS{}, "crashfs": crashfs.New(1)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			f, err := fsys.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Orphaned() {
				t.Error("orphaned, with a name")
			}
			second, err := fsys.Open(path)
			if err := errors.Join(err, fsys.Remove(path)); err != nil {
				t.Fatal(err)
			}
			if f.Orphaned() {
				t.Error("orphaned, beside a reader")
			}
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			if name == "crashfs" && !f.Orphaned() {
				t.Error("not orphaned, without a name or a reader")
			}
		})
	}
}
