package sim

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

// start recovers the node's state and starts its core.
func (s *Sim) start(n *node) {
	n.life++
	if !s.open(n) {
		return
	}
	s.behavior.Starts(n.id, n.disk.durable.incarnation)
	n.process = process{
		alive: true, began: s.now, boot: s.rng.Uint64() | 1, list: n.file,
		sends: make(map[zab.SID]*transfer), digests: make(map[jute.Zxid]datatree.Digest), heard: make(map[jute.SessionID]int64),
		watches: watch.New(), register: register.New[*line.Line](true),
		tracker: session.NewTracker(int64(s.cfg.SessionMs / 10)),
	}
	if n.old {
		n.oldBoot = n.boot
	}
	n.s.stats.Starts++
	r := s.recover(n)
	s.tidy(n)
	if r.Notes = s.markStart(n); !n.alive {
		return
	}
	s.trace(n, "start: promise %v log to %v commit %v applied %v damaged %v", r.Promise, r.LastZxid, r.Commit, n.applied, r.Damaged)
	for id, ms := range n.tree.Sessions() {
		n.tracker.Add(id, ms, int64(n.localMs()))
	}
	s.newLines(n)
	n.rep = s.newReplica(n, r)
	n.collected = n.applied
	s.after(evTick, n, 0)
	for _, p := range s.nodes {
		if p != n {
			s.dial(n, p, s.between(0, s.cfg.DialMs*1000))
		}
	}
}

func (s *Sim) options(n *node) zab.Options {
	c := s.cfg
	if n.settings != nil {
		n.settings.apply(&c)
	}
	return zab.Options{
		ID:              n.id,
		Boot:            n.boot,
		Seed:            s.rng.Uint64(),
		Members:         n.list,
		Init:            zab.ClusterInit{Cluster: s.newID(), Secret: [32]byte{byte(n.id), byte(n.life)}},
		Heartbeat:       s.heartbeat(),
		ElectionTimeout: c.ElectionMs,
		QuorumTimeout:   c.ElectionMs * 8 / 10,
		InitLimit:       c.InitMs,
		DiskStall:       c.ElectionMs * 2,
		RenewInterval:   c.RenewMs,
		CacheBytes:      c.CacheBytes,
		WindowBytes:     c.WindowBytes,
		BatchBytes:      c.BatchBytes,
		InitialCounter:  c.InitialCounter,
		AdmitLearners:   c.AdmitLearners,
	}
}

// openLog finds the end of the log, and makes everything in it durable.
func (s *Sim) openLog(n *node) {
	d := &n.disk
	if d.real != nil {
		s.recoverReal(n)
	}
	for len(d.pending) > 0 { // made durable again before any server learns of it
		s.makeDurable(n, d.durableCount()+1)
	}
}

// recover reads the disk: it builds the tree from the newest snapshot and the committed
// entries after it.
func (s *Sim) recover(n *node) zab.Recovered {
	d := &n.disk
	r := s.recovered(n)
	if h := &d.written; h.promise.Epoch < s.ghost.tops[n.id] {
		s.fail("I2", "server %d recovers promise %d after %d", n.id, h.promise.Epoch, s.ghost.tops[n.id])
	}
	if n.applied > s.ghost.last {
		s.fail("I12", "server %d recovers commit %v, but only %v was ever committed", n.id, n.applied, s.ghost.last)
	}
	if n.applied > 0 {
		s.checkApplied(n)
	}
	return r
}

// markStart writes the record that each start begins with, and returns the notes.
func (s *Sim) markStart(n *node) zab.Notes {
	d := &n.disk
	notes := d.written.notes
	if !notes.Begin(zab.Start{Boot: n.boot, Position: d.written.records + 1}, true) || !s.write(n, logRecord{kind: recNotes, notes: notes}) {
		return notes
	}
	if d.real == nil {
		s.makeDurable(n, d.count)
		return notes
	}
	if !d.real.commit() || d.real.waits { // a start fails without room
		s.crash(n, true)
		s.restartLater(n)
		return notes
	}
	s.makeDurable(n, d.real.told)
	return notes
}

// recovered builds the tree and the core's view of the log.
func (s *Sim) recovered(n *node) zab.Recovered {
	d := &n.disk
	h := &d.written
	n.tree = datatree.New()
	r := zab.Recovered{Promise: h.promise, LogStart: h.start, LogBytes: h.bytes(), Incarnation: h.incarnation, Damaged: h.damaged}
	if b := h.base(); b != nil {
		n.tree, n.state, n.applied, n.chain = s.load(b), b.state.Clone(), b.zxid, b.chain
		r.SnapshotBytes = b.bytes
	}
	if _, ok := h.chainAt(n.applied); !ok && n.applied < h.start {
		s.fail("D8", "server %d has no snapshot from which its log, which begins after %v, continues", n.id, h.start)
	}
	s.beginChanges(n)
	r.Base = n.state.Clone()
	r.LastZxid, _ = h.last()
	r.Commit = max(datadirs.Committed(true, r.LastZxid, h.hint), n.applied)
	if r.Commit > r.LastZxid {
		s.fail("D8", "the log of server %d ends at %v, and %v is committed", n.id, r.LastZxid, r.Commit)
	}
	add := n.changes.Replay(n.applied, r.Commit, n.applied)
	for i := h.search(n.applied); i < len(h.ents); i++ {
		e := &h.ents[i]
		if e.Control() {
			r.Control = append(r.Control, e.Entry)
		}
		if e.Zxid <= r.Commit {
			s.applyEntry(&e.Entry, n.tree, &n.state, &s.txn, &s.result, func([]datatree.Event) { add(&s.txn, &s.result, s.txn.Zxid) })
			n.applied, n.chain = e.Zxid, e.chain
		}
	}
	return r
}

