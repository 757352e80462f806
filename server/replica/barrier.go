package replica

import (
	"slices"

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
	kept    bool   // of an earlier service: see keepConfirmed
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
	if fenceEarly.Planted() && b.origin == r.leading.services[ServerOf(b.origin)] || barrierEarly.Planted() || expiredEarly.Planted() && b.code == jute.ErrSessionExpired {
		b.after = 0
	}
	if wrongConnection.Planted() && r.placed != 0 && ServerOf(r.placed) == ServerOf(b.origin) {
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
	r.reads[r.lastRead] = ServerOf(origin)
	r.Core.ReadIndex(r.lastRead)
	return r.lastRead
}

// leaseOrRead returns 0 while the leader's lease holds, and otherwise the number of the
// quorum read that the barrier of a connection must wait for.
func (r *Replica) leaseOrRead(origin uint64) uint64 {
	leased := r.now() < r.leasedTo
	leased = leased || leaseForEver.Planted()
	if leased {
		return 0
	}
	return r.readQuorum(origin)
}

// confirmed processes the outcome of a quorum read. A read fails when the leader loses its role:
// a barrier that waits for it waits until the service ends, and is dropped then.
func (r *Replica) confirmed(read zab.ReadResult) {
	at, ok := r.reads[read.ID]
	if !ok || !read.OK {
		return
	}
	delete(r.reads, read.ID)
	if at == r.o.ID {
		return
	}
	f := &r.answersFor(at).confirmed
	if len(f.now) == 0 {
		f.now = beginFrame(f.now, r.status.Epoch)
	}
	f.now = appendConfirmed(f.now, read)
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
	if r.interlude {
		r.interlude = false
		orders = append(orders, Order{Kind: OrderInterlude})
	}
	r.dropDead()
	ready, barriers := r.ready.All(), r.barriers.All()
	n, b := 0, 0
	for {
		if b < len(barriers) && barriers[b].after <= r.fed {
			x := &barriers[b]
			if _, waits := r.reads[x.read]; waits {
				break
			}
			kind := OrderBarrier
			if x.origin == r.service {
				kind = OrderFence
			}
			orders = append(orders, Order{Kind: kind, Origin: x.origin, Code: x.code, Session: x.session})
			b++
			continue
		}
		if n == len(ready) {
			break
		}
		next := &ready[n]
		passes := next.Kind == OrderReplay && b < len(barriers) && barriers[b].after < next.Zxid
		passes = passes && !replayPassesBarriers.Planted()
		if passes {
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

// keepConfirmed keeps the barriers that depend on the history alone, when a service ends. Dropped are
// those that wait for a quorum to confirm the leader, and those of the same connections after them.
func (r *Replica) keepConfirmed() {
	all := slices.Clone(r.barriers.All())
	r.barriers.Clear()
	var dropped map[uint64]bool
	for _, b := range all {
		_, waits := r.reads[b.read]
		switch {
		case waits && dropped == nil:
			dropped = map[uint64]bool{b.origin: true}
		case waits:
			dropped[b.origin] = true
		case b.origin == r.service, dropped[b.origin]:
		default:
			b.read, b.kept = 0, true
			r.barriers.Push(b)
		}
	}
}

// dropDead drops the barriers of earlier services that come after entries which the history has
// given up since.
func (r *Replica) dropDead() {
	if r.barriers.Len() == 0 || !r.barriers.Front().kept {
		return
	}
	if deadBarriersKept.Planted() {
		return
	}
	all := slices.Clone(r.barriers.All())
	r.barriers.Clear()
	for _, b := range all {
		if !b.kept || r.Core.Has(b.after) {
			r.barriers.Push(b)
		}
	}
}

// keptOrders is the number of orders for which an Output keeps memory.
const keptOrders = 1024
