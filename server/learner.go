package server

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// forwardBytes is about how long a frame of forwarded requests may become.
const forwardBytes = 1 << 20

// forward passes requests on to the leader, in order. They are answered when what
// the leader made of them is applied here.
func (r *replica) forward(batch []submission) {
	frame := beginPeerFrame(r.frame[:0], r.status.Epoch)
	head := len(frame)
	var before *submission
	for i := range batch {
		sub := &batch[i]
		if sub.req.Origin <= r.barred {
			r.closeOrigin(sub.req.Origin)
			continue
		}
		frame = appendSubmission(frame, sub, before)
		before = sub
		if len(frame) >= forwardBytes {
			r.toLeader(frameSubmissions, frame)
			frame, before = frame[:head], nil
		}
	}
	if len(frame) > head {
		r.toLeader(frameSubmissions, frame)
	}
	if cap(frame) <= 4*forwardBytes {
		r.frame = frame
	}
}

func (r *replica) toLeader(kind uint8, frame []byte) {
	r.sendApp(r.status.Leader, r.status.LeaderGen, kind, frame)
}

// hear takes in a frame from another server. What belongs to another time is
// dropped: whoever sent it has noticed the change as well, and has closed the
// connections that wait.
func (r *replica) hear(ev *peerEvent) {
	f := fields{b: ev.body}
	epoch := f.uint32()
	err := f.err()
	if err == nil {
		switch ev.app {
		case frameSubmissions:
			err = r.hearSubmissions(ev, epoch, f.b)
		case frameBarriers:
			err = r.hearBarriers(ev, f.b)
		case frameConfirmed:
			err = r.hearConfirmed(ev, f.b)
		case frameTouches:
			err = r.hearTouches(ev, f.b)
		case frameDigest:
			err = r.hearDigest(ev, f.b)
		case frameDiverged:
			err = r.hearDiverged(ev, f.b)
		default:
			err = fmt.Errorf("frame of kind %d", ev.app)
		}
	}
	if err != nil && !errors.Is(err, errOtherFormula) {
		r.log.Error("frame of another server is wrong; is it of another version?",
			zap.Uint8("peer", uint8(ev.peer)), zap.Uint8("kind", ev.app), zap.Error(err))
	}
}

var errNotYours = errors.New("request with a connection of another server, or of a kind that servers do not pass on")

func (r *replica) hearSubmissions(ev *peerEvent, epoch uint32, b []byte) error {
	switch {
	case r.status.Role == zab.SyncingLeader && epoch == r.status.Epoch: // evaluated when it leads
	case r.status.Role != zab.Leading || epoch < r.leading.since || epoch > r.status.Epoch:
		return nil
	}
	batch, err := decodeSubmissions(nil, b, r.now())
	if err != nil {
		return err
	}
	for i := range batch {
		if serverOf(batch[i].req.Origin) != ev.peer || !forwardable(&batch[i]) {
			return errNotYours
		}
	}
	r.propose(batch)
	return nil
}

// forwardable reports whether a submission is of a kind that followers pass on.
func forwardable(sub *submission) bool {
	switch sub.kind {
	case submitWrite:
		return sub.req.Op == jute.OpCreateSession || fromLeader(sub.req.Op) && sub.req.Op != jute.OpSync
	case submitBarrier:
		return sub.req.Op == jute.OpSync
	default:
		return sub.req.Op == jute.OpCreateSession
	}
}

// fromMyLeader reports whether a frame comes from the leader that this server
// follows, and over the link on which it does.
func (r *replica) fromMyLeader(ev *peerEvent) bool {
	return r.status.Role == zab.Following && ev.peer == r.status.Leader && ev.gen == r.status.LeaderGen
}

func (r *replica) hearBarriers(ev *peerEvent, b []byte) error {
	if !r.fromMyLeader(ev) {
		return nil
	}
	barriers, err := decodeBarriers(nil, b)
	for i := range barriers {
		if read := barriers[i].read; read != 0 {
			r.held[read] = heldRead{at: r.id}
		}
	}
	r.barriers.push(barriers...)
	return err
}

func (r *replica) hearConfirmed(ev *peerEvent, b []byte) error {
	if !r.fromMyLeader(ev) {
		return nil
	}
	reads, err := decodeConfirmed(nil, b)
	for _, read := range reads {
		r.confirmed(read)
	}
	return err
}

// tellDigest tells the leader what this server's tree is at a zxid.
func (r *replica) tellDigest(report []byte) {
	switch r.status.Role {
	case zab.Following:
		r.toLeader(frameDigest, append(beginPeerFrame(nil, r.status.Epoch), report...))
	case zab.Leading:
		if zxid, digest, err := decodeDigest(report); err == nil {
			r.reportDigest(r.id, zxid, digest)
		}
	}
}

func (r *replica) hearDigest(ev *peerEvent, b []byte) error {
	zxid, digest, err := decodeDigest(b)
	if err == nil && r.status.Role == zab.Leading {
		r.reportDigest(ev.peer, zxid, digest)
	}
	return err
}
