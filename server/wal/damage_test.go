package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// sample writes a log of several segments, each entry synced separately, with a snapshot
// reference in the middle, and a commit hint at the end which proves that everything before
// it was durable. It returns the entries.
func sample(t testing.TB, fsys *crashfs.FS) []string {
	t.Helper()
	l, _ := mustOpen(t, testOptions(fsys))
	var want []string
	for n := 1; n <= 60; n++ {
		e := entry(n, strings.Repeat(fmt.Sprint(n, " "), 200))
		mustAppend(t, l, e)
		want = append(want, fmt.Sprintf("%s %s", e.Zxid, e.Payload))
		if n == 30 {
			mustAppend(t, l, SnapRef{Zxid: 28, Name: "snap"}.Record())
		}
	}
	mustAppend(t, l, Record{Kind: CommitHint, Zxid: 60})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return want
}

// TestByteDamage changes bytes all over a log. The loss of any record proven durable must
// be detected; only the last record, which no later record proves, may be taken for torn;
// and a log must never be read differently without an error.
func TestByteDamage(t *testing.T) {
	fsys := crashfs.New(1)
	want := sample(t, fsys)
	changes := map[string]func(*byte){
		"flip": func(b *byte) { *b ^= 0x10 },
		"zero": func(b *byte) { *b = 0 },
		"ones": func(b *byte) { *b = 0xff },
	}
	corrupt, torn, same := 0, 0, 0
	for _, name := range fsys.Files() {
		size := fileSize(t, fsys, name)
		for off := 0; off < size; off += 37 {
			for kind, change := range changes {
				img := fsys.Crash(nil)
				changed := false
				err := img.Corrupt(name, func(b []byte) []byte {
					old := b[off]
					change(&b[off])
					changed = b[off] != old
					return b
				})
				if err != nil {
					t.Fatal(err)
				}
				if !changed {
					continue
				}
				switch got := verdict(t, img, want, kind == "flip"); got {
				case "corrupt":
					corrupt++
				case "torn":
					torn++
				case "same":
					same++
				default:
					t.Fatalf("%s of byte %d of %s: %s", kind, off, name, got)
				}
			}
		}
	}
	t.Logf("%d corrupt, %d torn, %d in bytes that no longer count", corrupt, torn, same)
	if corrupt < 500 || torn == 0 || same == 0 {
		t.Errorf("the damage did not reach everywhere")
	}
}

func fileSize(t testing.TB, fsys *crashfs.FS, name string) int {
	t.Helper()
	info, err := fsys.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

// verdict opens a damaged sample and returns the outcome. Opening may not change a corrupt
// log. If compare is set, Verify must come to the same result.
func verdict(t testing.TB, fsys *crashfs.FS, want []string, compare bool) string {
	t.Helper()
	changes := 0
	fsys.SetHook(func(op crashfs.Op) error {
		if op.Kind.Mutates() && op.Kind != crashfs.OpMkdir {
			changes++
		}
		return nil
	})
	var verified *Recovered
	var verifyErr error
	if compare {
		if verified, verifyErr = Verify(testOptions(fsys)); changes > 0 {
			return fmt.Sprintf("Verify made %d changes", changes)
		}
	}
	l, rec, err := Open(testOptions(fsys))
	var c, v *CorruptError
	if errors.As(err, &c) {
		switch {
		case changes > 0:
			return fmt.Sprintf("corrupt, but %d changes: %v", changes, err)
		case compare && (!errors.As(verifyErr, &v) || v.Segment != c.Segment || v.Offset != c.Offset || v.Kind != c.Kind):
			return fmt.Sprintf("Verify returns %v, Open %v", verifyErr, err)
		}
		return "corrupt"
	}
	if err != nil {
		return err.Error()
	}
	defer l.Close()
	if compare && (verifyErr != nil || verified.LastZxid != rec.LastZxid || verified.FirstZxid != rec.FirstZxid || len(verified.Snaps) != len(rec.Snaps) ||
		(verified.Torn == nil) != (rec.Torn == nil)) {
		return fmt.Sprintf("Verify returns %+v, %v; Open %+v", verified, verifyErr, rec)
	}
	if got := replay(t, l, 0); !slices.Equal(got, want) {
		return fmt.Sprintf("different: %d entries, torn %+v", len(got), rec.Torn)
	}
	if rec.Torn != nil {
		return "torn"
	}
	return "same"
}

func TestDamageKinds(t *testing.T) {
	truncate := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	remove := func([]byte) []byte { return nil }
	zero := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[from:to]); return b }
	}
	tests := []struct {
		name     string
		segment  int // from the end if negative
		change   func([]byte) []byte
		seq      uint64
		readable bool
		covered  bool
	}{
		{"first header", 0, zero(0, 10), 1, false, true},
		{"first record", 0, zero(headerSize, headerSize+10), 1, true, true},
		{"within the first segment", 0, zero(headerSize+6000, headerSize+6100), 13, true, true},
		{"a segment cut short", 1, truncate(8000), 19, true, false},
		{"a segment emptied", 1, remove, 19, true, false},
		{"behind the snapshot", -1, zero(headerSize, headerSize+1), 50, true, false},
		{"last header", -1, zero(30, 40), 50, true, false},
		{"last segment cut short", -1, truncate(9000), 50, true, false},
		{"a page lost before the hint", -1, zero(2*headerSize, 2*headerSize+512), 56, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := crashfs.New(1)
			want := sample(t, fsys)
			files := fsys.Files()
			name := files[(tt.segment+len(files))%len(files)]
			if err := fsys.Corrupt(name, tt.change); err != nil {
				t.Fatal(err)
			}
			_, _, err := Open(testOptions(fsys))
			var c *CorruptError
			if !errors.As(err, &c) {
				t.Fatalf("open: %v, want corruption", err)
			}
			t.Log(c)
			if c.Segment != name || c.Seq != tt.seq || c.Readable != tt.readable || (c.Covered != nil) != tt.covered {
				t.Fatalf("got %+v, want record %d of %s, readable %v, covered %v", c, tt.seq, name, tt.readable, tt.covered)
			}
			if tt.covered {
				checkCovered(t, fsys.Crash(nil), c, want)
			}
			checkAcceptLoss(t, fsys, c, want)
		})
	}
}

