package server

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/server/zab"
)

// Any server answers pings and reads by itself, and whoever got an answer relies
// on it that the session lives for its timeout from when he asked. But the leader
// lets sessions expire, and hears of touches later, or never. So:
//
//   - A server answers by itself only while it has a lease (zab.Core.AnswersUntil),
//     and only a client that was not silent for long (lateAfter). Other requests are
//     answered behind a barrier of the leader's, which touches the session or
//     refuses. In a healthy ensemble there are none.
//   - A report of touches tells the newest heartbeat that its server had heard. The
//     leader knows when it sent that: of touches before then it knows all.
//   - The leader does not let a session of another server expire unless it knows all
//     touches up to the moment from which a client would have been late (knownUpTo), or
//     that server has had no lease for the session's whole timeout (mayLive).
//   - With the link to a server its last reports can be lost. Then its sessions are
//     touched as of the end of its lease, and those of all servers when a leader
//     begins: the leases of earlier leaders have run out by then.

// lateAfter is for how long a client may be silent, in ms, and be answered without
// the leader. Client libraries ping after a third of the timeout.
func lateAfter(timeoutMs int32) int64 { return int64(timeoutMs) / 3 * 2 }

// knownUpTo is up to when the leader has to know all touches, in ms behind the last
// that it knows: longer than lateAfter, as clocks differ.
func knownUpTo(timeoutMs int32) int64 { return int64(timeoutMs) / 4 * 3 }

// hearsay is what a leader knows of another server's clients. The peer loop writes
// it. Times are ms on the leader's clock.
type hearsay struct {
	upTo  atomic.Int64 // touches before this were reported
	until atomic.Int64 // the server answers nobody by itself later than this
}

// arriving stands for the time of a touch before the clock has been read. So a
// report can't miss a request that came before it was made.
const arriving = -1

// arrive notes that the client was heard of, before the first request of a batch
// is handled, and whether its requests may be answered without the leader.
func (c *conn) arrive() {
	last := c.touched.Swap(arriving)
	c.started = c.srv.now()
	now := millis(c.started)
	c.touched.Store(now)
	lives := c.tracked.Load().Touch(now, c.timeoutMs)
	c.alone = c.local.Load() || lives && now < c.srv.answersUntil.Load() && now-last < lateAfter(c.timeoutMs)
}

// reportTouches tells the leader which sessions were heard of since the last
// report, on connections that have ended since too.
func (r *replica) reportTouches(now int64) {
	r.reportedAt = now
	live, ended := r.conns.heard()
	if r.status.Role != zab.Following && r.status.Role != zab.SyncingFollower {
		return
	}
	frame := beginReport(beginPeerFrame(r.frame[:0], r.status.Epoch), r.core.Beat())
	for _, c := range live {
		at, id := c.touched.Load(), c.sessionID()
		if at == c.reported || id == 0 || c.local.Load() {
			continue
		}
		c.reported = at
		if at == arriving {
			at = now
		}
		frame = appendTouch(frame, touch{session: id, timeoutMs: c.timeoutMs, ageMs: now - at})
	}
	for _, t := range ended {
		frame = appendTouch(frame, touch{session: t.session, timeoutMs: t.timeoutMs, ageMs: now - t.at})
	}
	r.toLeader(frameTouches, frame)
	r.frame = frame
}

func (r *replica) hearTouches(ev *peerEvent, b []byte) error {
	if r.status.Role != zab.Leading {
		return nil // all touches up to the moment from which it leads are made up for
	}
	beat, touches, err := decodeReport(nil, b)
	if err != nil {
		return err
	}
	now := millis(r.now())
	for _, t := range touches {
		r.tracker.Touch(t.session, now-t.ageMs, t.timeoutMs)
	}
	r.hearsay[ev.peer].upTo.Store(int64(r.core.BeatTime(beat)))
	return nil
}

// knowLeases makes known until when this server answers by itself, and if it leads
// until when the others do: before they hear of it.
func (r *replica) knowLeases(learners []zab.PeerStatus) {
	r.answersUntil.Store(int64(r.core.AnswersUntil()))
	for i := range learners {
		r.hearsay[learners[i].ID].until.Store(int64(learners[i].AnswersUntil))
	}
}

// mayLive reports whether the client of a session may have been answered by the
// owner's server so late that the session must not expire yet.
func (s *Server) mayLive(owner uint64, deadline int64, timeoutMs int32) bool {
	at := serverOf(owner)
	if owner == 0 || at == s.id {
		return false
	}
	h := &s.hearsay[at]
	return h.upTo.Load() < deadline-int64(timeoutMs)+knownUpTo(timeoutMs) &&
		millis(s.now()) < h.until.Load()+int64(timeoutMs)
}

// lostLink makes up for the reports of a server that were lost with the link.
func (r *replica) lostLink(to zab.SID) {
	if r.status.Role == zab.Leading {
		r.tracker.TouchOwned(func(owner uint64) bool { return owner != 0 && serverOf(owner) == to }, r.hearsay[to].until.Load())
	}
}
