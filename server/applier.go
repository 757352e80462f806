package server

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

// order is one element of what the applier works through.
type order struct {
	zab.Entry // of an orderEntry; of an orderReplay its Zxid is where to stop
	kind      orderKind
	txn       *datatree.Txn  // of an orderEntry that was evaluated here; nil if only Data is at hand
	origin    uint64         // of a barrier: who waits for it
	code      jute.Code      // of a barrier: the request's outcome
	session   jute.SessionID // of a barrier: the session concerned
	install   *received
}

type orderKind uint8

const (
	orderEntry orderKind = iota // committed
	// orderBarrier stands where a request without a transaction (sync, the
	// resumption of a session, a request that was refused) was ordered.
	orderBarrier
	orderReplay  // apply what the log has up to Zxid
	orderInstall // replace the tree by a snapshot that was received
	orderFreeze  // have a snapshot written
)

// applyBatch is how many orders are applied under one hold of the tree lock:
// enough to make the lock cheap, few enough that reads never wait long.
const applyBatch = 64

// applier is the only one that changes the tree. In the order of zxids it
// applies what is committed, tells watchers, and answers the requests that
// waited, with the reads behind them.
type applier struct {
	*Server
	in      *queue[order]
	out     datatree.Applied
	deliver func(watch.Watcher) // deliverTo, made once
	ev      *datatree.Event     // being told
	event   []byte              // its notification, encoded once; empty until somebody hears it
	told    time.Duration       // how many hear it, as latency counts
	dirty   []*conn             // to be woken after the batch
	now     time.Duration       // of the batch
	zxid    jute.Zxid           // of the order being applied
	// ensemble is what the entries applied so far say of the ensemble, as the
	// tree is what they say of znodes.
	ensemble zab.State
}

func (a *applier) run() {
	var batch []order
	for {
		select {
		case <-a.in.ready:
		case <-a.stopping:
			return
		}
		batch = a.in.take(batch)
		for rest := batch; len(rest) > 0; {
			n := 0
			for n < len(rest) && n < applyBatch && rest[n].kind <= orderBarrier {
				n++
			}
			var err error
			if n > 0 {
				err = a.applySome(rest[:n])
			} else {
				n = 1
				err = a.special(&rest[0])
			}
			if err != nil {
				if a.ctx.Err() == nil {
					a.fail(err)
				}
				return // nothing after it may be applied
			}
			rest = rest[n:]
		}
		if a.awaited.Load() {
			select {
			case a.replica.moved <- struct{}{}:
			default:
			}
		}
	}
}

// special carries out what takes its time. No clients are served meanwhile.
func (a *applier) special(o *order) error {
	switch o.kind {
	case orderInstall:
		a.installSnapshot(o.install)
	case orderFreeze:
		a.state.mu.Lock()
		a.snapshots.freeze()
		a.state.mu.Unlock()
	default:
		return a.replayTo(o.Zxid)
	}
	return nil
}

// replayTo applies committed entries that are not in memory any more.
func (a *applier) replayTo(zxid jute.Zxid) error {
	return replayLog(a.logWriter, a.state.tree.LastZxid(), zxid, func(e *zab.Entry) error {
		a.now = a.Server.now()
		a.state.mu.Lock()
		defer a.state.mu.Unlock()
		return errors.Join(a.apply(&order{Entry: *e}), a.ctx.Err())
	})
}

// installSnapshot replaces the tree by one that another server sent.
func (a *applier) installSnapshot(rec *received) {
	tree := rec.tree
	a.state.mu.Lock()
	for id := range a.state.tree.Sessions() {
		a.tracker.Remove(id)
	}
	a.state.tree = tree
	a.ensemble = rec.state
	a.knowEnsemble()
	now := millis(a.Server.now())
	for id, timeoutMs := range tree.Sessions() {
		a.tracker.Add(id, timeoutMs, now)
	}
	a.setLastApplied(tree.LastZxid())
	a.state.mu.Unlock()
	a.snapshots.installed(rec.ref)
	a.log.Info("snapshot installed", zap.Stringer("zxid", tree.LastZxid()), zap.Int("znodes", tree.Stats().Nodes))
}

