package wal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// readAll reads all entries of a reader.
func readAll(t testing.TB, r *Reader, maxBytes int) (list []string) {
	t.Helper()
	for {
		records, err := r.Next(maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return list
		}
		for _, e := range records {
			list = append(list, fmt.Sprintf("%s %s", e.Zxid, e.Payload))
		}
	}
}

func mustRead(t testing.TB, l *Log, after jute.Zxid) *Reader {
	t.Helper()
	r, err := l.NewReader(after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReader follows a log over several segments while it is written, in calls of several
// sizes.
func TestReader(t *testing.T) {
	for _, maxBytes := range []int{0, 1, 700, 3000, 1 << 20} {
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		var r *Reader
		var got, want []string
		for n := 1; n <= 200; n++ {
			e := entry(n, fmt.Sprintf("%*d", n*7, n))
			if err := l.Append([]Record{e, {Kind: CommitHint}}); err != nil {
				t.Fatal(err)
			}
			if n == 10 {
				r = mustRead(t, l, 4)
			}
			if n > 4 {
				want = append(want, fmt.Sprintf("%s %s", e.Zxid, e.Payload))
			}
			if n < 10 || n%13 != 0 {
				continue
			}
			got = append(got, readAll(t, r, maxBytes)...)
			if !slices.Equal(got, want) {
				t.Fatalf("%d bytes at a time: %d entries, want %d", maxBytes, len(got), len(want))
			}
		}
	}
}

// TestReaderAhead counts the bytes that a reader has before it: none at the end, and what it reads becomes fewer.
func TestReaderAhead(t *testing.T) {
	l, _ := mustOpen(t, testOptions(crashfs.New(1)))
	for n := 1; n <= 100; n++ {
		if err := l.Append([]Record{entry(n, strings.Repeat("x", 1000))}); err != nil {
			t.Fatal(err)
		}
	}
	if l.Stats().Segments < 3 {
		t.Fatal("the log has too few segments for this test")
	}
	r := mustRead(t, l, 10)
	last := r.Ahead()
	if last < 90*1000 || last > 90*1500 {
		t.Errorf("90 entries of 1000 bytes have %d", last)
	}
	for {
		records, err := r.Next(2500)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			break
		}
		if n := r.Ahead(); n >= last || n < 0 {
			t.Fatalf("after %v there are %d bytes, and there were %d", records[len(records)-1].Zxid, n, last)
		} else {
			last = n
		}
	}
	if last != 0 {
		t.Errorf("at the end there are %d bytes", last)
	}
}

func TestReaderErrors(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	var batch []Record
	for n := 2; n <= 100; n += 2 {
		batch = append(batch, Record{Kind: Append, Zxid: jute.Zxid(n), Prev: jute.Zxid(n - 2), Payload: make([]byte, 1000)})
	}
	batch[0].Prev = 0
	mustAppend(t, l, batch...)
	for _, after := range []jute.Zxid{1, 7, 99, 101, 200} {
		if _, err := l.NewReader(after); !errors.Is(err, ErrDiscontinuous) {
			t.Errorf("behind %s, which is no entry: %v", after, err)
		}
	}
	slow, fast := mustRead(t, l, 2), mustRead(t, l, 90)
	if err := l.AppendSnapRef(SnapRef{Zxid: 80, Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Purge(t.Context(), 80); err != nil {
		t.Fatal(err)
	}
	if _, err := l.NewReader(2); !errors.Is(err, ErrPurged) {
		t.Errorf("behind what was purged: %v", err)
	}
	// Its open file still exists; the next one does not.
	err := error(nil)
	for err == nil {
		_, err = slow.Next(10_000)
	}
	if !errors.Is(err, ErrPurged) || slow.at == 2 {
		t.Errorf("reader that was left behind, at %s: %v", slow.at, err)
	}
	if got := readAll(t, fast, 1); len(got) != 5 {
		t.Errorf("reader ahead of the purge: %q", got)
	}
	for _, r := range []Record{{Kind: Truncate, Zxid: 98}, SnapRef{Zxid: 98, Name: "other", Installed: true}.Record()} {
		r2 := mustRead(t, l, 98)
		mustAppend(t, l, r, Record{Kind: Append, Zxid: 100, Prev: 98})
		for range 2 {
			if _, err := r2.Next(1); !errors.Is(err, ErrRewritten) {
				t.Errorf("after %v: %v", r.Kind, err)
			}
		}
		if got := readAll(t, mustRead(t, l, 98), 1); len(got) != 1 {
			t.Errorf("a new reader after %v: %q", r.Kind, got)
		}
	}
	for range 2 {
		if err := fast.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := fast.Next(1); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// TestReaderDamage: bytes that were damaged after they were written are not returned as
// entries.
func TestReaderDamage(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	for n := 1; n <= 5; n++ {
		mustAppend(t, l, entry(n, "0123456789"))
	}
	err := fsys.Corrupt(fsys.Files()[0], func(b []byte) []byte { b[headerSize+3*64+5]++; return b })
	if err != nil {
		t.Fatal(err)
	}
	for _, maxBytes := range []int{1, 10_000} {
		r := mustRead(t, l, 0)
		var err error
		for err == nil {
			_, err = r.Next(maxBytes)
		}
		if !errors.Is(err, errInvalid) || r.at != 3 {
			t.Errorf("%d bytes at a time: at %s: %v", maxBytes, r.at, err)
		}
	}
}

// TestReaderOutOfPlace: a whole record that does not follow the one before it is no entry, neither
// for a reader nor for a replay.
func TestReaderOutOfPlace(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "one"))
	stray, _ := appendFrame(nil, l.seg.salt, &frame{Record: entry(2, "TWO"), seq: 2, durable: 1, prevCRC: l.crc + 1})
	mustAppend(t, l, entry(2, "two"), entry(3, "three"))
	err := fsys.Corrupt(fsys.Files()[0], func(b []byte) []byte {
		copy(b[headerSize+56:], stray)
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRead(t, l, 0)
	for range 3 {
		_, err = r.Next(1)
	}
	if !errors.Is(err, errOutOfPlace) || r.at != 1 {
		t.Errorf("a reader is at %s: %v", r.at, err)
	}
	var last jute.Zxid
	err = l.Replay(0, func(r Record) error { last = r.Zxid; return nil })
	if !errors.Is(err, errOutOfPlace) || last != 1 {
		t.Errorf("a replay is at %s: %v", last, err)
	}
}

// TestReaderKeeps: the caller owns the results of a call.
func TestReaderKeeps(t *testing.T) {
	l, _ := mustOpen(t, testOptions(crashfs.New(1)))
	mustAppend(t, l, entry(1, "one"), entry(2, "two"), entry(3, "three"))
	r := mustRead(t, l, 0)
	first, err := r.Next(1)
	if err != nil {
		t.Fatal(err)
	}
	if again := append(first[0].Payload, "more"...); len(again) != 7 {
		t.Fatal(again)
	}
	readAll(t, r, 1000)
	if string(first[0].Payload) != "one" {
		t.Errorf("it has become %q", first[0].Payload)
	}
	if got := replay(t, l, 1); got[0] != "0x2 two" {
		t.Errorf("the next one is %q", got[0])
	}
}

// TestReaderBeside reads from several goroutines while another one writes segment after
// segment, and segments that all readers have passed are purged.
func TestReaderBeside(t *testing.T) {
	const entries, every = 3000, 300
	l, _ := mustOpen(t, testOptions(crashfs.New(1)))
	w := NewWriter(l, WriterOptions{})
	progress := make([]atomic.Int64, 3)
	var wg sync.WaitGroup
	for i := range progress {
		r := mustRead(t, l, 0)
		wg.Go(func() {
			if err := follow(r, entries, 100*(i+1), &progress[i]); err != nil {
				t.Error(err)
				progress[i].Store(entries)
			}
		})
	}
	purged, deleted := 0, 0
	for n := 1; n <= entries; n++ {
		z := jute.Zxid(n)
		records := []Record{{Kind: Append, Zxid: z, Prev: z - 1, Payload: []byte(z.String())}}
		if n%every == 0 {
			records = append(records, SnapRef{Zxid: z, Name: z.String()}.Record())
		}
		if err := w.SubmitWait(records...); err != nil {
			t.Fatal(err)
		}
		passed := entries
		for i := range progress {
			passed = min(passed, int(progress[i].Load()))
		}
		if passed -= passed % every; passed > purged && passed <= n {
			purged = passed
			segments, err := w.Purge(t.Context(), jute.Zxid(purged))
			if err != nil {
				t.Fatal(err)
			}
			deleted += segments
		}
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d segments were purged", deleted)
}

// follow reads the given number of entries, whose payloads are their zxids.
func follow(r *Reader, entries, maxBytes int, progress *atomic.Int64) error {
	for next := jute.Zxid(1); next <= jute.Zxid(entries); {
		got, err := r.Next(maxBytes)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			runtime.Gosched()
		}
		for _, e := range got {
			if e.Zxid != next || string(e.Payload) != e.Zxid.String() {
				return fmt.Errorf("got %s %q, want %s", e.Zxid, e.Payload, next)
			}
			next++
		}
		progress.Store(int64(next - 1))
	}
	return nil
}

// TestReaderAllocates checks that a call allocates one buffer and one list of records.
func TestReaderAllocates(t *testing.T) {
	l, _ := mustOpen(t, Options{Dir: t.TempDir(), NoSync: true})
	defer l.Close()
	batch := make([]Record, 5000)
	fill(batch, 0, make([]byte, 100))
	mustAppend(t, l, batch...)
	r := mustRead(t, l, 0)
	n := testing.AllocsPerRun(10, func() {
		if got, err := r.Next(50_000); err != nil || len(got) < 300 {
			t.Fatal(len(got), err)
		}
	})
	if n > 2 {
		t.Errorf("%v allocations for a call", n)
	}
	readAll(t, r, 1<<20)
	if n := testing.AllocsPerRun(20, func() {
		if got, err := r.Next(50_000); err != nil || len(got) > 0 {
			t.Fatal(len(got), err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a call that returns nothing", n)
	}
}
