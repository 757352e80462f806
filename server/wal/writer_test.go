package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// report collects the calls of a Writer.
type report struct {
	mu      sync.Mutex
	durable []Durable
	fatal   []error
}

func (r *report) options() WriterOptions {
	return WriterOptions{
		Durable: func(d Durable) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.durable = append(r.durable, d)
		},
		Fatal: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fatal = append(r.fatal, err)
		},
	}
}

func (r *report) last() Durable {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.durable) == 0 {
		return Durable{}
	}
	return r.durable[len(r.durable)-1]
}

// TestWriterGroupsCommits holds the first fsync until everything else is queued: two fsyncs
// must suffice, and no record may be reported before its fsync.
func TestWriterGroupsCommits(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	var r report
	begun, release := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	fsys.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync && op.Name == l.f.Name() {
			if syncs.Add(1) == 1 {
				close(begun)
				<-release
			}
		}
		return nil
	})
	o := r.options()
	o.Idle = time.Hour
	w := NewWriter(l, o)
	if _, err := w.Submit(entry(1, "x")); err != nil {
		t.Fatal(err)
	}
	<-begun
	var last uint64
	for n := 2; n <= 50; n++ {
		var err error
		if last, err = w.Submit(entry(n, "x")); err != nil {
			t.Fatal(err)
		}
	}
	if d := r.last(); d.Seq != 0 || last != 50 {
		t.Errorf("durable %+v before the fsync, last number %d", d, last)
	}
	close(release)
	if err := w.SubmitWait(Record{Kind: Promise, Payload: []byte("p")}); err != nil {
		t.Fatal(err)
	}
	if n := syncs.Load(); n > 3 {
		t.Errorf("%d fsyncs for three rounds", n)
	}
	if d := r.last(); d.Seq != 51 || d.Zxid != 50 {
		t.Errorf("durable %+v", d)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Submit(entry(51, "")); !errors.Is(err, ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	_, rec := mustOpen(t, testOptions(fsys.Crash(nil)))
	if rec.LastZxid != 50 || rec.CommitHint != 50 || string(rec.Promise) != "p" {
		t.Errorf("recovered %+v", rec)
	}
}

// TestWriterFails fails each operation of a writer's life in turn. Fatal must be called
// once, no file of the log touched afterwards, and all records reported durable must be
// there.
func TestWriterFails(t *testing.T) {
	for n := 0; ; n++ {
		fsys := crashfs.New(uint64(n))
		l, _ := mustOpen(t, testOptions(fsys))
		var r report
		var count, after, hit int
		var mu sync.Mutex
		fsys.SetHook(func(op crashfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if r.failed() > 0 && op.Kind.Mutates() && filepath.Ext(op.Name) != tmpSuffix { // a spare may be under way
				after++
			}
			if !op.Kind.Mutates() {
				return nil
			}
			if count++; count-1 == n {
				hit++
				return crashfs.ErrInjected
			}
			return nil
		})
		w := NewWriter(l, r.options())
		var submitErr error
		for i := 1; i <= 60 && submitErr == nil; i++ {
			submitErr = w.SubmitWait(entry(i, fmt.Sprintf("%500d", i)))
		}
		closeErr := w.Close()
		if fatal := r.failed(); fatal > 1 || (fatal == 1) != (closeErr != nil) || submitErr != nil && fatal == 0 {
			t.Fatalf("operation %d: fatal %d times, submit %v, close %v", n, fatal, submitErr, closeErr)
		}
		if after > 0 {
			t.Fatalf("operation %d: %d operations after the failure", n, after)
		}
		fsys.SetHook(nil)
		_, rec := mustOpen(t, testOptions(fsys.Crash(nil)))
		if rec.LastZxid < r.last().Zxid {
			t.Fatalf("operation %d: recovered up to %s, reported %+v", n, rec.LastZxid, r.last())
		}
		if hit == 0 {
			t.Logf("%d operations", n)
			return
		}
	}
}

func (r *report) failed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fatal)
}

