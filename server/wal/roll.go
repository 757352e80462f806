package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
)

// startSize is the size of a segment made when the spare can't be used: zeroing that much
// takes a few milliseconds.
const startSize = 1 << 20

// roll ends the last segment and begins another with room for a record of the given size.
// Everything in the old segment is durable before the new one exists.
func (l *Log) roll(size int, kind Kind) error {
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.syncSegment(); err != nil {
		return err
	}
	return l.begin(size, kind)
}

// begin makes the segment for the next record, with room for a record of the given size, and
// closes the one before. It uses the spare if that is ready and large enough. For want of room, inodes or descriptors
// it returns ErrWaits, and has changed nothing.
func (l *Log) begin(size int, kind Kind) error {
	need := segmentFor(int64(size))
	f, fileSize, tmp := l.spare.take(need)
	if f == nil {
		var err error
		if kind == Append {
			err = l.leavesRoom(max(l.startSize(), need))
		}
		if err == nil {
			f, fileSize, tmp, err = l.makeSegment(need)
		}
		if err != nil {
			return orWaits(err)
		}
	}
	h := l.nextHeader(fileSize)
	if err := l.writeHeader(f, &h); err != nil {
		return err
	}
	path := filepath.Join(l.o.Dir, segmentName(l.seq))
	if err := l.rename(f, tmp, path); err != nil {
		return orWaits(errors.Join(err, f.Close(), l.o.FS.Remove(tmp)))
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	l.f = f
	l.mu.Lock()
	l.mu.syncBytes = l.seg.end / max(l.syncs, 1)
	l.mu.Unlock()
	l.syncs = 0
	l.adopt(path, &h)
	return nil
}

// orWaits makes a shortage, which may be over later, an ErrWaits.
func orWaits(err error) error {
	if vfs.IsShortage(err) {
		return fmt.Errorf("%w: %w", ErrWaits, err)
	}
	return err
}

// segmentFor returns the minimum size of a segment that can hold the given number of bytes
// of entries.
func segmentFor(entries int64) int64 {
	return ((headerSize+entries)*8/7 + align) &^ (align - 1)
}

// startSize is the size of a segment that a start makes.
func (l *Log) startSize() int64 { return min(startSize, l.o.SegmentSize) }

// makeSegment makes a file of zeros for a segment synchronously.
func (l *Log) makeSegment(need int64) (f vfs.File, size int64, tmp string, err error) {
	size = max(l.startSize(), need)
	tmp = filepath.Join(l.o.Dir, newName)
	if f, err = l.zeroFile(tmp, size, func() bool { return false }); err != nil {
		return nil, 0, "", fmt.Errorf("make segment: %w", err)
	}
	return f, size, tmp, nil
}

// nextHeader returns the header of a segment of size bytes that begins with the
// next record.
func (l *Log) nextHeader(size int64) header {
	h := newHeader()
	h.first, h.size, h.prevCRC, h.state = l.seq, size, l.crc, l.st
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.mu.segs {
		if seg.first < h.first {
			h.prev = seg.first
		}
	}
	return h
}

func (l *Log) writeHeader(f vfs.File, h *header) error {
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("write segment header: %w", err)
	}
	return nil
}

// adopt makes the open file the last segment of the log in memory. It replaces a segment
// that begins with the same record.
func (l *Log) adopt(path string, h *header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.mu.segs); n > 0 && l.mu.segs[n-1].first == h.first {
		l.mu.segs = l.mu.segs[:n-1]
	}
	l.pushLocked(newSegment(path, h))
	l.metrics.segments.Set(float64(len(l.mu.segs)))
}

func (l *Log) pushLocked(seg *segment) {
	l.seg = seg
	l.mu.segs = append(l.mu.segs, seg)
}

// publish makes the file durable, and then its name.
func (l *Log) publish(f vfs.File, tmp, path string) error {
	if err := l.rename(f, tmp, path); err != nil {
		return err
	}
	return l.syncDir()
}

// rename makes the file durable, and gives it its name.
func (l *Log) rename(f vfs.File, tmp, path string) error {
	if !l.o.NoSync {
		if err := l.timeSync(f.Sync); err != nil {
			return fmt.Errorf("sync segment: %w", err)
		}
	}
	if err := l.o.FS.Rename(tmp, path); err != nil {
		return fmt.Errorf("rename segment: %w", err)
	}
	return nil
}

func (l *Log) syncDir() error {
	if l.o.NoSync {
		return nil
	}
	var err error
	if l.dir != nil {
		err = l.dir.Sync()
	} else {
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if err != nil {
		return fmt.Errorf("sync log directory: %w", err)
	}
	return nil
}
