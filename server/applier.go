package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/traces"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// The work done under one hold of the tree's lock is bounded, so that readers of the tree
// never wait long: the clients' requests, and the peer loop, which also sends the
// heartbeats. A hold can exceed applyWork, by as many watches as are told at a time: line.Limits.Part.
const (
	applyBatch = 64 // orders
	// applyWork counts orders, znodes changed, events delivered and reads answered.
	applyWork = 2048
	// pathWork is how many bytes of a path count as another event.
	pathWork = 256
	// partOps is the number of operations of a transaction, or of ephemerals of a closing session, that are
	// applied before the work is checked. A transaction begins with firstPart, as each can have many watchers.
	partOps   = 64
	firstPart = 8
	// replayBytes is roughly how much of the log is read at a time.
	replayBytes = 256 << 10
)

// applier is the only goroutine that changes the tree. In zxid order it applies committed
// entries, triggers watches, and answers the waiting requests and the reads queued after
// them.
type applier struct {
	log        *zap.Logger
	metrics    *monitor.Metrics
	now        func() time.Duration
	doubt      func(lastMs int64) // base.Clock.Doubt
	fail       func(error)
	leads      func() bool
	handover   *handover
	id         zab.SID
	replicated bool // there are other servers
	state      *state.State
	answers    *clients.Answers
	snapshots  *snapshotter
	logWriter  *logWriter
	audit      *audit.Trail
	traces     *traces.Tracer
	events     *base.Queue[peerEvent]
	changes    *feed.History

	out    datatree.Applied
	at     time.Duration // of the batch
	zxid   jute.Zxid     // of the order being applied
	wall   int64         // at, in ms since the Unix epoch
	work   int           // under the current hold of the lock
	unsent int           // work since the answers were written
	told   int           // watches of the event that is being sent, counted as work
	same   sameTimes
}

func (a *applier) run(ctx context.Context) {
	var batch []replica.Order
	for {
		select {
		case <-a.handover.orders.Ready:
		case <-ctx.Done():
			return
		}
		batch = a.handover.orders.Take(batch)
		a.metrics.Orders.Observe(len(batch))
		for rest := batch; len(rest) > 0; {
			n := 0
			for n < len(rest) && n < applyBatch && rest[n].Kind <= replica.OrderBarrier {
				n++
			}
			var err error
			if n > 0 {
				err = a.applySome(rest[:n], n < len(rest) && rest[n].Kind <= replica.OrderBarrier)
				a.snapshots.await(ctx)
			} else {
				n = 1
				a.handover.working.Store(int64(a.now()))
				err = a.control(ctx, &rest[0])
			}
			if err != nil {
				if ctx.Err() == nil {
					a.fail(err)
				}
				return // nothing after it may be applied
			}
			rest = rest[n:]
		}
		batch = a.handover.orders.Done(batch)
		a.handover.working.Store(0)
	}
}

// control carries out an order that is not an entry.
func (a *applier) control(ctx context.Context, o *replica.Order) error {
	switch o.Kind {
	case replica.OrderInstall:
		return a.installSnapshot(ctx, o.Install.(*received))
	case replica.OrderFreeze:
		a.state.Lock()
		a.snapshots.freeze()
		a.state.Unlock()
	case replica.OrderInterlude:
		a.answers.BeginInterlude()
	case replica.OrderFence:
		a.answers.EndInterlude(o.Origin)
	default:
		return a.replayTo(ctx, o.Zxid)
	}
	return nil
}

// replayTo applies committed entries that are no longer in memory, up to a zxid.
func (a *applier) replayTo(ctx context.Context, upTo jute.Zxid) error {
	for {
		err := a.replay(ctx, upTo)
		switch {
		case a.awaitsSnapshot():
			return nil // errors do not matter: the entries are not needed
		case errors.Is(err, wal.ErrRewritten):
			continue // entries after upTo were dropped; they were never committed
		case err != nil:
			return fmt.Errorf("read what is committed, up to %v, from the log: %w", upTo, err)
		}
		return nil
	}
}

