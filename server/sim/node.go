package sim

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

// node is a server: the machine and its disk, and the process that runs there.
type node struct {
	id         zab.SID
	idx        int8
	s          *Sim
	disk       disk
	life       uint32 // number of processes started
	copy       *history
	next       plans       // for the next start
	torn       bool        // the next start finds the log damaged
	badSnaps   bool        // the next start finds the snapshots damaged
	badNewest  bool        // the next start finds the newest snapshot damaged, and can do without it
	away       *away       // the volumes that it lacks, or nil
	order      string      // --set-data-aside
	old        bool        // ghost: the disk is an old copy, and does not say so
	oldBoot    uint64      // ghost: the process that ran on an old copy
	file       zab.Members // list in the configuration file
	hadFile    fileSpan    // ghost: the list of the previous process
	skew       int64       // ppm by which its clock runs too fast
	settings   *settings   // where they differ from Sim.cfg, or nil
	full       bool        // disk full, as reported to the core
	capacity   int64       // bytes of the disk of a real log; 0 for no bound
	room       int64       // how much memory its tree may take; 0 for no bound
	stallUntil uint64
	gen        uint64 // of the newest link

	process
}

// plans are changes of a disk before the next start.
type plans struct{ wipe, damage, rollback, oldCopy, badSnaps, unsettled bool }

// process is the state that a crash destroys.
type process struct {
	alive     bool
	paused    bool
	busyUntil uint64 // µs
	began     uint64 // ghost: µs
	boot      uint64
	list      zab.Members // list in the configuration file, as the process has read it
	told      zab.Members // a later list that another node has told
	core      *zab.Core
	shown     []sighting // ghost: what it has to remember about others
	shows     zab.ID     // ghost: the incarnation for which it has made its links again
	news      epochNews  // ghost
	turns     turns      // ghost
	owes      debt       // ghost

	heardAt  [16]uint64 // ghost: when a server last answered a heartbeat, µs
	askedAt  [16]uint64 // ghost: when it last asked to follow
	ledSince uint64     // ghost: when it began to lead, µs
	read     [16]reads  // ghost: by learner, where reads for it began
	rep      *replica.Replica
	out      replica.Output
	status   zab.Status
	leads    uint32    // epoch that it leads, while it does
	led      uint32    // value of leads when its outputs were last examined
	lazy     bool      // evDrain is under way
	again    bool      // the core got an input while its outputs were carried out
	closings []closing // ghost: those that it has proposed and not applied
	short    []closing // ghost: short requests that it has proposed and not committed, while several subjects waited
	fatal    int64     // how often it has panicked
	batches  []batch
	inside   int // outputs until a crash; 0 means never

	squeezed bool     // ghost: it has purged what learners need, since its disk is full
	relinks  uint64   // how often it made all links again: see zab.IntroductionStands
	hungry   bool     // evDrained is under way
	gotTo    [16]bool // since the last tick: bulk bytes reached the node
	cameFrom [16]bool
	inLog    [16]bool              // ghost: the log had what a learner needed when it was last synchronized
	moved    [16]uint64            // ghost: when a learner was last synchronized, or made progress, µs
	sends    map[zab.SID]*transfer // snapshots in transit to others

	lastTick   uint64 // local ms
	reportedAt uint64
	seenCommit jute.Zxid

	tree         *datatree.Tree
	state        zab.State
	applied      jute.Zxid
	chain        uint64
	digests      map[jute.Zxid]datatree.Digest
	queue        []replica.Order // to be applied
	backlog      *atomic.Int64   // bytes of queue, and of what the replica will add to it
	collected    jute.Zxid       // end of queue
	changesSince jute.Zxid       // ghost: the state to which changes add
	superseded   jute.Zxid       // a snapshot in transit replaces the tree up to this zxid
	applying     bool            // evApply is under way
	view         *datatree.View
	made         *snapshot // its file is written, and its reference is not durable yet
	shortage     shortage
	viewState    zab.State
	viewChain    uint64
	sinceSnap    int

	service   uint64 // the present one; 0 if clients are not served
	interlude line.Interlude
	waitFrom  uint64 // ghost: since when connections wait for a service, in local ms; 0 if none does
	conns     []*conn
	register  *register.Register[*line.Line]
	lines     *line.Lines
	answers   *line.Answers
	lastConn  uint32
	telling   []ghostTouch         // in the report under construction
	inbox     []replica.Submission // requests of clients, not yet handed to the replica
	tracker   *session.Tracker
	watches   *watch.Table
	changes   *feed.History
	places    *feed.Places
	displaced int64                    // feeds that were told to end, since others have their places
	feeding   bool                     // evFeed is under way
	heard     map[jute.SessionID]int64 // ghost: global µs of the last touch that this leader knows of, less pausedFor
	pausedAt  uint64
	pausedFor int64 // ghost: total µs that this process was paused
}