// checkCovered does what the error proposes: it moves the files away.
func checkCovered(t *testing.T, fsys *crashfs.FS, c *CorruptError, want []string) {
	t.Helper()
	for _, name := range c.Aside {
		if err := fsys.Rename(name, name+".aside"); err != nil {
			t.Fatal(err)
		}
	}
	l, rec := mustOpen(t, testOptions(fsys))
	if len(rec.Snaps) != 1 || rec.Snaps[0].Name != c.Covered.Name {
		t.Fatalf("snapshots %+v", rec.Snaps)
	}
	if got := replay(t, l, 28); !slices.Equal(got, want[28:]) {
		t.Fatalf("behind the snapshot: %d entries, want %d", len(got), len(want)-28)
	}
}

// checkAcceptLoss opens with the flag, wrong and right.
func checkAcceptLoss(t *testing.T, fsys *crashfs.FS, c *CorruptError, want []string) {
	t.Helper()
	o := testOptions(fsys)
	wrong := c.LastGood + 1
	o.AcceptLossAfter = &wrong
	if _, _, err := Open(o); !errors.As(err, new(*CorruptError)) {
		t.Fatalf("wrong zxid: %v, want corruption", err)
	}
	o.AcceptLossAfter = &c.LastGood
	if !c.Readable {
		if _, _, err := Open(o); !errors.As(err, new(*CorruptError)) {
			t.Fatalf("nothing readable: %v, want corruption", err)
		}
		return
	}
	l, rec := mustOpen(t, o)
	if rec.Lost == nil || rec.LastZxid != c.LastGood {
		t.Fatalf("recovered %+v", rec)
	}
	if got := replay(t, l, 0); !slices.Equal(got, want[:c.LastGood]) {
		t.Fatalf("%d entries, want %d", len(got), c.LastGood)
	}
	e := entry(int(c.LastGood)+1, "new")
	mustAppend(t, l, e)
	l, rec = mustOpen(t, testOptions(fsys.Crash(nil)))
	if got := replay(t, l, c.LastGood); rec.Torn != nil || len(got) != 1 || got[0] != e.Zxid.String()+" new" {
		t.Fatalf("after that: %+v, %q", rec, got)
	}
}

func TestSegmentsMissing(t *testing.T) {
	tests := []struct {
		missing []int
		corrupt bool
	}{
		{[]int{0}, false}, // the snapshot makes up for it, as after a purge
		{[]int{0, 1}, true},
		{[]int{1}, true},
		{[]int{2}, true},
	}
	for _, tt := range tests {
		fsys := crashfs.New(1)
		sample(t, fsys)
		files := fsys.Files()
		for _, i := range tt.missing {
			if err := fsys.Remove(files[i]); err != nil {
				t.Fatal(err)
			}
		}
		l, rec, err := Open(testOptions(fsys))
		if tt.corrupt {
			var c *CorruptError
			want := files[tt.missing[len(tt.missing)-1]]
			if tt.missing[0] == 0 {
				want = files[0]
			}
			if !errors.As(err, &c) || c.Kind != fault.Missing || c.Segment != want {
				t.Errorf("segments %v missing: %v, want %s missing", tt.missing, err, want)
			}
			if _, _, err := Open(asideOptions(fsys)); fault.KindOf(err) != fault.Missing || len(fsys.Files()) != len(files)-len(tt.missing) {
				t.Errorf("segments %v missing: %v and %v, want all left alone", tt.missing, err, fsys.Files())
			}
			continue
		}
		if err != nil || rec.FirstZxid != 18 {
			t.Fatalf("segments %v missing: %+v, %v", tt.missing, rec, err)
		}
		if err := l.Replay(17, nil); !errors.Is(err, ErrPurged) {
			t.Errorf("replay of what is missing: %v", err)
		}
	}
}

