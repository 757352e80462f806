package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/zkd-project/zkd/internal/vfs"
)

const (
	tmpSuffix = ".tmp"
	newName   = "new" + tmpSuffix // a segment made when the spare could not be used
	// sparePrefix begins the names of spares.
	sparePrefix = "spare-"
)

// spare is the next segment, prepared in advance: zeros that were actually written, so that
// writing records later changes no metadata of the file, and fdatasync costs one disk
// write. It is safe for concurrent use.
type spare struct {
	mu     sync.Mutex
	f      vfs.File // nil unless ready
	path   string
	size   int64
	count  int // spares made so far, for their names: one that was taken may not be renamed yet
	making bool
	closed bool
}

// take returns the spare if it is ready and has at least need bytes.
func (s *spare) take(need int64) (f vfs.File, size int64, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil || s.size < need {
		return nil, 0, ""
	}
	f, s.f = s.f, nil
	return f, s.size, s.path
}

// bytes returns the size of the spare that is ready.
func (s *spare) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return 0
	}
	return s.size
}

// claim reports whether to make a spare, and returns its name. If so, it claims the
// making.
func (s *spare) claim() (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil || s.making || s.closed {
		return "", false
	}
	s.making = true
	s.count++
	return sparePrefix + strconv.Itoa(s.count) + tmpSuffix, true
}

// finish completes what claim began. f is nil on failure.
func (s *spare) finish(f vfs.File, path string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = false
	if s.closed && f != nil {
		_ = f.Close() // an unused file of zeros
		return
	}
	s.f, s.path, s.size = f, path, size
}

// stop ends the making of spares at once, but keeps one that is ready.
func (s *spare) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// stopped reports whether stop or discard was called.
func (s *spare) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// discard forgets the spare; the next Open removes its file.
func (s *spare) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.f != nil {
		_ = s.f.Close() // an unused file of zeros
		s.f = nil
	}
}

const (
	// growth is at most the ratio between the size of a spare and that of the previous segment.
	growth = 4
	// rollSyncs is how many syncs of the log a segment should last for, as to begin one takes as long as a few.
	rollSyncs = 768
)

// spareSize returns the size of the next segment, from that of the last one, and from what a sync had of the one
// before, 0 if that is not known. So a log that gets little does not keep a large file of zeros, and is purged in
// smaller steps.
func (l *Log) spareSize(last, syncBytes int64) int64 {
	size := growth * last
	if syncBytes > 0 {
		size = min(size, max(growth*startSize, rollSyncs*syncBytes))
	}
	return min(size, l.o.SegmentSize) &^ (align - 1)
}

// PrepareSpare makes the next segment ready unless it is already. It may take as long as
// writing a segment, and may run concurrently with everything else. An error, such as a
// full disk, is harmless: the log continues without a spare, and the call may be repeated.
func (l *Log) PrepareSpare() error {
	name, ok := l.spare.claim()
	if !ok {
		return nil
	}
	l.mu.Lock()
	size := l.spareSize(l.mu.segs[len(l.mu.segs)-1].size, l.mu.syncBytes)
	l.mu.Unlock()
	path := filepath.Join(l.o.Dir, name)
	var f vfs.File
	err := l.leavesRoom(size)
	if err == nil {
		f, err = l.zeroFile(path, size, l.spare.stopped)
	}
	l.spare.finish(f, path, size)
	if err != nil {
		return fmt.Errorf("prepare segment: %w", err)
	}
	return nil
}

// zeroFile makes a file of zeros; without syncing it does not write them.
func (l *Log) zeroFile(path string, size int64, stopped func() bool) (vfs.File, error) {
	if !l.o.NoSync {
		return zeroFile(l.o.FS, path, size, stopped)
	}
	f, err := l.o.FS.Create(path)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close(), l.o.FS.Remove(path))
	}
	return f, nil
}

var zeros [256 << 10]byte

// zeroFile creates a file of size bytes of zeros, written and synced in steps, so that it
// does not queue dirty pages in front of the log's fsync. On failure it removes the file.
// It returns ErrClosed when stopped returns true.
func zeroFile(fsys vfs.FS, path string, size int64, stopped func() bool) (vfs.File, error) {
	const syncStep = 4 * int64(len(zeros))
	f, err := fsys.Create(path)
	if err != nil {
		return nil, err
	}
	for off := int64(0); off < size && err == nil; off += int64(len(zeros)) {
		if stopped() {
			err = ErrClosed
			break
		}
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off)
		if err == nil && off%syncStep == 0 && off > 0 {
			err = f.SyncData()
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	return f, nil
}
