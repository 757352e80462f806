package clients

import (
	"net"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/traces"
)

// tally counts the reads that a reader has answered since the last settle, which have the same latency. The reader owns it.
type tally struct {
	shared    *tallies
	reads     []sameResults
	traced    []traces.Request // those of these reads that are sampled
	namespace monitor.NamespaceCount
}

// tallies is what the tallies of a server share.
type tallies struct {
	metrics *monitor.Metrics
	traces  *traces.Tracer
	slow    slowLog
}

// sameResults are requests with the same result, one after the other.
type sameResults struct {
	op   jute.OpCode
	code jute.Code
	n    int64
}

// count counts a read of a session that was answered.
func (t *tally) count(session jute.SessionID, req *line.Request) {
	if t.shared.traces.Samples(session, req.Xid) {
		t.traced = append(t.traced, tracedRequest(session, req, req.Code, nil, 0))
	}
	if n := len(t.reads); n > 0 && t.reads[n-1].op == req.Op && t.reads[n-1].code == req.Code {
		t.reads[n-1].n++
		return
	}
	t.reads = append(t.reads, sameResults{req.Op, req.Code, 1})
}

// countNamespace counts a read of a node, with its length in bytes.
func (t *tally) countNamespace(path string, bytes int) {
	if path != "" {
		t.namespace.Add(&t.shared.metrics.ReadPerNamespace, path, bytes)
	}
}

// settleLocked reports the reads, which were received at a time, and answered at st.lastResponse. last is the last request, of
// whatever kind. The connection's lock is held.
func (t *tally) settleLocked(st *connStats, received time.Duration, session jute.SessionID, remote net.Addr, last *line.Request) {
	latency := st.lastResponse - received
	for _, r := range t.reads {
		st.observe(latency, r.n)
		t.shared.metrics.Requests.Observe(r.op, r.code, latency, r.n)
		if t.shared.slow.is(latency) && r.op == last.Op {
			t.shared.slow.note(session, remote, last, slowRequest{code: r.code, took: latency, reads: r.n})
		}
	}
	t.reads = t.reads[:0]
	for _, r := range t.traced {
		r.Applied = st.lastResponse
		t.shared.traces.Add(r)
	}
	clear(t.traced)
	t.traced = t.traced[:0]
}

// rest frees memory of a connection that is idle.
func (t *tally) rest() { t.reads, t.traced = nil, nil }