// TestStrangeHeader has a header with the right checksum that makes no sense to this version: another one has
// written it, so the log is not given up, not even by a server that could get its data from others.
func TestStrangeHeader(t *testing.T) {
	fsys := crashfs.New(1)
	sample(t, fsys)
	for _, name := range fsys.Files() {
		if filepath.Ext(name) != ".wal" {
			continue
		}
		strange := fsys.Crash(nil)
		err := strange.Corrupt(name, func(b []byte) []byte {
			b[12]++ // the length of the state
			copy(b[headerCRC:], crc32cOf(b[:headerCRC]))
			return b
		})
		if err != nil {
			t.Fatal(err)
		}
		before := strange.Files()
		o := testOptions(strange)
		o.SetAside = true
		if _, _, err := Open(o); fault.KindOf(err) != fault.Inconsistent || !strings.Contains(err.Error(), "does not understand the header") {
			t.Errorf("%s: open: %v, want a refusal", name, err)
		}
		if after := strange.Files(); !slices.Equal(after, before) {
			t.Errorf("%s: files %v, then %v", name, before, after)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	fsys := crashfs.New(1)
	sample(t, fsys)
	files := fsys.Files()
	err := fsys.Corrupt(files[1], func(b []byte) []byte {
		b[8] = 3
		crc := crc32cOf(b[:headerCRC])
		copy(b[headerCRC:], crc)
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(testOptions(fsys))
	if fault.KindOf(err) != fault.Newer || errors.As(err, new(*CorruptError)) || !strings.Contains(err.Error(), "format 3") {
		t.Fatalf("open: %v, want the refusal of format 3", err)
	}
}

// TestReadError: a read error must not be taken for damage, since the bytes may be intact.
func TestReadError(t *testing.T) {
	fsys := crashfs.New(1)
	sample(t, fsys)
	fsys.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpRead && filepath.Base(op.Name) > segmentName(1) {
			return &fs.PathError{Op: "read", Path: op.Name, Err: crashfs.ErrInjected}
		}
		return nil
	})
	_, _, err := Open(testOptions(fsys))
	if !errors.Is(err, crashfs.ErrInjected) || fault.KindOf(err) != fault.Unreadable || errors.As(err, new(*CorruptError)) {
		t.Fatalf("open: %v, want the read error", err)
	}
}

// TestUnsyncedTailIsTorn: a crash in the middle of a large batch leaves any mix of its
// sectors, and whole records after holes do not prove durability.
func TestUnsyncedTailIsTorn(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "synced"))
	var batch []Record
	for n := 2; n < 12; n++ {
		batch = append(batch, entry(n, strings.Repeat("x", 500)))
	}
	if err := l.Append(batch); err != nil {
		t.Fatal(err)
	}
	// Record 3 is lost, 4 and the others are there.
	err := fsys.Corrupt(testDir+"/"+segmentName(1), func(b []byte) []byte {
		clear(b[headerSize+56+552 : headerSize+56+2*552])
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	_, rec := mustOpen(t, testOptions(fsys))
	if rec.LastZxid != 2 || rec.Torn == nil || rec.Torn.After != jute.Zxid(2) || rec.Torn.Seq != 3 {
		t.Fatalf("recovered %+v, torn %+v", rec, rec.Torn)
	}
}

// TestOutOfPlace: no crash leaves a whole record that does not follow the last one, even
// without a later proof.
func TestOutOfPlace(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "one"))
	stray, _ := appendFrame(nil, l.seg.salt, &frame{Record: entry(2, "two"), seq: 2, durable: 1, prevCRC: l.crc + 1})
	err := fsys.Corrupt(testDir+"/"+segmentName(1), func(b []byte) []byte {
		copy(b[headerSize+56:], stray)
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(testOptions(fsys)); !errors.Is(err, errOutOfPlace) || !errors.As(err, new(*CorruptError)) {
		t.Fatalf("open: %v, want corruption", err)
	}
}
