package server

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/server/replica"
)

// limits bound the memory that a server holds for work in progress, in bytes. Tests lower
// them before the start.
type limits struct {
	// cache is the size of the newest entries kept for learners. A learner that lags
	// further is served from the log. The core keeps up to twice as many uncommitted
	// bytes.
	cache int
	// requests is for the waiting requests of this server's clients: see throttler.
	requests int64
	// replies is for unwritten replies of connections with more than outFlush: see
	// clients.Limits.
	replies int64
	// waiting is for the requests that a leader has not evaluated. Beyond that the connections
	// that have most of them end.
	waiting int64
	// proposals is for the decoded transactions of a leader that are not committed. Those
	// beyond it are decoded again when they are applied.
	proposals int64
	// backlog is for committed entries that are not applied. Entries beyond it are read
	// from the log.
	backlog int64
	// log is for records at the log writer. Above it a leader proposes nothing, and requests
	// wait where connections have turns. It is less than the log writer's own limit, at which
	// handing over records blocks.
	log int64
	// turn is for the requests of a connection that a leader evaluates one after the other while
	// others wait. Replies to requests of one turn have a system call in common.
	turn int
}

// replica returns the limits of the server's replica.
func (l *limits) replica() replica.Limits {
	return replica.Limits{Waiting: l.waiting, Proposals: l.proposals, Backlog: l.backlog, Log: l.log, Turn: l.turn}
}

var defaultLimits = limits{
	cache:     maxCache,
	requests:  maxRequests,
	replies:   256 << 20,
	waiting:   512 << 20,
	proposals: 16 << 20,
	backlog:   32 << 20,
	log:       4 << 20,
	turn:      16 << 10,
}

// limitsWithin returns the limits of a process that may use this much memory; 0 is any amount.
func limitsWithin(memory int64) limits {
	l := defaultLimits
	if memory <= 0 {
		return l
	}
	share := max(memory/32, 1<<20)
	l.cache = int(min(int64(l.cache), share/4))
	for _, field := range []*int64{&l.requests, &l.replies, &l.waiting, &l.proposals, &l.backlog, &l.log} {
		*field = min(*field, share)
	}
	return l
}

// sum bounds what all of these take together.
func (l *limits) sum() int64 {
	return 2*int64(l.cache) + l.requests + l.replies + l.waiting + l.proposals + l.backlog + l.log
}

// part identifies a kind of work in progress that a server holds in memory.
type part int

const (
	heldRequests  part = iota // of this server's clients, from arrival to answer
	heldReplies               // of this server's clients, and watch events, not written to their sockets
	heldSubmitted             // requests handed to the peer loop and not taken
	heldEvents                // events from other servers and goroutines to the peer loop, not taken
	heldWaiting               // a leader's: requests not evaluated, and resumptions not decided
	heldProposals             // a leader's: decoded transactions that are not committed
	heldOverlay               // a leader's: changes that are evaluated and not applied
	heldEntries               // the newest entries, which the core keeps
	heldLog                   // records at the log writer
	heldBarriers              // outcomes without a transaction that are not given to the applier
	heldReads                 // rounds of the leader that barriers wait for
	heldReady                 // orders that are not given to the applier
	heldBacklog               // orders at the applier, and the entries of these and of heldReady
	heldEnded                 // connections that have ended since the last report of touches
	heldView                  // znodes kept for the snapshot that is being written
	numParts
)

var partNames = [numParts]string{
	"requests", "replies", "submitted", "events", "waiting", "proposals", "overlay", "entries", "log", "barriers", "reads", "ready",
	"backlog", "ended", "view",
}

// What bounds each part, where the limit in bytes does not:
//
//   - requests: globalOutstandingLimit and limits.requests, but each connection may have
//     one. Beyond that connections are not read.
//   - replies: limits.replies. Beyond that the connections that hold most are disconnected:
//     see package fair. The reader of a connection makes one reply more than it has written.
//   - submitted: requests.
//   - events: what other servers may send unasked, which is the leader's window for each
//     learner, and the requests of the other servers' clients.
//   - waiting: limits.waiting. Beyond that the connections that have most of it end: see package fair.
//   - proposals: limits.proposals. Those beyond it are decoded again.
//   - overlay: the entries, including those beyond limits.cache, which are in the log.
//   - entries: twice limits.cache, and the entries of one turn. Those beyond it are read
//     from the log. A server without an ensemble holds the records at the log writer.
//   - log: limits.log, and the proposals of one turn. A leader delays its proposals.
//   - barriers, reads: requests without a transaction, at all servers if this one leads.
//   - ready, backlog: limits.backlog. Entries beyond it stay in the log. An unconfirmed
//     barrier holds up ready.
//   - ended: the connections that can end within half a tickTime.
//   - view: the znodes that existed when the snapshot began.

// held is the memory that the peer loop holds, as of its last turn.
type held [numParts]struct{ items, bytes atomic.Int64 }

func (h *held) show(p part, items int, bytes int64) {
	if e := &h[p]; e.items.Load() != int64(items) || e.bytes.Load() != bytes {
		e.items.Store(int64(items))
		e.bytes.Store(bytes)
	}
}

// showHeld publishes what the peer loop holds.
func (l *loop) showHeld() {
	h := l.replica.Held()
	l.standing.held.show(heldWaiting, h.Waiting, h.WaitingBytes)
	l.standing.held.show(heldProposals, h.Proposals, h.ProposalBytes)
	l.standing.held.show(heldOverlay, h.Overlay, 0)
	entries, bytes := l.replica.Core.Held()
	l.standing.held.show(heldEntries, entries, int64(bytes))
	l.standing.held.show(heldLog, h.Log, h.LogBytes)
	l.standing.held.show(heldBarriers, h.Barriers, 0)
	l.standing.held.show(heldReads, h.Reads, 0)
	l.standing.held.show(heldReady, h.Ready, 0)
	l.metrics.PendingSyncs.Store(int64(h.Reads))
}
