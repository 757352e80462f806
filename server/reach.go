package server

import (
	"context"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/show"
)

// reach is how far back the past goes that a server has on its disks: to the oldest snapshot, or to the beginning of a log from
// which nothing was purged.
type reach struct {
	zxid      jute.Zxid
	since     int64 // the earliest moment that is known, in ms since the Unix epoch; 0 if there is none
	snapshots int64 // bytes of the snapshots
	room      int64 // zkd.historyKb, when it was measured
	cut       bool  // snapshots went for want of that room that zkd.historyHours wants
}

// measure finds out how far back the past goes. It reads files, so View has what it found last. The snapshotter's goroutine calls it.
func (sn *snapshotter) measure(ctx context.Context) {
	sn.mu.Lock()
	refs := slices.Clone(sn.mu.refs)
	sn.mu.Unlock()
	cfg, was := sn.live(), sn.reach.Load()
	r := reach{room: cfg.HistoryBytes, cut: was != nil && was.cut && was.room == cfg.HistoryBytes}
	for _, ref := range refs {
		r.snapshots += ref.Size
	}
	if _, whole := sn.logWriter.BytesAfter(0); whole && !sn.dropped {
		r.since = sn.firstTime()
	} else if len(refs) > 0 {
		r.zxid = refs[0].Zxid
		if meta, err := sn.store.Describe(ctx, refs[0].Name); err == nil {
			r.since = history.LastTimeOf(&meta)
		}
	}
	switch enough := sn.wall().Add(-cfg.History).UnixMilli(); {
	case cfg.History == 0 || r.since != 0 && r.since <= enough:
		r.cut = false
	case sn.dropped:
		r.cut = true
	}
	sn.dropped = false
	sn.reach.Store(&r)
}

// firstTime returns the time of the first entry of the log, 0 if it has none.
func (sn *snapshotter) firstTime() int64 {
	log, err := data.ReadCommitted(sn.logWriter.Writer, 0)
	if err != nil {
		return 0
	}
	defer log.Close() // it was only read
	list, _ := log.Next(sn.state.Applied())
	for i := range list {
		if at, err := history.TimeOf(&list[i]); err == nil && at > 0 {
			return at
		}
	}
	return 0
}

// showPast says how far back the past goes.
func (sn *snapshotter) showPast(v *show.View) {
	v.PastWanted = sn.live().History
	r := sn.reach.Load()
	if r == nil || r.since == 0 {
		return
	}
	log, _ := sn.logWriter.BytesAfter(r.zxid)
	v.PastZxid, v.PastAge, v.PastBytes, v.PastCut = int64(r.zxid), max(0, sn.wall().Sub(time.UnixMilli(r.since))), r.snapshots+log, r.cut
}
