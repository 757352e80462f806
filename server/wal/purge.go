package wal

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// AppendSnapRef appends a reference and syncs it. Owner only.
func (l *Log) AppendSnapRef(r SnapRef) error {
	if !r.Valid() {
		return fmt.Errorf("snapshot reference %q: %w", r.Name, ErrTooLarge)
	}
	if err := l.Append([]Record{r.Record()}); err != nil {
		return err
	}
	_, err := l.Sync()
	return err
}

// Purge forgets the snapshot references before oldest, which must be the zxid of a durable
// reference, and deletes the segments that are not needed to replay from there on. It
// returns how many it deleted. It may be called from any goroutine. It frees their space step
// by step, and what is left when ctx ends at once.
//
// The references are forgotten permanently by a Forget record. That record has to be
// durable before the files of these snapshots are removed; otherwise a later start would
// miss them.
//
// An error means that a file could not be deleted. The log remains sound and usable, but
// deletes nothing more before the next Open. Segments are deleted oldest first, each
// durably before the next one, since the log must never have a hole.
func (l *Log) Purge(ctx context.Context, oldest jute.Zxid) (int, error) {
	l.purge.Lock()
	defer l.purge.Unlock()
	victims, err := l.purgeable(oldest)
	n := 0
	for ; n < len(victims) && err == nil && l.purge.err == nil; n++ {
		l.purge.err = l.deleteFirst(ctx, victims[n])
	}
	if err == nil {
		err = l.purge.err
	}
	if err != nil {
		return n, fmt.Errorf("purge log before %s: %w", oldest, err)
	}
	return n, nil
}

// purgeable forgets old references and returns the paths of the segments that are then no
// longer needed.
func (l *Log) purgeable(oldest jute.Zxid) ([]string, error) {
	h := l.history()
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.mu.refs) - 1
	for i >= 0 && (l.mu.refs[i].Zxid != oldest || l.mu.refs[i].seq > l.synced.Load()) {
		i--
	}
	if i < 0 {
		return nil, ErrNoSnapRef
	}
	l.mu.refs = slices.Clone(l.mu.refs[i:])
	keep, _, err := h.find(oldest)
	if err != nil {
		return nil, err
	}
	// The record of the reference may be deleted, too: then no entry after oldest comes before
	// the first segment that stays, so that reference is the newest one there, and the segment's
	// header names it.
	var victims []string
	for _, seg := range h.segs[:keep] {
		victims = append(victims, seg.path)
	}
	return victims, nil
}

// deleteFirst deletes the first segment.
func (l *Log) deleteFirst(ctx context.Context, path string) error {
	var err error
	if l.o.NoSync {
		err = l.o.FS.Remove(path)
	} else {
		err = vfs.RemoveInSteps(ctx, l.o.FS, path)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.segs = slices.Clone(l.mu.segs[1:])
	if l.mu.floor.seq < l.mu.segs[0].first {
		l.mu.floor = lowest(l.mu.segs)
	}
	l.metrics.segments.Set(float64(len(l.mu.segs)))
	l.o.Logger.Info("deleted a segment of the log", zap.String("segment", path))
	return nil
}

// lowest returns the place from which most of the history is seen: where it was shortest,
// for example by a truncation, or else the first one.
func lowest(segs []*segment) place {
	at := segs[0].index[0]
	for _, seg := range segs {
		for _, p := range seg.index {
			if p.last < at.last {
				at = p
			}
		}
	}
	return at
}
