package clients

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// request is one request of a connection, from its arrival to its reply.
type request struct {
	op       jute.OpCode
	xid      int32
	auth     []jute.ID // the connection's credentials when the request arrived
	body     []byte    // without the header
	received time.Duration
	large    int64 // bytes that count against largeRequestMaxBytes, or 0
	// ordered requests are answered when the leader's order comes to them: the
	// writes, sync and connect. The others are served where they are, but not
	// before an ordered request ahead of them has been answered.
	ordered bool
	// outcome is set in a createSession of the connection's own, for which the reader
	// waits. It is closed when that is settled. (A client can send an op of the same
	// number.)
	outcome chan struct{}
}

// size is about how much memory a waiting request takes.
func (r *request) size() int64 { return int64(len(r.body)) + 256 }

// errShortHeader is a frame that is too short for a request header.
var errShortHeader = errors.New("frame is too short for a request header")

// handle deals with one frame of an established connection. frame shares the
// read buffer. An error ends the connection.
func (c *conn) handle(frame []byte) error {
	var h jute.RequestHeader
	d := jute.NewAliasDecoder(frame)
	h.Decode(&d)
	if d.Err() != nil {
		return errShortHeader
	}
	req := &c.current
	*req = request{op: h.Type, xid: h.Xid, auth: *c.auth.Load(), body: d.Rest(), received: c.started}
	switch req.op {
	case jute.OpAuth:
		return c.authenticate(req)
	case jute.OpSASL:
		return c.refuseSASL(req)
	}
	if !c.clients.authEnforced(req) {
		c.reply(req.xid, 0, jute.ErrSessionClosedRequireSASL)
		c.endAfterFlush()
		return errHangUp
	}
	switch {
	case req.op == jute.OpCloseSession && c.local.Load():
		return c.serveInOrder(req)
	case c.readOnly && replica.Ordered(req.op):
		c.reply(req.xid, c.clients.state.Applied(), jute.ErrNotReadOnly)
		return nil
	case replica.Ordered(req.op), c.mustFence(req.op):
		return c.submit(req)
	}
	return c.serveInOrder(req)
}

// mustFence reports whether a request that needs no leader is to be confirmed by it
// all the same: reads where zkd.linearizableReads is set, and anything that this
// server may not answer alone. One confirmation serves all that came with it.
func (c *conn) mustFence(op jute.OpCode) bool {
	if c.fenced || c.readOnly {
		return false
	}
	return !c.alone || c.clients.cfg.LinearizableReads && fenced(op)
}

// fenced reports whether op reads the tree.
func fenced(op jute.OpCode) bool {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL,
		jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpMultiRead:
		return true
	}
	return false
}

// serveInOrder answers a read now if nothing is ahead of it, else queues it.
func (c *conn) serveInOrder(req *request) error {
	if c.pendingLen.Load() > 0 && c.pushBehind(req) {
		return nil
	}
	if err := c.lockTree(req); err != nil {
		return err
	}
	keep := c.clients.answerRead(c, req)
	c.clients.state.RUnlock()
	c.readsNow++
	if !keep {
		c.endAfterFlush()
		return errHangUp
	}
	return nil
}

// lockTree locks the tree for reading, for a request that is to be answered from it. If a
// transaction is being applied in slices, and the answer could show a part of it, the
// request waits for the end of that. So each answer shows a state between two
// transactions, the one of the zxid that it names.
func (c *conn) lockTree(req *request) error {
	s := c.clients
	for {
		s.state.RLock()
		settled := s.state.Settled
		if settled == nil || !s.changing(req) {
			return nil
		}
		s.state.RUnlock()
		c.submitBatch()
		c.flush()
		if err := c.await(settled); err != nil {
			return err
		}
	}
}

