package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

func asideOptions(fsys *crashfs.FS) Options {
	o := testOptions(fsys)
	o.SetAside, o.SetAsideIdent = true, []byte("anew")
	return o
}

// promises writes a log of several segments with a promise after each entry, and the last
// promise twice. It returns the last promise.
func promises(t testing.TB, fsys *crashfs.FS) string {
	t.Helper()
	l, _ := mustOpen(t, testOptions(fsys))
	for n := 1; n <= 40; n++ {
		mustAppend(t, l, entry(n, strings.Repeat("x", 900)), Record{Kind: Promise, Payload: []byte{1, byte(n)}})
		if n == 20 {
			mustAppend(t, l, SnapRef{Zxid: 18, Name: "snap"}.Record())
		}
	}
	mustAppend(t, l, Record{Kind: Promise, Payload: []byte{1, 40}})
	mustAppend(t, l, Record{Kind: CommitHint, Zxid: 40})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return "\x01\x28"
}

// checkAside checks a log that has replaced a damaged one.
func checkAside(rec *Recovered, promise string) error {
	if rec.New || rec.LastZxid != 0 || rec.FirstZxid != 0 || rec.CommitHint != 0 || len(rec.Snaps) > 0 || len(rec.Control) > 0 ||
		string(rec.Ident) != "anew" || string(rec.Promise) != promise {
		return fmt.Errorf("recovered %+v, want an empty log with the promise %x", rec, promise)
	}
	return nil
}

func TestSetAside(t *testing.T) {
	fsys := crashfs.New(1)
	promise := promises(t, fsys)
	files := fsys.Files()
	for round := range 2 { // the second time the names are taken
		err := fsys.Corrupt(fsys.Files()[0], func(b []byte) []byte { b[headerSize+100]++; return b })
		if err != nil {
			t.Fatal(err)
		}
		o := asideOptions(fsys)
		o.Registerer = prometheus.NewRegistry() // registered once, though there are two logs
		l, rec := mustOpen(t, o)
		if err := checkAside(rec, promise); err != nil || rec.Damaged == nil {
			t.Fatalf("round %d: damaged %v, %v", round, rec.Damaged, err)
		}
		if round == 0 && len(rec.Damaged.Renamed) != len(files) {
			t.Errorf("renamed %q, want all of %q", rec.Damaged.Renamed, files)
		}
		// The log is repaired, and is an ordinary one.
		mustAppend(t, l, SnapRef{Zxid: 100, Name: "snap", Installed: true}.Record(), Record{Kind: Append, Zxid: 1 << 32, Prev: 100, Type: 1})
		mustAppend(t, l, Record{Kind: CommitHint, Zxid: 1 << 32})
		_, rec = mustOpen(t, asideOptions(fsys))
		if rec.Damaged != nil || rec.LastZxid != 1<<32 || string(rec.Ident) != "anew" || string(rec.Promise) != promise || len(rec.Control) != 1 {
			t.Fatalf("round %d: after the repair: %+v", round, rec)
		}
	}
	damaged := slices.DeleteFunc(fsys.Files(), func(name string) bool { return !strings.HasSuffix(name, damagedSuffix) })
	if len(damaged) != len(files)+2 { // the second log had two segments
		t.Errorf("damaged files: %q", damaged)
	}
}

// TestSetAsideByteDamage changes bytes all over a log. Whatever is damaged, the newest
// promise is kept, since there are two records of it, and nothing else.
func TestSetAsideByteDamage(t *testing.T) {
	fsys := crashfs.New(1)
	promise := promises(t, fsys)
	aside, other := 0, 0
	for _, name := range fsys.Files() {
		for off := 0; off < fileSize(t, fsys, name); off += 41 {
			img := fsys.Crash(nil)
			err := img.Corrupt(name, func(b []byte) []byte { b[off] ^= 0x40; return b })
			if err != nil {
				t.Fatal(err)
			}
			l, rec := mustOpen(t, asideOptions(img))
			switch {
			case rec.Damaged != nil:
				aside++
				if err := checkAside(rec, promise); err != nil {
					t.Fatalf("byte %d of %s: %v", off, name, err)
				}
			case rec.LastZxid != 40 || string(rec.Ident) != "ident" || string(rec.Promise) != promise || len(replay(t, l, 0)) != 40:
				t.Fatalf("byte %d of %s: %+v", off, name, rec)
			default:
				other++
			}
		}
	}
	t.Logf("%d set aside, %d torn or in bytes that do not count", aside, other)
	if aside < 300 || other == 0 {
		t.Error("the damage did not reach everywhere")
	}
}

