package replica

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// controlOf returns what handles a request that concerns the ensemble itself, or nil. done is
// false if the request is refused: then it is a transaction that fails with Request.Refused.
// ok is false if nothing can be proposed now. The tree is locked for reading.
func (r *Replica) controlOf(req *evaluate.Request) func(*evaluate.Request) (done, ok bool) {
	switch {
	case req.Refused != 0 || r.o.Reconfigure == nil:
	case req.Op == jute.OpReconfig:
		return r.reconfigure
	case req.Op == jute.OpTransferLeader:
		return r.transferLeader
	}
	return nil
}

// reconfigure proposes the change of the members that a request asks for. Its client is
// answered by a barrier after the change: the change takes effect when it is applied.
func (r *Replica) reconfigure(req *evaluate.Request) (done, ok bool) {
	if _, ok := r.Core.NextZxid(); !ok {
		return false, false
	}
	change, err := r.leading.evaluator.Reconfig(req)
	switch {
	case err != nil:
		return false, true // Evaluate comes to the same error
	case changeAnsweredEarly.Planted():
		r.placeBarrier(barrier{origin: req.Origin})
	}
	zxid, err := r.changeMembers(&change)
	switch {
	case err == nil:
		r.event(zab.Info, 0, fmt.Sprintf("session %v changes the members at %v", req.Session, zxid))
		r.placeBarrier(barrier{origin: req.Origin})
		return true, true
	case errors.Is(err, zab.ErrNotLeading):
		return false, false
	}
	req.Refused = refusalOf(err)
	if !change.Allowed {
		return false, true // its text is in no log
	}
	r.event(zab.Warn, 0, fmt.Sprintf("a change of the members that session %v asked for is refused: %v", req.Session, err))
	return false, true
}

// transferLeader makes another server the leader. The client is answered before that. If the answer is
// lost, the next leader is asked again, which may be that server.
func (r *Replica) transferLeader(req *evaluate.Request) (done, ok bool) {
	request, err := r.leading.evaluator.TransferLeader(req)
	if to := zab.SIDOf(uint8(request.Server)); err == nil && to != r.o.ID {
		err = r.Core.TransferTo(to)
	}
	switch {
	case err == nil:
		r.placeBarrier(barrier{origin: req.Origin})
		return true, true
	case errors.Is(err, zab.ErrNotLeading):
		return false, false
	}
	req.Refused = refusalOf(err)
	return false, true
}

// ErrOwnLimit means that Apache's server would take a change of the members. A client that may
// not change them is told that, as there.
var ErrOwnLimit = errors.New("the change is beyond a limit of this server")

// changeMembers proposes a change of the members. As in Apache's server, a request with another
// version or one that makes no sense is told so. Then comes the permission, before all that
// depends on which servers are up.
func (r *Replica) changeMembers(change *evaluate.Reconfig) (jute.Zxid, error) {
	now, newest := r.Core.Lists()
	if now != newest {
		return 0, zab.ErrMembersPending
	}
	have := max(change.Version, now.Version) // the tree may not have the newest members yet
	outdated := change.ConfigID != -1 && jute.Zxid(change.ConfigID) != have
	outdated = outdated && !anyVersion.Planted()
	if outdated {
		return 0, fmt.Errorf("it is for version %x, and the present one is %x: %w", change.ConfigID, uint64(have), jute.ErrBadVersion)
	}
	list, remarks, err := r.o.Reconfigure(now, change.ReconfigRequest)
	forbidden := err == nil && !change.Allowed
	forbidden = forbidden && !changeByAnybody.Planted()
	switch {
	case errors.Is(err, ErrOwnLimit) && !change.Allowed, forbidden:
		return 0, jute.ErrNoAuth
	case err != nil:
		return 0, err
	}
	for _, remark := range remarks {
		r.event(zab.Warn, 0, remark)
	}
	list.Commanded = true
	late := r.Core.LateVoters(&list)
	zxid, err := r.Core.ProposeMembers(list)
	if err == nil && len(late) > 0 {
		r.event(zab.Warn, late[0], fmt.Sprintf("the change of the members at %v gives a vote to servers that are not there or not up to date: %v. "+
			"Of %d voters a majority must be up, so fewer failures are tolerated until they are; start them, or remove them", zxid, late, list.NumVoters()))
	}
	return zxid, err
}

// refusalOf returns the code with which a client learns that a change is refused.
func refusalOf(err error) jute.Code {
	switch {
	case errors.Is(err, zab.ErrMembersPending):
		return jute.ErrReconfigInProgress
	case errors.Is(err, zab.ErrNoQuorum):
		return jute.ErrNewConfigNoQuorum
	case errors.Is(err, zab.ErrBadMembers), errors.Is(err, zab.ErrNotPrepared):
		return jute.ErrBadArguments
	}
	return jute.CodeOf(err)
}
