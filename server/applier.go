package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

// What is done under one hold of the tree's lock is bounded, so that those who read the
// tree never wait long: the clients' requests, and the peer loop, which also sends the
// heartbeats. A single transaction can be more than applyWork, as far as jute.maxbuffer
// and evaluate.Options.MaxListed allow.
const (
	applyBatch = 64 // orders
	// applyWork counts orders, znodes changed, events delivered and reads answered.
	applyWork = 2048
	// pruneStep is how many ephemerals of a session that ends are deleted before the
	// work is looked at. A session with fewer ends at once.
	pruneStep = 64
	// replayBytes is about how much of the log is read at a time.
	replayBytes = 256 << 10
)

// applier is the only one that changes the tree. In the order of zxids it
// applies what is committed, tells watchers, and answers the requests that
// waited, with the reads behind them.
type applier struct {
	*Server
	in      *queue[replica.Order]
	out     datatree.Applied
	deliver func(watch.Watcher) // deliverTo, made once
	ev      *datatree.Event     // being told
	event   []byte              // its notification, encoded once; empty until somebody hears it
	told    time.Duration       // how many hear it, as latency counts
	dirty   []*conn             // to be woken after the batch
	now     time.Duration       // of the batch
	zxid    jute.Zxid           // of the order being applied
	work    int                 // under the present hold of the lock
	// ensemble is what the entries applied so far say of the ensemble, as the
	// tree is what they say of znodes.
	ensemble zab.State

	// backlog is the bytes of committed entries that are in memory to be applied. The
	// peer loop adds them, up to limits.backlog. What is beyond stays in the log.
	backlog atomic.Int64
	// superseded is the zxid of a snapshot that replaces the history. Up to there the log
	// may have no entries any more: see skips.
	superseded atomic.Int64
}