// applyEntry applies the next entry of a history.
func (s *Sim) applyEntry(e *zab.Entry, tree *datatree.Tree, state *zab.State, txn *datatree.Txn, out *datatree.Applied, notify func([]datatree.Event)) {
	s.decode(e, txn)
	s.applyTxn(e, tree, state, txn, out, notify)
}

// decode decodes the transaction of an entry.
func (s *Sim) decode(e *zab.Entry, txn *datatree.Txn) {
	data := e.Txn()
	if data == nil {
		*txn = datatree.Txn{Zxid: e.Zxid, Ops: txn.Ops[:0]}
	} else if err := txn.Decode(data); err != nil {
		s.fail("I4", "transaction %v: %v", e.Zxid, err)
	}
}

// applyTxn applies an entry whose transaction is txn, and calls notify with its events.
func (s *Sim) applyTxn(e *zab.Entry, tree *datatree.Tree, state *zab.State, txn *datatree.Txn, out *datatree.Applied, notify func([]datatree.Event)) {
	s.applyParts(e, tree, state, txn, out, notify)
	notify(out.Events)
}

// applyParts is applyTxn without the last events. Those before are of parts of the transaction.
func (s *Sim) applyParts(e *zab.Entry, tree *datatree.Tree, state *zab.State, txn *datatree.Txn, out *datatree.Applied, notify func([]datatree.Event)) {
	if err := state.Apply(e); err != nil {
		s.fail("I10", "%v", err)
	}
	if closes := len(txn.Ops) == 1 && txn.Ops[0].Kind == datatree.OpCloseSession; (closes || len(txn.Ops) > 1) && s.percent(50) { // like servers do
		tree.List(txn)
		for tree.ApplyPart(txn, out, 1+s.rng.IntN(2)) {
			notify(out.Events)
		}
	}
	if len(txn.Ops) > 0 && s.cfg.HerdPct > 0 && s.percent(s.cfg.HerdPct) { // as if it had many watchers
		tree.ApplyRest(txn, out)
		notify(out.Events)
	}
	tree.Apply(txn, out)
}

// crash ends the process; with power, also the machine.
func (s *Sim) crash(n *node, power bool) {
	if !n.alive {
		return
	}
	s.trace(n, "crash, power=%v", power)
	s.stats.Crashes++
	n.alive = false
	n.hadFile = fileSpan{n.list, s.now}
	for _, c := range n.conns {
		if c.killed || c.via != nil {
			continue
		}
		s.toClient(n, c.client, &reply{attempt: c.attempt, closed: true})
	}
	s.dropCarriers(n)
	n.process = process{}
	s.loseUnsynced(n, power)
	s.dropLinks(n)
}

// loseUnsynced ends the writing of a log. With power, a random part of the records that are not
// durable is lost. What a real log loses shows when it is opened.
func (s *Sim) loseUnsynced(n *node, power bool) {
	d := &n.disk
	d.syncing = false
	switch {
	case d.real != nil:
		d.real.end(power, s.rng)
	case power:
		s.makeDurable(n, d.durableCount()+uint64(d.survivors(s.rng)))
		d.cut()
	}
}

// restart starts the process again, after the planned changes to its disk.
func (s *Sim) restart(n *node) {
	if n.alive {
		return
	}
	s.injectDiskFault(n)
	if s.cfg.Faults[FaultVolumes] > 0 && n.away != nil && n.away.fresh && s.percent(30) {
		s.mount(n)
	}
	s.start(n)
}

// settings are the settings in which one server differs. The time between two heartbeats is
// not among them: it must be well below the shortest election timeout.
type settings struct {
	electionMs uint64
	cache      int
	window     int
	backlog    int64
}

// drawSettings draws settings that servers may have while an operator changes them one by
// one.
func (s *Sim) drawSettings() *settings {
	pct := func(of uint64, list ...uint64) uint64 { return of * list[s.rng.IntN(len(list))] / 100 }
	return &settings{
		electionMs: pct(s.cfg.ElectionMs, 100, 100, 150, 300, 1000),
		cache:      int(pct(uint64(s.cfg.CacheBytes), 50, 100, 400)),
		window:     int(pct(uint64(s.cfg.WindowBytes), 50, 100, 400)),
		backlog:    int64(pct(uint64(s.cfg.Backlog), 50, 100, 400)),
	}
}

func (x *settings) apply(c *Config) {
	c.ElectionMs, c.CacheBytes, c.WindowBytes, c.Backlog = x.electionMs, x.cache, x.window, x.backlog
}
