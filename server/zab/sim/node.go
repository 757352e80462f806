package sim

import (
	"fmt"
	"math"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// node is a server: what stays in its machine, and the process that runs there.
type node struct {
	id         zab.SID
	idx        int8
	s          *Sim
	disk       disk
	life       uint32 // processes started
	copy       *history
	next       struct{ wipe, damage, rollback, oldCopy bool } // at the next start
	old        bool                                           // ghost: the disk is an old copy, and does not say so
	oldBoot    uint64                                         // ghost: the process that ran on an old copy
	file       zab.Members                                    // of its configuration file
	hadFile    fileSpan                                       // ghost: the list of the process before
	skew       int64                                          // ppm by which its clock runs too fast
	full       bool                                           // disk, as the core is told
	stallUntil uint64
	gen        uint64 // of the newest link

	process
}

// process is what a crash takes away.
type process struct {
	alive   bool
	paused  bool
	boot    uint64
	list    zab.Members // of the configuration file, as the process has read it
	core    *zab.Core
	shown   []sighting      // ghost: what it has to remember of others
	rumour  rumour          // ghost
	read    [16]zab.LogRead // ghost: by learner, what was last read for it
	out     zab.Output
	status  zab.Status
	leads   uint32 // epoch that it leads, as long as it does
	led     uint32 // what leads was when its outputs were looked at before
	lazy    bool   // evDrain is under way
	again   bool   // the core heard something while its outputs were carried out
	batches []batch
	own     []ownSnap // references to own snapshots on their way to the disk
	inside  int       // outputs until a crash; 0 is never

	hungry   bool     // evDrained is under way
	gotTo    [16]bool // since the last tick: bulk bytes got to the node
	cameFrom [16]bool
	moved    [16]uint64        // ghost: when a learner was last synchronized, or got on, µs
	sends    map[zab.SID]*xfer // snapshots on their way to others

	lastTick   uint64 // local ms
	reportedAt uint64
	seenCommit jute.Zxid

	tree      *datatree.Tree
	state     zab.State
	applied   jute.Zxid
	chain     uint64
	queue     []zab.Entry // committed, to be applied
	collected jute.Zxid   // end of queue
	applying  bool        // evApply is under way
	view      *datatree.View
	viewState zab.State
	viewChain uint64
	sinceSnap int

	serving   bool
	conns     []*conn
	ended     []*conn // since the last report of touches
	lastConn  uint32
	barriers  []barrier
	unsettled map[uint64]zab.SID // questions of the leader's core without an answer, and where that is waited for
	lastRead  uint64
	evaluator *evaluate.Evaluator
	tracker   *session.Tracker
	hearsay   [16]hearsay              // as leader, of the other servers
	heard     map[jute.SessionID]int64 // ghost: global µs of the last touch that this leader knows of, less pausedFor
	pausedAt  uint64
	pausedFor int64  // ghost: µs that this process was paused, in all
	since     uint32 // epoch in which it began to lead
	waiting   []submission
}

type batch struct {
	seq   zab.Seq
	count uint64 // durable once so many records are
}

type ownSnap struct {
	snap  *snapshot
	count uint64
}

// localMs is the node's monotonic clock.
func (n *node) localMs() uint64 {
	us := int64(n.s.now) + int64(n.s.now)/1000*n.skew/1000
	return uint64(us)/1000 + 1
}

// localUs is how many virtual µs the node takes for ms of its own clock.
func (n *node) localUs(ms uint64) uint64 {
	return uint64(int64(ms) * 1_000_000_000 / (1_000_000 + n.skew))
}

// tick tells a node the time.
func (s *Sim) tick(n *node) {
	now := n.localMs()
	gap := int64(now) - int64(n.lastTick) - int64(s.cfg.TickMs)
	if n.lastTick > 0 && gap > int64(s.cfg.TickMs)*4 && n.tracker != nil && s.cfg.Mutant != MutantNoPostpone {
		n.tracker.Postpone(gap)
	}
	n.lastTick = now
	var oldest uint64
	if n.disk.syncing {
		oldest = (s.now - n.disk.syncSince) / 1000
	}
	n.core.DiskHealth(oldest, n.full)
	s.noteProgress(n)
	n.core.Tick(now, int64(s.now/1000)+1_000_000)
	for _, p := range n.core.Peers(nil) {
		n.hearsay[p.ID-1].until = int64(p.AnswersUntil)
	}
	s.expire(n)
	if now-n.reportedAt >= s.cfg.SessionMs/4 {
		n.reportedAt = now
		s.reportTouches(n)
	}
	s.drain(n)
	if !n.alive {
		return
	}
	s.after(evTick, n, n.localUs(s.cfg.TickMs))
}

// heed has the node look for outputs: at once, or a little later, as a loop does
// that takes in several inputs first.
func (s *Sim) heed(n *node) {
	if n.lazy {
		return
	}
	if s.cfg.LazyPct > 0 && s.percent(s.cfg.LazyPct) {
		n.lazy = true
		s.after(evDrain, n, s.between(1, 300))
		return
	}
	s.drain(n)
}

// drain carries out what the core wants. It may end the process.
func (s *Sim) drain(n *node) {
	for {
		n.again = false
		n.core.Applied(n.applied)
		s.tellRoom(n)
		n.core.Take(&n.out)
		if !s.carryOut(n) {
			return
		}
		s.resumeHeld(n)
		if !n.again {
			return
		}
	}
}

// point is where a process may die: between two outputs. It reports whether it
// goes on.
func (s *Sim) point(n *node) bool {
	if n.inside == 0 {
		return true
	}
	n.inside--
	if n.inside > 0 {
		return true
	}
	s.stats.Inside++
	s.crash(n, s.percent(50))
	s.restartLater(n)
	return false
}

// carryOut reports whether the node is still alive.
func (s *Sim) carryOut(n *node) bool {
	out := &n.out
	if !s.carryToDisk(n) {
		return false
	}
	s.noteRole(n)
	s.observe(n)
	for i := range out.Send {
		if !s.point(n) {
			return false
		}
		s.send(n, &out.Send[i])
	}
	if out.Install != nil {
		s.install(n, out.Install.Ref.(*snapshot))
	}
	s.collect(n)
	if !s.point(n) {
		return false
	}
	s.applySoon(n)
	for i := range out.Reads {
		s.confirmed(n, out.Reads[i])
	}
	for i := range out.ReadLog {
		s.readLog(n, out.ReadLog[i])
	}
	for i := range out.SendSnap {
		s.sendSnap(n, out.SendSnap[i])
	}
	if out.Changed {
		s.changed(n)
	}
	if out.Relink {
		s.relink(n)
	}
	for _, e := range out.Events {
		s.trace(n, "%s (peer %d)", e.Text, e.Peer)
		if e.Lost {
			s.checkLost(n, &e)
		}
	}
	if out.Fatal != "" {
		s.fail("Fatal", "server %d: %s", n.id, out.Fatal)
	}
	return true
}

// relink makes all links of a node again: it has another incarnation now.
func (s *Sim) relink(n *node) {
	for i := range s.nodes {
		s.breakLink(s.links[n.idx][i], [2]uint64{})
	}
}

// carryToDisk writes what is to be persisted, and reports whether the process
// lives on.
func (s *Sim) carryToDisk(n *node) bool {
	out := &n.out
	for i := range out.Persist {
		if !s.point(n) || !s.persist(n, &out.Persist[i]) {
			return false
		}
	}
	if len(out.Persist) > 0 {
		n.batches = append(n.batches, batch{seq: out.PersistSeq, count: n.disk.count})
		s.startSync(n)
	}
	return true
}

// applySoon has the queue applied, at once or as an applier of its own would.
func (s *Sim) applySoon(n *node) {
	switch {
	case n.applying || len(n.queue) == 0:
	case s.cfg.ApplyUs == 0:
		s.applyAll(n)
	default:
		n.applying = true
		s.after(evApply, n, s.between(1, 2*s.cfg.ApplyUs))
	}
}

// noteRole tells the ghost of a role at the moment when it shows.
func (s *Sim) noteRole(n *node) {
	st := n.core.Status()
	n.led, n.leads = n.leads, 0
	switch st.Role {
	case zab.Leading, zab.SyncingLeader:
		n.leads = st.Epoch
		if n.leads != n.led {
			n.rumour.at = 0 // what was heard before a leadership begins is no news to it
		}
		s.establish(n, st.Epoch)
	case zab.Halted:
		s.fail("Halted", "server %d: %s", n.id, st.Reason)
	}
}

// persist writes a record, and reports whether the process lives on.
func (s *Sim) persist(n *node, op *zab.LogOp) bool {
	var r rec
	switch op.Kind {
	case zab.LogAppend:
		if op.Entry.Type == zab.EntryMembers {
			s.checkMembers(n, &op.Entry)
		}
		r = rec{kind: recAppend, ent: s.checkAppend(n, &op.Entry)}
	case zab.LogPromise:
		if op.Promise.Epoch < n.disk.written.promise.Epoch {
			s.fail("I2", "server %d promises %v after %v", n.id, op.Promise, n.disk.written.promise)
		}
		r = rec{kind: recPromise, promise: op.Promise}
	case zab.LogTruncate:
		s.checkTruncate(n, op.Upto)
		r = rec{kind: recTruncate, upto: op.Upto}
	case zab.LogCommitHint:
		if op.Upto > s.ghost.last && op.Upto > n.core.Committed() {
			s.fail("I12", "server %d hints that %v is committed; only %v is", n.id, op.Upto, s.ghost.last)
		}
		r = rec{kind: recHint, upto: op.Upto}
	case zab.LogSnapshot:
		snap := op.Snap.Ref.(*snapshot)
		s.checkInstall(n, snap)
		r = rec{kind: recInstall, snap: snap}
	case zab.LogNotes:
		r = rec{kind: recNotes, notes: op.Notes}
	case zab.LogIncarnation:
		r = rec{kind: recIncarnation, incarnation: op.Incarnation, damaged: op.Damaged}
	}
	return s.write(n, r)
}

// write appends a record to the log.
func (s *Sim) write(n *node, r rec) bool {
	if s.tracing {
		s.trace(n, "write %s", r.describe())
	}
	if n.disk.real != nil && !n.disk.real.write(&r) {
		s.crash(n, true)
		s.restartLater(n)
		return false
	}
	n.disk.write(r)
	return true
}

// startSync begins an fsync if there is something to sync and none is under way.
func (s *Sim) startSync(n *node) {
	d := &n.disk
	if d.syncing || len(d.pending) == 0 {
		return
	}
	d.syncing, d.syncTo, d.syncSince = true, d.count, s.now
	took := s.between(s.cfg.FsyncUs/2, s.cfg.FsyncUs*2)
	if s.phase != phaseChaos {
		took = min(took, s.cfg.ElectionMs*1000/40)
	}
	if n.stallUntil > s.now {
		took += n.stallUntil - s.now
	}
	s.after(evSynced, n, took)
}

// synced ends the fsync under way.
func (s *Sim) synced(n *node) {
	d := &n.disk
	d.syncing = false
	if d.real != nil && !d.real.sync() {
		s.crash(n, true)
		s.restartLater(n)
		return
	}
	s.makeDurable(n, d.syncTo)
	s.checkRemembered(n)
	k := 0
	for k < len(n.batches) && n.batches[k].count <= d.syncTo {
		k++
	}
	if k > 0 {
		n.core.PersistDone(n.batches[k-1].seq)
		n.batches = append(n.batches[:0], n.batches[k:]...)
	}
	for len(n.own) > 0 && n.own[0].count <= d.syncTo {
		s.ownSnapDurable(n, n.own[0].snap)
		n.own = n.own[1:]
	}
	s.startSync(n)
	s.heed(n)
}

// makeDurable moves the mark of what is durable, and tells the ghost.
func (s *Sim) makeDurable(n *node, count uint64) {
	d := &n.disk
	for i := range d.pending[:count-d.durableCount()] {
		switch r := &d.pending[i]; r.kind {
		case recPromise:
			s.promiseDurable(n, r.promise)
		case recIncarnation:
			n.old = false
		}
	}
	d.makeDurable(count)
}

// collect queues what is committed. What is not at hand comes from the log.
func (s *Sim) collect(n *node) {
	for i := range n.out.Committed {
		e := &n.out.Committed[i]
		if e.Zxid <= n.collected {
			s.fail("I10", "server %d is given %v to apply after %v", n.id, e.Zxid, n.collected)
		}
		s.fillGap(n, e.Prev)
		if e.Prev != n.collected {
			s.fail("I10", "server %d is given %v behind %v to apply after %v", n.id, e.Zxid, e.Prev, n.collected)
		}
		n.queue = append(n.queue, *e)
		n.collected = e.Zxid
	}
	s.fillGap(n, n.out.CommitTo)
	if n.collected > n.core.Committed() {
		s.fail("I12", "server %d is given %v to apply, but knows commit %v", n.id, n.collected, n.core.Committed())
	}
}

func (s *Sim) fillGap(n *node, upTo jute.Zxid) {
	if upTo <= n.collected {
		return
	}
	h := &n.disk.written
	list, ok := h.read(n.collected, math.MaxInt)
	if !ok || !h.has(upTo) {
		s.fail("I10", "server %d is told to apply (%v, %v], which its log does not have", n.id, n.collected, upTo)
	}
	for i := range list {
		if list[i].Zxid <= upTo {
			n.queue = append(n.queue, list[i])
		}
	}
	n.collected = upTo
}

// applyAll applies what is queued, and answers those who wait for it.
func (s *Sim) applyAll(n *node) {
	n.applying = false
	for i := range n.queue {
		e := &n.queue[i]
		s.applyEntry(e, n.tree, &n.state, &s.txn, &s.result)
		n.applied = e.Zxid
		n.chain = mix(n.chain, hashEntry(e))
		n.sinceSnap++
		s.checkApplied(n)
		if e.Txn() != nil {
			s.afterApply(n, &s.txn)
		}
		s.answerBarriers(n)
	}
	clear(n.queue)
	n.queue = n.queue[:0]
	if each := s.cfg.SnapshotEach; each > 0 && n.sinceSnap >= each {
		s.freeze(n)
	}
	if n.evaluator != nil {
		n.evaluator.Applied(n.applied)
	}
	s.maybeLead(n)
	n.again = true
}

// install replaces a node's state by a received snapshot.
func (s *Sim) install(n *node, snap *snapshot) {
	if n.view != nil {
		n.view.Close()
		n.view = nil
	}
	n.tree, n.state, n.applied, n.chain = s.load(snap), snap.state.Clone(), snap.zxid, snap.chain
	n.queue, n.collected = n.queue[:0], snap.zxid
	n.sinceSnap = 0
	n.again = true
	s.trace(n, "install snapshot at %v", snap.zxid)
	s.checkApplied(n)
}

// changed follows a change of the core's status.
func (s *Sim) changed(n *node) {
	old := n.status
	n.status = n.core.Status()
	now := &n.status
	s.trace(n, "%s of epoch %d, leader %d (%s)", roleName(now.Role), now.Epoch, now.Leader, now.Reason)
	if old.List != now.List || old.Settled != now.Settled {
		s.listsChanged(n)
	}
	same := old.Role == now.Role && old.Leader == now.Leader && old.LeaderGen == now.LeaderGen
	if same {
		if now.Role == zab.Leading && now.Epoch != old.Epoch {
			s.stats.Renewals++
		}
		return
	}
	if n.serving || n.evaluator != nil {
		s.endService(n)
	}
	if now.Role == zab.Following {
		n.serving = true
	}
	s.maybeLead(n)
}

// picture tells what the node is doing.
func (n *node) picture() string {
	last, _ := n.disk.written.last()
	text := fmt.Sprintf("server %d: alive=%v paused=%v counts=%v promise=%v log=(%v, %v]", n.id, n.alive, n.paused,
		n.s.counts(n), n.disk.written.promise, n.disk.written.start, last)
	if n.alive {
		st := n.core.Status()
		text += fmt.Sprintf(" %s epoch=%d leader=%d commit=%v applied=%v weightless=%q reason=%q", roleName(st.Role), st.Epoch, st.Leader,
			n.core.Committed(), n.applied, st.Weightless, st.Reason)
		if st != n.status {
			text += fmt.Sprintf(", was told %+v", n.status)
		}
	}
	return text
}

func roleName(r zab.Role) string {
	return [...]string{"looking", "candidate", "syncing leader", "leading", "syncing follower", "following", "halted"}[r]
}
