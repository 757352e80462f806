package wal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

// TestScan reads the records that count, and what is left of a damaged log.
func TestScan(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	mustAppend(t, l, entry(1, "one"), entry(2, "two"))
	mustAppend(t, l, SnapRef{Zxid: 2, Name: "snap"}.Record())
	l, _ = mustOpen(t, testOptions(fsys)) // moves the last record to a new segment
	mustAppend(t, l, entry(3, "three"))
	look := func() (found []string, err error) {
		err = Scan(fsys, testDir, func(r Record) error {
			found = append(found, fmt.Sprintf("%v %v", r.Kind, r.Zxid))
			return nil
		})
		return found, err
	}
	first, second := testDir+"/"+segmentName(1), testDir+"/"+segmentName(3)
	damage := func(path string, at int) {
		t.Helper()
		if err := fsys.Corrupt(path, func(b []byte) []byte { b[at] ^= 1; return b }); err != nil {
			t.Fatal(err)
		}
	}
	check := func(kind fault.Kind, want ...string) {
		t.Helper()
		found, err := look()
		if fault.KindOf(err) != kind || !slices.Equal(found, want) {
			t.Errorf("found %q, %v; want %q and an error of kind %v", found, err, want, kind)
		}
	}
	check(0, "append 0x1", "append 0x2", "snapshot 0x2", "append 0x3")
	damage(second, headerSize+200) // after the last record: an incomplete write
	check(0, "append 0x1", "append 0x2", "snapshot 0x2", "append 0x3")
	damage(first, headerSize+60)
	check(fault.Damaged, "append 0x1", "snapshot 0x2", "append 0x3")
	damage(second, 0)
	check(fault.Damaged, "append 0x1")

	stop := errors.New("stop")
	if err := Scan(fsys, testDir, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the callback's error became %v", err)
	}
}
