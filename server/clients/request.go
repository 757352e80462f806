package clients

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/pending"
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
	// ordered requests are answered in the leader's order: the writes, sync and connect.
	// The others are served locally, but only after the ordered requests before them have
	// been answered.
	ordered bool
	// outcome is set in a createSession made by the connection itself, for which the
	// reader waits. It is closed when the outcome is known. (A client can send an op of
	// the same number.)
	outcome chan struct{}
	// refusal is the reply to a request that a limit refuses.
	refusal jute.Code
	code    jute.Code // of the reply to a read, once it is answered
	// number and confirmed are those of a write of an exactly-once session.
	number, confirmed int64
	members           jute.Zxid // of a change of the members: of the list when it was submitted
}

// size returns approximately how much memory a waiting request takes.
func (r *request) size() int64 { return int64(len(r.body)) + 256 }

// Kind returns how the request gets its outcome.
func (r request) Kind() pending.Kind {
	switch {
	case !r.ordered:
		return pending.Read
	case r.outcome != nil:
		return pending.Bound
	case r.op == jute.OpReconfig:
		return pending.Change
	case r.op == jute.OpSync || !replica.Ordered(r.op):
		return pending.Barrier
	}
	return pending.Write
}

// Number returns the request's xid.
func (r request) Number() int32 { return r.xid }

// Members returns, for a change of the members, the zxid of the list when it was submitted.
func (r request) Members() uint64 { return uint64(r.members) }

// errShortHeader means that a frame is too short for a request header.
var errShortHeader = errors.New("frame is too short for a request header")

// handle processes one frame of an established connection. frame shares the read buffer.
// An error ends the connection.
func (c *conn) handle(frame []byte) error {
	var h jute.RequestHeader
	d := jute.NewAliasDecoder(frame)
	h.Decode(&d)
	if d.Err() != nil {
		return errShortHeader
	}
	if c.credentialsEnd != 0 && c.started >= c.credentialsEnd {
		c.setCredentials(c.present())
	}
	req := &c.current
	*req = request{op: h.Type, xid: h.Xid, auth: c.credentials.Load().IDs(), body: d.Rest(), received: c.started}
	if c.granted&jute.FeatureExactlyOnce != 0 && exact.Covers(req.op) {
		if err := req.takeNumber(); err != nil {
			return err
		}
	}
	if req.op.Feature()&^c.granted != 0 {
		c.reply(req.xid, -1, jute.ErrUnimplemented)
		c.endAfterFlush()
		return errHangUp
	}
	switch req.op {
	case jute.OpAuth:
		return c.authenticate(req)
	case jute.OpSASL:
		return c.exchangeSASL(req)
	}
	if c.clients.Admits(req.auth) != nil {
		c.clients.audit.Load().refused(c, req, jute.ErrSessionClosedRequireSASL)
		c.reply(req.xid, 0, jute.ErrSessionClosedRequireSASL)
		c.endAfterFlush()
		return errHangUp
	}
	switch l := c.limited.Load(); {
	case l != nil && l.refuses(req):
		if replica.Ordered(req.op) { // reads are audited where they are served
			c.clients.audit.Load().refused(c, req, req.refusal)
		}
		return c.serveInOrder(req)
	case req.op == jute.OpCloseSession && c.local.Load():
		return c.serveInOrder(req)
	case c.readOnly && replica.Ordered(req.op):
		c.clients.audit.Load().refused(c, req, jute.ErrNotReadOnly)
		c.reply(req.xid, c.clients.state.Applied(), jute.ErrNotReadOnly)
		return nil
	case replica.Ordered(req.op), c.needsBarrier(req.op):
		return c.submit(req)
	}
	if req.op == jute.OpConfigure {
		return c.configure(req)
	}
	return c.serveInOrder(req)
}

// needsBarrier reports whether the leader must confirm a request that does not need it
// otherwise: reads where zkd.linearizableReads is set, and any request that this server
// may not answer alone. One confirmation serves all requests that arrived with it.
func (c *conn) needsBarrier(op jute.OpCode) bool {
	if c.askedLeader || c.readOnly {
		return false
	}
	return !c.alone || c.clients.live.Load().LinearizableReads && readsTree(op)
}

// readsTree reports whether op reads the tree.
func readsTree(op jute.OpCode) bool {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL,
		jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpMultiRead, jute.OpChildrenPage, jute.OpSubtreePage, jute.OpSubscribe:
		return true
	}
	return false
}

// serveInOrder answers a read now if no request is ahead of it, and queues it otherwise.
func (c *conn) serveInOrder(req *request) error {
	if c.pendingLen.Load() > 0 && c.queueRead(req) {
		return nil
	}
	if err := c.lockTree(req); err != nil {
		return err
	}
	keep := c.clients.answerRead(c, req, &c.namespace)
	c.clients.state.RUnlock()
	c.countRead(req)
	if !keep {
		c.endAfterFlush()
		return errHangUp
	}
	return nil
}

