package crashfs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
)

// twin is a file the obvious way: its bytes, those that are durable, and all that
// each sector has been since.
type twin struct {
	live, durable []byte
	seen          [][][]byte // by sector
}

func (w *twin) resize(size int) {
	for len(w.live) < size {
		w.live = append(w.live, 0)
	}
	w.live = w.live[:size]
	w.note()
}

func (w *twin) write(p []byte, off int) {
	if end := off + len(p); end > len(w.live) {
		w.resize(end)
	}
	copy(w.live[off:], p)
	w.note()
}

// at returns a sector of b, with zeros behind its end.
func at(b []byte, i int) []byte {
	s := make([]byte, sectorSize)
	if i*sectorSize < len(b) {
		copy(s, b[i*sectorSize:])
	}
	return s
}

func (w *twin) note() {
	for i := range w.seen {
		w.seen[i] = append(w.seen[i], at(w.live, i))
	}
}

func (w *twin) sync() {
	w.durable = slices.Clone(w.live)
	for i := range w.seen {
		w.seen[i] = [][]byte{at(w.live, i)}
	}
}

// TestTwin does random things to a file and to its twin. They must look alike,
// after a kill and after a crash that keeps nothing too; and after one that keeps
// anything, each sector is what it once was since the last sync.
func TestTwin(t *testing.T) {
	const most = 20 * sectorSize
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		f := New(seed)
		h, err := f.Create("/f")
		must(t, err, f.SyncDir("/"))
		w := &twin{seen: make([][][]byte, most/sectorSize)}
		w.sync()
		for range 300 {
			switch off := rng.IntN(most); rng.IntN(10) {
			case 0:
				must(t, h.Truncate(int64(off)))
				w.resize(off)
			case 1, 2:
				must(t, h.Sync())
				w.sync()
			default:
				p := make([]byte, rng.IntN(min(most-off, 4*sectorSize)))
				if rng.IntN(3) > 0 { // else zeros
					for i := range p {
						p[i] = byte(rng.Uint32())
					}
				}
				if len(p) == 0 {
					continue
				}
				_, err := h.WriteAt(p, int64(off))
				must(t, err)
				w.write(p, off)
			}
			compare(t, f, "seen", w.live)
			compare(t, f.Kill(), "after a kill", w.live)
			compare(t, f.Kill().Crash(nil), "after a kill and a crash", w.durable)
			compare(t, f.Crash(nil), "after a crash", w.durable)
			for i, was := range w.seen {
				if s := at([]byte(content(t, f.Crash(rng), "/f")), i); !slices.ContainsFunc(was, func(old []byte) bool { return mixture(s, old) }) {
					t.Fatalf("seed %d: sector %d was never so", seed, i)
				}
				if i == 3 {
					break // each look is a separate crash; a few will do
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// mixture reports whether s is old, with zeros behind some point: the file may
// have been cut there.
func mixture(s, old []byte) bool {
	n := len(s)
	for n > 0 && s[n-1] == 0 {
		n--
	}
	return bytes.Equal(s[:n], old[:n])
}

func compare(t *testing.T, f *FS, when string, want []byte) {
	t.Helper()
	h, err := f.Open("/f")
	must(t, err)
	got := make([]byte, len(want)+1)
	n, err := h.ReadAt(got, 0)
	if n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) {
		t.Errorf("%s: %d bytes, %v, want %d", when, n, err, len(want))
	}
}

// BenchmarkCrash is a power cut with a little that was not synced, on a disk with
// four files of 1 MiB.
func BenchmarkCrash(b *testing.B) {
	f := New(1)
	var h vfs.File
	for _, name := range []string{"/a", "/b", "/c", "/d"} {
		var err error
		if h, err = f.Create(name); err != nil {
			b.Fatal(err)
		}
		if _, err := h.WriteAt(bytes.Repeat([]byte("x"), 1<<20), 0); err != nil {
			b.Fatal(err)
		}
		if err := h.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.SyncDir("/"); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	p := bytes.Repeat([]byte("y"), 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.WriteAt(p, 12345); err != nil {
			b.Fatal(err)
		}
		f.Crash(rng)
		if err := h.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}
