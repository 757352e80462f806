package server

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
)

// handover is where the peer loop and the applier meet: orders go one way, the progress
// of applying them goes the other way.
type handover struct {
	orders *queue[replica.Order]
	// backlog is the bytes of committed entries that are in memory to be applied. The
	// replica adds them, up to limits.backlog. What exceeds that stays in the log.
	backlog atomic.Int64
	// superseded is the zxid of a snapshot that replaces the history. Up to there the log
	// may have no entries any more: see applier.skips.
	superseded atomic.Int64 // jute.Zxid

	awaited atomic.Bool   // the peer loop waits until more is applied
	moved   chan struct{} // has a token when more is applied and awaited is set
}

func newHandover() *handover {
	return &handover{orders: newQueue[replica.Order](nil), moved: make(chan struct{}, 1)}
}

// supersede tells the applier that a snapshot at zxid will replace the history.
func (h *handover) supersede(zxid jute.Zxid) { h.superseded.Store(int64(zxid)) }

// progress tells the peer loop that more is applied, if it waits for that.
func (h *handover) progress() {
	if h.awaited.Load() {
		notify(h.moved)
	}
}
