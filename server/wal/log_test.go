package wal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// entry returns the record of the n-th entry of a standalone history.
func entry(n int, payload string) Record {
	return Record{Kind: Append, Zxid: jute.Zxid(n), Prev: jute.Zxid(n - 1), Payload: []byte(payload)}
}

func mustOpen(t testing.TB, o Options) (*Log, *Recovered) {
	t.Helper()
	l, rec, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, rec
}

func mustAppend(t testing.TB, l *Log, batch ...Record) {
	t.Helper()
	if err := l.Append(batch); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

func replay(t testing.TB, l *Log, after jute.Zxid) []string {
	t.Helper()
	var got []string
	err := l.Replay(after, func(r Record) error {
		got = append(got, fmt.Sprintf("%s %s", r.Zxid, r.Payload))
		return nil
	})
	if err != nil {
		t.Fatalf("replay after %s: %v", after, err)
	}
	return got
}

func TestReopenKeepsAll(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), Ident: []byte("me")}
	if id, err := Identify(vfs.OS{}, o.Dir); id.Exists || err != nil {
		t.Fatalf("there is a log before it is made: %v", err)
	}
	l, rec := mustOpen(t, o)
	if id, err := Identify(vfs.OS{}, o.Dir); !id.Exists || !id.Blank || string(id.Ident) != "me" || err != nil {
		t.Fatalf("the new log is %+v: %v", id, err)
	}
	if !rec.New || string(rec.Ident) != "me" {
		t.Fatalf("new log: %+v", rec)
	}
	var want []string
	for round := range 5 {
		for i := range 100 {
			n := round*100 + i + 1
			e := entry(n, fmt.Sprint("payload ", n))
			want = append(want, fmt.Sprintf("%s %s", e.Zxid, e.Payload))
			if err := l.Append([]Record{e}); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, Record{Kind: Promise, Payload: []byte{byte(round)}})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o.Ident = []byte("somebody else")
		l, rec = mustOpen(t, o)
		if rec.New || rec.LastZxid != jute.Zxid(len(want)) || string(rec.Ident) != "me" || !bytes.Equal(rec.Promise, []byte{byte(round)}) {
			t.Fatalf("round %d: %+v", round, rec)
		}
		if got := replay(t, l, 0); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %d entries %.200q, want %d", round, len(got), got, len(want))
		}
		if got := replay(t, l, 37); !slices.Equal(got, want[37:]) {
			t.Fatalf("round %d: behind 37: %.200q", round, got)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeftovers: files that a crash left unfinished are removed, others stay.
func TestLeftovers(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	if err := l.PrepareSpare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new.tmp", "other", "00000000000000000009.wal.damaged"} {
		if _, err := fsys.Create(testDir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, testOptions(fsys))
	want := []string{"/log/00000000000000000001.wal", "/log/00000000000000000009.wal.damaged", "/log/other"}
	if got := fsys.Files(); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// TestSegmentsFollowTheSyncs: a segment is as large as a number of syncs are, within bounds, so that a
// log which gets little keeps no large file of zeros.
func TestSegmentsFollowTheSyncs(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name       string
		sync, size int // bytes
		want       []int64
	}{
		{"small ones", 4 << 10, 64 * mib, []int64{mib, 4 * mib, 4 * mib}},
		{"large ones", 256 << 10, 64 * mib, []int64{mib, 4 * mib, 16 * mib}},
		{"large ones, and a small bound", 256 << 10, 6 * mib, []int64{mib, 4 * mib, 6 * mib}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions(crashfs.New(1))
			o.SegmentSize = int64(c.size)
			l, _ := mustOpen(t, o)
			payload := strings.Repeat("x", c.sync)
			for n := 1; len(l.mu.segs) < len(c.want); n++ {
				if err := l.PrepareSpare(); err != nil {
					t.Fatal(err)
				}
				mustAppend(t, l, entry(n, payload))
			}
			var got []int64
			for _, seg := range l.mu.segs {
				got = append(got, seg.size)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("segments of %d bytes, want %d", got, c.want)
			}
		})
	}
}

// TestRestartsDoNotGrow: repeated starts without writing create no additional files.
func TestRestartsDoNotGrow(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "x"))
	for range 10 {
		l, _ = mustOpen(t, testOptions(fsys))
	}
	if n := l.Stats().Segments; n > 2 {
		t.Errorf("%d segments after ten restarts", n)
	}
}

