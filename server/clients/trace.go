package clients

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/traces"
)

// tracedRequest returns what a trace shows of a request of a session that is being answered: with an
// order, of one that the leader has ordered. Nothing of req is kept.
func tracedRequest(session jute.SessionID, req *line.Request, code jute.Code, o *replica.Order, now time.Duration) traces.Request {
	path, _ := pathOf(req)
	r := traces.Request{
		Session: session, Xid: req.Xid, Op: req.Op, Path: path, Code: code,
		Received: req.Received, Applied: now,
	}
	if o != nil {
		r.Zxid = o.Zxid
	}
	if o != nil && o.Logged >= req.Received { // otherwise the log had it before this connection asked
		r.Logged, r.Durable, r.Committed = o.Logged, o.Durable, o.Committed
	}
	return r
}
