package monitor

import (
	"time"

	"github.com/zkd-project/zkd/jute"
)

// ops are the operations whose requests are counted apart; others count as ops[0].
var ops = [...]struct {
	op     jute.OpCode
	writes bool // answered through the leader
}{
	{jute.OpError, false},
	{jute.OpCreateSession, true}, {jute.OpCloseSession, true},
	{jute.OpCreate, true}, {jute.OpCreate2, true}, {jute.OpCreateContainer, true}, {jute.OpCreateTTL, true},
	{jute.OpDelete, true}, {jute.OpSetData, true}, {jute.OpSetACL, true}, {jute.OpMulti, true},
	{jute.OpSync, true}, {jute.OpReconfig, true}, {jute.OpTransferLeader, true},
	{jute.OpGetData, false}, {jute.OpExists, false}, {jute.OpGetChildren, false}, {jute.OpGetChildren2, false},
	{jute.OpGetACL, false}, {jute.OpMultiRead, false}, {jute.OpGetEphemerals, false}, {jute.OpGetAllChildrenNumber, false},
	{jute.OpSetWatches, false}, {jute.OpSetWatches2, false}, {jute.OpAddWatch, false}, {jute.OpCheckWatches, false}, {jute.OpRemoveWatches, false},
	{jute.OpPing, false}, {jute.OpAuth, false}, {jute.OpWhoAmI, false}, {jute.OpDrain, false}, {jute.OpConfigure, false},
	{jute.OpChildrenPage, false}, {jute.OpSubtreePage, false}, {jute.OpPast, false}, {jute.OpSubscribe, false}, {jute.OpCredit, false}, {jute.OpUnsubscribe, false},
}

// opIndex is the place in ops of an operation, plus lowestOp.
var opIndex = func() (index [lowestOp + highestOp + 1]uint8) {
	for i, x := range ops {
		if x.op <= highestOp {
			index[lowestOp+x.op] = uint8(i)
		}
	}
	return index
}()

const (
	lowestOp  = -jute.OpCloseSession
	highestOp = jute.OpWhoAmI
)

// Requests has the time from the arrival of a request to its reply, by operation and result.
type Requests [len(ops)]struct{ ok, failed Durations }

// Observe records n requests of an operation that took d each.
func (r *Requests) Observe(op jute.OpCode, code jute.Code, d time.Duration, n int64) {
	i := uint8(0)
	switch {
	case op >= -lowestOp && op <= highestOp:
		i = opIndex[lowestOp+op]
	case op >= jute.OpTransferLeader:
		for j, x := range ops {
			if x.op == op {
				i = uint8(j)
			}
		}
	}
	if code == 0 {
		r[i].ok.Observe(d, n)
	} else {
		r[i].failed.Observe(d, n)
	}
}

// Each calls yield with each operation; jute.OpError is all others.
func (r *Requests) Each(yield func(op jute.OpCode, ok, failed *Durations)) {
	for i, x := range ops {
		yield(x.op, &r[i].ok, &r[i].failed)
	}
}

// Of returns the distribution of all reads, or of all requests that the leader ordered.
func (r *Requests) Of(writes bool) *Distribution {
	d := &Distribution{}
	for i, x := range ops {
		if x.writes == writes {
			r[i].ok.addTo(d)
			r[i].failed.addTo(d)
		}
	}
	return d
}

// Latency is the time from requests to their replies.
type Latency struct {
	Min, Max int64   // ms; 0 before the first request
	Avg      float64 // ms
}

// Latency returns that of all requests.
func (r *Requests) Latency() Latency {
	d := &Distribution{}
	r.Each(func(_ jute.OpCode, ok, failed *Durations) {
		ok.addTo(d)
		failed.addTo(d)
	})
	return Latency{Min: time.Duration(d.Min).Milliseconds(), Avg: d.Mean() / 1e6, Max: time.Duration(d.Max).Milliseconds()}
}

// Reset forgets all requests (the four-letter word srst).
func (r *Requests) Reset() {
	for i := range r {
		r[i].ok.Reset()
		r[i].failed.Reset()
	}
}
