package replica

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// barrier is the place among the entries of a request that has no transaction. The leader
// sends it to the server of its client, where it takes effect.
type barrier struct {
	after   jute.Zxid // the last entry that was proposed before it
	origin  uint64
	code    jute.Code
	session jute.SessionID
	read    uint64 // the quorum read that it waits for; 0 for none
}

// quorumRead is the leader's question to a quorum whether it still leads, kept at the
// server whose barrier waits for the answer. It is removed when it is confirmed. A failed
// one stays until its barrier has passed.
type quorumRead struct {
	at     zab.SID
	failed bool
}

// answers are the frames for one follower that are being built.
type answers struct {
	to                  zab.SID
	barriers, confirmed frameBuffer
}

// frameBuffer is a frame that grows until it is taken. It alternates between its memory
// and that of the frame taken last.
type frameBuffer struct{ now, taken []byte }

func (f *frameBuffer) flush(r *Replica, to zab.SID, kind uint8) {
	if len(f.now) == 0 {
		return
	}
	r.send(to, r.links[to], kind, f.now)
	if cap(f.taken) > 4*ForwardBytes {
		f.taken = nil
	}
	f.now, f.taken = f.taken[:0], f.now
}

// answersFor returns the frames being built for a follower.
func (r *Replica) answersFor(to zab.SID) *answers {
	for i := range r.answers {
		if r.answers[i].to == to {
			return &r.answers[i]
		}
	}
	r.answers = append(r.answers, answers{to: to})
	return &r.answers[len(r.answers)-1]
}

// placeBarrier puts a barrier after everything proposed so far, here or at the server of its
// client.
func (r *Replica) placeBarrier(b barrier) {
	b.after = r.Core.LastZxid()
	if mutated(barrierEarly) || mutated(expiredEarly) && b.code == jute.ErrSessionExpired {
		b.after = 0
	}
	if mutated(wrongConnection) && r.placed != 0 && ServerOf(r.placed) == ServerOf(b.origin) {
		b.origin, r.placed = r.placed, b.origin
	}
	r.placed = b.origin
	to := ServerOf(b.origin)
	if to == r.o.ID {
		r.barriers.Push(b)
		return
	}
	f := &r.answersFor(to).barriers
	if len(f.now) == 0 {
		f.now = beginFrame(f.now, r.status.Epoch)
	}
	f.now = appendBarrier(f.now, &b)
}

// readQuorum asks a quorum whether this server still leads. It returns the number of the
// read, for the barrier of a connection that waits for the answer.
func (r *Replica) readQuorum(origin uint64) uint64 {
	r.lastRead++
	r.reads[r.lastRead] = quorumRead{at: ServerOf(origin)}
	r.Core.ReadIndex(r.lastRead)
	return r.lastRead
}

// leaseOrRead returns 0 while the leader's lease holds, and otherwise the number of the
// quorum read that the barrier of a connection must wait for.
func (r *Replica) leaseOrRead(origin uint64) uint64 {
	if r.now() < r.leasedTo || mutated(leaseForEver) {
		return 0
	}
	return r.readQuorum(origin)
}

// confirmed processes the outcome of a quorum read. The connections of barriers whose
// read failed end in their turn: their clients try another server.
func (r *Replica) confirmed(read zab.ReadResult) {
	asked, ok := r.reads[read.ID]
	switch {
	case !ok:
	case asked.at != r.o.ID:
		delete(r.reads, read.ID)
		f := &r.answersFor(asked.at).confirmed
		if len(f.now) == 0 {
			f.now = beginFrame(f.now, r.status.Epoch)
		}
		f.now = appendConfirmed(f.now, read)
	case read.OK:
		delete(r.reads, read.ID)
	default:
		r.reads[read.ID] = quorumRead{at: asked.at, failed: true}
	}
}

// feed gives the applier the ready orders, each barrier after the entries that it
// follows: a replay stops at the places of barriers. An unconfirmed barrier holds up the
// orders after it, since the request after a sync must not be answered before the sync.
// That costs nothing: those orders need an answer of the same servers, and their disks.
func (r *Replica) feed(out *Output) {
	clear(out.Orders)
	if cap(out.Orders) > keptOrders {
		out.Orders = nil
	}
	orders := out.Orders[:0]
	ready, barriers := r.ready.All(), r.barriers.All()
	n, b := 0, 0
	for {
		if b < len(barriers) && barriers[b].after <= r.fed {
			x := &barriers[b]
			read, waits := r.reads[x.read]
			if waits && !read.failed {
				break
			}
			code := x.code
			if waits {
				delete(r.reads, x.read)
				code = jute.ErrSessionMoved
			}
			orders = append(orders, Order{Kind: OrderBarrier, Origin: x.origin, Code: code, Session: x.session})
			b++
			continue
		}
		if n == len(ready) {
			break
		}
		next := &ready[n]
		if next.Kind == OrderReplay && !mutated(replayPassesBarriers) && b < len(barriers) && barriers[b].after < next.Zxid {
			r.fed = barriers[b].after
			orders = append(orders, Order{Kind: OrderReplay, Entry: zab.Entry{Zxid: r.fed}})
			continue
		}
		orders = append(orders, *next)
		r.fed = next.Zxid
		n++
	}
	out.Orders = orders
	r.ready.Pop(n)
	r.barriers.Pop(b)
}

// keptOrders is the number of orders for which an Output keeps memory.
const keptOrders = 1024
