package clients

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
)

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
		c.setCredentials((*host)(c).Present())
	}
	req := &c.current
	*req = line.Request{Op: h.Type, Xid: h.Xid, Auth: c.credentials.Load().IDs(), Body: d.Rest(), Received: c.started}
	if err := c.line.Accept(req); err != nil {
		return hangUp(err)
	}
	switch req.Op {
	case jute.OpAuth:
		return c.authenticate(req)
	case jute.OpSASL:
		return c.exchangeSASL(req)
	}
	if c.clients.Admits(req.Auth) != nil {
		c.clients.audit.Load().refused(c, req, jute.ErrSessionClosedRequireSASL)
		c.reply(req.Xid, 0, jute.ErrSessionClosedRequireSASL)
		c.endAfterFlush()
		return errHangUp
	}
	if l := c.limited.Load(); l != nil && l.refuses(req) && replica.Ordered(req.Op) { // reads are audited where they are served
		c.clients.audit.Load().refused(c, req, req.Refusal)
	}
	switch way := c.line.WayOf(req, c.clients.live.Load().LinearizableReads); {
	case way == line.Submit:
		return c.submit(req)
	case way == line.Reject:
		c.clients.audit.Load().refused(c, req, jute.ErrNotReadOnly)
		c.reply(req.Xid, c.clients.state.Applied(), jute.ErrNotReadOnly)
		return nil
	case req.Op == jute.OpConfigure && req.Refusal == 0:
		return c.configure(req)
	}
	return c.serveInOrder(req)
}

// hangUp translates an error of the line.
func hangUp(err error) error {
	if err == line.ErrHangUp {
		return errHangUp
	}
	return err
}

// serveInOrder answers a read now if no request is ahead of it, and queues it otherwise.
func (c *conn) serveInOrder(req *line.Request) error {
	if c.line.Waiting() > 0 && c.queueRead(req) {
		return nil
	}
	if err := c.lockTree(req); err != nil {
		return err
	}
	keep := c.serveRead(req)
	c.clients.state.RUnlock()
	c.countRead(req)
	if !keep {
		return errHangUp
	}
	return nil
}

// serveRead answers a request from the tree, which is locked, and reports whether the connection continues.
func (c *conn) serveRead(req *line.Request) bool {
	if c.line.ServedByHost(req) {
		c.clients.serveDrain(c, req)
		return true
	}
	c.outcome = line.Read{}
	c.mu.Lock()
	keep := c.line.Serve(req, c.started, &c.outcome)
	if !keep {
		c.line.End(true)
	} else {
		c.mu.stats.answered(req, c.outcome.Zxid)
	}
	c.mu.Unlock()
	if r := &c.outcome; r.Path != "" {
		c.namespace.Add(&c.clients.metrics.ReadPerNamespace, r.Path, r.Bytes)
	}
	return keep
}

// lockTree locks the tree for reading, for a request that is to be answered from it. If a
// transaction is being applied in slices, and the answer could show a part of it, the
// request waits for its end. So each answer shows a state between two transactions, that
// of the zxid in its header.
func (c *conn) lockTree(req *line.Request) error {
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
func (s *Clients) beingChanged(req *line.Request) bool {
	switch req.Op {
	case jute.OpPing, jute.OpAuth, jute.OpWhoAmI, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCloseSession, jute.OpCredit, jute.OpUnsubscribe:
		return false
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL:
		d := jute.NewAliasDecoder(req.Body)
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
func (c *conn) submit(req *line.Request) error {
	if err := c.clients.admitLarge(c, req); err != nil {
		c.clients.audit.Load().refused(c, req, jute.ErrThrottledOp)
		return err
	}
	if err := c.upgrade(req); err != nil {
		return err
	}
	req.Body = c.copyBody(req.Body)
	if req.Op == jute.OpReconfig {
		c.clients.state.RLock()
		defer c.clients.state.RUnlock()
	}
	c.mu.Lock()
	c.clients.throttler.enter(req.Size(), c.line.Waiting() == 0)
	sub := c.line.Submit(req)
	c.mu.Unlock()
	c.batch = append(c.batch, sub)
	return nil
}

// upgrade has the leader make the connection's local session a global one, if the request needs that, and
// waits for the outcome.
func (c *conn) upgrade(req *line.Request) error {
	if !c.line.Upgrades(req) {
		return nil
	}
	c.decided = make(chan struct{})
	c.mu.Lock()
	sub := c.line.Upgrade(req.Received)
	c.enterOwnLocked()
	c.mu.Unlock()
	c.batch = append(c.batch, sub)
	c.submitBatch()
	c.flush()
	return c.await(c.decided)
}

// enterOwnLocked counts the request that the line itself has put into its queue.
func (c *conn) enterOwnLocked() {
	queued := c.line.Queued()
	c.clients.throttler.enter(queued[len(queued)-1].Size(), len(queued) == 1)
}

// queueRead appends a read to the waiting requests if there are any: the applier serves
// it after it has answered the one ahead. If there are none, nobody would serve it.
func (c *conn) queueRead(req *line.Request) bool {
	queued := *req
	queued.Body = c.copyBody(req.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.line.Queue(queued) {
		return false
	}
	c.clients.throttler.enter(queued.Size(), false) // it has one already
	return true
}

// throttle pauses the reader while the client is slow to read its replies, or while too
// many requests wait in the server and this connection has its share of them
// (globalOutstandingLimit). TCP then slows the client down.
func (c *conn) throttle() error {
	c.makeRoom()
	c.clients.audit.Load().makeRoom(c)
	if !c.clients.throttler.over(c.line.Waiting()) {
		return nil
	}
	c.submitBatch()
	c.flush()
	return c.clients.throttler.wait(c)
}

// authenticate handles an auth packet. It is answered at once, before requests that still
// wait, and applies to the requests after it. A packet that can't be decoded ends the
// connection without a reply, as in Apache's server.
func (c *conn) authenticate(req *line.Request) error {
	var r jute.AuthRequest
	d := jute.NewDecoder(req.Body)
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
	if c.line.NeedsBarrier(req.Op, c.clients.live.Load().LinearizableReads) {
		return c.submit(req)
	}
	c.reply(req.Xid, 0, 0)
	return nil
}

// failAuth answers an auth packet that proves nothing, and returns the error that ends the
// connection.
func (c *conn) failAuth(req *line.Request, scheme string, err error) error {
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
	c.reply(req.Xid, 0, code)
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