// TestSetAsideRandom changes bytes of random histories that end with the promise twice and
// one more record. Either everything except the last record is unchanged, or the log is set
// aside with the promise.
func TestSetAsideRandom(t *testing.T) {
	aside := 0
	seeds(t, 20, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 10))
		fsys := crashfs.New(seed)
		l, _ := mustOpen(t, testOptions(fsys))
		d := &driver{m: &model{}, rng: rng, log: l}
		for range 80 {
			if err := d.step(); err != nil {
				t.Fatal(err)
			}
		}
		promise := []byte("the last one")
		for _, r := range []Record{{Kind: Promise, Payload: promise}, {Kind: Promise, Payload: promise}, {Kind: CommitHint}} {
			if err := errors.Join(d.append([]Record{r}), d.sync()); err != nil {
				t.Fatal(err)
			}
		}
		d.m.acked--
		files := fsys.Files()
		for range 50 {
			img := fsys.Kill()
			name := files[rng.IntN(len(files))]
			err := img.Corrupt(name, func(b []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b })
			if err != nil {
				t.Fatal(err)
			}
			l, rec := mustOpen(t, asideOptions(img))
			if rec.Damaged != nil {
				aside++
				err = checkAside(rec, string(promise))
			} else {
				_, err = d.m.compare(l, rec)
			}
			if err != nil {
				t.Fatalf("a bit of %s: %v", name, err)
			}
		}
	})
	t.Logf("%d set aside", aside)
}

// TestSetAsideCrash crashes before each operation of setting a log aside, with several
// kinds of damage, and within the continuation after a crash. It must always end with the
// empty log and the promise, and never leave a part of the damaged log, or no log at all.
func TestSetAsideCrash(t *testing.T) {
	damages := map[string]func(fsys *crashfs.FS, files []string) error{
		"record": func(fsys *crashfs.FS, files []string) error {
			return fsys.Corrupt(files[1], func(b []byte) []byte { b[headerSize+100]++; return b })
		},
		"header": func(fsys *crashfs.FS, files []string) error {
			return fsys.Corrupt(files[0], func(b []byte) []byte { clear(b[:headerSize]); return b })
		},
		"missing": func(fsys *crashfs.FS, files []string) error {
			return errors.Join(fsys.Remove(files[1]), fsys.SyncDir(testDir))
		},
	}
	images := 0
	for kind, damage := range damages {
		rng := rand.New(rand.NewPCG(1, 4))
		fsys := crashfs.New(1)
		promise := promises(t, fsys)
		if err := damage(fsys, fsys.Files()); err != nil {
			t.Fatal(err)
		}
		options := func(fsys *crashfs.FS) Options {
			o := asideOptions(fsys)
			if kind == "missing" {
				o.Order = errors.New("the operator wants it so")
			}
			return o
		}
		var look func(fsys *crashfs.FS, depth int)
		look = func(fsys *crashfs.FS, depth int) {
			images++
			checkNoPart(t, fsys.Kill(), promise)
			if depth > 0 {
				fsys.SetHook(func(op crashfs.Op) error {
					if op.Kind.Mutates() {
						look(fsys.Crash(nil), depth-1)
						look(fsys.Crash(rng), depth-1)
						look(fsys.Kill(), 0)
					}
					return nil
				})
			}
			_, rec, err := Open(options(fsys))
			fsys.SetHook(nil)
			if err == nil {
				err = checkAside(rec, promise)
			}
			if err != nil {
				t.Fatalf("%s: image %d: %v", kind, images, err)
			}
		}
		look(fsys, 2)
	}
	t.Logf("%d images", images)
}

// checkNoPart opens a log that is being set aside, or has been, without setting anything
// aside.
func checkNoPart(t *testing.T, fsys *crashfs.FS, promise string) {
	t.Helper()
	if id, err := Identify(fsys, testDir); !id.Exists || err != nil {
		t.Fatalf("there is no log: %v; files %v", err, fsys.Files())
	}
	_, rec, err := Open(testOptions(fsys))
	if err == nil {
		err = checkAside(rec, promise)
	} else if errors.As(err, new(*CorruptError)) {
		return
	}
	if err != nil {
		t.Fatalf("%v; files %v", err, fsys.Files())
	}
}

// TestSetAsideFaults fails each change of the disk in turn while a log is set aside. Open
// reports the failure, and works the next time.
func TestSetAsideFaults(t *testing.T) {
	for n := 0; ; n++ {
		fsys := crashfs.New(uint64(n))
		promise := promises(t, fsys)
		err := fsys.Corrupt(fsys.Files()[1], func(b []byte) []byte { b[headerSize+100]++; return b })
		if err != nil {
			t.Fatal(err)
		}
		count, failed := 0, crashfs.Op{}
		fsys.SetHook(func(op crashfs.Op) error {
			if !op.Kind.Mutates() {
				return nil
			}
			if count++; count-1 == n {
				failed = op
				return crashfs.ErrInjected
			}
			return nil
		})
		_, _, err = Open(asideOptions(fsys))
		fsys.SetHook(nil)
		if failed.Kind == "" {
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d faults", n)
			return
		}
		if !errors.Is(err, crashfs.ErrInjected) {
			t.Fatalf("operation %d, %v: %v", n, failed, err)
		}
		for _, fsys := range []*crashfs.FS{fsys.Kill(), fsys.Crash(nil)} {
			_, rec, err := Open(asideOptions(fsys))
			if err == nil {
				err = checkAside(rec, promise)
			}
			if err != nil {
				t.Fatalf("operation %d, %v: then %v", n, failed, err)
			}
		}
	}
}

