package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

func TestDump(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "one"), entry(2, "two"))
	mustAppend(t, l, SnapRef{Zxid: 2, Name: "snap"}.Record())
	l, _ = mustOpen(t, testOptions(fsys)) // moves the last record to a new segment
	mustAppend(t, l, entry(3, "three"))
	first := testDir + "/" + segmentName(3)
	if err := fsys.Corrupt(first, func(b []byte) []byte { b[headerSize+200] = 1; return b }); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Dump(&b, fsys, testDir, nil); err != nil {
		t.Fatal(err)
	}
	want := `00000000000000000001.wal: format 2, 16384 bytes, follows segment 0, after 0x0, commit hint 0x0, snapshot "" at 0x0, identity: 5 bytes, promise: 0 bytes
         1 @4096      synced=0 append 0x1 after 0x0: 3 bytes
         2 @4152      synced=0 append 0x2 after 0x1: 3 bytes
         3 @4208      synced=2 snapshot 0x2 after 0x2: 19 bytes (does not count)
00000000000000000003.wal: format 2, 16384 bytes, follows segment 1, after 0x2, commit hint 0x0, snapshot "" at 0x0, identity: 5 bytes, promise: 0 bytes
         3 @4096      synced=2 snapshot 0x2 after 0x2: 19 bytes
         4 @4168      synced=3 append 0x3 after 0x2: 5 bytes
           @4224      incomplete records, never acknowledged
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	b.Reset()
	if err := DumpSegment(&b, fsys, first, nil); err != nil || !strings.HasSuffix(want, b.String()) || b.Len() == 0 {
		t.Errorf("one segment: %v\n%s", err, b.String())
	}
	if err := fsys.Corrupt(first, func(b []byte) []byte { b[headerSize+1] = 1; return b }); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	describe := func(r Record) string { return string(r.Payload) }
	if err := Dump(&b, fsys, testDir, describe); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if !strings.Contains(got, "after 0x1: two\n") || !strings.Contains(got, "3 @4096      DAMAGED: invalid: magic") {
		t.Errorf("damaged log: got\n%s", got)
	}
}

// limited takes so many bytes, and then fails.
type limited int

var errFull = errors.New("full")

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > int(*l) {
		return 0, errFull
	}
	*l -= limited(len(b))
	return len(b), nil
}

// TestDumpIntoAFullDisk: wherever the output ends early, the dump says so, also at its last line.
func TestDumpIntoAFullDisk(t *testing.T) {
	for _, at := range []int64{headerSize + 200, headerSize + 1} { // after the records, and in the first one
		fsys := crashfs.New(1)
		l, _ := mustOpen(t, testOptions(fsys))
		mustAppend(t, l, entry(1, "one"), entry(2, "two"))
		if err := fsys.Corrupt(testDir+"/"+segmentName(1), func(b []byte) []byte { b[at] = 1; return b }); err != nil {
			t.Fatal(err)
		}
		var whole strings.Builder
		if err := Dump(&whole, fsys, testDir, nil); err != nil {
			t.Fatal(err)
		}
		for n := range whole.Len() {
			if room := limited(n); !errors.Is(Dump(&room, fsys, testDir, nil), errFull) {
				t.Errorf("no error from a disk that is full after %d of %d bytes:\n%s", n, whole.Len(), &whole)
				break
			}
		}
	}
}