func (a *applier) replay(ctx context.Context, upTo jute.Zxid) error {
	log, err := a.logWriter.NewReader(a.state.Tree.LastZxid())
	if err != nil {
		return err
	}
	defer log.Close()
	var orders []replica.Order
	for {
		records, err := log.Next(replayBytes)
		if err == nil && len(records) == 0 {
			err = fmt.Errorf("it ends at %v", a.state.Tree.LastZxid())
		}
		if err != nil {
			return err
		}
		for len(records) > 0 {
			clear(orders)
			orders = orders[:0]
			for len(records) > 0 && len(orders) < applyBatch && records[0].Zxid <= upTo {
				orders = append(orders, replica.Order{Entry: data.EntryOf(&records[0])})
				records = records[1:]
			}
			if err := a.applySome(orders, false); err != nil {
				return err
			}
			a.metrics.Replayed.Add(int64(len(orders)))
			a.snapshots.await(ctx)
			if a.state.Tree.LastZxid() >= upTo || len(orders) == 0 || a.awaitsSnapshot() {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// awaitsSnapshot reports whether a snapshot on its way will replace the tree. Until it arrives
// there is nothing to do, and no clients are served.
func (a *applier) awaitsSnapshot() bool {
	return jute.Zxid(a.handover.superseded.Load()) > a.state.Tree.LastZxid()
}

// installSnapshot replaces the tree by the one that another server sent.
func (a *applier) installSnapshot(ctx context.Context, rec *received) error {
	a.answers.EndAll()
	tree, err := a.replaceTree(ctx, rec)
	if err != nil {
		return err
	}
	a.handover.progress()
	a.snapshots.installed(rec.ref)
	a.log.Info("snapshot installed", zap.Stringer("zxid", tree.LastZxid()), zap.Int("znodes", tree.Stats().Nodes))
	return nil
}

func (a *applier) replaceTree(ctx context.Context, rec *received) (tree *datatree.Tree, err error) {
	a.state.Lock()
	defer a.state.Unlock()
	if tree = rec.tree; tree == nil {
		// Nobody may see that there is no tree while this one is loaded.
		a.snapshots.giveUp(errReplaced)
		a.answers.Forget()
		a.state.Tree = datatree.New()
		if tree, _, err = history.Load(ctx, a.snapshots.store, data.StoreRef(rec.ref)); err != nil {
			return nil, fmt.Errorf("load the snapshot that replaces the history: %w", err)
		}
	}
	a.state.Ensemble = rec.state
	a.state.DeriveKeys()
	a.answers.Install(tree, a.now())
	return tree, nil
}

// applySome applies a few orders, and yields when the lock has been held long enough.
// more says that it is called again at once: the answers may then wait, so that a client with
// many requests under way gets many in one write. After an error nothing more may be applied.
func (a *applier) applySome(orders []replica.Order, more bool) error {
	err := a.applyHeld(orders)
	if a.unsent += a.work; !more || a.unsent >= applyWork || err != nil {
		a.wake()
	}
	if err != nil {
		return err
	}
	var held int64
	for i := range orders {
		held += orders[i].Held
	}
	a.handover.backlog.Add(-held)
	return nil
}

func (a *applier) applyHeld(orders []replica.Order) error {
	a.lock()
	defer a.unlock()
	for i := range orders {
		if a.awaitsSnapshot() {
			continue
		}
		if err := a.apply(&orders[i]); err != nil {
			return err
		}
		a.yield()
	}
	a.snapshots.applied(orders)
	return nil
}

// lock locks the tree.
func (a *applier) lock() {
	a.at = a.now()
	a.handover.working.Store(int64(a.at))
	a.state.Lock()
	a.wall = time.Now().UnixMilli()
	a.answers.Begin(a.at)
	a.work = 0
}

// unlock unlocks the tree, and wakes the feeds and the peer loop if the work since lock
// concerns them.
func (a *applier) unlock() {
	a.state.Unlock()
	a.changes.Wake()
	a.observeTimes()
	a.metrics.Applying.Observe(a.now()-a.at, 1)
	a.metrics.ApplyWork.Observe(a.work)
	a.handover.progress()
}

// wake has the answers and events since the last call written. The tree is not locked.
func (a *applier) wake() {
	a.unsent = 0
	a.answers.Wake()
}

// yield releases the tree to others for a moment if enough was done since lock. The
// tree is then at a transaction boundary, or its Changing says which part is not. Nobody
// else changes it.
func (a *applier) yield() {
	if a.work >= applyWork {
		a.unlock()
		a.wake()
		a.lock()
	}
}

// apply applies one order. An error means that a committed entry does not fit the entries
// applied before, or does not decode, although both were checked before it was
// acknowledged. This server must not continue then.
func (a *applier) apply(o *replica.Order) error {
	a.work++
	if o.Kind == replica.OrderBarrier {
		a.answers.Barrier(o)
		return nil
	}
	txn, err := a.txnOf(o)
	if err == nil {
		a.answers.BeforeApply(txn)
		err = a.state.Ensemble.Apply(&o.Entry)
	}
	if err != nil {
		return &HaltError{Reason: fmt.Sprintf("the committed entry %v can't be applied: %v; report this", o.Zxid, err)}
	}
	a.zxid = txn.Zxid
	a.applyParts(txn)
	a.tellHerds(txn)
	if o.Type == zab.EntryMarker {
		a.state.DeriveKeys()
		a.doubt(a.state.Tree.LastTime())
	}
	a.metrics.Commits.Add(1)
	a.state.Tree.Apply(txn, &a.out)
	a.state.SetApplied(txn.Zxid) // before any reply shows it: its client may reconnect at once
	a.state.EndSlices()
	a.countTimes(o, txn)
	if a.state.Digests.Applied(txn.Zxid, a.state.Tree, o.Entry.Txn() != nil) && a.replicated {
		a.events.Put(peerEvent{kind: evDigest, zxid: txn.Zxid, digest: a.state.Tree.Digest()})
	}
	for i := range txn.Ops {
		a.countOperation(txn, &txn.Ops[i])
	}
	here := replica.ServerOf(txn.Origin) == a.id
	a.answers.Applied(o, txn, &a.out, here)
	if txn.Origin != 0 && !here && o.Logged != 0 && a.traces.Samples(txn.Session, txn.Cxid) {
		a.traces.Add(a.tracedOrder(o, txn))
	}
	replica.RecycleTxn(txn)
	o.Txn = nil
	return nil
}

// sameTimes are entries in a row that have the same times.
type sameTimes struct {
	logged, committed time.Duration
	evaluated         int64 // ms since the Unix epoch, on the leader's clock
	own               bool  // their clients are connected here
	n                 int64
}

// countTimes counts an entry that was applied.
func (a *applier) countTimes(o *replica.Order, txn *datatree.Txn) {
	now := sameTimes{o.Logged, o.Committed, txn.Time, replica.ServerOf(txn.Origin) == a.id, a.same.n}
	if now != a.same {
		a.observeTimes()
		now.n = 0
		a.same = now
	}
	a.same.n++
}

// observeTimes adds what countTimes has counted to the metrics.
func (a *applier) observeTimes() {
	x := a.same
	a.same.n = 0
	if x.n == 0 || x.committed == 0 { // what a replay of the log applies is not measured
		return
	}
	if x.own {
		a.metrics.AppliedOwn.Observe(a.at-x.committed, x.n)
	} else {
		a.metrics.AppliedOthers.Observe(a.at-x.committed, x.n)
	}
	if x.evaluated == 0 {
		return
	}
	ago := time.Duration(a.wall-x.evaluated) * time.Millisecond
	a.metrics.Propagation.Observe(ago, x.n)
	if !a.leads() && a.replicated {
		a.metrics.ProposalDelay.Observe(ago-(a.at-x.logged), x.n)
	}
}

// applyParts applies most of a transaction that has many operations, or closes a session with many
// ephemerals, in slices of the tree's lock. Between two slices clients are served, except for
// requests that would see a part of the transaction: see state.State.Slicing. Events are sent
// with the changes that they report, so no client sees a change before its event.
func (a *applier) applyParts(txn *datatree.Txn) {
	step := firstPart
	switch closes := len(txn.Ops) == 1 && txn.Ops[0].Kind == datatree.OpCloseSession; {
	case closes && a.state.Tree.NumEphemerals(txn.Session) > partOps:
		a.state.BeginSlices()
		if step = partOps; len(txn.Ops[0].Paths) == 0 {
			a.unlock()
			a.wake()
			a.state.Tree.List(txn) // without the lock: nobody else changes the tree
			a.lock()
		}
	case !closes && len(txn.Ops) > firstPart:
		a.state.BeginSlices()
	default:
		return
	}
	for a.state.Tree.ApplyPart(txn, &a.out, step) {
		before := a.work
		a.answers.Events(txn, &a.out)
		if a.state.Tree.InParts() {
			a.work = max(a.work, before+step) // some operations have no events
		} else {
			a.auditEphemerals(txn.Session, a.out.Events)
		}
		if step = min(2*step, partOps); a.work-before >= applyWork { // each has many watchers
			step = 1
		}
		a.yield()
	}
}

// tellHerds applies the rest of a transaction that has an event with very many watchers, but for its end, and sends the
// events in slices of the tree's lock: see applyParts. So nobody sees the change before all watchers are told.
func (a *applier) tellHerds(txn *datatree.Txn) {
	if len(txn.Ops) == 0 || !a.state.Watches.MayHaveHerd(applyWork) {
		return
	}
	a.state.Tree.ApplyRest(txn, &a.out)
	watches := 0
	for i := 0; i < len(a.out.Events) && watches <= applyWork; i++ {
		ev := &a.out.Events[i]
		watches += a.state.Watches.Matches(ev.Type, ev.Path, applyWork+1)
	}
	if watches > applyWork && a.state.Slicing() == nil {
		a.state.BeginSlices()
	}
	a.answers.Events(txn, &a.out)
	if !a.state.Tree.InParts() {
		a.auditEphemerals(txn.Session, a.out.Events)
	}
}

// telling counts watches of an event that is being sent.
func (a *applier) telling(watches int) {
	a.work += watches
	a.told += watches
	a.yield()
}

// fired counts an event of the applied transaction, and its watchers.
func (a *applier) fired(ev *datatree.Event, heard int) {
	a.work += 1 + len(ev.Path)/pathWork + max(0, heard-a.told)
	a.told = 0
	if heard > 0 {
		a.metrics.Fired[ev.Type].Observe(heard)
	}
}

// txnOf returns the order's transaction.
func (a *applier) txnOf(o *replica.Order) (*datatree.Txn, error) {
	if o.Txn != nil {
		return o.Txn, nil
	}
	o.Txn = replica.NewTxn()
	return o.Txn, history.TransactionOf(&o.Entry, a.state.Tree, o.Txn)
}

// countOperation counts an operation of the applied transaction, and makes the audit log's entries about
// ephemerals of a closed session.
func (a *applier) countOperation(txn *datatree.Txn, op *datatree.Op) {
	switch op.Kind {
	case datatree.OpDelete:
		if txn.Session == 0 && len(txn.Ops) == 1 { // by the cleaner
			a.metrics.ContainersDeleted.Add(1)
		}
	case datatree.OpCloseSession:
		a.auditEphemerals(txn.Session, a.out.Events)
	case datatree.OpCreate, datatree.OpSetData:
	default:
		return
	}
	if op.Kind != datatree.OpCloseSession {
		a.answers.Written(op.Path, len(op.Data))
	}
}

// tracedOrder returns what a trace shows of a transaction of another server's client that is
// being applied.
func (a *applier) tracedOrder(o *replica.Order, txn *datatree.Txn) traces.Request {
	r := traces.Request{
		Session: txn.Session, Xid: txn.Cxid, Other: uint8(replica.ServerOf(txn.Origin)), Zxid: txn.Zxid, Code: txn.Err,
		Logged: o.Logged, Durable: o.Durable, Committed: o.Committed, Applied: a.now(),
	}
	if len(txn.Ops) > 0 {
		r.Path = strings.Clone(txn.Ops[0].Path)
	}
	return r
}

// auditEphemerals makes the entries about the ephemerals that were deleted with a session.
// Every server makes them, as Apache's do: they are not the work of one client.
func (a *applier) auditEphemerals(id jute.SessionID, events []datatree.Event) {
	log := a.audit.Log()
	if log == nil || len(events) == 0 {
		return
	}
	e := audit.Entry{Session: id, User: audit.SystemUser(), Operation: audit.DeleteEphemeral, Zxid: a.zxid}
	for i := range events {
		if e.Znode = events[i].Path; events[i].Type == jute.EventDeleted {
			log.PutLater(&e)
		}
	}
}