// knowEnsemble makes known what the history says of the ensemble.
func (a *applier) knowEnsemble() {
	init := a.ensemble.Init
	if !a.ensemble.Seeded() {
		a.cluster.Store(nil)
		a.keys.Store(session.NewKeys(a.ident.secret))
		return
	}
	a.cluster.Store(&init.Cluster)
	a.keys.Store(session.NewKeys(init.Secret))
}

// applySome applies a few orders under one hold of the lock and then wakes the
// writers of the connections that they concern. After an error nothing more may
// be applied.
func (a *applier) applySome(orders []order) error {
	a.now = a.Server.now()
	start := a.now
	if err := a.applyLocked(orders); err != nil {
		return err
	}
	a.metrics.applySeconds.Observe((a.Server.now() - start).Seconds())
	for i, c := range a.dirty {
		c.dirty = false
		c.kick()
		a.dirty[i] = nil
	}
	a.dirty = a.dirty[:0]
	a.throttler.relax()
	return nil
}

// applyLocked applies orders under the lock of the tree.
func (a *applier) applyLocked(orders []order) error {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	for i := range orders {
		if err := a.apply(&orders[i]); err != nil {
			return err
		}
	}
	a.snapshots.applied(orders)
	return nil
}

// apply applies one order. An error means that a committed entry does not fit what
// was applied before, or does not decode, although both were checked before it
// was acknowledged: this server must not continue.
func (a *applier) apply(o *order) error {
	if o.kind == orderBarrier {
		a.passBarrier(o)
		return nil
	}
	txn, err := a.txnOf(o)
	if err == nil {
		err = a.ensemble.Apply(&o.Entry)
	}
	if err != nil {
		return &HaltError{Reason: fmt.Sprintf("the committed entry %v can't be applied: %v; report this", o.Zxid, err)}
	}
	if o.Type == zab.EntryMarker {
		a.knowEnsemble()
	}
	a.zxid = txn.Zxid
	a.metrics.commits.Add(1)
	a.state.tree.Apply(txn, &a.out)
	a.setLastApplied(txn.Zxid) // before any reply shows it: its client may come back at once
	if a.digests.applied(txn.Zxid, a.state.tree) && a.Server.ensemble() {
		body := appendDigest(nil, txn.Zxid, a.state.tree.Digest())
		a.replica.events.put(peerEvent{kind: evDigest, body: body})
	}
	for i := range a.out.Events {
		a.tell(&a.out.Events[i])
	}
	for i := range txn.Ops {
		a.sessionEffect(txn, &txn.Ops[i])
	}
	if txn.Origin != 0 && txn.Cxid != xidUpgrade && serverOf(txn.Origin) == a.id {
		if c := a.conns.get(txn.Origin); c != nil {
			a.answer(c, o, txn)
		}
	}
	recycleTxn(o)
	return nil
}

// passBarrier answers a request that has no transaction.
func (a *applier) passBarrier(o *order) {
	c := a.conns.get(o.origin)
	switch {
	case c == nil:
	case o.code == jute.ErrSessionMoved:
		c.kill() // its session is elsewhere now
	default:
		a.answer(c, o, nil)
	}
}

// txnOf returns the order's transaction.
func (a *applier) txnOf(o *order) (*datatree.Txn, error) {
	if o.txn != nil {
		return o.txn, nil
	}
	o.txn = newTxn()
	return o.txn, transactionOf(&o.Entry, a.state.tree, o.txn)
}

// tell sends an event to the watchers that wait for it and may read the node.
func (a *applier) tell(ev *datatree.Event) {
	a.ev, a.event, a.told = ev, a.event[:0], 0
	a.state.watches.Trigger(ev.Type, ev.Path, a.deliver)
	if a.told > 0 {
		a.metrics.fired[ev.Type].observe(a.told, 1)
	}
}