// changing reports whether the answer to a request could show a part of the transaction
// that is being applied. The tree is locked.
func (s *Clients) changing(req *request) bool {
	switch req.op {
	case jute.OpPing, jute.OpAuth, jute.OpWhoAmI, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCloseSession:
		return false
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL:
		d := jute.NewAliasDecoder(req.body)
		path := d.String()
		return d.Err() == nil && s.state.Tree.Changing(path)
	}
	return true
}

// await blocks the reader until something has happened, or the connection is over.
func (c *conn) await(happened <-chan struct{}) error {
	select {
	case <-happened:
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}

// submit queues an ordered request and adds it to the batch for the leader.
func (c *conn) submit(req *request) error {
	if err := c.clients.admitLarge(c, req); err != nil {
		return err
	}
	if err := c.upgrade(req); err != nil {
		return err
	}
	c.fenced = true
	req.ordered = true
	req.body = c.keep(req.body)
	c.push(*req)
	kind := replica.Write
	op := req.op
	if op == jute.OpSync || !replica.Ordered(op) {
		kind, op = replica.Barrier, jute.OpSync
	}
	c.batch = append(c.batch, replica.Submission{
		Kind:     kind,
		Received: req.received,
		Request: evaluate.Request{
			Op:      op,
			Local:   c.local.Load(),
			Session: c.sessionID(),
			Cxid:    req.xid,
			Origin:  c.id,
			Auth:    req.auth,
			Body:    req.body,
		},
	})
	return nil
}

// push appends to the pending requests. Only the reader calls it.
func (c *conn) push(req request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushLocked(req)
}

// pushBehind appends a read to the pending requests if there still are any: the
// applier serves it when it has answered the one ahead. Without one nobody would.
func (c *conn) pushBehind(req *request) bool {
	queued := *req
	queued.body = c.keep(req.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pending.Len() == 0 {
		return false
	}
	c.pushLocked(queued)
	return true
}

func (c *conn) pushLocked(req request) {
	c.mu.pending.Push(req)
	c.pendingLen.Add(1)
	c.clients.throttler.enter(req.size())
}

// throttle pauses the reader while the client is slow to take what it asked
// for, or while the server has too much at hand and this connection is part of
// it (globalOutstandingLimit). TCP does the rest.
func (c *conn) throttle() error {
	c.makeRoom()
	if c.pendingLen.Load() == 0 || !c.clients.throttler.over() {
		return nil
	}
	c.submitBatch()
	c.flush()
	return c.clients.throttler.wait(c)
}

// authenticate handles an auth packet. It is answered at once, before requests
// that still wait, and counts for the requests after it. One that can't be
// decoded ends the connection without a reply, as in Apache's server.
func (c *conn) authenticate(req *request) error {
	var r jute.AuthRequest
	d := jute.NewDecoder(req.body)
	r.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("auth packet: %w", d.Err())
	}
	ids, err := c.clients.schemes.Authenticate(r.Scheme, r.Auth, req.auth)
	if err != nil {
		c.clients.metrics.AuthFailed.Add(1)
		c.reply(req.xid, 0, jute.CodeOf(err))
		c.endAfterFlush()
		return fmt.Errorf("auth packet with scheme %q: %w", r.Scheme, err)
	}
	c.auth.Store(&ids)
	if c.mustFence(req.op) {
		return c.submit(req)
	}
	c.reply(req.xid, 0, 0)
	return nil
}

// errNullToken is a SASL request with no token.
var errNullToken = errors.New("SASL request with a null token")

// refuseSASL answers a SASL request at once and with an empty token: there is no
// SASL here (wire.md section 17). One without a token ends the connection
// without a reply, as in Apache's server.
func (c *conn) refuseSASL(req *request) error {
	var r jute.SASLToken
	d := jute.NewAliasDecoder(req.body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return fmt.Errorf("SASL request: %w", d.Err())
	case r.Token == nil:
		return errNullToken
	}
	c.end(jute.AppendBuffer(c.begin(req.xid, 0, 0), nil))
	return nil
}
