package replica

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// ForwardBytes is the approximate maximum length of a frame of forwarded requests.
const ForwardBytes = 1 << 20

// Ordered reports whether the leader orders a client's op.
func Ordered(op jute.OpCode) bool {
	switch op {
	case jute.OpCreateSession, jute.OpDeleteContainer: // made by the server itself
		return false
	case jute.OpSync:
		return true
	}
	return op.Write()
}

// forward passes requests to the leader, in order. They are answered when the leader's
// results are applied here.
func (r *Replica) forward(batch []Submission) {
	begin := r.beginFrame()
	head := len(r.buf)
	var before *Submission
	for i := range batch {
		sub := &batch[i]
		if forwardDrops.Planted() && sub.Request.Cxid%8 == 7 {
			continue
		}
		r.buf = appendSubmission(r.buf, sub, before)
		if forwardedTwice.Planted() && sub.Request.Cxid%8 == 7 {
			r.buf = appendSubmission(r.buf, sub, nil)
		}
		before = sub
		if len(r.buf)-begin >= ForwardBytes {
			r.toLeader(frameSubmissions, begin)
			begin = r.beginFrame()
			head, before = len(r.buf), nil
		}
	}
	if len(r.buf) > head {
		r.toLeader(frameSubmissions, begin)
	} else {
		r.buf = r.buf[:begin]
	}
}

// beginFrame begins a frame at the end of buf, and returns where.
func (r *Replica) beginFrame() (begin int) {
	begin = len(r.buf)
	r.buf = beginFrame(r.buf, r.status.Epoch)
	return begin
}

// toLeader sends the frame that begins at begin.
func (r *Replica) toLeader(kind uint8, begin int) {
	r.send(r.status.Leader, r.status.LeaderGen, kind, r.buf[begin:len(r.buf):len(r.buf)])
}

func (r *Replica) send(to zab.SID, gen uint64, kind uint8, body []byte) {
	r.frames = append(r.frames, Frame{To: to, Gen: gen, Kind: kind, Urgent: urgent(kind), Body: body})
}

// takeFrames moves the frames into out.
func (r *Replica) takeFrames(out *Output) {
	for i := range r.answers {
		a := &r.answers[i]
		a.barriers.flush(r, a.to, frameBarriers)
		a.confirmed.flush(r, a.to, frameConfirmed)
	}
	if cap(out.buf) > 4*ForwardBytes {
		out.buf = nil
	}
	out.Frames, r.frames = r.frames, out.Frames[:0]
	out.buf, r.buf = r.buf, out.buf[:0]
}

// Frame processes a frame from another server. It drops frames of an earlier link or
// role: the sender notices the change as well, and repeats what is not done.
func (r *Replica) Frame(peer zab.SID, gen uint64, kind uint8, body []byte) error {
	if r.links[peer] != gen {
		return nil
	}
	f := wire.NewReader(body)
	epoch := f.Uint32()
	if err := f.Err(); err != nil {
		return err
	}
	switch b := f.Rest(); kind {
	case frameSubmissions:
		return r.hearSubmissions(peer, epoch, b)
	case frameBarriers:
		return r.hearBarriers(peer, gen, b)
	case frameConfirmed:
		return r.hearConfirmed(peer, gen, b)
	case frameTouches:
		return r.hearTouches(peer, b)
	case frameDigest:
		return r.hearDigest(peer, b)
	case frameDiverged:
		return r.hearDiverged(peer, gen, b)
	case frameJoin:
		r.hearJoin(peer, string(b))
		return nil
	case frameFence:
		return r.hearFence(peer, epoch, b)
	}
	return fmt.Errorf("frame of kind %d", kind)
}

var errNotYours = errors.New("request with a connection of another server, or of a kind that servers do not pass on")

func (r *Replica) hearSubmissions(peer zab.SID, epoch uint32, b []byte) error {
	if !r.leadsIn(epoch) {
		return nil
	}
	batch, err := decodeSubmissions(nil, b, r.o.Now())
	if err != nil {
		return err
	}
	for i := range batch {
		if ServerOf(batch[i].Request.Origin) != peer || !forwardable(&batch[i]) {
			return errNotYours
		}
		batch[i].Service = r.leading.services[peer]
	}
	r.requests[peer] += uint64(len(batch))
	r.enqueue(batch)
	return nil
}

// leadsIn reports whether requests that were sent in an epoch are for this leader. A leader that
// is not ready yet evaluates them when it leads.
func (r *Replica) leadsIn(epoch uint32) bool {
	if r.status.Role == zab.SyncingLeader {
		return epoch == r.status.Epoch
	}
	return r.status.Role == zab.Leading && epoch >= r.leading.since && epoch <= r.status.Epoch
}

// forwardable reports whether followers forward submissions of this kind.
func forwardable(sub *Submission) bool {
	op := sub.Request.Op
	switch sub.Kind {
	case Write:
		return op == jute.OpCreateSession || Ordered(op) && op != jute.OpSync
	case Barrier:
		return op == jute.OpSync
	default:
		return op == jute.OpCreateSession
	}
}

// fromLeader reports whether a frame comes from the leader that this server follows, over
// the link on which it follows it.
func (r *Replica) fromLeader(peer zab.SID, gen uint64) bool {
	return r.status.Role == zab.Following && peer == r.status.Leader && gen == r.status.LeaderGen
}

func (r *Replica) hearBarriers(peer zab.SID, gen uint64, b []byte) error {
	if !r.fromLeader(peer, gen) {
		return nil
	}
	barriers, err := decodeBarriers(nil, b)
	for i := range barriers {
		x := &barriers[i]
		if r.precedesFence(x) {
			continue
		}
		if x.read != 0 {
			r.reads[x.read] = r.o.ID
		}
		r.barriers.Push(*x)
	}
	return err
}

func (r *Replica) hearConfirmed(peer zab.SID, gen uint64, b []byte) error {
	if !r.fromLeader(peer, gen) {
		return nil
	}
	reads, err := decodeConfirmed(nil, b)
	for _, read := range reads {
		r.confirmed(read)
	}
	return err
}