// deliverTo sends the event at hand to one watcher. The watch table is locked.
func (a *applier) deliverTo(w watch.Watcher) {
	c := a.conns.watcher(w)
	if c == nil || !a.schemes.Allowed(a.ev.ACL, jute.PermRead, *c.auth.Load()) {
		return
	}
	if len(a.event) == 0 {
		b, mark := jute.BeginFrame(a.event)
		h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: a.zxid}
		a.event = jute.EndFrame(appendEvent(h.Append(b), a.ev.Type, a.ev.Path), mark)
	}
	if !c.send(a.event) {
		a.log.Warn("closing connection: it does not take its watch events",
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("behind_bytes", outLimit))
		c.kill()
		return
	}
	a.told++
	a.metrics.watchBytes.Add(int64(len(a.event)))
	a.markDirty(c)
}

// markDirty has the connection's writer woken after the batch. The writer begins
// with the first thing that it has to write: many connections never have any.
// Under the tree lock the reader can't be through with forget, so the group that
// both belong to is not waited for in vain.
func (a *applier) markDirty(c *conn) {
	if c.dirty {
		return
	}
	c.dirty = true
	a.dirty = append(a.dirty, c)
	if !c.hasWriter {
		c.hasWriter = true
		a.clients.Go(c.writeLoop)
	}
}

// sessionEffect keeps the tracker and the connections in step with the session
// table of the tree.
func (a *applier) sessionEffect(txn *datatree.Txn, op *datatree.Op) {
	switch op.Kind {
	case datatree.OpDelete:
		if txn.Session == 0 { // by the cleaner
			a.metrics.containersDeleted.Add(1)
		}
	case datatree.OpCreateSession:
		a.tracker.Add(txn.Session, op.TimeoutMs, millis(a.now))
		a.tracker.SetOwner(txn.Session, txn.Origin)
		a.upgraded(txn.Session)
	case datatree.OpCloseSession:
		a.tracker.Remove(txn.Session)
		if c := a.conns.release(txn.Session); c != nil && c.id != txn.Origin {
			c.kill() // expired, or closed from elsewhere
		}
	}
}

// answer gives the oldest pending request of c its reply, and then serves the
// reads that waited behind it. txn is nil for a barrier.
func (a *applier) answer(c *conn, o *order, txn *datatree.Txn) {
	c.mu.Lock()
	if c.mu.gone || c.mu.ending || c.mu.pending.len() == 0 {
		c.mu.Unlock()
		return
	}
	req := *c.mu.pending.front()
	c.mu.Unlock()
	if !req.ordered || txn != nil && txn.Cxid != req.xid || txn == nil && !answers(&req, o) {
		a.log.Error("answer does not belong to the oldest request: closing the connection; report this",
			zap.Stringer("zxid", o.Zxid), zap.Int32("xid", req.xid), zap.Stringer("op", req.op))
		c.kill()
		return
	}
	a.answerOrdered(c, &req, o, txn)
	c.answered(&req, a.state.tree.LastZxid())
	a.observeWrite(c, &req)
	a.popPending(c, &req)
	if req.op == jute.OpCreateSession {
		// The reader goes on, and writes the response. Not before it is out of
		// the queue: nobody would serve a read that came to stand behind it.
		close(c.established)
		return
	}
	a.serveBehind(c)
	a.markDirty(c)
}

// answers reports whether o, which has no transaction, can be what req waits for:
// a refusal goes with any request.
func answers(req *request, o *order) bool {
	return o.code != 0 || req.op == jute.OpSync || req.op == jute.OpCreateSession || !fromLeader(req.op)
}

