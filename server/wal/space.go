package wal

import (
	"fmt"
	"syscall"

	"github.com/zkd-project/zkd/internal/vfs"
)

// SpaceLevel says how a server should react to the free space on the log's disk.
type SpaceLevel int

// The levels.
const (
	SpaceOK   SpaceLevel = iota
	SpaceWarn            // tell the operator
	SpaceStop            // accept no more writes, except those that free space
	SpaceOut             // there is no room for another segment: see Log.Reserve
)

// String returns "ok", "warn", "stop" or "out".
func (l SpaceLevel) String() string { return [...]string{"ok", "warn", "stop", "out"}[l] }

// The shares of a disk that should be free are bounded, so that a large disk with tens of
// gigabytes left does not stop a small server.
const (
	warnFree = 2 << 30
	stopFree = 256 << 20
)

// The same of inodes. A server makes few files, so something else uses them up.
const (
	warnInodes  = 4096
	stopInodes  = 256
	leastInodes = 8 // for two segments, two snapshots and what they replace
	lastInodes  = 2 // for a segment
)

// Keep sets how many bytes of the disk the log does not take for segments of entries, beside what a
// restart needs. A snapshot has room there, and makes room: the log that it supersedes is not needed.
// It may be called from any goroutine.
func (l *Log) Keep(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.kept, l.mu.since = bytes, l.mu.stats.Bytes
}

// leavesRoom returns an error that matches ENOSPC if a file of that size would take of what is kept. What was appended since
// the call of Keep makes a snapshot larger by up to twice as much: a small node has more in it than in a record.
func (l *Log) leavesRoom(size int64) error {
	l.mu.Lock()
	kept := l.startSize()
	if l.mu.kept > 0 {
		kept += l.mu.kept + 2*(l.mu.stats.Bytes-l.mu.since)
	}
	l.mu.Unlock()
	if keptTaken.Planted() {
		kept = 0
	}
	s, err := l.o.FS.Space(l.o.Dir)
	if err != nil || s.Free-size >= kept {
		return nil
	}
	return fmt.Errorf("%d bytes are free, and %d are kept for a snapshot and a restart: %w", s.Free, kept, syscall.ENOSPC)
}

// Space returns the free space on the log's disk and its level. Below 20 % (or 2 GiB) free
// is a warning. Below 5 % (or 256 MiB), or below what two segments, a restart and one snapshot
// of the given size need, writes should stop. Below one segment and a restart, the log gets no more
// of the disk. Of inodes it is the same: see InodeLevel. Space may be called from any goroutine.
func (l *Log) Space(snapshotBytes int64) (vfs.Space, SpaceLevel, error) {
	s, err := l.o.FS.Space(l.o.Dir)
	if err != nil {
		return s, SpaceOK, err
	}
	return s, max(spaceLevel(s, l.o.SegmentSize, l.startSize(), snapshotBytes), InodeLevel(s)), nil
}

// InodeLevel returns the level that the inodes of a file system are at, whatever its bytes are.
func InodeLevel(s vfs.Space) SpaceLevel {
	stop := max(leastInodes, min(s.Inodes/20, stopInodes))
	if s.Inodes <= 0 {
		return SpaceOK
	}
	return levelAt(s.FreeInodes, lastInodes, stop, min(s.Inodes/5, warnInodes))
}

func spaceLevel(s vfs.Space, segment, restart, snapshot int64) SpaceLevel {
	return levelAt(s.Free, segment+restart, StopFree(s, segment, restart+snapshot), min(s.Total/5, warnFree))
}

// StopFree returns how many bytes must be free on a log's disk, else writes stop, with segments of a size and what a restart and
// a snapshot need.
func StopFree(s vfs.Space, segment, others int64) int64 {
	return max(2*segment+others, min(s.Total/20, stopFree))
}

// levelAt returns the level at which so much is free: below out, below stop, or below warn or twice stop.
func levelAt(free, out, stop, warn int64) SpaceLevel {
	switch {
	case free < out:
		return SpaceOut
	case free < stop:
		return SpaceStop
	case free < max(2*stop, warn):
		return SpaceWarn
	}
	return SpaceOK
}

// TakesDeletes reports whether, at a level, the log has room for deletes, with some to spare for the ends of sessions and the
// records of elections. It may be called from any goroutine.
func (l *Log) TakesDeletes(level SpaceLevel) bool {
	return level < SpaceOut || l.Reserve() >= min(1<<20, l.o.SegmentSize/4)
}

// Reserve returns how many bytes of records fit into the files that the log already has,
// without the room for control records. It may be called from any goroutine.
func (l *Log) Reserve() int64 {
	l.mu.Lock()
	left := l.seg.size - reserve(l.seg.size) - l.seg.end
	l.mu.Unlock()
	return max(left, 0) + l.spare.bytes()
}
