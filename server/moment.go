package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Moment is a point of a history: after the transaction with a zxid, or before the first one
// that is later than a time by the clock of its leader. The zero Moment is the end.
type Moment struct {
	Zxid jute.Zxid // 0 if Time counts
	Time time.Time
}

// before reports whether the moment is before an entry.
func (m *Moment) before(e *zab.Entry) (bool, error) {
	if m.Zxid != 0 {
		return e.Zxid > m.Zxid, nil
	}
	ms, err := timeOf(e)
	return ms > m.Time.UnixMilli(), err
}

// timeOf returns the time of an entry in ms since the Unix epoch, 0 if it has none.
func timeOf(e *zab.Entry) (int64, error) {
	if e.Type == zab.EntryMarker {
		var m zab.Marker
		err := m.Decode(e.Data)
		return m.TimeMs, err
	}
	data := e.Txn()
	if data == nil {
		return 0, nil
	}
	txn, err := datatree.DecodeTxn(data)
	return txn.Time, err
}

// cutHistory takes what comes after a moment out of what the log has recovered.
func (s *Server) cutHistory(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, at Moment) error {
	if at.Zxid > rec.LastZxid {
		return fmt.Errorf("zxid %v is not reached: the log ends at %v", at.Zxid, rec.LastZxid)
	}
	rec.Snaps = slices.DeleteFunc(slices.Clone(rec.Snaps), func(ref wal.SnapRef) bool {
		if at.Zxid != 0 {
			return ref.Zxid > at.Zxid
		}
		meta, err := store.Describe(ctx, ref.Name)
		return err != nil || meta.Time > at.Time.UnixMilli()
	})
	last := jute.Zxid(0)
	if n := len(rec.Snaps); n > 0 {
		last = rec.Snaps[n-1].Zxid
	}
	err := s.wal.Replay(last, func(r wal.Record) error {
		e := entryOf(&r)
		before, err := at.before(&e)
		if before {
			return errReplayed
		}
		last = e.Zxid
		return errors.Join(err, ctx.Err())
	})
	rec.LastZxid = last
	switch {
	case errors.Is(err, wal.ErrPurged):
		return fmt.Errorf("the log begins after %v, and no snapshot is from before that moment: %w", rec.FirstZxid, err)
	case errors.Is(err, errReplayed), err == nil:
		if last == 0 {
			return errors.New("the history begins after that moment")
		}
		return nil
	}
	return err
}
