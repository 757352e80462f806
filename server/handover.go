package server

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/replica"
)

// handover connects the peer loop and the applier: orders go one way, the progress of
// applying them goes the other way.
type handover struct {
	orders *base.Queue[replica.Order]
	// backlog is the size in bytes of the committed entries in memory that are not
	// applied. The replica adds to it, up to limits.backlog. Entries beyond that stay in
	// the log.
	backlog atomic.Int64
	// superseded is the zxid of a snapshot that replaces the history. The log may no
	// longer have the entries up to there: see applier.awaitsSnapshot.
	superseded atomic.Int64 // jute.Zxid

	// working is when the applier began its present work; 0 while it has none.
	working atomic.Int64 // time.Duration

	awaited atomic.Bool   // the peer loop waits until more is applied
	moved   chan struct{} // has a token when more is applied and awaited is set
}

func newHandover() *handover {
	return &handover{orders: base.NewQueue[replica.Order](nil), moved: make(chan struct{}, 1)}
}

// supersede tells the applier that a snapshot at zxid will replace the history.
func (h *handover) supersede(zxid jute.Zxid) { h.superseded.Store(int64(zxid)) }

// progress tells the peer loop that more is applied, if it waits for that.
func (h *handover) progress() {
	if h.awaited.Load() {
		base.Notify(h.moved)
	}
}
