package shadow

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// order puts the requests of all connections into the order in which Apache carried them out,
// and finds those that a request has to wait for.
type order struct {
	heap  byPlace
	count map[*conn]int // in the heap
	seq   uint64

	slots   map[string]*slot
	forgot  jute.Zxid // slots with writes up to this one may be gone
	active  []*op     // placed since barrier, and perhaps not resolved
	barrier *op       // the last one
	written jute.Zxid // by any
	sweepAt int
}

// slot is what was placed on a znode.
type slot struct {
	write *op // the last one
	zxid  jute.Zxid
	reads []*op // since
	// acl is op.before of the last setACL: requests up to this one may have come before it.
	acl uint64
}

// keptSlots is how many znodes have a slot before those without open requests go.
const keptSlots = 1 << 15

func newOrder() order {
	return order{count: map[*conn]int{}, slots: map[string]*slot{}, sweepAt: keptSlots}
}

func (s *order) waiting() int    { return len(s.heap) }
func (s *order) of(c *conn) int  { return s.count[c] }
func (s *order) forget(c *conn)  { delete(s.count, c) }
func (s *order) uncount(c *conn) { s.addCount(c, -1) }
func (s *order) addCount(c *conn, n int) {
	if s.count[c] += n; s.count[c] == 0 {
		delete(s.count, c)
	}
}

// add adds an answered request. made says that it made the transaction with the zxid of
// its answer.
func (s *order) add(o *op, made bool) {
	s.seq++
	o.seq = s.seq << 1
	if made {
		o.seq = 0 // before all that have seen it
	}
	s.addCount(o.conn, 1)
	heap.Push(&s.heap, o)
}

// next removes and returns the first request, or nil if another one may still come before it:
// oldest is the number of the first request that Apache has not answered. A request that
// was answered before a time waits no longer.
func (s *order) next(oldest uint64, before time.Duration) *op {
	if len(s.heap) == 0 || s.heap[0].before >= oldest && s.heap[0].at > before {
		return nil
	}
	o := heap.Pop(&s.heap).(*op)
	s.uncount(o.conn)
	return o
}

// remove removes the requests of a connection.
func (s *order) remove(c *conn) (ops []*op) {
	if s.count[c] == 0 {
		return nil
	}
	s.heap = slices.DeleteFunc(s.heap, func(o *op) bool {
		if o.conn == c {
			ops = append(ops, o)
		}
		return o.conn == c
	})
	heap.Init(&s.heap)
	s.forget(c)
	return ops
}

// place finds out what a request has to wait for.
func (s *order) place(o *op) {
	if o.barrier {
		o.late = o.place < s.written
		for _, before := range s.active {
			wait(o, before)
		}
		s.wait(o)
		s.active, s.barrier = nil, o
		s.mark(o)
		return
	}
	s.wait(o)
	for _, path := range o.reads {
		if !slices.Contains(o.writes, path) {
			slot := s.slot(o, path)
			wait(o, slot.write)
			if len(slot.reads) >= 16 {
				slot.reads = slices.DeleteFunc(slot.reads, func(r *op) bool { return r.resolved })
			}
			slot.reads = append(slot.reads, o)
		}
	}
	s.mark(o)
	if len(s.active) >= 2*keptSlots {
		s.active = slices.DeleteFunc(s.active, func(r *op) bool { return r.resolved })
	}
	s.active = append(s.active, o)
}

// mark places what the request writes.
func (s *order) mark(o *op) {
	for i, path := range o.writes {
		if slices.Contains(o.writes[:i], path) {
			continue
		}
		slot := s.slot(o, path)
		wait(o, slot.write)
		for _, r := range slot.reads {
			wait(o, r)
		}
		slot.write, slot.reads, slot.zxid = o, nil, max(slot.zxid, o.place)
		if o.op == jute.OpSetACL {
			slot.acl = max(slot.acl, o.before)
		}
		s.written = max(s.written, o.place)
	}
}

// wait makes o wait for the last barrier.
func (s *order) wait(o *op) { wait(o, s.barrier) }

// wait makes o wait for another request. What is of the same connection comes before it anyway.
func wait(o, before *op) {
	if before == nil || before.resolved || before.conn == o.conn || before == o {
		return
	}
	before.waiting = append(before.waiting, o)
	o.waits++
}

// slot returns that of a znode, and notices if the request is late.
func (s *order) slot(o *op, path string) *slot {
	found := s.slots[path]
	switch {
	case found == nil:
		if len(s.slots) >= s.sweepAt {
			s.sweep()
		}
		found = new(slot)
		s.slots[strings.Clone(path)] = found
		o.late = o.late || o.place < s.forgot
	default:
		o.late = o.late || o.place < found.zxid
		o.afterACL = o.afterACL || o.number <= found.acl
	}
	return found
}

// sweep forgets the slots without open requests.
func (s *order) sweep() {
	for path, slot := range s.slots {
		if (slot.write == nil || slot.write.resolved) && !slices.ContainsFunc(slot.reads, func(r *op) bool { return !r.resolved }) {
			s.forgot = max(s.forgot, slot.zxid)
			delete(s.slots, path)
		}
	}
	s.sweepAt = max(keptSlots, 2*len(s.slots))
}

// byPlace is a heap of requests in their order.
type byPlace []*op

func (h byPlace) Len() int { return len(h) }
func (h byPlace) Less(i, j int) bool {
	if h[i].place != h[j].place {
		return h[i].place < h[j].place
	}
	return h[i].seq < h[j].seq
}
func (h byPlace) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byPlace) Push(x any)   { *h = append(*h, x.(*op)) }
func (h *byPlace) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
