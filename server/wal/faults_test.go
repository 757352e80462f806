package wal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

// contents returns the contents of the files, by name.
func contents(t testing.TB, fsys *crashfs.FS) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range fsys.Files() {
		err := fsys.Corrupt(name, func(b []byte) []byte {
			files[name] = string(b)
			return b
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestOnlyDamageIsSetAside opens a log with one fault at a time, and with permission to set
// it aside. Only bytes that a checksum proves wrong are set aside: every other fault stops
// Open, which names the file and changes nothing.
func TestOnlyDamageIsSetAside(t *testing.T) {
	base := crashfs.New(1)
	sample(t, base)
	files := base.Files()
	corrupt := func(name string, change func(b []byte)) func(*crashfs.FS) error {
		return func(fsys *crashfs.FS) error {
			return fsys.Corrupt(name, func(b []byte) []byte { change(b); return b })
		}
	}
	reseal := func(b []byte) { copy(b[headerCRC:], crc32cOf(b[:headerCRC])) }
	failOn := func(kind crashfs.OpKind) func(*crashfs.FS) error {
		return func(fsys *crashfs.FS) error {
			fsys.SetHook(func(op crashfs.Op) error {
				if op.Kind == kind && op.Name == files[1] {
					return crashfs.ErrInjected
				}
				return nil
			})
			return nil
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*crashfs.FS) error
		kind fault.Kind
		file string
	}{
		{"a record", corrupt(files[1], func(b []byte) { b[headerSize+60]++ }), fault.Damaged, files[1]},
		{"a header", corrupt(files[1], func(b []byte) { b[100]++ }), fault.Damaged, files[1]},
		{"an empty segment", func(fsys *crashfs.FS) error {
			return fsys.Corrupt(files[1], func([]byte) []byte { return nil })
		}, fault.Damaged, files[1]},
		{"a later format", corrupt(files[1], func(b []byte) { b[8] = 9; reseal(b) }), fault.Newer, files[1]},
		{"a later kind of record", func(fsys *crashfs.FS) error { return appendRaw(fsys, Record{Kind: lastKind + 1}) }, fault.Newer, files[len(files)-1]},
		{"a segment is missing", func(fsys *crashfs.FS) error { return fsys.Remove(files[1]) }, fault.Missing, files[1]},
		{"the first segments are missing", func(fsys *crashfs.FS) error {
			return errors.Join(fsys.Remove(files[0]), fsys.Remove(files[1]))
		}, fault.Missing, files[0]},
		{"a segment does not open", failOn(crashfs.OpOpen), fault.Unreadable, files[1]},
		{"a segment does not read", failOn(crashfs.OpRead), fault.Unreadable, files[1]},
		{"a segment has the name of another", func(fsys *crashfs.FS) error {
			b := []byte(contents(t, fsys)[files[2]])
			return fsys.Corrupt(files[1], func([]byte) []byte { return b })
		}, fault.Foreign, files[1]},
		{"a segment of another log", func(fsys *crashfs.FS) error {
			other := crashfs.New(2)
			l, _, err := Open(testOptions(other))
			if err != nil {
				return err
			}
			for n := 1; n < 30; n++ {
				mustAppend(t, l, entry(n, strings.Repeat("y", 200*len(fmt.Sprint(n, " ")))))
			}
			from := other.Files()[1]
			if from != files[1] {
				return fmt.Errorf("the other log's second segment is %s", from)
			}
			b := []byte(contents(t, other)[from])
			return fsys.Corrupt(files[1], func([]byte) []byte { return b })
		}, fault.Foreign, files[1]},
		{"records that contradict each other", func(fsys *crashfs.FS) error {
			return appendRaw(fsys, Record{Kind: Append, Zxid: 99, Prev: 98})
		}, fault.Inconsistent, files[len(files)-1]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := base.Crash(nil)
			if err := tt.do(fsys); err != nil {
				t.Fatal(err)
			}
			before := contents(t, fsys)
			_, rec, err := Open(asideOptions(fsys))
			fsys.SetHook(nil)
			if tt.kind == fault.Damaged {
				if err != nil || rec.Damaged == nil || rec.Damaged.Kind != tt.kind || rec.Damaged.Segment != tt.file {
					t.Fatalf("open: %v, %+v; want it set aside for %s", err, rec, tt.file)
				}
				return
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != tt.kind || f.File != tt.file {
				t.Fatalf("open: %v, want %s to be %v", err, tt.file, tt.kind)
			}
			for name, after := range contents(t, fsys) {
				if after != before[name] {
					t.Errorf("%s changed", name)
				}
			}
			if now := fsys.Files(); len(now) != len(before) {
				t.Errorf("files %v", now)
			}
		})
	}
}

// appendRaw appends a record to the log like a defective or later program: with the right
// checksums, whatever its content.
func appendRaw(fsys *crashfs.FS, r Record) error {
	l := newLog(testOptions(fsys), newMetrics(nil))
	firsts, _, err := listSegments(fsys, testDir)
	if err != nil {
		return err
	}
	if _, err = l.load(firsts); err != nil {
		return err
	}
	var w window
	f, err := fsys.Open(l.seg.path)
	if err != nil {
		return err
	}
	w.reset(f, l.seg.size)
	h, err := readHeader(f, l.seg.first)
	if err != nil {
		return err
	}
	e, err := findEnd(&w, &h, l.seg.prevCRC)
	if err != nil {
		return err
	}
	last, err := lastCRC(&w, &h, l.seg.prevCRC, e.seq)
	if err != nil {
		return err
	}
	b, _ := appendFrame(nil, h.crc, &frame{Record: r, seq: e.seq + 1, durable: e.seq, prevCRC: last})
	return fsys.Corrupt(l.seg.path, func(file []byte) []byte { copy(file[e.offset:], b); return file })
}

// lastCRC returns the CRC of a segment's record number seq.
func lastCRC(w *window, h *header, crc uint32, seq uint64) (uint32, error) {
	off := int64(headerSize)
	for n := h.first; n <= seq; n++ {
		f, err := w.expect(off, h.crc, n, crc)
		if err != nil {
			return 0, err
		}
		off, crc = off+int64(f.size), f.crc
	}
	return crc, nil
}

// TestOrderSetsAside: on the operator's order even a sound log is set aside, with its
// promise. Without a log there is nothing to set aside.
func TestOrderSetsAside(t *testing.T) {
	fsys := crashfs.New(1)
	promise := promises(t, fsys)
	o := asideOptions(fsys)
	o.Order = errors.New("the operator wants it so")
	_, rec := mustOpen(t, o)
	if err := checkAside(rec, promise); err != nil || !errors.Is(rec.Damaged, o.Order) {
		t.Fatalf("set aside for %v: %v", rec.Damaged, err)
	}
	o = asideOptions(crashfs.New(2))
	o.Order = errors.New("the operator wants it so")
	if _, rec = mustOpen(t, o); rec.Damaged != nil || !rec.New || string(rec.Ident) != "ident" {
		t.Errorf("without a log: %+v", rec)
	}
}

// TestCheckComesFirst: if the owner of the log rejects it, Open stops before it has changed
// anything.
func TestCheckComesFirst(t *testing.T) {
	base := crashfs.New(1)
	sample(t, base)
	before := contents(t, base)
	later := format.History.Check(99)
	var seen int
	for _, tt := range []struct {
		name string
		set  func(o *Options)
		kind fault.Kind
	}{
		{"a later version's entry", func(o *Options) {
			o.CheckEntry = func(r *Record) error {
				if r.Zxid == 7 {
					return later
				}
				return nil
			}
		}, fault.Newer},
		{"an impossible entry", func(o *Options) {
			o.CheckEntry = func(*Record) error { return errors.New("impossible") }
		}, fault.Inconsistent},
		{"what was found", func(o *Options) {
			o.Check = func(rec *Recovered) error {
				if seen++; rec.LastZxid != 60 || len(rec.Snaps) != 1 || string(rec.Ident) != "ident" {
					t.Errorf("found %+v", rec)
				}
				return later
			}
		}, fault.Newer},
	} {
		fsys := base.Crash(nil)
		o := asideOptions(fsys)
		tt.set(&o)
		if _, _, err := Open(o); fault.KindOf(err) != tt.kind {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.kind)
		}
		for name, after := range contents(t, fsys) {
			if after != before[name] {
				t.Errorf("%s: %s changed", tt.name, name)
			}
		}
	}
	if seen != 1 {
		t.Errorf("Check was called %d times", seen)
	}
}

// TestOtherFilesAreLeft: Open removes the files that the log itself prepares, and no files
// with similar names.
func TestOtherFilesAreLeft(t *testing.T) {
	fsys := crashfs.New(1)
	sample(t, fsys)
	for _, name := range []string{"new.tmp", "spare-3.tmp", "backup.tmp", "notes.txt", "0001.wal"} {
		f, err := fsys.Create(testDir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, testOptions(fsys))
	left := strings.Join(fsys.Files(), " ")
	for name, want := range map[string]bool{"new.tmp": false, "spare-3.tmp": false, "backup.tmp": true, "notes.txt": true, "/0001.wal": true} {
		if strings.Contains(left, name) != want {
			t.Errorf("%s is left: %t, want %t", name, !want, want)
		}
	}
}
