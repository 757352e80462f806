package clients

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// connStats are the values of a connection that cons, stat and the latency lines show.
type connStats struct {
	received, sent int64
	bytesIn        int64
	lastOp         jute.OpCode
	lastCxid       int64 // negative: none
	lastZxid       jute.Zxid
	lastResponse   time.Duration
	lastLatency    time.Duration
	minLatency     time.Duration
	maxLatency     time.Duration
	totalLatency   time.Duration
	count          int64
}

func (st *connStats) observe(latency time.Duration, n int64) {
	if st.count == 0 || latency < st.minLatency {
		st.minLatency = latency
	}
	st.maxLatency = max(st.maxLatency, latency)
	st.lastLatency = latency
	st.totalLatency += latency * time.Duration(n)
	st.count += n
}

// answered records the reply to a request.
func (st *connStats) answered(req *line.Request, zxid jute.Zxid) {
	st.lastOp, st.lastZxid = req.Op, zxid
	if req.Xid >= 0 {
		st.lastCxid = int64(req.Xid)
	}
}
