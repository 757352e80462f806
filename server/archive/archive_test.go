package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ours = history.ID{1, 2, 3, 4, 5}
)

// entries are the entries after a zxid up to another one.
func entries(after, last jute.Zxid) (list []*zab.Entry) {
	for z := after + 1; z <= last; z++ {
		list = append(list, &zab.Entry{Zxid: z, Prev: z - 1, Type: zab.EntryType(z % 3), Data: bytes.Repeat([]byte{byte(z)}, int(z%50))})
	}
	return list
}

// unsynced is a Dir that waits for no disk.
type unsynced struct{ Dir }

func (u unsynced) Put(_ context.Context, f *os.File, name string) error {
	return errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(u.String(), name)))
}

// segment writes a segment.
func segment(t *testing.T, dir Dir, id history.ID, after, last jute.Zxid) Segment {
	t.Helper()
	s, err := Write(t.Context(), unsynced{dir}, &Header{History: id, After: after, Last: last}, noon, func(fn func(*zab.Entry) error) error {
		for _, e := range entries(after, last) {
			if err := fn(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainSegment is like segment without compression, as early versions wrote it.
func plainSegment(t *testing.T, dir Dir, id history.ID, after, last jute.Zxid) Segment {
	t.Helper()
	s := segment(t, dir, id, after, last)
	r, err := read(t, dir).open(t.Context(), s.Name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close(), os.Remove(dir.Path(s.Name))); err != nil {
		t.Fatal(err)
	}
	s.Zstd, s.Bytes = false, int64(len(b))
	s.Name = s.fileName()
	if err := os.WriteFile(dir.Path(s.Name), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// base writes a base.
func base(t *testing.T, dir Dir, id history.ID, zxid jute.Zxid, at time.Time) Base {
	t.Helper()
	store, err := snapshot.Open(t.TempDir(), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	meta := snapshot.Meta{Zxid: zxid, Digest: []byte("digest"), Incarnation: id[:], Extra: map[string][]byte{history.ExtraEnsemble: new(zab.State).Append(nil)}}
	ref, err := store.Write(t.Context(), meta)
	if err != nil {
		t.Fatal(err)
	}
	b := Base{Time: at, Zxid: zxid, Bytes: ref.Size, CRC: ref.CRC}
	b.Name = b.FileName()
	if err := os.Rename(store.Path(ref.Name), filepath.Join(string(dir), b.Name)); err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, dir Dir) *Archive {
	t.Helper()
	a, err := Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFrames encodes and decodes a stream with positions.
func TestFrames(t *testing.T) {
	var enc Encoder
	b := enc.AppendHeader(nil, &Header{History: ours, After: 3})
	for _, e := range entries(3, 100) {
		b = enc.AppendPosition(enc.AppendEntry(b, e), e.Zxid, time.Duration(e.Zxid)*time.Second)
	}
	d, err := NewDecoder(bytes.NewReader(b))
	if err != nil || d.Header != (Header{History: ours, After: 3}) {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, want := range entries(3, 100) {
		got, err := d.Next()
		if err != nil || got.Zxid != want.Zxid || got.Prev != want.Prev || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if e, err := d.Next(); e != nil || err != nil || d.Behind != time.Duration(want.Zxid)*time.Second {
			t.Fatalf("position: %+v, %v, behind by %v", e, err, d.Behind)
		}
	}
	if _, err := d.Next(); err != io.EOF {
		t.Error(err)
	}
}

// TestEveryCutAndFlip cuts a segment after each byte, and flips each byte: what is read is a prefix of
// the entries, and an error follows. A few bits of a compressed file mean nothing.
func TestEveryCutAndFlip(t *testing.T) {
	t.Run("zstd", func(t *testing.T) { everyCutAndFlip(t, segment) })
	t.Run("plain", func(t *testing.T) { everyCutAndFlip(t, plainSegment) })
}

func everyCutAndFlip(t *testing.T, write func(*testing.T, Dir, history.ID, jute.Zxid, jute.Zxid) Segment) {
	const some = 12 // entries
	dir := Dir(t.TempDir())
	s := write(t, dir, ours, 5, 5+some)
	path := filepath.Join(string(dir), s.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := read(t, dir)
	try := func(what string, b []byte) {
		t.Helper()
		os.Remove(path) // ext4 waits for the disk where a file is cut off and written again
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		at := jute.Zxid(5)
		err := a.Replay(t.Context(), []Segment{s}, 5, func(e *zab.Entry) error {
			if e.Zxid != at+1 || !bytes.Equal(e.Data, entries(at, at+1)[0].Data) {
				t.Errorf("%s: after entry %v there is %+v", what, at, e)
			}
			at = e.Zxid
			return nil
		})
		harmless := s.Zstd && err == nil && at == 5+some
		if !harmless && (fault.KindOf(err) == 0 || a.VerifySegment(t.Context(), &s) == nil) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	for n := range whole {
		try(fmt.Sprint("cut to ", n), whole[:n])
	}
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 1 << (i % 8)
		try(fmt.Sprint("flip at ", i), b)
	}
	try("longer", append(slices.Clone(whole), 0))
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.VerifySegment(t.Context(), &s); err != nil {
		t.Error(err)
	}
}

// TestReplayStopsAtAGap replays segments between which entries are missing, or before which they are.
func TestReplayStopsAtAGap(t *testing.T) {
	dir := Dir(t.TempDir())
	chain := []Segment{segment(t, dir, ours, 5, 10), segment(t, dir, ours, 12, 20)}
	a := read(t, dir)
	for after, want := range map[jute.Zxid]jute.Zxid{5: 10, 3: 3, 12: 20} {
		at := after
		err := a.Replay(t.Context(), chain, after, func(e *zab.Entry) error {
			at = e.Zxid
			return nil
		})
		if whole := want == 20; at != want || (err == nil) != whole || !whole && fault.KindOf(err) != fault.Inconsistent {
			t.Errorf("after %v: up to %v, %v; want up to %v", after, at, err, want)
		}
	}
}

// TestChain finds the segments of a history, with overlaps, gaps and those of another one.
func TestChain(t *testing.T) {
	dir := Dir(t.TempDir())
	for _, s := range [][2]jute.Zxid{{0, 10}, {10, 20}, {5, 25}, {25, 30}, {0, 30}, {28, 35}, {40, 50}} {
		segment(t, dir, ours, s[0], s[1])
	}
	segment(t, dir, history.ID{9}, 35, 40)
	a := read(t, dir)
	for _, tt := range []struct{ after, end jute.Zxid }{{0, 35}, {7, 35}, {29, 35}, {35, 35}, {37, 37}, {40, 50}, {45, 50}, {50, 50}} {
		chain := a.Chain(ours, tt.after)
		at := tt.after
		err := a.Replay(t.Context(), chain, tt.after, func(e *zab.Entry) error {
			if e.Prev != at {
				t.Errorf("after %v: %v follows %v", tt.after, e.Zxid, at)
			}
			at = e.Zxid
			return nil
		})
		if err != nil || at != tt.end || End(tt.after, chain) != tt.end {
			t.Errorf("after %v: up to %v, want %v; %v", tt.after, at, tt.end, err)
		}
	}
}

// failing is a Dir of which the n-th change fails, before or after it is done. All changes fail from
// then on, as after a kill.
type failing struct {
	unsynced
	n    int
	late bool
}

var errKilled = errors.New("killed")

func (f *failing) step(change func() error) error {
	f.n--
	if f.n > 0 {
		return change()
	}
	if f.n == 0 && f.late {
		return errors.Join(change(), errKilled)
	}
	return errKilled
}

func (f *failing) Put(ctx context.Context, file *os.File, name string) error {
	return f.step(func() error { return f.unsynced.Put(ctx, file, name) })
}

func (f *failing) Remove(ctx context.Context, name string) error {
	return f.step(func() error { return f.unsynced.Remove(ctx, name) })
}

// TestMergeIsCut ends a merge at each of its changes. The chain is complete whatever happens, and a
// prune leaves it so.
func TestMergeIsCut(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for _, late := range []bool{false, true} {
			dir := Dir(t.TempDir())
			base(t, dir, ours, 5, noon)
			for z := jute.Zxid(0); z < 80; z += 10 {
				segment(t, dir, ours, z, z+10)
			}
			a := read(t, dir)
			a.Storage = &failing{unsynced: unsynced{dir}, n: n, late: late}
			_, err := a.Merge(t.Context(), ours, a.Chain(ours, 10), noon)
			if killed := errors.Is(err, errKilled); killed != (n <= 8) {
				t.Fatalf("change %d: %v", n, err)
			}
			for range 2 {
				a = read(t, dir)
				chain := a.Chain(ours, 5)
				if End(0, chain) != 80 || a.Replay(t.Context(), chain, 5, func(*zab.Entry) error { return nil }) != nil {
					t.Fatalf("change %d: the chain is %v", n, chain)
				}
				if _, err := a.Prune(t.Context(), Retention{}, noon); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// forgets is a Dir that confirms a file which it does not have, or has damaged.
type forgets struct {
	unsynced
	damages bool
}

func (f forgets) Put(ctx context.Context, file *os.File, name string) error {
	if err := f.unsynced.Put(ctx, file, name); err != nil || !f.damages {
		return errors.Join(err, f.Remove(ctx, name))
	}
	return os.Truncate(f.Path(name), 100)
}

// TestMergeIsNotStored merges into a storage that loses the whole: its parts stay, and are what is read.
func TestMergeIsNotStored(t *testing.T) {
	for _, damages := range []bool{false, true} {
		dir := Dir(t.TempDir())
		base(t, dir, ours, 5, noon)
		for z := jute.Zxid(0); z < 80; z += 10 {
			segment(t, dir, ours, z, z+10)
		}
		a := read(t, dir)
		a.Storage = forgets{unsynced{dir}, damages}
		if _, err := a.Merge(t.Context(), ours, a.Chain(ours, 10), noon); err == nil || errors.Is(err, fs.ErrNotExist) == damages {
			t.Errorf("damaged: %t: %v", damages, err)
		}
		a = read(t, dir)
		chain := a.Chain(ours, 5)
		if End(0, chain) != 80 || a.Replay(t.Context(), chain, 5, func(*zab.Entry) error { return nil }) != nil {
			t.Errorf("damaged: %t: the chain is %v", damages, chain)
		}
	}
}

// TestPrune removes what no base needs that stays. Whatever is pruned, each base that stays has all the
// entries after it that it had.
func TestPrune(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		dir := Dir(t.TempDir())
		z := jute.Zxid(1)
		for i := range 6 {
			base(t, dir, ours, z, noon.Add(time.Duration(i)*time.Hour))
			for range rng.IntN(4) {
				next := z + 1 + jute.Zxid(rng.IntN(9))
				segment(t, dir, ours, z-jute.Zxid(rng.IntN(int(min(z, 4)))), next)
				z = next
			}
		}
		segment(t, dir, history.ID{9}, 0, 1)
		a := read(t, dir)
		keep := 1 + rng.IntN(6)
		removed, err := a.Prune(t.Context(), Retention{Keep: keep, Age: 2 * time.Hour}, noon.Add(6*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		left := read(t, dir)
		if len(left.Bases) != keep || len(left.Bases)+len(removed.Bases) != len(a.Bases) ||
			len(left.Segments)+len(removed.Segments) != len(a.Segments) {
			t.Fatalf("kept %d of %d bases, %d of %d segments", len(left.Bases), len(a.Bases), len(left.Segments), len(a.Segments))
		}
		for _, b := range left.Bases {
			if got, want := End(b.Zxid, left.Chain(ours, b.Zxid)), End(b.Zxid, a.Chain(ours, b.Zxid)); got != want {
				t.Errorf("the entries after %v end at %v, and ended at %v", b.Zxid, got, want)
			}
		}
		if !slices.ContainsFunc(left.Segments, func(s Segment) bool { return s.History == history.ID{9}.String() }) {
			t.Error("a segment of another history is gone")
		}
	}
}

// TestPruneVerifies removes nothing if the newest base is damaged.
func TestPruneVerifies(t *testing.T) {
	dir := Dir(t.TempDir())
	for i := range 3 {
		base(t, dir, ours, jute.Zxid(i+1), noon.Add(time.Duration(i)*time.Hour))
	}
	a := read(t, dir)
	if err := os.Truncate(filepath.Join(string(dir), a.Bases[2].Name), 5000); err != nil {
		t.Fatal(err)
	}
	if removed, err := a.Prune(t.Context(), Retention{Keep: 1}, noon); err == nil || len(removed.Bases) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestClockOfABase: a base whose time is that of a wrong clock is neither taken for the newest one, nor for an old one, while others of its history say
// what it is. So a prune keeps what is new, and the newest state is not that of years ago.
func TestClockOfABase(t *testing.T) {
	year := 365 * 24 * time.Hour
	for name, wrong := range map[string]struct {
		of   int
		by   time.Duration
		want string
	}{
		"no clock is wrong": {0, 0, "9 9 1 2 3 4"},
		"one year ahead":    {2, year, "9 9 1 2 3 4"},
		"one year back":     {2, -year, "9 9 1 2 3 4"},
		"the last one back": {3, -year, "9 9 1 2 3 4"},
		"the first ahead":   {0, year, "9 9 1 2 3 4"},
	} {
		dir := Dir(t.TempDir())
		for i, b := range []Base{
			{Zxid: 1, Time: noon}, {Zxid: 2, Time: noon.Add(time.Hour)}, {Zxid: 3, Time: noon.Add(2 * time.Hour)}, {Zxid: 4, Time: noon.Add(3 * time.Hour)},
			{Zxid: 9, Time: noon.Add(-time.Hour), History: history.ID{9}.String()}, {Zxid: 9, Time: noon.Add(-2 * time.Hour)}, // of an earlier ensemble, and of an early version
		} {
			if i < 4 {
				b.History = ours.String()
			}
			if i == wrong.of {
				b.Time = b.Time.Add(wrong.by)
			}
			if err := os.WriteFile(dir.Path(b.FileName()), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, got, newest := read(t, dir), "", jute.Zxid(0)
		for _, b := range a.Bases {
			got += fmt.Sprintf(" %d", int64(b.Zxid))
		}
		if list := a.before(history.Moment{}); len(list) > 0 {
			newest = list[0].Zxid
		}
		if got[1:] != wrong.want || newest != 4 {
			t.Errorf("%s: the bases are%s, want %s; the newest is %v", name, got, wrong.want, newest)
		}
	}
}

// TestNames reads back random names, and no others.
func TestNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		at := time.Unix(rng.Int64N(1<<32), 0).UTC()
		b := Base{Time: at, Zxid: jute.Zxid(rng.Uint64()), CRC: rng.Uint32(), Zstd: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			b.History = history.ID{byte(rng.Uint32())}.String()
		}
		b.Name = b.FileName()
		if again, ok := ParseBase(b.Name); !ok || again != b {
			t.Fatalf("%+v is %+v", b, again)
		}
		after := jute.Zxid(rng.Uint64() >> 2)
		s := Segment{Time: at, After: after, Last: after + 1 + jute.Zxid(rng.Uint64()>>2), History: history.ID{byte(rng.Uint32())}.String(), CRC: rng.Uint32(), Zstd: rng.IntN(2) == 0}
		s.Name = s.fileName()
		if again, ok := parseSegment(s.Name); !ok || again != s {
			t.Fatalf("%+v is %+v", s, again)
		}
	}
	for _, name := range []string{"", "zkd-.db", "zkd-.log", "zkd-20260102T120000Z-0x7-1.db", "zkd-20260102T120000Z-7-00000001.db",
		"zkd-20260102-0x7-00000001.db", "zkd-20260102T120000Z-0x7-00000001.db.tmp", "zkd-20260102T120000Z-0x7-00000001.zst", "zkd-20260102T120000Z-0x7-012-00000001.db", "zkd-20260102T120000Z-0x7--00000001.db",
		"zkd-20260102T120000Z-0x7-00000001.db.zst.zst", "zkd-20260102T120000Z-0x7-0x8-0102-00000001.log",
		"zkd-20260102T120000Z-0x8-0x8-01020304-00000001.log", "zkd-20260102T120000Z-0x7-0x8-01020304-1.log"} {
		b, ok := ParseBase(name)
		s, ok2 := parseSegment(name)
		if ok || ok2 {
			t.Errorf("%q is %+v, %+v", name, b, s)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	var enc Encoder
	b := enc.AppendHeader(nil, &Header{History: ours, After: 3})
	f.Add(b)
	for _, e := range entries(3, 6) {
		b = enc.AppendPosition(enc.AppendEntry(b, e), e.Zxid, 0)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := NewDecoder(bytes.NewReader(b))
		if err != nil {
			return
		}
		for err == nil {
			_, err = d.Next()
		}
		var enc Encoder
		if again := enc.AppendHeader(nil, &d.Header); !bytes.Equal(again, b[:headerSize]) {
			t.Errorf("the header is encoded as %x", again)
		}
	})
}
