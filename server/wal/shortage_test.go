package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
)

// shortages are operations at the beginning of a segment, with errors that may be over later.
var shortages = []struct {
	kind crashfs.OpKind
	err  error
}{
	{crashfs.OpCreate, syscall.EMFILE}, {crashfs.OpCreate, syscall.ENFILE}, {crashfs.OpCreate, syscall.ENOSPC},
	{crashfs.OpWrite, syscall.ENOSPC}, {crashfs.OpWrite, syscall.EDQUOT}, {crashfs.OpSync, syscall.ENOSPC},
	{crashfs.OpRename, syscall.ENOSPC},
}

// TestShortageAtARoll has no room, inodes or descriptors for the next segment, and none for a
// spare before that. The log waits, tells of nothing that is not durable, and continues.
func TestShortageAtARoll(t *testing.T) {
	for _, tt := range shortages {
		t.Run(fmt.Sprint(tt.kind, " ", tt.err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testShortage(t, tt.kind, tt.err, true) })
		})
	}
}

// TestCloseDuringShortage closes a log that waits. What was durable is there.
func TestCloseDuringShortage(t *testing.T) {
	for _, tt := range shortages {
		t.Run(fmt.Sprint(tt.kind, " ", tt.err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testShortage(t, tt.kind, tt.err, false) })
		})
	}
}

func testShortage(t *testing.T, kind crashfs.OpKind, short error, ends bool) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	if err := l.PrepareSpare(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; len(l.mu.segs) == 1; n++ { // the present segment has the name of a spare, and the next one another
		mustAppend(t, l, entry(n+1, strings.Repeat("x", 1000)))
	}
	present := l.f.Name()
	var lacks atomic.Bool
	lacks.Store(true)
	fsys.SetHook(func(op crashfs.Op) error {
		if lacks.Load() && op.Kind == kind && op.Name != present {
			return short
		}
		return nil
	})
	var r report
	w := NewWriter(l, r.options())
	for begun := n; n == begun || r.last().Zxid == entry(n, "").Zxid; { // until a segment is full
		n++
		if _, err := w.Submit(entry(n, strings.Repeat("x", 1000))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	time.Sleep(time.Minute)
	if len(r.fatal) > 0 || r.last().Zxid >= entry(n, "").Zxid {
		t.Fatalf("after a minute without: failed with %v, durable up to %v of %d", r.fatal, r.last().Zxid, n)
	}
	if s := w.Stats(); !errors.Is(s.Lacks, short) || s.Pending < time.Minute {
		t.Errorf("the log lacks %v for %v, want %v", s.Lacks, s.Pending, short)
	}
	if !ends {
		n--
		if err := w.Close(); !vfs.IsShortage(err) {
			t.Errorf("close: %v", err)
		}
	} else {
		lacks.Store(false)
		n++
		if err := w.SubmitWait(entry(n, "x")); err != nil || len(r.fatal) > 0 {
			t.Errorf("afterwards: %v, %v", err, r.fatal)
		}
		if s := w.Stats(); s.Lacks != nil || s.Pending != 0 {
			t.Errorf("afterwards the log lacks %v for %v", s.Lacks, s.Pending)
		}
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	lacks.Store(false)
	again, _ := mustOpen(t, testOptions(fsys.Crash(nil)))
	if got := replay(t, again, 0); len(got) != n {
		t.Errorf("%d entries after a power cut, want %d", len(got), n)
	}
}

// scarceFS gives out no more descriptors from some moment on.
type scarceFS struct {
	vfs.OS
	out atomic.Bool
}

func (f *scarceFS) check(name string) error {
	if f.out.Load() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return nil
}

func (f *scarceFS) Create(name string) (vfs.File, error) {
	if err := f.check(name); err != nil {
		return nil, err
	}
	return f.OS.Create(name)
}

func (f *scarceFS) SyncDir(name string) error {
	if err := f.check(name); err != nil {
		return err
	}
	return f.OS.SyncDir(name)
}

// TestRollNeedsNoDescriptor begins a segment with the spare while no more descriptors are given
// out: the log holds what it needs.
func TestRollNeedsNoDescriptor(t *testing.T) {
	fsys := &scarceFS{}
	l, _, err := Open(Options{FS: fsys, Dir: t.TempDir(), Ident: []byte("me"), SegmentSize: minSegmentSize})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.PrepareSpare(); err != nil {
		t.Fatal(err)
	}
	fsys.out.Store(true)
	for n := 1; len(l.mu.segs) == 1; n++ {
		mustAppend(t, l, entry(n, strings.Repeat("x", 1000)))
	}
}
