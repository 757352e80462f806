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

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

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
	o := testOptions(fsys)
	core, logs := observer.New(zap.InfoLevel)
	o.Logger = zap.New(core)
	l, _ := mustOpen(t, o)
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
	if waits, on := logs.FilterMessageSnippet("the log waits").Len(), logs.FilterMessageSnippet("the log continues").Len(); waits != 1 || ends != (on == 1) {
		t.Errorf("%d lines say that the log waits, and %d that it continues", waits, on)
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

// TestMakesRoomWhileItWaits has a log take its disk up to what is kept for a snapshot, and wait, with entries and
// promises queued. A reference and a Forget record go before them, into the present segment: then what the snapshot
// supersedes can be purged, and the log continues. A power cut at any time loses nothing that was reported, and the
// next start has room.
func TestMakesRoomWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 20_000
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		fsys.SetCapacity(10 * minSegmentSize)
		l.Keep(kept)
		var r report
		w := NewWriter(l, r.options())
		n := 0
		for stuck := false; !stuck; stuck = w.Stats().Lacks != nil {
			l.Keep(kept)
			n++
			if _, err := w.Submit(entry(n, strings.Repeat("x", 1000))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for i := range 200 { // more than the reserve takes
			if _, err := w.Submit(Record{Kind: Promise, Payload: []byte{byte(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		space, _ := fsys.Space(testDir)
		if space.Free < kept+minSegmentSize {
			t.Fatalf("%d bytes are left", space.Free)
		}
		reported := r.last()
		ref := SnapRef{Zxid: reported.Zxid, Name: strings.Repeat("s", 40), Digest: []byte("12345678")}
		ahead := func(r Record) {
			done := make(chan error, 1)
			go func() { done <- w.SubmitAhead(r) }()
			time.Sleep(time.Minute)
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			default:
				t.Error("what makes room waits with what needs it")
				fsys.SetCapacity(0)
				<-done
			}
		}
		ahead(ref.Record())
		if now := r.last(); now.Seq != reported.Seq {
			t.Errorf("records up to %d are reported, and only what makes room is written", now.Seq)
		}
		for _, disk := range []*crashfs.FS{fsys.Crash(nil), fsys.Kill()} {
			disk.SetCapacity(10 * minSegmentSize)
			again, rec := mustOpen(t, testOptions(disk))
			if rec.LastZxid != reported.Zxid || len(rec.Snaps) != 1 || rec.Snaps[0].Zxid != ref.Zxid {
				t.Errorf("after a crash: up to %v, snapshots %v", rec.LastZxid, rec.Snaps)
			}
			again.Close()
		}
		ahead(Record{Kind: Forget, Zxid: ref.Zxid})
		if purged, err := w.Purge(t.Context(), ref.Zxid); err != nil || purged == 0 {
			t.Fatalf("purged %d segments, %v", purged, err)
		}
		n++
		if err := w.SubmitWait(entry(n, "x")); err != nil {
			t.Fatal(err)
		}
		if now := r.last(); now.Zxid != entry(n, "").Zxid || now.Seq != uint64(n)+200 || len(r.fatal) > 0 {
			t.Errorf("afterwards: durable up to %v, number %d, want %d; %v", now.Zxid, now.Seq, n+200, r.fatal)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		again, rec := mustOpen(t, testOptions(fsys.Crash(nil)))
		if rec.LastZxid != entry(n, "").Zxid || rec.Promise[0] != 199 {
			t.Errorf("after a power cut: %+v", rec)
		}
		again.Close()
	})
}

// TestAheadWithoutRoomInTheSegment: what makes room waits with the log if there is none for it, and is written with it.
func TestAheadWithoutRoomInTheSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		fsys.SetCapacity(1)
		var r report
		w := NewWriter(l, r.options())
		for n := 1; w.Stats().Lacks == nil; n++ {
			if _, err := w.Submit(entry(n, strings.Repeat("x", 1000))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		zxid := r.last().Zxid
		var done atomic.Int32
		for range 20 {
			go func() {
				if err := w.SubmitAhead(SnapRef{Zxid: zxid, Name: strings.Repeat("s", 200)}.Record()); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		if n := done.Load(); n == 0 || n == 20 {
			t.Errorf("%d of 20 references are written", n)
		}
		fsys.SetCapacity(0)
		time.Sleep(time.Minute)
		if n := done.Load(); n != 20 || len(r.fatal) > 0 {
			t.Errorf("afterwards %d of 20 references are written; %v", n, r.fatal)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}
