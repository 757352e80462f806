package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// smallDisk mounts a file system of that many MiB, or reports that this process
// may not.
func smallDisk(t *testing.T, mib int) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Logf("no small disk: %v", err)
		return dir, false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// fill leaves that many bytes free on the disk of dir.
func fill(t *testing.T, dir string, leave int64) {
	t.Helper()
	check(t, process.Fill(dir, leave))
}

func empty(t *testing.T, dir string) {
	t.Helper()
	check(t, process.Empty(dir))
}

// TestFullDisk takes the room away under a server: it must refuse writes with a
// code that clients know, serve everything else, lose nothing, and go on by
// itself when there is room again.
func TestFullDisk(t *testing.T) {
	disk, ok := smallDisk(t, 64)
	if !ok {
		testFileSizeLimit(t) // the other way to run out of room
		return
	}
	s := newServerIn(t, t.TempDir(), filepath.Join(disk, "data"), constantly...)
	s.start()
	c, other := s.connect(), s.connect()
	if _, err := c.create("/a", []byte("0"), jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := c.create(fmt.Sprintf("/n%d", i), []byte("x"), jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
	}
	some := func() { fill(t, disk, 4<<20) }
	some()
	last, _ := setUntilRefused(t, c, some, "/a", "0")
	if got := valueOf(t, other, "/a"); got != last {
		t.Fatalf("/a is %q, want %q, the last that was acknowledged", got, last)
	}
	fill(t, disk, 0)
	// What makes room still works, and so does the end of a session.
	if _, err := c.do(jute.OpDelete, &jute.DeleteRequest{Path: "/n0", Version: -1}); err != nil {
		t.Fatalf("delete on a full disk: %v", err)
	}
	if _, err := other.do(jute.OpCloseSession, nil); err != nil {
		t.Fatalf("close a session on a full disk: %v", err)
	}
	operator := s.connect() // an operator can get in, and make room
	if _, err := operator.do(jute.OpDelete, &jute.DeleteRequest{Path: "/n1", Version: -1}); err != nil {
		t.Fatalf("delete in a session that began on a full disk: %v", err)
	}
	if _, err := operator.create("/more", nil, jute.ModePersistent); !errors.Is(err, jute.ErrNotReadOnly) {
		t.Errorf("create on a full disk: %v, want %v", err, jute.ErrNotReadOnly)
	}
	if answer, err := ask.Within(patience, s.addr, "srvr"); !strings.Contains(answer, "\nDisk: full: the server refuses writes\n") {
		t.Errorf("srvr does not say that the disk is full: %v\n%s", err, answer)
	}
	s.Kill()
	s.launch()
	if s.Poll(func() bool { answer, _ := ask.Within(patience, s.addr, "ruok"); return answer == "imok" }) {
		t.Log("starts on a full disk")
		s.Kill()
	} else if log := s.LogNow(); !strings.Contains(log, "no space left on device") {
		t.Errorf("the server does not say why it can't start on a full disk:\n%s", log)
	}
	empty(t, disk)
	s.start()
	c = s.connect()
	if got := valueOf(t, c, "/a"); got != last {
		t.Errorf("/a is %q after the restart, want %q", got, last)
	}
	names, err := c.children("/")
	if err != nil || len(names) != 10 {
		t.Errorf("children after the restart: %q, %v; want 10", names, err)
	}
	if err := c.set("/a", []byte("room")); err != nil {
		t.Error(err)
	}
	some()
	setUntilRefused(t, c, some, "/a", "room")
	empty(t, disk)
	if !s.Poll(func() bool { return c.set("/a", []byte("again")) == nil }) {
		t.Error("writes are still refused although there is room")
	}
}

// TestDiskFillsUnderLoad fills the disk as fast as it can while workers write: the
// server may stop, but whatever it has acknowledged must be there.
func TestDiskFillsUnderLoad(t *testing.T) {
	disk, ok := smallDisk(t, 48)
	if !ok {
		testFileSizeLimit(t)
		return
	}
	s := newServerIn(t, t.TempDir(), filepath.Join(disk, "data"), constantly...)
	s.start()
	for round := range 4 {
		c := s.connect()
		path := fmt.Sprintf("/r%d", round)
		if _, err := c.create(path, nil, jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
		all := func() { fill(t, disk, 0) }
		var filling sync.WaitGroup
		filling.Go(all)
		last, unanswered := setUntilRefused(t, c, all, path, "")
		filling.Wait()
		s.Kill()
		empty(t, disk)
		s.start()
		if got := valueOf(t, s.connect(), path); got != last && got != unanswered {
			t.Errorf("round %d: %s is %.30q, want %.30q or %.30q", round, path, got, last, unanswered)
		}
	}
}

// setUntilRefused sets path, which has the value last, over and over until the
// server refuses it in the documented way or has ended, and returns the last value
// acknowledged. If the server has ended, unanswered is the value that it may have
// made durable before it could say so; else it is last, too. What the server gives
// back of the room on the disk, by deleting what it no longer needs, refill takes.
func setUntilRefused(t *testing.T, c *client, refill func(), path, last string) (acknowledged, unanswered string) {
	t.Helper()
	for deadline, i := time.Now().Add(patience), 1; time.Now().Before(deadline); i++ {
		if i%100 == 0 {
			refill()
		}
		value := fmt.Sprintf("%d %s", i, strings.Repeat("x", 5000))
		err := c.set(path, []byte(value))
		switch {
		case errors.Is(err, jute.ErrNotReadOnly):
			return last, last
		case errors.As(err, new(jute.Code)):
			t.Fatalf("set on a full disk: %v, want %v", err, jute.ErrNotReadOnly)
		case err != nil:
			t.Logf("connection ended: %v", err)
			return last, value
		}
		last = value
	}
	t.Fatal("writes are not refused")
	return "", ""
}

func valueOf(t *testing.T, c *client, path string) string {
	t.Helper()
	data, err := c.get(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReadOnlyDisk starts a server on a disk that can't be written.
func TestReadOnlyDisk(t *testing.T) {
	disk, mounted := smallDisk(t, 64)
	data := filepath.Join(disk, "data")
	s := newServerIn(t, t.TempDir(), data, constantly...)
	s.start()
	if _, err := s.connect().create("/a", []byte("1"), jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	readOnly := func(ro bool) {
		t.Helper()
		if mounted {
			var flags uintptr = syscall.MS_REMOUNT
			if ro {
				flags |= syscall.MS_RDONLY
			}
			if err := syscall.Mount("none", disk, "tmpfs", flags, ""); err != nil {
				t.Fatal(err)
			}
			return
		}
		mode := os.FileMode(0o755)
		if ro {
			mode = 0o500
		}
		for _, dir := range []string{data, filepath.Join(data, "journal")} {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	readOnly(true)
	if log := s.refuses(); !strings.Contains(log, "read-only file system") && !strings.Contains(log, "permission denied") {
		t.Errorf("the server does not say that it can't write:\n%s", log)
	}
	readOnly(false)
	s.start()
	if got := valueOf(t, s.connect(), "/a"); got != "1" {
		t.Errorf("/a is %q", got)
	}
}

// TestFileSizeLimit runs a server that may not make large files.
func TestFileSizeLimit(t *testing.T) { testFileSizeLimit(t) }

func testFileSizeLimit(t *testing.T) {
	s := newServer(t, constantly...)
	// 2 or 4 MiB, depending on the shell: too small for a full-grown segment.
	s.Wrapper = []string{"sh", "-c", `ulimit -f 4096 && exec "$@"`, "sh"}
	s.start()
	c := s.connect()
	if _, err := c.create("/a", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	last, unanswered := "", ""
	for i := range 300 {
		value := fmt.Sprintf("%d %s", i, strings.Repeat("x", 60_000))
		err := c.set("/a", []byte(value))
		if errors.Is(err, jute.ErrNotReadOnly) {
			continue
		}
		if err != nil {
			t.Logf("after %d writes: %v", i, err)
			unanswered = value // it may be durable all the same
			break
		}
		last, unanswered = value, value
	}
	s.Kill()
	s.Wrapper = nil
	s.start()
	if got := valueOf(t, s.connect(), "/a"); got != last && got != unanswered {
		t.Errorf("/a is %.20q, want %.20q or %.20q", got, last, unanswered)
	}
}
