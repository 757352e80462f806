package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOSFileRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var fsys FS = OS{}
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatalf("second MkdirAll: %v", err)
	}
	name := filepath.Join(dir, "f")
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("hello"), 3); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(10), f.SyncData(), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fsys.Rename(name, name+"2"), fsys.SyncDir(dir)); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(fsys, name+"2")
	want := []byte("\x00\x00\x00hello\x00\x00")
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read back %q, %v, want %q", got, err, want)
	}
	if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open the old name: %v, want not exist", err)
	}
}

func TestOSMkdirAllOverFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (OS{}).MkdirAll(name); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("MkdirAll over a file: %v, want exist", err)
	}
}

func TestOSLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	var fsys FS = OS{}
	held, err := fsys.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v, want ErrLocked", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := fsys.Lock(name)
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOSSpace(t *testing.T) {
	s, err := (OS{}).Space(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s.Total <= 0 || s.Free < 0 || s.Free > s.Total {
		t.Fatalf("space = %+v", s)
	}
}

// TestOSReplace checks that a file is replaced with the mode and the owner of another,
// and that a failure leaves nothing.
func TestOSReplace(t *testing.T) {
	dir := t.TempDir()
	name, like := filepath.Join(dir, "f"), filepath.Join(dir, "like")
	for _, file := range []string{name, like} {
		if err := os.WriteFile(file, []byte("old and longer"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(like, 0o646); err != nil { // which no umask makes
		t.Fatal(err)
	}
	root := os.Getuid() == 0
	if root {
		if err := os.Chown(like, 12345, 23456); err != nil {
			t.Fatal(err)
		}
	}
	if err := Replace(OS{}, name, []byte("new"), like); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o646 {
		t.Fatalf("%v, %v", info, err)
	}
	if st := info.Sys().(*syscall.Stat_t); root && (st.Uid != 12345 || st.Gid != 23456) {
		t.Errorf("owner %d, group %d", st.Uid, st.Gid)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "new" {
		t.Errorf("read back %q, %v", got, err)
	}
	if err := Replace(OS{}, name, []byte("newer"), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("like a file that is not there: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
