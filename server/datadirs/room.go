package datadirs

import "github.com/zkd-project/zkd/jute"

// Room is what a server knows when it decides how to make room on its disks. A log that takes the last byte could not be
// purged any more, since only a snapshot makes the log before it superfluous.
type Room struct {
	Waits   bool      // the log has no room for its next segment
	Shared  bool      // the log and the snapshots are on one disk
	LogFree int64     // bytes on the log's disk
	Free    int64     // bytes on the disk of the snapshots
	Next    int64     // of a snapshot of the tree: see Estimate
	Last    int64     // of the newest snapshot
	Old     int64     // of the files of the log before the one that is written, however much is in them
	Applied jute.Zxid // of the tree
	Taken   jute.Zxid // of the newest snapshot
}

// Estimate returns about how large a snapshot of a tree is, or somewhat more: its data, and 256 bytes for each node and
// session, beside path and data; more than it is on average.
func Estimate(data int64, rows int) int64 { return data + 256*int64(rows) }

// Keep returns how many bytes the log is to leave for a snapshot of the tree, and a quarter more, if there is as much: what the
// log has already makes the tree larger until it is written. Where a snapshot has no room, less would help nobody.
func (r *Room) Keep() int64 {
	if !r.Shared || r.LogFree <= r.Next {
		return 0
	}
	return min(r.Next+r.Next/4, r.LogFree)
}

// WantsSnapshot reports whether, on a full disk, a snapshot is to make room. It is, if it takes less than half of the
// files that it replaces, since much has been deleted. Otherwise deletes would never make room: without other writes no
// snapshot would come to be due. A log that waits for room is worth any gain, if only of segments that several starts have
// left nearly empty. One at a zxid at which there is one would
// replace nothing.
func (r *Room) WantsSnapshot() bool {
	stale := r.Applied > r.Taken
	stale = stale || snapshotAgain.Planted()
	least := 2 * r.Next
	if r.Waits {
		least = r.Next + 1
	}
	return stale && r.Next < r.Free && r.Old+r.Last >= least
}

// NeedOf says why a purge needs room, on a disk that is getting full or not: forRoom, if a snapshot was written, or is to
// stay alone, to make room on a full disk.
func NeedOf(tight, forRoom bool) Need {
	switch {
	case forRoom:
		return Full
	case tight:
		return Tight
	}
	return Routine
}