// lockTree locks the tree for reading, for a request that is to be answered from it. If a
// transaction is being applied in slices, and the answer could show a part of it, the
// request waits for its end. So each answer shows a state between two transactions, that
// of the zxid in its header.
func (c *conn) lockTree(req *request) error {
	s := c.clients
	for {
		s.state.RLock()
		settled := s.state.Slicing()
		if settled == nil || !s.beingChanged(req) {
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

// beingChanged reports whether the answer to a request could show a part of the transaction
// being applied. The tree is locked.
func (s *Clients) beingChanged(req *request) bool {
	switch req.op {
	case jute.OpPing, jute.OpAuth, jute.OpWhoAmI, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCloseSession, jute.OpCredit, jute.OpUnsubscribe:
		return false
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL:
		d := jute.NewAliasDecoder(req.body)
		path := d.String()
		return d.Err() == nil && s.state.Tree.Changing(path)
	}
	return true
}

// await blocks the reader until happened is closed or the connection is over.
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
		c.clients.audit.Load().refused(c, req, jute.ErrThrottledOp)
		return err
	}
	if err := c.upgrade(req); err != nil {
		return err
	}
	c.askedLeader = true
	req.ordered = true
	req.body = c.copyBody(req.body)
	if req.op == jute.OpReconfig {
		c.clients.state.RLock()
		req.members = c.clients.state.Tree.MembersZxid()
		c.clients.state.RUnlock()
	}
	c.batch = append(c.batch, c.submission(req, c.push(*req)))
	return nil
}

// submission returns a waiting request as the leader gets it.
func (c *conn) submission(req *request, service uint64) replica.Submission {
	kind, op := replica.Write, req.op
	if req.Kind() == pending.Barrier {
		kind, op = replica.Barrier, jute.OpSync
	}
	return replica.Submission{
		Kind:     kind,
		Service:  service,
		Received: req.received,
		Request: evaluate.Request{
			Op:      op,
			Local:   c.local.Load(),
			Session: c.SessionID(),
			Cxid:    req.xid,
			Origin:  c.id,
			Auth:    req.auth,
			Body:    req.body,

			Number:    req.number,
			Confirmed: req.confirmed,
		},
	}
}

// push appends to the pending requests, and returns the service in which the request has to be
// submitted. Only the reader calls it.
func (c *conn) push(req request) (service uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pushLocked(req)
}

// queueRead appends a read to the pending requests if there are any: the applier serves
// it after it has answered the one ahead. If there are none, nobody would serve it.
func (c *conn) queueRead(req *request) bool {
	queued := *req
	queued.body = c.copyBody(req.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pending.Len() == 0 {
		return false
	}
	c.pushLocked(queued)
	return true
}

func (c *conn) pushLocked(req request) (service uint64) {
	c.pendingLen.Add(1)
	c.clients.throttler.enter(req.size())
	return c.mu.pending.Push(req)
}

// throttle pauses the reader while the client is slow to read its replies, or while too
// many requests wait in the server and this connection has one of them
// (globalOutstandingLimit). TCP then slows the client down.
func (c *conn) throttle() error {
	c.makeRoom()
	c.clients.audit.Load().makeRoom(c)
	if c.pendingLen.Load() == 0 || !c.clients.throttler.over() {
		return nil
	}
	c.submitBatch()
	c.flush()
	return c.clients.throttler.wait(c)
}

// authenticate handles an auth packet. It is answered at once, before requests that still
// wait, and applies to the requests after it. A packet that can't be decoded ends the
// connection without a reply, as in Apache's server.
func (c *conn) authenticate(req *request) error {
	var r jute.AuthRequest
	d := jute.NewDecoder(req.body)
	r.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("auth packet: %w", d.Err())
	}
	creds, wrong, err := c.clients.prove(&r, c.credentials.Load(), c.ip(), c.awaitTurn)
	ended := errors.Is(err, auth.ErrEnded)
	if err != nil && !ended {
		return c.failAuth(req, r.Scheme, err)
	}
	c.setCredentials(creds)
	err = nil
	if wrong || ended { // a wrong one is another digest user than the super user, as on Apache's server
		err = jute.ErrAuthFailed
	}
	c.clients.audit.Load().authenticated(c, r.Scheme, err)
	if c.needsBarrier(req.op) {
		return c.submit(req)
	}
	c.reply(req.xid, 0, 0)
	return nil
}

// present returns the credentials without those that have ended. It may be called from any
// goroutine.
func (c *conn) present() *auth.Credentials {
	creds := c.credentials.Load()
	if creds.Until() == 0 {
		return creds
	}
	return creds.At(time.Now().UnixMilli())
}

// stillHeld returns the identities of a request that has waited, without those that have ended
// meanwhile.
func (c *conn) stillHeld(ids []jute.ID) []jute.ID {
	if c.credentials.Load().Until() == 0 {
		return ids
	}
	held := c.present().IDs()
	return slices.DeleteFunc(slices.Clone(ids), func(id jute.ID) bool { return !slices.Contains(held, id) })
}

// failAuth answers an auth packet that proves nothing, and returns the error that ends the
// connection.
func (c *conn) failAuth(req *request, scheme string, err error) error {
	if errors.Is(err, errHangUp) || errors.Is(err, net.ErrClosed) {
		return err
	}
	code := jute.ErrAuthFailed
	errors.As(err, &code)
	c.clients.metrics.AuthFailed.Add(1)
	c.clients.audit.Load().authenticated(c, scheme, code)
	if errors.Is(err, auth.ErrOtherEnsemble) {
		return err
	}
	c.reply(req.xid, 0, code)
	c.endAfterFlush()
	return fmt.Errorf("auth packet with scheme %q: %w", scheme, err)
}

// setCredentials replaces the credentials, for the requests that follow. Only the reader
// calls it.
func (c *conn) setCredentials(creds *auth.Credentials) {
	c.credentials.Store(creds)
	c.credentialsEnd = 0
	if until := creds.Until(); until != 0 {
		c.credentialsEnd = max(1, c.clients.now()+time.Until(time.UnixMilli(until)))
	}
}
