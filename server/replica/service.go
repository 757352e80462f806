package replica

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// A service is a time in which a server follows one leader over one link, or leads itself. What
// is under way between the server and its leader when a service ends is lost, or not; the
// connections of the clients stay. Each has its requests that are not answered in a queue
// (package pending). In the next service the server finds out what became of them:
//
//   - A request that is evaluated into a transaction of the history is answered when that is
//     applied, whatever service it is.
//   - The server begins a service by a fence: it tells the leader, which from then on drops the
//     requests of the server's earlier services that it has not evaluated, and answers by a
//     barrier. When the barrier has passed, all other requests in the queues were not done and
//     never will be. The applier then submits them again, in their order (OrderFence).
//
// The fence is exact because requests of earlier services can come from three places only:
//
//   - Another leader evaluated them. What is committed of its epoch precedes the marker of the
//     present epoch, which is applied before the service begins; the rest is dead.
//   - This leader evaluated them: then their entries precede the barrier.
//   - They are on their way to this leader. On the same link they precede the fence. Those that
//     come over an earlier link are dropped.
//
// The answers without a transaction that the leader gave in earlier services are valid if the server has
// them when the service ends, and if they need nothing but the entries that precede them: when these
// are applied. All others are lost: the server ignores those that still arrive before its fence has
// come back. So in an interlude,
// which begins with OrderInterlude and ends with OrderFence, a transaction can follow requests
// whose answers were lost: see pending.Queue.Overtaken.

// Service returns the number of the present service, or of the last one. A later one has a
// higher number, and so do connections that begin later.
func (r *Replica) Service() uint64 { return r.service }

func serves(role zab.Role) bool { return role == zab.Leading || role == zab.Following }

// beginService begins a service with its fence.
func (r *Replica) beginService() {
	r.service = r.o.NewOrigin()
	r.fenced = r.status.Role == zab.Leading
	if r.fenced {
		r.fence(r.service)
		return
	}
	begin := r.beginFrame()
	r.buf = appendFence(r.buf, r.service)
	r.toLeader(frameFence, begin)
}

// endService forgets the pending requests of clients.
func (r *Replica) endService() {
	r.interlude = true
	if keptOverRoles.Planted() {
		return
	}
	r.leading.reset(r.o.Limits.Turn)
	r.keepConfirmed()
	clear(r.reads)
	// The marks of a former leader are reset: a close that it proposed may be lost.
	r.o.Tracker.Reset(r.now(), nil)
}

// ofThisService returns the submissions that were made in the present service. The connections
// of the others repeat them, except those that have no session yet, which end.
func (r *Replica) ofThisService(batch []Submission) []Submission {
	role, kept := r.status.Role, batch[:0]
	for i := range batch {
		sub := &batch[i]
		switch origin := sub.Request.Origin; {
		case origin == 0 && role == zab.Leading, origin != 0 && serves(role) && r.submittedNow(sub):
			kept = append(kept, *sub)
		case sub.Request.Op == jute.OpCreateSession:
			r.end = append(r.end, origin)
		}
	}
	return kept
}

func (r *Replica) hearFence(peer zab.SID, epoch uint32, b []byte) error {
	if !r.leadsIn(epoch) {
		return nil
	}
	service, err := decodeFence(b)
	switch {
	case err != nil:
		return err
	case ServerOf(service) != peer:
		return errNotYours
	}
	r.fence(service)
	return nil
}

// fence makes a leader drop the requests of a server's services before the given one, and answer
// by a barrier after everything that it has evaluated.
func (r *Replica) fence(service uint64) {
	l := &r.leading
	l.services[ServerOf(service)] = service
	for origin := range l.refused {
		if ServerOf(origin) == ServerOf(service) {
			delete(l.refused, origin)
		}
	}
	r.placeBarrier(barrier{origin: service})
}

// submittedNow reports whether a request of a client was submitted in the present service.
func (r *Replica) submittedNow(sub *Submission) bool {
	present := sub.Service == r.service
	return present || earlierSubmitted.Planted()
}

// ofEarlierService reports whether a waiting request is of a service that has ended.
func (r *Replica) ofEarlierService(sub *Submission) bool {
	origin := sub.Request.Origin
	earlier := origin != 0 && sub.Service < r.leading.services[ServerOf(origin)]
	return earlier && !earlierServed.Planted()
}

// precedesFence reports whether a barrier from the leader is the answer to a request of an earlier
// service. It notes when the fence comes back.
func (r *Replica) precedesFence(b *barrier) bool {
	r.fenced = r.fenced || b.origin == r.service
	earlier := !r.fenced && b.origin < r.service
	return earlier && !earlierBarriers.Planted()
}
