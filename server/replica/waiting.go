package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/fair"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/zab"
)

// enqueue adds requests to be evaluated and proposed in their turn. Later requests of a connection that
// is to end have no effect.
func (r *Replica) enqueue(batch []Submission) {
	now := r.o.Now()
	for i := range batch {
		sub, l := &batch[i], &r.leading
		origin, size := sub.Request.Origin, sub.Size()
		if len(sub.Request.Body) < longRequest {
			l.pace.shortAt = now
		}
		if key := turnOf(origin); !l.waiting.Append(key, *sub, int(size)) {
			subject, turn := r.subjectOf(sub)
			l.waiting.Push(subject, turn, key, *sub, int(size))
			if origin != 0 {
				l.pace.came(subject, now)
			}
		}
		l.bytes += size
		if lastRefused.Planted() && origin != 0 && l.bytes > r.o.Limits.Waiting {
			l.waiting.Remove(origin, r.refuseWaiting)
		}
	}
	r.makeRoom()
}

// turnOf returns the number of the list in which a request waits.
func turnOf(origin uint64) uint64 {
	switch {
	case firstComeFirstServed.Planted():
		return 0
	case turnsOfServers.Planted():
		return uint64(ServerOf(origin))
	}
	return origin
}

// subjectOf returns whose turns a request waits for, and how much is evaluated in one of them.
func (r *Replica) subjectOf(sub *Submission) (_ limits.Subject, turn int) {
	switch {
	case turnsOfConnections.Planted():
		return limits.Subject{ID: jute.ID{ID: string(binary.BigEndian.AppendUint64(nil, sub.Request.Origin))}}, r.o.Limits.Turn
	case firstComeFirstServed.Planted(), turnsOfServers.Planted():
		return limits.Subject{}, r.o.Limits.Turn
	}
	var weights *limits.Weights
	if r.o.Weights != nil {
		weights = r.o.Weights()
	}
	subject, weight := weights.Of(sub.Request.Auth)
	if weightsIgnored.Planted() {
		weight = limits.Even
	}
	return subject, max(r.o.Limits.Turn*weight/limits.Even, 1)
}

// makeRoom ends connections if more than Limits.Waiting waits: those that have most of it, by themselves
// and with others of their address or identity, whichever came last. None of their waiting requests is
// done, and none after these: so what is done of a connection has no gap, and its client learns
// that it does not know. The requests of the servers themselves stay.
func (r *Replica) makeRoom() {
	l := &r.leading
	tooMuch := l.bytes - r.o.Limits.Waiting
	if tooMuch <= 0 {
		return
	}
	var holders []fair.Holder[uint64]
	for list := range l.waiting.Lists() {
		if list.Key != 0 {
			holders = append(holders, fair.Holder[uint64]{Key: list.Key, Groups: limits.Groups(list.First.Request.Auth), Amount: int64(list.Cost)})
		}
	}
	over := fair.Release(holders, tooMuch)
	for _, i := range over {
		l.waiting.Remove(holders[i].Key, r.refuseWaiting)
	}
	if len(over) > 0 {
		r.event(zab.Warn, 0, fmt.Sprintf("more than %d bytes of requests wait: ends %d connections that have most of them", r.o.Limits.Waiting, len(over)))
	}
}

// refuseWaiting ends the connection of a waiting request, which is removed.
func (r *Replica) refuseWaiting(sub *Submission) {
	r.leading.bytes -= sub.Size()
	r.refuse(sub.Request.Origin)
}

// endsRefused reports whether a connection ends because a request was refused. What has come on it after that has no effect, whatever
// has changed meanwhile.
func (r *Replica) endsRefused(origin uint64) bool {
	refused := origin != 0 && r.leading.refused[origin]
	return refused && !refusedServed.Planted()
}

// refuse ends a connection, of which no request is evaluated any more.
func (r *Replica) refuse(origin uint64) {
	l := &r.leading
	if l.refused[origin] {
		return
	}
	if l.refused == nil {
		l.refused = make(map[uint64]bool)
	}
	l.refused[origin] = true
	if !refusedSilently.Planted() {
		r.placeBarrier(barrier{origin: origin, code: jute.ErrSessionMoved})
	}
}