func (a *applier) run() {
	var batch []replica.Order
	for {
		select {
		case <-a.in.ready:
		case <-a.stopping:
			return
		}
		batch = a.in.take(batch)
		for rest := batch; len(rest) > 0; {
			n := 0
			for n < len(rest) && n < applyBatch && rest[n].Kind <= replica.OrderBarrier {
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
		batch = a.in.done(batch)
	}
}

// special carries out what is no entry.
func (a *applier) special(o *replica.Order) error {
	switch o.Kind {
	case replica.OrderInstall:
		a.installSnapshot(o.Install.(*received))
	case replica.OrderFreeze:
		a.state.mu.Lock()
		a.snapshots.freeze()
		a.state.mu.Unlock()
	default:
		return a.replayTo(o.Zxid)
	}
	return nil
}

// replayTo applies committed entries that are not in memory any more, up to a zxid.
func (a *applier) replayTo(upTo jute.Zxid) error {
	for {
		err := a.replay(upTo)
		switch {
		case a.skips():
			return nil // whatever went wrong: they are not needed
		case errors.Is(err, wal.ErrRewritten):
			continue // entries after upTo were dropped; they never were committed
		case err != nil:
			return fmt.Errorf("read what is committed, up to %v, from the log: %w", upTo, err)
		}
		return nil
	}
}

func (a *applier) replay(upTo jute.Zxid) error {
	log, err := a.logWriter.NewReader(a.state.tree.LastZxid())
	if err != nil {
		return err
	}
	defer log.Close()
	var orders []replica.Order
	for {
		records, err := log.Next(replayBytes)
		if err == nil && len(records) == 0 {
			err = fmt.Errorf("it ends at %v", a.state.tree.LastZxid())
		}
		if err != nil {
			return err
		}
		for len(records) > 0 {
			clear(orders)
			orders = orders[:0]
			for len(records) > 0 && len(orders) < applyBatch && records[0].Zxid <= upTo {
				orders = append(orders, replica.Order{Entry: entryOf(&records[0])})
				records = records[1:]
			}
			if err := a.applySome(orders); err != nil {
				return err
			}
			a.metrics.Replayed.Add(int64(len(orders)))
			if a.state.tree.LastZxid() >= upTo || len(orders) == 0 || a.skips() {
				return nil
			}
			if err := a.ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// skips reports whether a snapshot on its way will replace the tree: until then there is
// nothing to be done. No clients are served meanwhile.
func (a *applier) skips() bool { return jute.Zxid(a.superseded.Load()) > a.state.tree.LastZxid() }

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
	a.progress()
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

// applySome applies a few orders, and gives way when a hold of the lock has lasted long
// enough. After an error nothing more may be applied.
func (a *applier) applySome(orders []replica.Order) error {
	if err := a.applyHeld(orders); err != nil {
		return err
	}
	var held int64
	for i := range orders {
		held += orders[i].Held
	}
	a.backlog.Add(-held)
	return nil
}

func (a *applier) applyHeld(orders []replica.Order) error {
	a.hold()
	defer a.release()
	for i := range orders {
		if a.skips() {
			continue
		}
		if err := a.apply(&orders[i]); err != nil {
			return err
		}
		a.breathe()
	}
	a.snapshots.applied(orders)
	return nil
}

// hold locks the tree.
func (a *applier) hold() {
	a.now = a.Server.now()
	a.state.mu.Lock()
	a.work = 0
}

// release unlocks the tree, and wakes the connections and the peer loop, as far as the
// work since hold concerns them.
func (a *applier) release() {
	a.state.mu.Unlock()
	a.metrics.ApplySeconds.Observe((a.Server.now() - a.now).Seconds())
	a.metrics.ApplyWork.Observe(time.Duration(a.work), 1)
	for i, c := range a.dirty {
		c.dirty = false
		c.kick()
		a.dirty[i] = nil
	}
	a.dirty = a.dirty[:0]
	a.throttler.relax()
	a.progress()
}

// progress tells the peer loop that more is applied, if it waits for that.
func (a *applier) progress() {
	if a.awaited.Load() {
		notify(a.loop.moved)
	}
}

// breathe lets others have the tree, if enough has been done since hold. The tree is at
// a transaction, or its Changing tells where it is not; nobody else changes it.
func (a *applier) breathe() {
	if a.work >= applyWork {
		a.release()
		a.hold()
	}
}

// apply applies one order. An error means that a committed entry does not fit what
// was applied before, or does not decode, although both were checked before it
// was acknowledged: this server must not continue.
func (a *applier) apply(o *replica.Order) error {
	a.work++
	if o.Kind == replica.OrderBarrier {
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
	a.zxid = txn.Zxid
	a.prune(txn)
	if o.Type == zab.EntryMarker {
		a.knowEnsemble()
	}
	a.metrics.Commits.Add(1)
	a.state.tree.Apply(txn, &a.out)
	a.setLastApplied(txn.Zxid) // before any reply shows it: its client may come back at once
	a.settle()
	if a.digests.applied(txn.Zxid, a.state.tree, o.Entry.Txn() != nil) && a.Server.ensemble() {
		a.loop.events.put(peerEvent{kind: evDigest, zxid: txn.Zxid, digest: a.state.tree.Digest()})
	}
	a.tellAll()
	for i := range txn.Ops {
		a.sessionEffect(txn, &txn.Ops[i])
	}
	if txn.Origin != 0 && replica.ServerOf(txn.Origin) == a.id {
		if c := a.conns.get(txn.Origin); c != nil {
			a.answer(c, o, txn)
		}
	}
	replica.RecycleTxn(txn)
	o.Txn = nil
	return nil
}

// prune deletes most of the ephemerals of a session that txn closes, if they are many, in
// slices of the tree's lock. Between two of them clients are served, but for requests
// that would see a part of the transaction: see conn.lockTree. Events come with the
// deletes that they tell of, so no client sees a change before its event.
func (a *applier) prune(txn *datatree.Txn) {
	if len(txn.Ops) != 1 || txn.Ops[0].Kind != datatree.OpCloseSession || a.state.tree.NumEphemerals(txn.Session) <= pruneStep {
		return
	}
	a.state.settled = make(chan struct{})
	if len(txn.Ops[0].Paths) == 0 {
		a.release()
		a.state.tree.List(txn) // without the lock: nobody else changes the tree
		a.hold()
	}
	for a.state.tree.Prune(txn, &a.out, pruneStep) {
		a.tellAll()
		a.breathe()
	}
}

// settle lets the requests continue that wait for the end of a transaction in slices.
func (a *applier) settle() {
	if a.state.settled != nil {
		close(a.state.settled)
		a.state.settled = nil
	}
}

// tellAll tells the events of what was applied to those who watch.
func (a *applier) tellAll() {
	a.work += len(a.out.Events)
	for i := range a.out.Events {
		a.tell(&a.out.Events[i])
		a.work += int(a.told)
	}
}

// passBarrier answers a request that has no transaction.
func (a *applier) passBarrier(o *replica.Order) {
	c := a.conns.get(o.Origin)
	switch {
	case c == nil:
	case o.Code == jute.ErrSessionMoved:
		c.kill() // its session is elsewhere now
	default:
		a.answer(c, o, nil)
	}
}

// txnOf returns the order's transaction.
func (a *applier) txnOf(o *replica.Order) (*datatree.Txn, error) {
	if o.Txn != nil {
		return o.Txn, nil
	}
	o.Txn = replica.NewTxn()
	return o.Txn, transactionOf(&o.Entry, a.state.tree, o.Txn)
}

// tell sends an event to the watchers that wait for it and may read the node.
func (a *applier) tell(ev *datatree.Event) {
	a.ev, a.event, a.told = ev, a.event[:0], 0
	a.state.watches.Trigger(ev.Type, ev.Path, a.deliver)
	if a.told > 0 {
		a.metrics.Fired[ev.Type].Observe(a.told, 1)
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
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("limit_bytes", outLimit), zap.Int64("all_clients_behind_bytes", a.outBytes.Load()))
		c.kill()
		return
	}
	a.told++
	a.metrics.ResponseSizes.Observe(len(a.event) - 4) // without the frame's length
	a.metrics.WatchBytes.Add(int64(len(a.event)))
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
			a.metrics.ContainersDeleted.Add(1)
		}
	case datatree.OpCreateSession:
		a.tracker.Add(txn.Session, op.TimeoutMs, millis(a.now))
		a.tracker.SetOwner(txn.Session, txn.Origin)
		a.upgraded(txn.Session, txn.Origin)
	case datatree.OpSetTimeout:
		a.tracker.SetTimeout(txn.Session, op.TimeoutMs, txn.Origin, millis(a.now))
	case datatree.OpCloseSession:
		a.tracker.Remove(txn.Session)
		if c := a.conns.release(txn.Session); c != nil && c.id != txn.Origin {
			c.kill() // expired, or closed from elsewhere
		}
	}
}

// answer gives the oldest pending request of c its reply, and then serves the
// reads that waited for that. txn is nil for a barrier.
func (a *applier) answer(c *conn, o *replica.Order, txn *datatree.Txn) {
	c.mu.Lock()
	if c.mu.gone || c.mu.ending || c.mu.pending.Len() == 0 {
		c.mu.Unlock()
		return
	}
	req := *c.mu.pending.Front()
	if !req.ordered || txn != nil && txn.Cxid != req.xid || txn == nil && !answers(&req, o) {
		c.mu.Unlock()
		a.log.Error("answer does not belong to the oldest request: closing the connection; report this",
			zap.Stringer("zxid", o.Zxid), zap.Int32("xid", req.xid), zap.Stringer("op", req.op))
		c.kill()
		return
	}
	if !a.replyLocked(c, &req, o, txn) {
		c.mu.Unlock()
		a.answerSpecial(c, &req, o, txn)
		c.mu.Lock()
	}
	if req.xid != replica.UpgradeXid || req.outcome == nil {
		a.observeLocked(c, &req)
	}
	reads := a.popLocked(c, &req)
	c.mu.Unlock()
	if req.outcome != nil {
		// The reader continues, and writes the response. Not before the request is out
		// of the queue: nobody would serve a read that was queued after it.
		close(req.outcome)
		return
	}
	if reads {
		a.serveReads(c)
	}
	a.markDirty(c)
}

// answers reports whether o, which has no transaction, can be what req waits for:
// a refusal goes with any request.
func answers(req *request, o *replica.Order) bool {
	return o.Code != 0 || req.op == jute.OpSync || !replica.Ordered(req.op)
}

// serveReads serves the reads at the head of c's queue, up to the next ordered
// request.
func (a *applier) serveReads(c *conn) {
	for more := true; more; {
		c.mu.Lock()
		if c.mu.gone || c.mu.pending.Len() == 0 {
			c.mu.Unlock()
			return
		}
		req := *c.mu.pending.Front()
		behind := c.behindLocked()
		c.mu.Unlock()
		if behind {
			a.log.Warn("closing connection: the replies to reads behind one write are too much",
				zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("limit_bytes", outLimit), zap.Int64("all_clients_behind_bytes", a.outBytes.Load()))
			c.kill()
			return
		}
		if !a.answerRead(c, &req) {
			c.endAfterFlush()
			return
		}
		a.metrics.Reads.Observe(a.now-req.received, 1)
		c.mu.Lock()
		more = a.popLocked(c, &req)
		c.mu.Unlock()
		a.work++
		a.breathe()
	}
}

// popLocked takes the request that has been answered out of c's queue, and reports
// whether a read is next.
func (a *applier) popLocked(c *conn, req *request) (read bool) {
	pending := &c.mu.pending
	if pending.Len() == 0 { // torn down meanwhile
		return false
	}
	pending.Pop(1)
	if req.large > 0 {
		a.largeBytes.Add(-req.large)
	}
	c.pendingLen.Add(-1)
	a.throttler.leave(req.size())
	if c.mu.draining {
		c.drained.Broadcast()
	}
	return pending.Len() > 0 && !pending.Front().ordered
}

// observeLocked counts the answer to a request that was ordered by the leader.
func (a *applier) observeLocked(c *conn, req *request) {
	latency := a.now - req.received
	a.metrics.Writes.Observe(latency, 1)
	c.mu.stats.answered(req, a.state.tree.LastZxid())
	c.mu.stats.observe(latency, 1)
	c.mu.stats.lastResponse = a.now
}

// replyLocked appends the reply to a write, and reports whether that was one.
func (a *applier) replyLocked(c *conn, req *request, o *replica.Order, txn *datatree.Txn) bool {
	zxid, code := a.state.tree.LastZxid(), o.Code
	if txn != nil {
		zxid, code = txn.Zxid, txn.Err
	}
	switch {
	case req.outcome != nil, code == jute.ErrSessionMoved, txn == nil && code == 0, code == 0 && req.op == jute.OpCloseSession:
		return false
	case code != 0:
		c.endLocked(c.beginLocked(req.xid, zxid, code))
	case txn.Multi:
		c.endLocked(a.appendMulti(c.beginLocked(req.xid, zxid, 0), txn))
	default:
		c.endLocked(appendResult(c.beginLocked(req.xid, zxid, 0), req.op, &a.out.Results[0]))
	}
	return true
}

// answerSpecial answers an ordered request that is more than a write, or that the
// connection ends with.
func (a *applier) answerSpecial(c *conn, req *request, o *replica.Order, txn *datatree.Txn) {
	zxid, code, session := a.state.tree.LastZxid(), o.Code, o.Session
	if txn != nil {
		zxid, code, session = txn.Zxid, txn.Err, txn.Session
	}
	switch {
	case req.outcome != nil:
		if req.xid != replica.UpgradeXid {
			a.answerConnect(c, session, code, req.body[0] == 1)
		}
	case code == jute.ErrSessionMoved:
		c.kill() // the client is elsewhere; it must not hear from here
	case !replica.Ordered(req.op):
		if !a.answerRead(c, req) {
			c.endAfterFlush()
		}
	case req.op == jute.OpSync:
		a.answerSync(c, req, zxid)
	default: // closeSession
		c.reply(req.xid, zxid, 0)
		c.endSession()
	}
}

// answerSync echoes the request's record, so that a null path stays null.
func (a *applier) answerSync(c *conn, req *request, zxid jute.Zxid) {
	var p jute.SyncRequest
	d := jute.NewAliasDecoder(req.body)
	p.Decode(&d)
	if d.Err() != nil {
		c.reply(req.xid, zxid, jute.ErrMarshalling)
		return
	}
	record := req.body[:len(req.body)-len(d.Rest())]
	c.end(append(c.begin(req.xid, zxid, 0), record...))
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
