package stdio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sink is what a program's output goes to. It can take some bytes at a time, nothing, or block.
type sink struct {
	text    strings.Builder
	err     error
	room    int           // bytes that fit before err
	blocked chan struct{} // nil if it takes what comes
	pause   time.Duration // of each write
}

func (s *sink) Write(p []byte) (int, error) {
	if s.blocked != nil {
		<-s.blocked
	}
	time.Sleep(s.pause)
	if s.err == nil {
		return s.text.Write(p)
	}
	n := min(len(p), s.room)
	s.room -= n
	s.text.Write(p[:n])
	if n < len(p) {
		return n, s.err
	}
	return n, nil
}

// TestLinesComeBack checks that lines which can't be written are counted, and that writing
// continues when it is possible again.
func TestLinesComeBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		room int
		want string
	}{
		{"a pipe without a reader", syscall.EPIPE, 0, "a\nlines lost: 3: broken pipe\ne\n"},
		{"a full disk", syscall.ENOSPC, 3, "a\nb\nc\nlines lost: 2: no space left on device\ne\n"},
		{"a full disk, between lines", syscall.ENOSPC, 2, "a\nb\nlines lost: 2: no space left on device\ne\n"},
		{"a note that does not fit", syscall.EFBIG, 5, "a\nb\nc\nd\nlines lost: 1: file too large\ne\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &sink{}
			l := NewLines(s, nil)
			defer l.Close()
			put := func(text string) {
				if n, err := io.WriteString(l, text); n != len(text) || err != nil {
					t.Errorf("writing %q: %d, %v", text, n, err)
				}
				l.Sync() // the note may not fit
			}
			put("a\n")
			s.err, s.room = tt.err, tt.room
			for _, text := range []string{"b\n", "c\n", "d\n"} {
				put(text)
			}
			s.err = nil
			put("e\n")
			if got := s.text.String(); got != tt.want {
				t.Errorf("written:\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

// TestLinesDoNotWait checks that a reader that does not read holds up nobody, and that all
// lines are written or counted.
func TestLinesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{blocked: make(chan struct{})}
		l := NewLines(s, nil)
		long := strings.Repeat("x", 1000) + "\n"
		const lines = 3 * maxBytes / 1000
		for i := range lines {
			if i == 1 {
				synctest.Wait() // the first line is being written
			}
			if _, err := io.WriteString(l, long); err != nil {
				t.Fatal(err)
			}
		}
		lost := l.Lost()
		if lost < lines/2 || lost > lines-maxBytes/2000 {
			t.Errorf("%d of %d lines are lost", lost, lines)
		}
		if err := l.Close(); !errors.Is(err, errSlow) { // it waits for a second
			t.Errorf("closed: %v", err)
		}
		close(s.blocked)
		synctest.Wait()
		got := strings.Split(s.text.String(), "\n")
		written := slices.DeleteFunc(got, func(line string) bool { return len(line) != 1000 })
		if len(written)+int(lost) != lines {
			t.Errorf("%d lines are written and %d lost, of %d", len(written), lost, lines)
		}
		if note := fmt.Sprintf("lines lost: %d: they were read too slowly\n", lost); !strings.Contains(s.text.String(), note) {
			t.Errorf("there is no %q", note)
		}
		if _, err := io.WriteString(l.Sure(), "late\n"); !errors.Is(err, errClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSlowReader checks that Close waits for a reader that is slow, but reads.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{pause: 900 * time.Millisecond}
		l := NewLines(s, nil)
		for range 5 {
			io.WriteString(l, "a\n")
		}
		if err := l.Close(); err != nil || s.text.String() != "a\na\na\na\na\n" {
			t.Errorf("closed: %v, with %q written", err, s.text.String())
		}
	})
}

// TestSureLines checks that a line which must not be lost is waited for, and its error
// returned.
func TestSureLines(t *testing.T) {
	s := &sink{}
	l := NewLines(s, nil)
	defer l.Close()
	if n, err := io.WriteString(l.Sure(), "a\n"); n != 2 || err != nil || s.text.String() != "a\n" {
		t.Errorf("%d, %v, written %q", n, err, s.text.String())
	}
	s.err = syscall.ENOSPC
	if n, err := io.WriteString(l.Sure(), "b\n"); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %d, %v", n, err)
	}
}

func TestUnread(t *testing.T) {
	gone := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{gone, true}, {fmt.Errorf("print: %w", gone), true}, {nil, false}, {syscall.EPIPE, false},
		{&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, false},
		{&fs.PathError{Op: "write", Path: "/dev/stderr", Err: syscall.EPIPE}, false},
	} {
		if got := Unread(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}