// TestWriterIdleHint: a while after the last write exactly one commit hint is written,
// which proves that the records before it were durable.
func TestWriterIdleHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		var r report
		w := NewWriter(l, r.options())
		if err := w.SubmitWait(entry(1, "x"), entry(2, "y")); err != nil {
			t.Fatal(err)
		}
		if d := r.last(); d.Seq != 2 {
			t.Fatalf("durable %+v", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := r.last(); d.Seq != 3 || d.Zxid != 2 {
			t.Fatalf("after a minute: durable %+v, want one hint", d)
		}
		seq, err := w.Submit(entry(3, "z"))
		if err != nil || seq != 4 {
			t.Errorf("the record behind the hint has number %d, %v", seq, err)
		}
		if err := w.waitFor(seq); err != nil || r.last().Seq != 4 || r.last().Zxid != 3 {
			t.Errorf("durable %+v, %v", r.last(), err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		img := fsys.Crash(nil)
		err = img.Corrupt(testDir+"/"+segmentName(1), func(b []byte) []byte {
			b[headerSize+60] ^= 1
			return b
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(testOptions(img)); !errors.As(err, new(*CorruptError)) {
			t.Errorf("open a log with a damaged record before a hint: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if d := r.last(); d.Seq != 5 {
			t.Errorf("another hint at close: %+v", d)
		}
	})
}

// TestWriterHintAhead: a commit of entries that have not arrived here says nothing about
// the local entries, which may have to be dropped.
func TestWriterHintAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		var r report
		o := r.options()
		o.Commit = func() jute.Zxid { return 9 }
		w := NewWriter(l, o)
		if err := w.SubmitWait(entry(1, "a"), entry(2, "b"), entry(3, "c"), Record{Kind: CommitHint, Zxid: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := r.last(); d.Seq != 5 {
			t.Fatalf("durable %+v, want a hint", d)
		}
		if err := w.SubmitWait(Record{Kind: Truncate, Zxid: 1}, Record{Kind: Append, Zxid: 8, Prev: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.SubmitWait(Record{Kind: Truncate, Zxid: 0}); !errors.Is(err, ErrDiscontinuous) {
			t.Errorf("truncation of what is committed: %v", err)
		}
		if err := w.Close(); !errors.Is(err, ErrDiscontinuous) {
			t.Errorf("close: %v", err)
		}
		_, rec := mustOpen(t, testOptions(fsys))
		if rec.CommitHint != 1 || rec.LastZxid != 8 {
			t.Errorf("recovered %+v", rec)
		}
	})
}

// TestWriterBlocksWhenFull: Submit waits for space in the queue, and continues when there
// is some.
func TestWriterBlocksWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		release := make(chan struct{})
		fsys.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpWrite && op.Name == l.f.Name() {
				<-release
			}
			return nil
		})
		var r report
		o := r.options()
		o.MaxQueue = 1000
		w := NewWriter(l, o)
		var submitted atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 1; n <= 10; n++ {
				if _, err := w.Submit(entry(n, fmt.Sprintf("%300d", n))); err != nil {
					t.Error(err)
				}
				submitted.Add(1)
			}
		})
		synctest.Wait()
		if n := submitted.Load(); n < 2 || n > 4 {
			t.Errorf("%d of 10 submitted to a queue of two or three", n)
		}
		close(release)
		wg.Wait()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if d := r.last(); d.Zxid != 10 {
			t.Errorf("durable %+v", d)
		}
	})
}