func TestPurge(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	for n := 1; n <= 100; n++ {
		mustAppend(t, l, entry(n, fmt.Sprintf("%1000d", n)))
		if n%20 == 0 {
			if err := l.AppendSnapRef(SnapRef{Zxid: jute.Zxid(n), Name: fmt.Sprint("snap", n)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := l.Stats()
	if _, err := l.Purge(t.Context(), 50); !errors.Is(err, ErrNoSnapRef) {
		t.Errorf("purge before what is no snapshot: %v", err)
	}
	n, err := l.Purge(t.Context(), 60)
	if err != nil || n == 0 {
		t.Fatalf("purge: %d segments, %v", n, err)
	}
	after := l.Stats()
	if after.Segments != before.Segments-n || after.FileBytes >= before.FileBytes || after.SinceSnapRef != 0 {
		t.Errorf("before %+v, after %d deleted: %+v", before, n, after)
	}
	for _, l := range []*Log{l, reopened(t, fsys)} {
		if got := replay(t, l, 60); len(got) != 40 {
			t.Errorf("%d entries after the snapshot", len(got))
		}
		if err := l.Replay(1, func(Record) error { return nil }); !errors.Is(err, ErrPurged) {
			t.Errorf("replay of what was purged: %v", err)
		}
		if err := l.Replay(l.Before(1<<40), func(Record) error { return nil }); err != nil {
			t.Errorf("replay of all that is left: %v", err)
		}
	}
}

// TestPurgeWaitsForTheReference: a crash may lose a reference that is not durable, and then the
// log begins with the one before.
func TestPurgeWaitsForTheReference(t *testing.T) {
	l, _ := mustOpen(t, testOptions(crashfs.New(1)))
	for n := 1; n <= 20; n++ {
		mustAppend(t, l, entry(n, fmt.Sprintf("%1000d", n)))
		if n == 10 {
			mustAppend(t, l, (&SnapRef{Zxid: 10, Name: "snap10"}).Record())
		}
	}
	ref := SnapRef{Zxid: 20, Name: "snap20"}
	if err := l.Append([]Record{ref.Record()}); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Purge(t.Context(), 20); n != 0 || !errors.Is(err, ErrNoSnapRef) {
		t.Errorf("%d segments are deleted for a reference that is not synced: %v", n, err)
	}
	if _, err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Purge(t.Context(), 20); n == 0 || err != nil {
		t.Errorf("%d segments are deleted: %v", n, err)
	}
}

// TestSlowSyncsAreCounted: a sync is slow if it takes longer than the log was opened with, or was told since.
func TestSlowSyncsAreCounted(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), FsyncWarn: time.Hour}
	l, _ := mustOpen(t, o)
	defer l.Close()
	for n, slow := range []uint64{0, 1} {
		if n == 1 {
			l.SetFsyncWarn(-1)
		}
		before := l.Stats()
		mustAppend(t, l, entry(n+1, "x"))
		if now := l.Stats(); now.Fsyncs != before.Fsyncs+1 || now.SlowFsyncs != before.SlowFsyncs+slow {
			t.Errorf("sync %d: %d syncs, %d of them slow, before that %d and %d", n, now.Fsyncs, now.SlowFsyncs, before.Fsyncs, before.SlowFsyncs)
		}
	}
}

func reopened(t *testing.T, fsys *crashfs.FS) *Log {
	l, rec := mustOpen(t, testOptions(fsys))
	var names []string
	for _, ref := range rec.Snaps {
		names = append(names, ref.Name)
	}
	if want := []string{"snap60", "snap80", "snap100"}; !slices.Equal(names, want) {
		t.Errorf("snapshots %v, want %v", names, want)
	}
	return l
}

func TestReplayFromNowhere(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, Record{Kind: Append, Zxid: 5}, Record{Kind: Append, Zxid: 9, Prev: 5})
	for _, after := range []jute.Zxid{3, 7, 10} {
		if err := l.Replay(after, func(Record) error { return nil }); !errors.Is(err, ErrDiscontinuous) {
			t.Errorf("replay after %s, which is no entry: %v", after, err)
		}
	}
	stop := errors.New("enough")
	if err := l.Replay(0, func(Record) error { return stop }); err != stop {
		t.Errorf("the function's error: %v", err)
	}
}

// TestBefore compares what Before finds with the sizes of the entries.
func TestBefore(t *testing.T) {
	const entries, size = 200, 30_000
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentSize: 1 << 20, NoSync: true}
	l, _ := mustOpen(t, o)
	defer l.Close()
	payload := string(make([]byte, size))
	for n := range entries {
		mustAppend(t, l, entry(n+1, payload))
	}
	for _, n := range []int64{0, 1, size, 10 * size, 100 * size, (entries - 20) * size} {
		zxid := l.Before(n)
		after := int64(entries-zxid) * size
		if after < n || after > n+2*indexStep {
			t.Errorf("after the zxid before %d bytes there are %d", n, after)
		}
	}
	if zxid := l.Before(2 * entries * size); zxid != 0 {
		t.Errorf("more bytes than there are: before them is zxid %v, not 0", zxid)
	}
}
