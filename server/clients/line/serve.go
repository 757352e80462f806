package line

import (
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Serve answers a request that needs no leader, and reports whether the connection
// continues. The caller holds the tree lock and the line's lock. While out.More is set afterwards, it has to
// release both, and to serve the request again before any other of the line.
func (l *Line) Serve(req *Request, now time.Duration, out *Read) (keep bool) {
	r := read{Lines: l.lines, l: l, req: req, zxid: l.lines.State.Tree.LastZxid(), now: now, out: out}
	known, err := r.dispatch()
	if !known {
		l.ReplyCode(req.Xid, -1, jute.ErrUnimplemented)
		return false
	}
	if out.More {
		return true
	}
	r.Server.Served(l, req, err)
	if err != nil {
		req.Code = jute.CodeOf(err)
		r.reply(req.Xid, r.zxid, req.Code)
	}
	return true
}

// dispatch serves the request: it appends the reply, or returns the error to be sent as
// the reply. Ops that a client can't send are unknown.
func (r *read) dispatch() (known bool, err error) {
	switch {
	case r.l.Lacks(r.req.Op):
		return false, nil
	case r.req.Refusal != 0:
		return true, r.req.Refusal
	}
	switch r.req.Op {
	case jute.OpPing:
		r.reply(jute.XidPing, r.zxid, 0)
	case jute.OpAuth: // it was processed on arrival
		r.reply(r.req.Xid, 0, 0)
	case jute.OpGetData:
		err = r.getData()
	case jute.OpExists:
		err = r.exists()
	case jute.OpGetChildren:
		err = r.getChildren(false)
	case jute.OpGetChildren2:
		err = r.getChildren(true)
	case jute.OpGetACL:
		err = r.getACL()
	case jute.OpGetAllChildrenNumber:
		err = r.getAllChildrenNumber()
	case jute.OpGetEphemerals:
		err = r.getEphemerals()
	case jute.OpMultiRead:
		err = r.multiRead()
	case jute.OpChildrenPage:
		err = r.childrenPage()
	case jute.OpSubtreePage:
		err = r.subtreePage()
	case jute.OpSubscribe:
		err = r.subscribe()
	case jute.OpCredit:
		err = r.credit()
	case jute.OpUnsubscribe:
		err = r.unsubscribe()
	case jute.OpSetWatches, jute.OpSetWatches2:
		err = r.setWatches()
	case jute.OpAddWatch:
		err = r.addWatch()
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		err = r.checkOrRemoveWatches()
	case jute.OpWhoAmI:
		r.whoAmI()
	case jute.OpCloseSession: // of a local session
		r.closeLocal()
	default:
		return false, nil
	}
	return true, err
}
