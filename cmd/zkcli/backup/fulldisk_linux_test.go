package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
)

// newDisk mounts a disk for a test, or reports that it may not.
func newDisk(t *testing.T, options string) (dir string, ok bool) {
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Logf("NOT TESTED: no disk of its own: %v", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollowOnAFullDisk fills the disk of an archive before the first base, before another follower begins, and while one
// follows. Each says so once, and continues when there is room. The second one used to end, as if the base were unreadable.
func TestFollowOnAFullDisk(t *testing.T) {
	at, ok := newDisk(t, "size=4m")
	if !ok {
		return
	}
	work, filler := filepath.Join(at, "work"), filepath.Join(at, "filler")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newStreams(t, 10)
	servers := startHandlers(t, s)
	follow := func(when string, until jute.Zxid, following func()) {
		t.Helper()
		f := &Follower{Servers: servers, To: stagedDir{archive.Dir(at), work}, Temp: work}
		f.Report = func(format string, _ ...any) {
			if strings.HasPrefix(format, "following") {
				following()
			} else if strings.HasSuffix(format, "trying again") {
				if err := os.Remove(filler); err != nil {
					t.Error(err)
				}
			}
		}
		said := strings.Join(run(t, f, until), "\n")
		if n := strings.Count(said, syscall.ENOSPC.Error()); n != 1 {
			t.Errorf("%s it said %d times that the disk is full:\n%s", when, n, said)
		}
	}
	fill(t, filler)
	follow("before the first base", 10, func() {})
	fill(t, filler)
	s.change(func() { s.last = 12 })
	follow("before it began", 12, func() {})
	follow("while it followed", 14, sync.OnceFunc(func() {
		fill(t, filler)
		s.change(func() { s.last = 14 })
	}))
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestClaimWithoutInodes begins a follower where no directory can be made: it waits until one can.
func TestClaimWithoutInodes(t *testing.T) {
	at, ok := newDisk(t, "nr_inodes=2")
	if !ok {
		return
	}
	filler := filepath.Join(at, "filler")
	if err := os.WriteFile(filler, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &Follower{Servers: startHandlers(t, newStreams(t, 10)), Report: func(format string, args ...any) {
		if strings.Contains(format, "trying again") {
			if err := syscall.Mount("none", at, "tmpfs", syscall.MS_REMOUNT, "nr_inodes=20"); err != nil {
				t.Error(err)
			}
		} else if strings.HasPrefix(format, "fetched") {
			cancel()
		}
	}}
	if err := f.Claim(ctx, archive.Dir(at)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