// serveBehind serves the reads at the head of c's queue, up to the next ordered
// request.
func (a *applier) serveBehind(c *conn) {
	for {
		c.mu.Lock()
		if c.mu.gone || c.mu.pending.len() == 0 || c.mu.pending.front().ordered {
			c.mu.Unlock()
			return
		}
		req := *c.mu.pending.front()
		behind := c.mu.out != nil && c.mu.out.len() > outLimit
		c.mu.Unlock()
		if behind {
			a.log.Warn("closing connection: the replies to reads behind one write are too much",
				zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("behind_bytes", outLimit))
			c.kill()
			return
		}
		if !a.answerRead(c, &req) {
			c.endAfterFlush()
			return
		}
		a.metrics.reads.observe(a.now-req.received, 1)
		a.popPending(c, &req)
	}
}

func (a *applier) popPending(c *conn, req *request) {
	c.mu.Lock()
	if c.mu.pending.len() > 0 { // not torn down meanwhile
		c.mu.pending.pop()
		c.pendingLen.Add(-1)
		a.throttler.leave(req.size())
		if c.mu.draining {
			c.drained.Broadcast()
		}
	}
	c.mu.Unlock()
	if req.large > 0 {
		a.largeBytes.Add(-req.large)
	}
}

func (a *applier) observeWrite(c *conn, req *request) {
	latency := a.now - req.received
	a.metrics.writes.observe(latency, 1)
	c.mu.Lock()
	c.mu.stats.observe(latency, 1)
	c.mu.stats.lastResponse = a.now
	c.mu.Unlock()
}

// answerOrdered appends the reply to a request that was ordered by the leader.
func (a *applier) answerOrdered(c *conn, req *request, o *order, txn *datatree.Txn) {
	zxid, code, session := a.state.tree.LastZxid(), o.code, o.session
	if txn != nil {
		zxid, code, session = txn.Zxid, txn.Err, txn.Session
	}
	switch {
	case req.op == jute.OpCreateSession:
		a.answerConnect(c, session, code, req.body[0] == 1)
	case code == jute.ErrSessionMoved:
		c.kill() // the client is elsewhere; it must not hear from here
	case code != 0:
		c.reply(req.xid, zxid, code)
	case !fromLeader(req.op):
		if !a.answerRead(c, req) {
			c.endAfterFlush()
		}
	case req.op == jute.OpSync:
		a.answerSync(c, req, zxid)
	case req.op == jute.OpCloseSession:
		c.reply(req.xid, zxid, 0)
		c.endSession()
	case txn.Multi:
		c.end(a.appendMulti(c.begin(req.xid, zxid, 0), txn))
	default:
		c.end(appendResult(c.begin(req.xid, zxid, 0), req.op, &a.out.Results[0]))
	}
}

func (a *applier) answerSync(c *conn, req *request, zxid jute.Zxid) {
	var p jute.SyncRequest
	d := jute.NewAliasDecoder(req.body)
	p.Decode(&d)
	if d.Err() != nil {
		c.reply(req.xid, zxid, jute.ErrMarshalling)
		return
	}
	c.end(p.Append(c.begin(req.xid, zxid, 0)))
}

// appendResult appends the response record of a single write.
func appendResult(b []byte, op jute.OpCode, res *datatree.Result) []byte {
	switch op {
	case jute.OpCreate:
		return jute.AppendString(b, res.Path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return res.Stat.Append(jute.AppendString(b, res.Path))
	case jute.OpSetData, jute.OpSetACL:
		return res.Stat.Append(b)
	}
	return b // delete
}

// appendMulti appends a multi's results, one for each of its operations.
func (a *applier) appendMulti(b []byte, txn *datatree.Txn) []byte {
	for i := range txn.Ops {
		op, res := &txn.Ops[i], &a.out.Results[i]
		m := jute.MultiResult{Type: op.Result, Path: res.Path, Stat: res.Stat}
		if op.Kind == datatree.OpError {
			m = jute.MultiResult{Type: jute.OpError, Err: op.Code}
		}
		b = m.Append(b)
	}
	return jute.AppendMultiEnd(b)
}
