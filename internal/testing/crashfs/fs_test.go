package crashfs

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, f *FS, name, content string) vfs.File {
	t.Helper()
	h, err := f.Create(name)
	must(t, err)
	_, err = h.WriteAt([]byte(content), 0)
	must(t, err)
	return h
}

// content returns what a file holds, or "-" if there is none.
func content(t *testing.T, f *FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(f, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(b)
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	f := New(1)
	must(t, f.MkdirAll("/d"))
	a := create(t, f, "/d/a", "one")
	must(t, a.Sync(), f.SyncDir("/d"))
	_, err := a.WriteAt([]byte("TWO"), 0)
	must(t, err)
	b := create(t, f, "/d/b", "synced, but its name is not")
	must(t, b.Sync(), f.Rename("/d/a", "/d/c"))

	img := f.Crash(nil)
	if got := content(t, img, "/d/a"); got != "one" {
		t.Errorf("a holds %q", got)
	}
	if got := content(t, img, "/d/b") + content(t, img, "/d/c"); got != "--" {
		t.Errorf("b and c: %q, want neither", got)
	}
	if got := content(t, f, "/d/c"); got != "TWO" {
		t.Errorf("the original changed: %q", got)
	}
	must(t, f.SyncDir("/d"))
	if got := content(t, f.Crash(nil), "/d/c"); got != "one" {
		t.Errorf("c holds %q after its name was synced", got)
	}
	if got := content(t, f.Kill(), "/d/c"); got != "TWO" {
		t.Errorf("c holds %q after a kill", got)
	}
}

// TestCrashTears: over many crashes each combination of two sectors and two
// names is seen, and nothing else.
func TestCrashTears(t *testing.T) {
	f := New(1)
	must(t, f.MkdirAll("/d"))
	a := create(t, f, "/d/a", strings.Repeat("0", 2*sectorSize))
	must(t, a.Sync(), f.SyncDir("/d"))
	_, err := a.WriteAt(bytes.Repeat([]byte("1"), 2*sectorSize), 0)
	must(t, err)
	must(t, create(t, f, "/d/b", "b").Sync(), create(t, f, "/d/c", "c").Sync())
	seen := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		img := f.Crash(rng)
		s := content(t, img, "/d/a")
		for _, half := range []string{s[:sectorSize], s[sectorSize:]} {
			if strings.Trim(half, half[:1]) != "" {
				t.Fatalf("a sector is torn: %q", half)
			}
		}
		seen[s[:1]+s[sectorSize:sectorSize+1]+content(t, img, "/d/b")+content(t, img, "/d/c")]++
	}
	if len(seen) != 16 {
		t.Errorf("seen %v, want 16 combinations", seen)
	}
}

func TestFailedSyncForgets(t *testing.T) {
	f := New(1)
	must(t, f.MkdirAll("/d"))
	a := create(t, f, "/d/a", strings.Repeat("0", 64*sectorSize))
	must(t, f.SyncDir("/d"))
	f.SetHook(func(op Op) error {
		if op.Kind == OpSync {
			return ErrInjected
		}
		return nil
	})
	if err := a.Sync(); !errors.Is(err, ErrInjected) {
		t.Fatalf("sync: %v", err)
	}
	f.SetHook(nil)
	must(t, a.Sync()) // reports success, as on Linux
	if got := content(t, f, "/d/a"); got != strings.Repeat("0", 64*sectorSize) {
		t.Errorf("the pages are not seen any more")
	}
	if got := content(t, f.Crash(nil), "/d/a"); strings.Count(got, "0") == 64*sectorSize {
		t.Errorf("the second sync wrote what the first one had failed to")
	}
}

func TestNoSpace(t *testing.T) {
	f := New(1)
	f.SetCapacity(2 * blockSize)
	must(t, f.MkdirAll("/d"))
	a := create(t, f, "/d/a", strings.Repeat("a", 2*blockSize))
	_, err := a.WriteAt([]byte("over"), blockSize)
	must(t, err)
	if _, err := a.WriteAt([]byte("more"), 2*blockSize); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write to a full disk: %v", err)
	}
	if s, _ := f.Space("/d"); s.Free != 0 {
		t.Errorf("space %+v", s)
	}
	must(t, f.Remove("/d/a"))
	create(t, f, "/d/b", "now there is room")
}

func TestLock(t *testing.T) {
	f := New(1)
	l, err := f.Lock("/LOCK")
	must(t, err)
	if _, err := f.Lock("/LOCK"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, l.Close())
	if _, err := f.Lock("/LOCK"); err != nil {
		t.Errorf("lock after release: %v", err)
	}
}

func TestFilesAndErrors(t *testing.T) {
	f := New(1)
	must(t, f.MkdirAll("/d/e"))
	create(t, f, "/d/a", "x")
	create(t, f, "/d/e/b", "y")
	must(t, f.Rename("/d/a", "/d/e/a"))
	list, err := f.ReadDir("/d/e")
	if err != nil || len(list) != 2 || list[0].Name() != "a" {
		t.Errorf("list %v, %v", list, err)
	}
	for name, err := range map[string]error{
		"remove":  f.Remove("/d/a"),
		"rename":  f.Rename("/d/a", "/d/b"),
		"syncdir": f.SyncDir("/nowhere"),
		"corrupt": f.Corrupt("/d/a", func(b []byte) []byte { return b }),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of what is not there: %v", name, err)
		}
	}
	ro, err := f.Open("/d/e/a")
	must(t, err)
	if _, err := ro.WriteAt([]byte("z"), 0); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("write to a file opened for reading: %v", err)
	}
	must(t, ro.Close())
	if err := ro.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}
