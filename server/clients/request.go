package clients

import (
	"errors"
	"net"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/limits"
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
	c.identity.dropEnded(c.batchAt)
	req := &c.current
	*req = line.Request{Op: h.Type, Xid: h.Xid, Auth: c.identity.ids(), Body: d.Rest(), Received: c.batchAt}
	if err := c.line.Accept(req); err != nil {
		return err
	}
	switch req.Op {
	case jute.OpAuth:
		return c.authenticate(req)
	case jute.OpSASL:
		return c.login.sasl(req, c.socket.secure.Load(), c.awaitTurn)
	}
	if c.shared.proofs.Admits(req.Auth) != nil {
		if err := c.awaitAnswers(); err != nil {
			return err
		}
		c.refuse(req, 0, jute.ErrSessionClosedRequireSASL)
		c.line.endAfterFlush()
		return errHangUp
	}
	if c.shared.refusesWatches(req) {
		return errHangUp
	}
	if c.limits.refuses(req) && replica.Ordered(req.Op) { // reads are audited where they are served
		c.line.waitFor(c.shared.audit.Load().refused(c.author(req.Auth), req, req.Refusal))
	}
	if req.Op == jute.OpPast && req.Refusal == 0 && !c.line.Lacks(req.Op) {
		return c.shared.looks.serve(c, req)
	}
	switch way := c.line.WayOf(req, c.shared.live.Load().LinearizableReads); {
	case way == line.Submit:
		return c.submit(req)
	case way == line.Reject:
		c.refuse(req, c.shared.state.Applied(), jute.ErrNotReadOnly)
		return nil
	case req.Op == jute.OpConfigure && req.Refusal == 0:
		return c.shared.configurer.serve(c, req)
	}
	return c.serveInOrder(req)
}

// refusesWatches refuses a request that would set a watch while they take too much memory. It reports whether
// the connection ends, since the request restores watches: its client then finds another server.
func (s *shared) refusesWatches(req *line.Request) (ends bool) {
	most, have := s.mostWatches, s.state.Watches.Memory()
	if most == 0 || have <= most {
		return false
	}
	switch {
	case req.Op == jute.OpSetWatches, req.Op == jute.OpSetWatches2:
		return have > 2*most
	case usesOf(limits.Watches, req) > 0:
		req.Refusal = jute.ErrNotReadOnly
		s.metrics.WatchesRefused.Add(1)
	}
	return false
}

// refuse answers a request that this server refuses by itself.
func (c *conn) refuse(req *line.Request, zxid jute.Zxid, code jute.Code) {
	c.line.waitFor(c.shared.audit.Load().refused(c.author(req.Auth), req, code))
	c.line.reply(req.Xid, zxid, code)
}

// serveInOrder answers a read now if no request is ahead of it, and queues it otherwise.
func (c *conn) serveInOrder(req *line.Request) error {
	if c.line.Waiting.Len() > 0 && c.queueRead(req) {
		return nil
	}
	for more := true; more; more = c.outcome.More {
		if err := c.lockTree(req); err != nil {
			return err
		}
		keep := c.serveRead(req)
		c.shared.state.RUnlock()
		if !keep {
			return errHangUp
		}
	}
	c.tally.count(c.line.SessionID(), req)
	return nil
}

// serveRead answers a request from the tree, which is locked, and reports whether the connection continues.
func (c *conn) serveRead(req *line.Request) bool {
	c.outcome = line.Read{}
	if req.ServedByHost() {
		c.line.Host().Operate(req)
		return true
	}
	c.line.Lock()
	keep := c.line.Serve(req, c.batchAt, &c.outcome)
	if !keep {
		c.line.Outbox.End(true)
	} else if !c.outcome.More {
		c.stats.answered(req, c.outcome.Zxid)
	}
	c.line.Unlock()
	c.tally.countNamespace(c.outcome.Path, c.outcome.Bytes)
	return keep
}

