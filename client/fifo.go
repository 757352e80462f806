package client

// fifo is a queue of calls: a ring buffer that grows.
type fifo struct {
	ring []*call // the length is a power of two
	head int
	n    int
}

func (q *fifo) push(k *call) {
	if q.n == len(q.ring) {
		grown := make([]*call, max(64, 2*q.n))
		for i := range q.n {
			grown[i] = q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = k
	q.n++
}

// at returns the i-th call, counted from the oldest.
func (q *fifo) at(i int) *call { return q.ring[(q.head+i)&(len(q.ring)-1)] }

// pop returns the oldest call, or nil.
func (q *fifo) pop() *call {
	if q.n == 0 {
		return nil
	}
	k := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return k
}

// drop removes one call and reports whether it was there. It searches from the oldest call
// and moves the calls before it up: cancelled calls are mostly old ones.
func (q *fifo) drop(k *call) bool {
	for i := range q.n {
		if q.at(i) != k {
			continue
		}
		for ; i > 0; i-- {
			q.ring[(q.head+i)&(len(q.ring)-1)] = q.at(i - 1)
		}
		q.pop()
		return true
	}
	return false
}

func (q *fifo) takeAll() []*call {
	all := make([]*call, 0, q.n)
	for k := q.pop(); k != nil; k = q.pop() {
		all = append(all, k)
	}
	return all
}