// TestSetAsideNot: faults other than damage of the log do not set it aside.
func TestSetAsideNot(t *testing.T) {
	fsys := crashfs.New(1)
	sample(t, fsys)
	newer := fsys.Crash(nil)
	err := newer.Corrupt(newer.Files()[1], func(b []byte) []byte {
		b[8]++
		copy(b[headerCRC:], crc32cOf(b[:headerCRC]))
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	unreadable := fsys.Crash(nil)
	unreadable.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpRead && filepath.Base(op.Name) > segmentName(1) {
			return crashfs.ErrInjected
		}
		return nil
	})
	for _, fsys := range []*crashfs.FS{newer, unreadable} {
		before := fsys.Files()
		if _, _, err := Open(asideOptions(fsys)); err == nil || errors.As(err, new(*CorruptError)) {
			t.Errorf("open: %v", err)
		}
		if after := fsys.Files(); !slices.Equal(before, after) {
			t.Errorf("files %v, then %v", before, after)
		}
	}
}

// TestNewestPromise: of the promises that can still be read, the one with the highest
// number counts, wherever it is.
func TestNewestPromise(t *testing.T) {
	fsys := crashfs.New(1)
	promises(t, fsys)
	o := testOptions(fsys)
	files := fsys.Files()
	zero := func(from int) func([]byte) []byte { return func(b []byte) []byte { clear(b[from:]); return b } }
	last := func() []byte {
		firsts, _, err := listSegments(fsys, testDir)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newestPromise(o, firsts)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var got [][]byte
	for i := len(files) - 1; i >= 0; i-- {
		for _, from := range []int{headerSize, 0} { // first the header is left, then nothing
			if err := fsys.Corrupt(files[i], zero(from)); err != nil {
				t.Fatal(err)
			}
			got = append(got, last())
		}
	}
	if !slices.IsSortedFunc(got, func(a, b []byte) int { return -bytes.Compare(a, b) }) || len(got[0]) == 0 || got[len(got)-1] != nil {
		t.Errorf("promises %x", got)
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Errorf("the header has %x, the record before it %x", got[0], got[1])
	}
}

// FuzzSetAside: whatever the segments contain, a log opens, either with some of the written
// records, or with none and perhaps a promise.
func FuzzSetAside(f *testing.F) {
	fsys := crashfs.New(1)
	promise := promises(f, fsys)
	files := fsys.Files()
	f.Add(uint8(0), uint32(headerSize+60), []byte("Zk"))
	f.Add(uint8(1), uint32(0), bytes.Repeat([]byte{0}, headerSize))
	f.Add(uint8(2), uint32(headerSize), []byte{})
	f.Fuzz(func(t *testing.T, file uint8, off uint32, with []byte) {
		img := fsys.Crash(nil)
		err := img.Corrupt(files[int(file)%len(files)], func(b []byte) []byte {
			copy(b[int(off)%len(b):], with)
			return b
		})
		if err != nil {
			t.Fatal(err)
		}
		l, rec, err := Open(asideOptions(img))
		switch {
		case err != nil:
			if fault.KindOf(err) != fault.Newer {
				t.Fatal(err)
			}
		case rec.Damaged == nil && rec.LastZxid > 0:
			if got := replay(t, l, rec.FirstZxid); len(got) != int(rec.LastZxid) {
				t.Fatalf("%d entries up to %s", len(got), rec.LastZxid)
			}
		case rec.Damaged != nil && string(rec.Promise) != promise && (len(rec.Promise) != 2 || rec.Promise[0] != 1 || rec.Promise[1] > 40):
			t.Fatalf("promise %x", rec.Promise)
		}
	})
}

// A log that reads well can be useless: its snapshot is lost.
func TestSetAsideSound(t *testing.T) {
	fsys := crashfs.New(1)
	promise := promises(t, fsys)
	o := asideOptions(fsys)
	o.Registerer = prometheus.NewRegistry()
	l, _ := mustOpen(t, o)
	l, rec, err := l.SetAside(errors.New("no snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkAside(rec, promise); err != nil || rec.Damaged == nil {
		t.Fatalf("damaged %v, %v", rec.Damaged, err)
	}
	mustAppend(t, l, Record{Kind: Append, Zxid: 1})
}