// lockTree locks the tree for reading, for a request that is to be answered from it. If a
// transaction is being applied in slices, and the answer could show a part of it, the
// request waits for its end. So each answer shows a state between two transactions, that
// of the zxid in its header.
func (c *conn) lockTree(req *line.Request) error {
	state := c.shared.state
	for {
		state.RLock()
		settled := state.Slicing()
		if settled == nil || !req.ShowsPart(state.Tree) {
			return nil
		}
		state.RUnlock()
		c.batch.submit()
		c.out.flush()
		if err := c.socket.await(settled); err != nil {
			return err
		}
	}
}

// submit queues an ordered request and adds it to the batch for the leader.
func (c *conn) submit(req *line.Request) error {
	if err := c.shared.large.admit(req, c.shared.live.Load()); err != nil {
		c.line.waitFor(c.shared.audit.Load().refused(c.author(req.Auth), req, jute.ErrThrottledOp))
		return err
	}
	if err := c.upgrade(req); err != nil {
		return err
	}
	req.Body = c.batch.copy(req.Body, c.frames.Buffered())
	if req.Op == jute.OpReconfig {
		c.shared.state.RLock()
		defer c.shared.state.RUnlock()
	}
	c.line.Lock()
	c.shared.throttler.enter(c.crowd, req.Size(), c.line.Waiting.Len() == 0)
	sub := c.line.Submit(req)
	c.line.Unlock()
	c.batch.add(sub)
	return nil
}

// upgrade has the leader make the connection's local session a global one, if the request needs that, and
// waits for the outcome.
func (c *conn) upgrade(req *line.Request) error {
	if !c.line.Upgrades(req) {
		return nil
	}
	c.decided = make(chan struct{})
	c.line.Lock()
	sub, ok := c.line.Upgrade(req.Received)
	if !ok {
		c.line.Unlock()
		return errHangUp
	}
	c.shared.throttler.enterLast(c.crowd, c.line.Waiting.All())
	c.line.Unlock()
	c.batch.add(sub)
	c.batch.submit()
	c.out.flush()
	return c.socket.await(c.decided)
}

// queueRead appends a read to the waiting requests if there are any: the applier serves
// it after it has answered the one ahead. If there are none, nobody would serve it.
func (c *conn) queueRead(req *line.Request) bool {
	queued := *req
	queued.Body = c.batch.copy(req.Body, c.frames.Buffered())
	c.line.Lock()
	defer c.line.Unlock()
	if !c.line.Queue(queued) {
		return false
	}
	c.shared.throttler.enter(c.crowd, queued.Size(), false) // it has one already
	return true
}

// throttle pauses the reader while the client is slow to read its replies, while too many entries wait for the audit log, or
// while too many requests wait in the server and this connection has its share of them
// (globalOutstandingLimit). TCP then slows the client down.
func (c *conn) throttle() error {
	c.out.makeRoom()
	if a := c.shared.audit.Load(); a.isFull(c.line.Waiting.Len() > 0) {
		c.batch.submit()
		a.log.WaitRoom(c.socket.done)
	}
	if !c.shared.throttler.over(c.crowd, c.line.Waiting.Len()) {
		return nil
	}
	c.batch.submit()
	c.out.flush()
	return c.shared.throttler.wait(c.crowd, &c.line)
}

// authenticate handles an auth packet.
func (c *conn) authenticate(req *line.Request) error {
	if err := c.login.auth(req, c.awaitTurn); err != nil {
		return err
	}
	if c.line.NeedsBarrier(req.Op, c.shared.live.Load().LinearizableReads) {
		return c.submit(req)
	}
	c.line.reply(req.Xid, 0, 0)
	return nil
}

// awaitTurn waits for the turn of an attempt of the connection's client to log in. It blocks only the
// connection's own reader.
func (c *conn) awaitTurn(delay time.Duration) error {
	c.batch.submit()
	c.out.flush()
	return c.socket.sleep(delay)
}

// awaitAnswers makes the reader wait until no request of the connection is pending.
func (c *conn) awaitAnswers() error {
	c.batch.submit()
	c.out.flush()
	c.line.Lock()
	defer c.line.Unlock()
	for c.line.Waiting.Len() > 0 {
		if c.line.Outbox.Ends() {
			return net.ErrClosed
		}
		c.line.changed.Wait()
	}
	return nil
}
