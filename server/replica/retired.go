package replica

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// While an ensemble is retired (package evaluate), another one may have begun with its state. Therefore:
//
//   - Whatever clients ask the leader for ends their connections, without an answer and without a transaction: they
//     find the other ensemble, and ask there. That holds for a sync and a linearizable read, too.
//   - No session expires. Its client may have it at the other ensemble, and what its end shows here would be wrong there.
//   - When the ensemble is not retired any more, sessions get their full timeout, and none is closing: their clients
//     were sent away, and a close that was refused is not proposed again.

// refusesRetired refuses a submission if the ensemble is retired, and reports whether it did.
func (r *Replica) refusesRetired(sub *Submission) bool {
	l, origin := &r.leading, sub.Request.Origin
	retired := l.evaluator.Retired()
	retired = retired && !retiredIgnored.Planted()
	served := sub.Kind == Write && evaluate.ForRetired(&sub.Request)
	served = served || retiredSyncs.Planted() && sub.Kind == Barrier
	served = served || retiredResumes.Planted() && sub.Kind == Resume
	served = served || retiredExpires.Planted() && origin == 0
	switch {
	case !retired || served:
		return false
	case sub.Kind == Resume:
		r.placeBarrier(barrier{origin: origin, session: sub.Request.Session, code: jute.ErrSessionMoved})
	case origin != 0:
		r.refuse(origin)
	}
	return true
}

// outlivesRetirement reports whether no session expires because the ensemble is retired, or was at the last look or since, however
// briefly.
func (r *Replica) outlivesRetirement() bool {
	retired, was := r.leading.evaluator.LookRetired(r.o.State.Applied())
	if retiredExpires.Planted() {
		return false
	}
	revives := was && !retired
	revives = revives && !neverRevived.Planted()
	if revives {
		r.o.Tracker.Revive(r.now() + zab.MaxLease)
	}
	return was || retired
}

// mayRetire tells the evaluator whether all servers know what a retired ensemble is.
func (r *Replica) mayRetire() {
	if r.leading.evaluator != nil {
		r.leading.evaluator.AllowRetirement(r.o.Ensemble && r.format >= datatree.FormatRetired)
	}
}