type batch struct {
	seq   zab.Seq
	count uint64 // durable once this many records are
}

// localMs returns the node's monotonic clock.
func (n *node) localMs() uint64 {
	us := int64(n.s.now) + int64(n.s.now)/1000*n.skew/1000
	return uint64(us)/1000 + 1
}

// localUs returns the virtual µs that correspond to ms of the node's clock.
func (n *node) localUs(ms uint64) uint64 {
	return uint64(int64(ms) * 1_000_000_000 / (1_000_000 + n.skew))
}

// tick advances a node's time.
func (s *Sim) tick(n *node) {
	now := n.localMs()
	if n.lastTick > 0 {
		if pause := session.Pause(int64(now-n.lastTick), int64(s.cfg.TickMs)); pause > 0 {
			n.tracker.Postpone(pause)
			n.lines.Locals.Postpone(pause)
		}
	}
	n.lastTick = now
	var oldest uint64
	if n.disk.syncing {
		oldest = (s.now - n.disk.syncSince) / 1000
	}
	s.watchDisk(n)
	n.core.DiskHealth(oldest, n.diskFull())
	s.noteProgress(n)
	n.rep.Tick()
	n.rep.WatchRoom()
	n.rep.Expire(time.Duration(now) * time.Millisecond)
	n.lines.ExpireLocals(int64(now), s.localExpired)
	s.checkInterlude(n)
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

// takeOutputs makes the node take outputs: at once, or a little later, like a loop that first
// handles several inputs.
func (s *Sim) takeOutputs(n *node) {
	if n.lazy {
		return
	}
	if s.now < n.busyUntil {
		n.lazy = true
		s.after(evDrain, n, n.busyUntil-s.now)
		return
	}
	if s.cfg.LazyPct > 0 && s.percent(s.cfg.LazyPct) {
		n.lazy = true
		s.after(evDrain, n, s.between(1, 300))
		return
	}
	s.drain(n)
}

// maxRounds is more than a turn can need: L4.
const maxRounds = 100_000

// drain carries out the outputs of the replica. It may end the process.
func (s *Sim) drain(n *node) {
	n.rep.Turn()
	late := s.cfg.LazyPct > 0 && len(n.inbox) > 0 && s.percent(30)
	if late { // the loop first handles other events, perhaps several times
		s.after(evDrain, n, s.between(1, 2*s.cfg.NetUs))
	} else if s.percent(50) {
		s.handOver(n)
	}
	for rounds := 0; ; rounds++ {
		if rounds > maxRounds {
			s.fail("L4", "the turn of server %d does not end", n.id)
		}
		n.again = false
		s.tellRoom(n)
		n.rep.Take(&n.out)
		if !s.carryOut(n) {
			return
		}
		handed := !late && s.handOver(n)
		if !s.propose(n) && !n.again && !handed {
			break
		}
	}
	s.work(n)
	if _, more := n.rep.Work(); more && !n.lazy {
		n.lazy = true
		s.after(evDrain, n, 1)
	}
}

// survives is a place between two outputs at which a process may crash. It reports whether the
// process continues.
func (s *Sim) survives(n *node) bool {
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

// carryOut carries out the outputs, and reports whether the node is still alive.
func (s *Sim) carryOut(n *node) bool {
	out := &n.out
	if n.leads != 0 {
		s.behavior.Commits(n.id, n.core.Committed(), true)
	}
	s.checkBroken(n)
	s.checkClosings(n)
	s.checkShort(n)
	if !s.carryToDisk(n) {
		return false
	}
	s.behavior.Commits(n.id, n.core.Committed(), false)
	s.noteRole(n)
	s.observe(n)
	for i := range out.Frames {
		if !s.survives(n) {
			return false
		}
		s.sendFrame(n, &out.Frames[i])
	}
	for i := range out.Send {
		if !s.survives(n) {
			return false
		}
		s.send(n, &out.Send[i])
	}
	if out.Changed {
		s.changed(n)
	}
	s.carryOrders(n)
	if !s.survives(n) {
		return false
	}
	s.applySoon(n)
	for i := range out.ReadLog {
		s.readLog(n, out.ReadLog[i])
	}
	for i := range out.SendSnap {
		s.sendSnap(n, out.SendSnap[i])
	}
	if out.Relink {
		s.relink(n)
	}
	for _, cut := range out.Cut {
		if l := s.linkTo(n, cut.Peer); l != nil && l.gen[l.side(n)] == cut.Gen {
			s.stats.Cut++
			s.breakLink(l, [2]uint64{})
		}
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

// relink makes all links of a node again, because it has another incarnation. Handshakes under
// way end when it is to admit their links.
func (s *Sim) relink(n *node) {
	n.relinks++
	n.shows = n.core.Introduction().Incarnation
	for i := range s.nodes {
		if l := s.linkTo(n, zab.SID(i+1)); l != nil {
			s.breakLink(l, [2]uint64{})
		}
	}
}

// carryToDisk writes the records to be persisted, and reports whether the process is still
// alive.
func (s *Sim) carryToDisk(n *node) bool {
	out := &n.out
	for i := range out.Persist {
		if !s.survives(n) || !s.persist(n, &out.Persist[i]) {
			return false
		}
	}
	if len(out.Persist) > 0 {
		n.batches = append(n.batches, batch{seq: out.PersistSeq, count: n.disk.count})
		s.startSync(n)
	}
	return true
}

// noteRole tells the ghost about a role at the moment when it becomes visible.
func (s *Sim) noteRole(n *node) {
	st := n.core.Status()
	n.led, n.leads = n.leads, 0
	switch st.Role {
	case zab.Leading, zab.SyncingLeader:
		n.leads = st.Epoch
		if n.leads != n.led {
			if n.led == 0 {
				n.ledSince = s.now
			}
			n.news.at = 0 // news from before a leadership does not count in it
		}
		s.establish(n, st.Epoch)
	case zab.Halted:
		s.fail("Halted", "server %d: %s", n.id, st.Reason)
	}
}

// persist writes a record, and reports whether the process is still alive.
func (s *Sim) persist(n *node, op *zab.LogOp) bool {
	if s.behavior != nil {
		s.behavior.Writes(n.id, op, n.core.Status().Role)
	}
	var r logRecord
	switch op.Kind {
	case zab.LogAppend:
		if op.Entry.Type == zab.EntryMembers {
			s.checkMembers(n, &op.Entry)
		}
		r = logRecord{kind: recAppend, ent: s.checkAppend(n, &op.Entry)}
	case zab.LogPromise:
		if op.Promise.Epoch < n.disk.written.promise.Epoch {
			s.fail("I2", "server %d promises %v after %v", n.id, op.Promise, n.disk.written.promise)
		}
		s.checkStanding(n, op.Promise)
		r = logRecord{kind: recPromise, promise: op.Promise}
	case zab.LogTruncate:
		s.checkTruncate(n, op.Upto)
		r = logRecord{kind: recTruncate, upto: op.Upto}
	case zab.LogCommitHint:
		if op.Upto > s.ghost.last && op.Upto > n.core.Committed() {
			s.fail("I12", "server %d hints that %v is committed; only %v is", n.id, op.Upto, s.ghost.last)
		}
		r = logRecord{kind: recHint, upto: op.Upto}
	case zab.LogSnapshot:
		snap := op.Snap.Ref.(*snapshot)
		s.checkInstall(n, snap)
		n.superseded = snap.zxid
		r = logRecord{kind: recInstall, snap: snap}
	case zab.LogNotes:
		r = logRecord{kind: recNotes, notes: op.Notes}
	case zab.LogIncarnation:
		r = logRecord{kind: recIncarnation, incarnation: op.Incarnation, damaged: op.Damaged}
	}
	return s.write(n, r)
}

// write appends a record to the log.
func (s *Sim) write(n *node, r logRecord) bool {
	if s.tracing {
		s.trace(n, "write %s", r.describe())
	}
	n.disk.write(r)
	w := n.disk.real
	if w == nil {
		return true
	}
	if w.queue = append(w.queue, walRecord(&r)); w.waits {
		return true
	}
	return s.appendReal(n)
}

// appendReal hands to the real log what waits for it, and reports whether the process is still alive.
func (s *Sim) appendReal(n *node) bool {
	if !n.disk.real.append() {
		s.crash(n, true)
		s.restartLater(n)
		return false
	}
	s.checkTold(n)
	return true
}

// goAhead has the log make a record durable that makes room, before all that waits, and calls then.
func (s *Sim) goAhead(n *node, r logRecord, then func()) {
	if s.tracing {
		s.trace(n, "write ahead %s", r.describe())
	}
	w := n.disk.real
	if w == nil {
		n.disk.goAhead(&r)
		then()
		return
	}
	w.ahead = append(w.ahead, aheadOf{walRecord(&r), func() { n.disk.goAhead(&r) }, then})
	if s.appendReal(n) {
		s.afterAhead(n)
		s.startSync(n)
	}
}

// afterAhead does what follows on records that went ahead.
func (s *Sim) afterAhead(n *node) {
	for w := n.disk.real; w != nil && n.alive && len(w.passed) > 0; {
		then := w.passed[0]
		w.passed = w.passed[1:]
		then()
	}
}

// startSync begins an fsync if there is something to sync and none is under way.
func (s *Sim) startSync(n *node) {
	d := &n.disk
	w := d.real
	if d.syncing || len(d.pending) == 0 && (w == nil || len(w.ahead) == 0) {
		return
	}
	if w == nil || !w.waits {
		d.syncSince = s.now
	}
	d.syncing, d.syncTo = true, d.count
	took := s.between(s.cfg.FsyncUs/2, s.cfg.FsyncUs*2)
	if s.phase != phaseChaos {
		took = min(took, s.cfg.ElectionMs*1000/40)
	}
	if n.stallUntil > s.now {
		took += n.stallUntil - s.now
	}
	if w != nil && w.waits {
		took = max(took, s.cfg.TickMs*1000) // until it tries again
	}
	s.after(evSynced, n, took)
}

// synced completes the fsync under way.
func (s *Sim) synced(n *node) {
	d := &n.disk
	d.syncing = false
	to := d.syncTo
	if d.real != nil {
		if !d.real.commit() {
			s.crash(n, true)
			s.restartLater(n)
			return
		}
		s.checkTold(n)
		to = min(to, d.real.told)
	}
	if to > d.durableCount() {
		s.makeDurable(n, to)
	}
	if to == d.syncTo {
		s.checkRemembered(n)
	}
	k := 0
	for k < len(n.batches) && n.batches[k].count <= to {
		k++
	}
	if k > 0 {
		n.rep.Persisted(n.batches[k-1].seq)
		n.batches = append(n.batches[:0], n.batches[k:]...)
	}
	s.afterAhead(n)
	s.startSync(n)
	s.takeOutputs(n)
}

// makeDurable moves the mark of durable records, and tells the ghost.
func (s *Sim) makeDurable(n *node, count uint64) {
	d := &n.disk
	for i := range d.pending[:count-d.durableCount()] {
		s.behavior.Durable(n.id, opKinds[d.pending[i].kind])
		switch r := &d.pending[i]; r.kind {
		case recPromise:
			s.promiseDurable(n, r.promise)
		case recIncarnation:
			n.old = false
		}
	}
	d.makeDurable(count)
}

// changed handles a change of the core's status.
func (s *Sim) changed(n *node) {
	old := n.out.Was
	n.status = n.out.Status
	now := &n.status
	if now.Leader != 0 {
		n.owes = debt{}
	}
	s.checkLead(n, old.Role, now.Role)
	s.trace(n, "%s of epoch %d, leader %d (%s)", roleName(now.Role), now.Epoch, now.Leader, now.Reason)
	if old.List != now.List || old.Settled != now.Settled {
		s.listsChanged(n)
	}
	if old.Role == now.Role && now.Role == zab.Leading && now.Epoch != old.Epoch {
		s.stats.Renewals++
	}
	s.serviceChanged(n)
}

// describe describes the state of the node.
func (n *node) describe() string {
	last, _ := n.disk.written.last()
	text := fmt.Sprintf("server %d: alive=%v paused=%v counts=%v promise=%v log=(%v, %v]", n.id, n.alive, n.paused,
		n.s.counts(n), n.disk.written.promise, n.disk.written.start, last)
	if n.alive {
		st := n.core.Status()
		text += fmt.Sprintf(" %s epoch=%d leader=%d commit=%v applied=%v notCounted=%q reason=%q", roleName(st.Role), st.Epoch, st.Leader,
			n.core.Committed(), n.applied, st.NotCounted, st.Reason)
		text += fmt.Sprintf(" holds %+v, backlog %d", n.rep.Held(), n.backlog.Load())
		if st != n.status {
			text += fmt.Sprintf(", was told %+v", n.status)
		}
	}
	return text
}

func roleName(r zab.Role) string {
	return [...]string{"looking", "candidate", "syncing leader", "leading", "syncing follower", "following", "halted"}[r]
}
