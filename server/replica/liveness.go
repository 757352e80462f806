package replica

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// Any server answers pings and reads by itself, and a client relies on an answer: its
// session lives for its timeout from the time of the request. But the leader expires
// sessions, and it learns of touches later, or never. Therefore:
//
//   - A server answers by itself only while it has a lease (AnswersUntil), and only a
//     client that was not silent for long (LateAfter). Other requests are answered after
//     a barrier of the leader, which touches the session or refuses. In a healthy
//     ensemble there are none.
//   - A report of touches names the newest heartbeat that its server had received. The
//     leader knows when it sent that heartbeat, and it knows all touches before that
//     time.
//   - The leader does not expire a session of another server unless it knows all touches
//     up to the moment from which a client would have been late (touchesDueAfter), or that
//     server has had no lease for the session's whole timeout (mayBeAlive).
//   - The last reports of a server can be lost with the link to it. Its sessions are then
//     touched as of the end of its lease, and those of all servers when a leader begins:
//     the leases of earlier leaders have ended by then.

// LateAfter returns how long a client may be silent, in ms, and still be answered without
// the leader. Client libraries ping after a third of the timeout.
func LateAfter(timeoutMs int32) int64 {
	if leaseForEver.Planted() {
		return 1 << 62
	}
	return int64(timeoutMs) / 3 * 2
}

// touchesDueAfter returns up to when the leader has to know all touches, in ms after the last
// touch that it knows. It is longer than LateAfter because clocks differ.
func touchesDueAfter(timeoutMs int32) int64 { return int64(timeoutMs) / 4 * 3 }

// remoteTouches is a leader's knowledge of another server's clients, in ms of its own
// clock.
type remoteTouches struct {
	upTo  int64 // touches before this time were reported
	until int64 // the server answers no client by itself after this time
}

// AnswersUntil returns until when this server answers clients by itself, in ms of its
// clock, as of the last Tick.
func (r *Replica) AnswersUntil() int64 { return r.leasedTo }

// UpdateLeases updates until when this server answers by itself and, if it leads, until
// when the others do, before they learn of it.
func (r *Replica) UpdateLeases() {
	r.leasedTo = int64(r.Core.AnswersUntil())
	if leaseForEver.Planted() {
		r.leasedTo = 1 << 62
	}
	for i := range r.peers {
		r.remote[r.peers[i].ID].until = int64(r.peers[i].AnswersUntil)
	}
}

// Follows reports whether touches are to be reported to a leader.
func (r *Replica) Follows() bool {
	return r.status.Role == zab.Following || r.status.Role == zab.SyncingFollower
}

// ReportTouches tells the leader which sessions were heard of since the last report. An
// empty report means that there were none.
func (r *Replica) ReportTouches(touches []Touch) {
	if !r.Follows() {
		return
	}
	begin := r.beginFrame()
	r.buf = beginReport(r.buf, r.Core.Beat())
	for _, t := range touches {
		r.buf = appendTouch(r.buf, t)
	}
	r.toLeader(frameTouches, begin)
}

func (r *Replica) hearTouches(peer zab.SID, b []byte) error {
	if r.status.Role != zab.Leading {
		return nil // all touches before it leads are compensated
	}
	beat, touches, err := decodeReport(nil, b)
	if err != nil {
		return err
	}
	now := r.now()
	for _, t := range touches {
		if touchesDropped.Planted() && t.Session%2 == 0 {
			continue
		}
		r.o.Tracker.Touch(t.Session, now-t.AgeMs, t.TimeoutMs)
	}
	r.remote[peer].upTo = int64(r.Core.BeatTime(beat))
	return nil
}

// touch touches the session of a client's request. lives is false if it is too late for
// that. A session that is unknown here will become known, or its close precedes the
// request.
func (r *Replica) touch(req *evaluate.Request, now time.Duration) (s *session.Session, lives bool) {
	if req.Origin == 0 {
		return nil, true
	}
	s = r.o.Tracker.Get(req.Session)
	return s, s == nil || s.Touch(now.Milliseconds(), s.TimeoutMs())
}

// mayBeAlive reports whether the owner's server may have answered a session's client so late
// that the session must not expire yet.
func (r *Replica) mayBeAlive(owner uint64, deadline int64, timeoutMs int32) bool {
	at := ServerOf(owner)
	if owner == 0 || at == r.o.ID {
		return false
	}
	if nothingHeld.Planted() {
		return false
	}
	h := &r.remote[at]
	return h.upTo < deadline-int64(timeoutMs)+touchesDueAfter(timeoutMs) && r.now() < h.until+int64(timeoutMs)
}

// lostLink compensates for the reports of a server that were lost with the link.
func (r *Replica) lostLink(to zab.SID) {
	leads := r.status.Role == zab.Leading
	leads = leads && !lostTouches.Planted()
	if leads {
		r.o.Tracker.TouchOwned(func(owner uint64) bool { return owner != 0 && ServerOf(owner) == to }, r.remote[to].until)
	}
}

// Expire proposes to close the sessions that were due at a time with no pause left to
// forgive. A request that waits to be evaluated touches its session as of its arrival.
func (r *Replica) Expire(at time.Duration) {
	if r.status.Role != zab.Leading {
		return
	}
	if !r.outlivesRetirement() {
		r.closeExpired(at)
	}
	if r.leading.broken {
		return
	}
	r.leading.evaluator.Applied(r.o.State.Applied()) // it need not wait for the next request
}

// closeExpired closes the sessions that were due.
func (r *Replica) closeExpired(at time.Duration) {
	for sub := range r.Waiting() {
		if waitingIgnored.Planted() {
			break
		}
		if sub.Request.Origin == 0 {
			continue
		}
		if s := r.o.Tracker.Get(sub.Request.Session); s != nil {
			s.Touch(sub.Received.Milliseconds(), s.TimeoutMs())
		}
	}
	var closes []Submission
	for _, id := range r.o.Tracker.Expire(at.Milliseconds(), r.mayBeAlive) {
		r.expired = append(r.expired, id)
		closes = append(closes, Submission{Received: at, Request: evaluate.Request{Op: jute.OpCloseSession, Session: id}})
	}
	r.enqueue(closes)
}
