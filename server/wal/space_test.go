package wal

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
)

func TestSpaceLevel(t *testing.T) {
	const gib = 1 << 30
	tests := []struct {
		total, free, snapshot int64
		want                  SpaceLevel
	}{
		{100 * gib, 50 * gib, 0, SpaceOK},
		{100 * gib, 1 * gib, 0, SpaceWarn},
		{100 * gib, 200 << 20, 0, SpaceStop},
		{1 * gib, 500 << 20, 0, SpaceOK},
		{1 * gib, 200 << 20, 0, SpaceWarn},
		{1 * gib, 100 << 20, 0, SpaceStop}, // two segments do not fit
		{1 * gib, 60 << 20, 0, SpaceOut},   // nor does one
		{100 * gib, 60 << 20, 10 * gib, SpaceOut},
		{100 * gib, 15 * gib, 10 * gib, SpaceWarn},
		{100 * gib, 9 * gib, 10 * gib, SpaceStop},
		{10000 * gib, 3 * gib, 0, SpaceOK}, // a large disk is judged by bytes, not by share
	}
	for _, tt := range tests {
		if got := spaceLevel(vfs.Space{Total: tt.total, Free: tt.free}, 64<<20, 1<<20, tt.snapshot); got != tt.want {
			t.Errorf("%d of %d MiB free, snapshot %d MiB: %v, want %v", tt.free>>20, tt.total>>20, tt.snapshot>>20, got, tt.want)
		}
	}
}

func TestInodeLevel(t *testing.T) {
	for _, tt := range []struct {
		total, free int64
		want        SpaceLevel
	}{
		{0, 0, SpaceOK}, // btrfs has no limit
		{1 << 24, 5000, SpaceOK},
		{1 << 24, 4000, SpaceWarn},
		{1 << 24, 255, SpaceStop},
		{1 << 24, 1, SpaceOut},
		{100, 50, SpaceOK},
		{100, 19, SpaceWarn},
		{100, 7, SpaceStop},
		{100, 0, SpaceOut},
	} {
		if got := InodeLevel(vfs.Space{Inodes: tt.total, FreeInodes: tt.free}); got != tt.want {
			t.Errorf("%d of %d inodes free: %v, want %v", tt.free, tt.total, got, tt.want)
		}
	}
}

// TestDiskFull: a full disk prevents neither writing within the segment nor promises in its
// reserve, and failing to make the spare is harmless. When the segment is full of entries,
// the log fails. It recovers everything acknowledged once there is space.
func TestDiskFull(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	fsys.SetCapacity(minSegmentSize + 4096)
	if err := l.PrepareSpare(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("spare on a full disk: %v", err)
	}
	if files := fsys.Files(); len(files) != 1 {
		t.Fatalf("files after that: %v", files)
	}
	n := 0
	for l.fits(frameSize(1000), Append) {
		n++
		mustAppend(t, l, entry(n, fmt.Sprintf("%1000d", n)))
	}
	for i := range 5 {
		mustAppend(t, l, Record{Kind: Promise, Payload: []byte{byte(i)}})
	}
	if err := l.Append([]Record{entry(n+1, fmt.Sprintf("%1000d", n))}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append to a full log on a full disk: %v", err)
	}
	if _, level, err := l.Space(0); err != nil || level != SpaceOut {
		t.Fatalf("space: %v, %v", level, err)
	}
	fsys.SetCapacity(0)
	l, rec := mustOpen(t, testOptions(fsys.Kill()))
	if got := replay(t, l, 0); len(got) != n || rec.Promise[0] != 4 {
		t.Fatalf("%d entries, want %d; %+v", len(got), n, rec)
	}
}

// TestOpenOnFullDisk: Open fails without changing anything, and works when there is space.
func TestOpenOnFullDisk(t *testing.T) {
	fsys := crashfs.New(1)
	want := sample(t, fsys)
	fsys.SetCapacity(1)
	if _, _, err := Open(testOptions(fsys)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("open on a full disk: %v", err)
	}
	fsys.SetCapacity(0)
	l, _ := mustOpen(t, testOptions(fsys))
	if got := replay(t, l, 0); len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
}
