package pending

import (
	"slices"

	"github.com/zkd-project/zkd/internal/fifo"
)

// Kind is the way in which a request gets its outcome.
type Kind uint8

// The kinds.
const (
	Read    Kind = iota // by this server, in its turn
	Barrier             // by a barrier from the leader
	Write               // by a transaction, or by a barrier that refuses it
	Change              // of the members: by a barrier after an entry that does not name the request
	Bound               // in this service or never: a connection that waits for it ends with the service
)

// Request is what a queue knows of a request.
type Request interface {
	Kind() Kind
	Number() int32 // its xid
	// Members returns, for a Change, the zxid of the list of members when it was submitted.
	Members() uint64
}

// Queue has the requests of one connection, in their order. The zero Queue is empty, and of no
// service.
type Queue[R Request] struct {
	fifo.List[R]
	// Service is the service in which the requests are submitted. Requests that were submitted
	// in an earlier one have no effect unless they had it before.
	Service uint64
}

// Push appends a request, and returns the service in which it has to be submitted.
func (q *Queue[R]) Push(req R) (service uint64) {
	q.List.Push(req)
	return q.Service
}

// Survives reports whether the connection may wait for the next service, when one ends.
func (q *Queue[R]) Survives() bool {
	return !slices.ContainsFunc(q.All(), func(r R) bool { return r.Kind() == Bound })
}

// Repeatable reports whether the requests can be submitted again, when the fence of a service has passed
// and the present list of members is of a zxid. If that is another list than when a Change was
// submitted, the Change may be what made it, and its answer is lost: so the connection ends.
func (q *Queue[R]) Repeatable(members uint64) bool {
	return q.Survives() && !slices.ContainsFunc(q.All(), func(r R) bool { return r.Kind() == Change && r.Members() != members })
}

// Again begins a service, when its fence has passed: none of the requests was done, and none
// ever will be as submitted before. It calls submit with those to be submitted again, in their
// order.
func (q *Queue[R]) Again(service uint64, submit func(*R)) {
	q.Service = service
	waiting := q.All()
	for i := range waiting {
		if r := &waiting[i]; (*r).Kind() != Read {
			submit(r)
		}
	}
}

// Fate is what a transaction that is about to be applied in an interlude says of the oldest
// request.
type Fate uint8

// The fates.
const (
	// Done: the transaction is its outcome.
	Done Fate = iota
	// Passed: its barrier was lost, and it is to be answered before the transaction is applied.
	// Everything that was completed before the request arrived is applied by now: the
	// transaction came later at the same leader, and is committed.
	Passed
	// Refused: the leader has refused it, and its answer was lost. It can't be repeated, since a
	// later request is done. The connection ends.
	Refused
)

// Overtaken returns the fate of the oldest request, when the transaction of the request with
// a number is about to be applied.
func (q *Queue[R]) Overtaken(number int32) Fate {
	switch r := *q.Front(); {
	case r.Kind() == Barrier:
		return Passed
	case r.Number() != number:
		return Refused
	}
	return Done
}