// TestWriterConcurrent runs readers, a purger and writers concurrently, for the race
// detector, and checks that no record is missing at the end.
func TestWriterConcurrent(t *testing.T) {
	const total = 3000
	o := Options{Dir: t.TempDir(), SegmentSize: 64 << 10}
	l, _ := mustOpen(t, o)
	var durable atomic.Int64
	w := NewWriter(l, WriterOptions{Durable: func(d Durable) { durable.Store(int64(d.Zxid)) }})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; n <= total; n++ {
			if _, err := w.Submit(entry(n, fmt.Sprintf("%200d", n))); err != nil {
				t.Error(err)
				return
			}
			if n%500 == 0 {
				ref := SnapRef{Zxid: jute.Zxid(n - 100), Name: fmt.Sprint("snap", n)}
				if err := w.SubmitWait(ref.Record()); err != nil {
					t.Error(err)
				}
				if _, err := w.Purge(t.Context(), ref.Zxid); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Go(func() {
		for after := jute.Zxid(0); after < total-200; {
			prev := after
			err := w.Replay(after, func(r Record) error {
				if r.Prev != prev {
					return fmt.Errorf("entry %s behind %s", r.Zxid, prev)
				}
				prev = r.Zxid
				return nil
			})
			if err != nil && !errors.Is(err, ErrPurged) {
				t.Error(err)
				return
			}
			after = jute.Zxid(max(0, durable.Load()-50))
			_ = w.Stats()
		}
	})
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, rec := mustOpen(t, o)
	defer l.Close()
	if rec.LastZxid != total || len(rec.Snaps) == 0 || rec.FirstZxid == 0 {
		t.Fatalf("recovered %+v", rec)
	}
	got := replay(t, l, 2900)
	if len(got) != 100 || !slices.IsSorted(got) {
		t.Errorf("%d entries after the last snapshot", len(got))
	}
}

// TestPending blocks one operation of the disk after the other. While one is blocked,
// whether or not the log is synced, Pending must grow; when nothing waits for the disk it
// must be 0.
func TestPending(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		for _, kind := range []crashfs.OpKind{crashfs.OpWrite, crashfs.OpSync, crashfs.OpRename, crashfs.OpSyncDir} {
			if noSync && (kind == crashfs.OpSync || kind == crashfs.OpSyncDir) {
				continue // there are none
			}
			t.Run(fmt.Sprintf("%v/NoSync=%v", kind, noSync), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testPending(t, kind, noSync) })
			})
		}
	}
}

func testPending(t *testing.T, kind crashfs.OpKind, noSync bool) {
	fsys := crashfs.New(1)
	o := testOptions(fsys)
	o.NoSync = noSync
	l, _ := mustOpen(t, o)
	w := NewWriter(l, (&report{}).options())
	defer w.Close()
	synctest.Wait() // the spare is ready: from now on only the log's owner works
	const held = 3 * time.Second
	var stuck atomic.Bool
	fsys.SetHook(func(op crashfs.Op) error {
		if op.Kind == kind && !stuck.Swap(true) {
			time.Sleep(held)
		}
		return nil
	})
	for n := 1; !stuck.Load(); n++ { // until a segment is full, if necessary
		if _, err := w.Submit(entry(n, "a record of some length")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	time.Sleep(held - time.Second)
	if p := w.Stats().Pending; p != held-time.Second {
		t.Errorf("%v into the operation: pending for %v", held-time.Second, p)
	}
	time.Sleep(time.Minute)
	if p := w.Stats().Pending; p != 0 {
		t.Errorf("pending for %v with nothing to do", p)
	}
}

// A record that bypasses the writer shifts the numbers of later ones: each would be
// reported durable with its predecessor. So the writer fails.
func TestWriterNoticesOtherWrites(t *testing.T) {
	l, _, err := Open(Options{FS: crashfs.New(1), Dir: "/log", Ident: []byte("me")})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	w := NewWriter(l, WriterOptions{Fatal: func(err error) { failed <- err }})
	defer w.Close()
	if err := l.Append([]Record{{Kind: Promise, Payload: []byte{1}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.SubmitWait(Record{Kind: Promise, Payload: []byte{2}}); err == nil {
		t.Error("the next record is reported durable")
	}
	if err := <-failed; !strings.Contains(err.Error(), "something else has written to the log") {
		t.Errorf("the writer failed with %v", err)
	}
}
