package zab

import (
	"fmt"
	"math"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Core is the state machine. See the package comment.
type Core struct {
	opt         Options
	standalone  bool // without an ensemble
	incarnation ID
	damaged     bool
	status      Status
	changed     bool

	origin uint64 // value of now when the core first learned the time, on the shell's clock
	now    uint64 // ms since then
	wall   int64
	timed  bool
	random uint64
	diskMs uint64
	full   bool   // the disk is full
	room   uint64 // see SetRoom
	ran    bool   // has been a candidate since the start
	lease  uint64 // see AnswersUntil

	log history

	promise    Promise
	promiseSeq Seq // the batch that makes the promise durable

	lastSeq     Seq // newest batch handed out
	persisted   Seq // newest batch reported by PersistDone
	unpersisted []LogOp
	inFlight    []batch // handed out, not yet reported by PersistDone; in order
	hinted      jute.Zxid
	hintedAt    uint64
	hintSeq     Seq       // the batch that makes the newest hint durable
	hintTo      jute.Zxid // up to here the hint does not wait for an idle moment
	busy        bool      // something was handed out to be persisted since the last Tick

	start    uint64 // record number at which the present process starts in its log; 0 if the log is not synced
	recorded uint64 // records that have become durable since then
	seen     sightings
	// disowned means that this server has given up its incarnation. relinkSeq is the batch that
	// makes that durable; it is 0 once the links have been given up as well.
	disowned     bool
	relinkSeq    Seq
	reportedList jute.Zxid // version of the list that reportList reported last
	// seekingFrom is when this server began to look for a leader, and reportedAwaits the last
	// Status.Awaits that was logged.
	seekingFrom    uint64
	reportedAwaits string

	selfCounted bool // this server counts
	// selfCountedAt is the zxid whose commit hint must be durable for this server to know after a
	// restart that it counts; 0 if it is durable.
	selfCountedAt jute.Zxid

	peers []*peer // sorted by id
	byID  [Zero + 1]*peer

	vote      election
	lead      leadership
	following following
	barriers  barriers

	send     []Outgoing
	readLog  []LogRead
	sendSnap []SnapSend
	reads    []ReadResult
	install  *SnapInfo
	fatal    string
	events   []Event
	relink   bool
	cut      []Link
}

// batch records what becomes durable with a Seq.
type batch struct {
	seq     Seq
	last    jute.Zxid
	records int
	snap    *SnapInfo // becomes the history
}

// maxEpoch keeps zxids positive: clients compare them as signed numbers.
const maxEpoch = 1<<31 - 2

// fill sets the defaults.
func (o *Options) fill() {
	for _, d := range []struct {
		p *uint64
		v uint64
	}{
		{&o.Heartbeat, 100}, {&o.ElectionTimeout, 1000}, {&o.QuorumTimeout, 800}, {&o.InitLimit, 20_000},
		{&o.DiskStall, 2000}, {&o.RenewInterval, 10_000},
	} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	for _, d := range []struct {
		p *int
		v int
	}{{&o.CacheBytes, 32 << 20}, {&o.WindowBytes, 16 << 20}, {&o.BatchBytes, 1 << 20}} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
}

// New returns a core that continues the recovered history. It panics if Options of an
// ensemble lack a required field; that is a bug of the caller.
func New(opt Options, r Recovered) *Core {
	opt.fill()
	c := &Core{
		opt:         opt,
		standalone:  len(opt.Members.List) == 0,
		incarnation: r.Incarnation,
		damaged:     r.Damaged,
		changed:     true,
		random:      opt.Seed ^ uint64(opt.ID)<<56 ^ opt.Boot,
		promise:     r.Promise,
		hinted:      r.Commit,
		seen:        sightings{Notes: Notes{Starts: r.Notes.Starts, Sightings: slices.Clone(r.Notes.Sightings)}},
	}
	if !c.standalone && (opt.ID == 0 || opt.Init.Cluster == ID{}) {
		panic("zab: an ensemble needs Options.ID and Options.Init")
	}
	if n := len(r.Notes.Starts); n > 0 {
		c.start = r.Notes.Starts[n-1].Position
	}
	err := c.recover(&r)
	if opt.AcceptOldData && !c.standalone && err == nil {
		c.acceptOldData()
	}
	c.selfCounted = c.selfCounts()
	switch {
	case err != nil:
		c.halt("recovered history: " + err.Error())
	case c.standalone:
		if c.log.tip.Seeded() {
			c.becomeStandalone()
		}
		c.setStatus(Status{Role: Leading, Epoch: c.log.appended.Epoch(), Leader: opt.ID})
	default:
		c.look("started", 0)
	}
	return c
}

// becomeStandalone turns a member's history into a separate one that belongs to this server alone.
// The ensemble may continue without it and reuse the same zxids for other entries, so this
// history must never again pass for the ensemble's.
func (c *Core) becomeStandalone() {
	c.event(Warn, 0, fmt.Sprintf("the data is a member's of ensemble %x: alone, this server continues with its own history, and can't return to that ensemble with it", c.log.tip.Init.Cluster))
	m := Marker{Leader: c.opt.ID, Boot: c.opt.Boot, Alone: true}
	c.append(Entry{Zxid: jute.MakeZxid(c.log.appended.Epoch()+1, 0), Prev: c.log.appended, Type: EntryMarker, Data: m.Append(nil)})
}

// recover sets the history from r.
func (c *Core) recover(r *Recovered) error {
	h := &c.log
	h.appended, h.durable = r.LastZxid, r.LastZxid
	h.logStart, h.logBytes = r.LogStart, r.LogBytes
	h.snapZxid, h.snapBytes = r.Base.Zxid, r.SnapshotBytes
	h.tip, h.settled = r.Base.Clone(), r.Base.Clone()
	h.committed = r.Base.Zxid
	h.handed = max(r.Base.Zxid, r.Commit)
	h.applied = h.handed
	commit := h.handed
	if c.standalone {
		commit = r.LastZxid
		h.handed, h.applied = commit, commit
	}
	for i := range r.Control {
		e := &r.Control[i]
		if e.Zxid <= r.Base.Zxid {
			continue
		}
		founding := !h.tip.Seeded()
		h.tip.skipTo(e.Prev)
		if err := h.tip.Apply(e); err != nil {
			return err
		}
		if founding && h.tip.Seeded() {
			commit = max(commit, e.Prev) // a standalone server commits what is durable
		}
		h.control = append(h.control, *e)
	}
	h.tip.skipTo(r.LastZxid)
	if !h.tip.Seeded() {
		commit = r.LastZxid
	}
	h.derivePending()
	h.commit(min(commit, r.LastZxid))
	return nil
}

// Advance tells the core the time of a monotonic clock, in ms. Call it before an input, so
// that the core does not measure what the input begins from an earlier moment. A jump means
// that the process was stopped.
func (c *Core) Advance(now uint64) {
	if !c.timed {
		c.timed, c.origin = true, now
	}
	if now-c.origin < c.now || now < c.origin {
		return // not monotonic
	}
	gap := now - c.origin - c.now
	c.now += gap
	if gap > c.opt.ElectionTimeout/2 && !c.standalone && c.status.Role != Halted {
		c.onPause(gap)
	}
}

// Tick advances the time, and does what has become due. wallMs comes from the wall clock, in
// ms. Call it every 10 to 25 ms.
func (c *Core) Tick(now uint64, wallMs int64) {
	c.wall = wallMs
	c.Advance(now)
	if c.standalone || c.status.Role == Halted {
		return
	}
	c.tickHint()
	c.tickNotes()
	c.tickIgnored()
	switch c.status.Role {
	case Looking:
		c.tickLooking()
		c.reportAwaited()
	case Candidate:
		c.tickCandidate()
	case SyncingLeader, Leading:
		c.tickLeader()
	case SyncingFollower, Following:
		c.tickLearner()
	}
	c.tickReads()
}

// onPause handles a stop of the process for gap ms. No peer counts as silent for that time.
// A leader may have been replaced meanwhile, so a quorum has to confirm it.
func (c *Core) onPause(gap uint64) {
	c.event(Warn, 0, fmt.Sprintf("stopped for %d ms", gap))
	switch c.status.Role {
	case SyncingLeader, Leading:
		c.lead.ledAt = c.now
		grace := c.now - min(c.now, c.opt.QuorumTimeout) + 3*c.opt.Heartbeat
		for _, p := range c.peers {
			p.echoedAt = max(p.echoedAt, grace)
		}
		c.requireConfirmation()
	case SyncingFollower, Following:
		grace := c.now - min(c.now, c.opt.ElectionTimeout) + 3*c.opt.Heartbeat
		c.following.heardAt = max(c.following.heardAt, grace)
		c.following.echoedAt = max(c.following.echoedAt, grace)
	}
}

// PeerUp reports a new link to a peer. gen is the link's number, which grows from link to
// link; in is what the peer said about itself on it.
func (c *Core) PeerUp(id SID, gen uint64, in Introduction) {
	if c.standalone || c.status.Role == Halted {
		return
	}
	if id == 0 || id == c.opt.ID {
		c.event(Error, id, "a peer shows the id of this server: two servers have the same myid, or the address is this server's own")
		return
	}
	p := c.addPeer(id)
	if p.up {
		if gen < p.gen {
			return
		}
		c.PeerDown(id, p.gen)
	}
	c.introduce(p, gen, &in)
	if p.oldCopy {
		return
	}
	p.room = math.MaxInt
	switch c.status.Role {
	case Looking:
		c.prevoteNewPeer(p)
	case Candidate:
		c.sendNewEpoch(p)
	case SyncingLeader, Leading:
		if c.lead.renewing {
			c.sendNewEpoch(p)
		}
	}
}

// PeerDown reports that a link is gone. Nothing more will be received on it.
func (c *Core) PeerDown(id SID, gen uint64) {
	p := c.linked(id)
	if p == nil || p.gen != gen {
		return
	}
	c.stopLearner(p)
	p.up, p.granted, p.answered, p.promised = false, false, false, false
	c.refresh()
	pending := c.promise.To == id && c.awaitsPromised()
	if pending {
		c.vote.promisedUntil = 0
	}
	switch c.status.Role {
	case Looking:
		if pending {
			c.startRound()
		}
	case Candidate:
		c.checkCandidacy()
	case SyncingFollower, Following:
		if c.status.Leader == id {
			c.look("lost the link to the leader", 0)
		}
	case SyncingLeader, Leading:
		if c.lead.handingOver && c.lead.successor == id {
			c.successorLost()
		}
		c.checkLinks()
	}
}

// Recv handles a message that came over a link. The core owns the memory that the entries
// alias from then on, but not the Message itself.
func (c *Core) Recv(from SID, gen uint64, m *Message) {
	p := c.linked(from)
	if p == nil || p.gen != gen || p.refused || c.status.Role == Halted {
		return
	}
	if m.Promise > maxEpoch {
		return // no server promises that epoch: the next one would wrap around
	}
	// A learner may first receive the history of an older ensemble of which its leader was a
	// member, so the cluster id of a peer in ours is not checked.
	if own := c.log.settled.Init.Cluster; !p.syncedHere && m.Cluster != own && m.Cluster != (ID{}) && own != (ID{}) {
		p.refused, p.ignoredFrom = true, c.now
		c.event(Error, from, fmt.Sprintf("a peer belongs to another ensemble: its id is %x, ours %x; one of the two has the other's data directory or address", m.Cluster, own))
		c.stopLearner(p)
		return
	}
	if p.oldCopy {
		c.sendDoubt(p)
		return
	}
	switch m.Kind {
	case MsgAppend:
		c.onAppend(p, m)
	case MsgAck:
		c.onAck(p, m)
	case MsgCommit:
		c.onCommit(p, m)
	case MsgPing:
		c.onPing(p, m)
	case MsgPong:
		c.onPong(p, m)
	case MsgPrevote:
		c.onPrevote(p, m)
	case MsgPrevoteResp:
		c.onPrevoteResp(p, m)
	case MsgNewEpoch:
		c.onNewEpoch(p, m)
	case MsgAckEpoch:
		c.onAckEpoch(p, m)
	case MsgNackEpoch:
		c.onNackEpoch(p, m)
	case MsgFollow:
		c.onFollow(p, m)
	case MsgSync:
		c.onSync(p, m)
	case MsgReadIndex:
		c.onReadIndex(p, m)
	case MsgReadIndexResp:
		c.onReadIndexResp(p, m)
	case MsgTimeoutNow:
		c.onTimeoutNow(p, m)
	case MsgRejoin:
		c.onRejoin(p, m)
	case MsgLead:
		c.onLead(p, m)
	case MsgDoubt:
		c.onDoubt(p, m)
	}
}

// NextZxid returns the zxid of the next proposal. It returns false if this server can't
// propose now: it does not lead, or its epoch is being renewed.
func (c *Core) NextZxid() (jute.Zxid, bool) {
	z := c.log.appended
	if c.standalone {
		if z.Counter() == ^uint32(0) {
			z = jute.MakeZxid(z.Epoch()+1, 0)
		}
		return z + 1, true
	}
	if !c.proposing() {
		return 0, false
	}
	if z.Counter() == 0 {
		z += jute.Zxid(c.opt.InitialCounter)
	}
	more := z.Counter() < lastCounter
	more = more || counterWraps.Planted()
	return z + 1, more
}

// Propose appends a transaction. zxid must equal NextZxid, else Propose panics. The core
// owns data from then on.
func (c *Core) Propose(zxid jute.Zxid, data []byte) {
	if next, ok := c.NextZxid(); !ok || zxid != next {
		panic(fmt.Sprintf("zab: proposal %v, next is %v", zxid, next))
	}
	e := Entry{Zxid: zxid, Prev: c.log.appended, Data: data}
	if c.lead.admitting.Server != 0 {
		c.attachAdmission(&e)
	}
	c.append(e)
	if e.Type != EntryTxn {
		c.nextAdmission()
	}
}

// append adds an entry to the history and to the batch to be persisted.
func (c *Core) append(e Entry) {
	if err := c.log.push(e); err != nil {
		c.fail(fmt.Sprintf("append: %v", err))
		return
	}
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogAppend, Entry: e})
}

// PersistDone reports that all batches up to seq are on stable storage. A failure has no
// counterpart: a process whose log fails stops.
func (c *Core) PersistDone(seq Seq) {
	if seq > c.lastSeq {
		panic(fmt.Sprintf("zab: batch %d is durable, but only %d were handed out", seq, c.lastSeq))
	}
	if seq <= c.persisted {
		return
	}
	before := c.persisted
	c.persisted = seq
	n := 0
	for n < len(c.inFlight) && c.inFlight[n].seq <= seq {
		c.log.durable = c.inFlight[n].last
		c.recorded += uint64(c.inFlight[n].records)
		if s := c.inFlight[n].snap; s != nil {
			c.install = s
			c.log.handed, c.log.applied = s.Zxid, s.Zxid
			c.log.durable = max(c.log.durable, s.Zxid) // last is smaller if another snapshot came since
		}
		n++
	}
	rest := copy(c.inFlight, c.inFlight[n:])
	clear(c.inFlight[rest:])
	c.inFlight = c.inFlight[:rest]
	if c.standalone {
		c.log.commit(c.log.durable)
		return
	}
	if before < c.promiseSeq && c.promiseSeq <= seq {
		c.promiseDurable()
	}
	if c.relinkSeq != 0 && c.relinkSeq <= seq {
		c.relinkSeq, c.relink = 0, true
	}
	if c.selfCountedAt != 0 && c.hinted >= c.selfCountedAt && c.hintSeq <= seq {
		c.selfCountedAt = 0
		c.following.acked = 0 // acknowledge again, because it counts now
	}
	switch c.status.Role {
	case SyncingLeader, Leading:
		c.advanceCommit()
	case SyncingFollower, Following:
		c.sendAck()
	}
}

// pendingSeq returns the batch that makes everything persisted so far durable.
func (c *Core) pendingSeq() Seq {
	if len(c.unpersisted) > 0 {
		return c.lastSeq + 1
	}
	return c.lastSeq
}

// Applied reports up to which zxid the shell has applied committed entries.
func (c *Core) Applied(upto jute.Zxid) {
	c.log.applied = max(c.log.applied, upto)
	switch c.status.Role {
	case SyncingLeader:
		c.activate()
	case SyncingFollower:
		c.checkFollowing()
	}
}

// SnapshotTaken reports a snapshot made by this server whose reference is durable.
func (c *Core) SnapshotTaken(zxid jute.Zxid, bytes int64) {
	if zxid > c.log.snapZxid {
		c.log.snapZxid, c.log.snapBytes = zxid, bytes
	}
}

// LogPurged reports the zxid after which the log can still be read.
func (c *Core) LogPurged(start jute.Zxid, bytes int64) { c.log.logStart, c.log.logBytes = start, bytes }

// DiskHealth reports the age of the oldest unfinished fsync, in ms, and whether the disk is
// full.
func (c *Core) DiskHealth(oldestMs uint64, full bool) {
	c.diskMs, c.full = oldestMs, full
	switch {
	case c.status.Role != Leading:
	case oldestMs > c.opt.DiskStall:
		c.handOver("the disk is stuck", 0)
	case full:
		c.handOver("the disk is full", 0) // if no server has room, this leader refuses writes
	}
}

// RoomInQuorum reports whether the voters whose disks are not known to be full form a
// quorum. A leader without such a quorum soon can't commit.
func (c *Core) RoomInQuorum() bool {
	return c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return !c.full
		}
		p := c.peer(id)
		return p == nil || !p.full
	})
}

// SetRoom reports how much memory this server's tree may take, in bytes; 0 if that has no bound.
func (c *Core) SetRoom(bytes uint64) { c.room = bytes }

// LeastRoom returns the least memory that the trees of this server and of the members that it leads may
// take, and the member for which that holds; 0 if there is no bound. Members have equal trees, so a leader
// must not let its own grow beyond that.
func (c *Core) LeastRoom() (bytes uint64, of SID) {
	bytes, of = c.room, c.opt.ID
	alone := !c.leads()
	alone = alone || ownRoomOnly.Planted()
	if alone {
		return bytes, of
	}
	for _, p := range c.peers {
		member := c.members().Find(p.id) != nil
		member = member || roomOfStrangers.Planted()
		if p.state != learnerNone && p.memory != 0 && (bytes == 0 || p.memory < bytes) && member {
			bytes, of = p.memory, p.id
		}
	}
	return bytes, of
}

// Status returns the current status.
func (c *Core) Status() Status { return c.status }

// Committed returns the highest zxid known to be committed.
func (c *Core) Committed() jute.Zxid { return c.log.committed }

// LastZxid returns the zxid of the last entry, durable or not.
func (c *Core) LastZxid() jute.Zxid { return c.log.appended }

// Has reports whether an entry is in the history. If the history has a later one that is committed,
// so is that entry.
func (c *Core) Has(z jute.Zxid) bool { return c.log.tip.contains(z) }

// Held returns the number of entries kept in memory and their bytes: about
// Options.CacheBytes at most, or twice that while entries are not committed.
func (c *Core) Held() (entries, bytes int) { return c.log.entries.n, c.log.entries.bytes }

// Take moves everything produced since the last Take to out, reusing its memory.
func (c *Core) Take(out *Output) {
	c.startReadRound()
	c.feedLearners()
	c.sendReadIndex()
	if len(c.unpersisted) > 0 || c.hintDue() {
		c.addHint()
	}
	clear(out.Persist)
	clear(out.Send)
	clear(out.Committed)
	clear(out.Events)
	persist, send := c.unpersisted, c.send
	c.unpersisted, c.send = out.Persist[:0], out.Send[:0]
	*out = Output{
		Persist:   persist,
		Send:      send,
		Committed: out.Committed[:0],
		ReadLog:   append(out.ReadLog[:0], c.readLog...),
		SendSnap:  append(out.SendSnap[:0], c.sendSnap...),
		Reads:     append(out.Reads[:0], c.reads...),
		Events:    append(out.Events[:0], c.events...),
		Install:   c.install,
		Relink:    c.relink,
		Cut:       append(out.Cut[:0], c.cut...),
		Changed:   c.changed,
		Fatal:     c.fatal,
	}
	c.install, c.relink, c.changed = nil, false, false
	c.readLog, c.sendSnap, c.reads = c.readLog[:0], c.sendSnap[:0], c.reads[:0]
	c.events, c.cut = c.events[:0], c.cut[:0]
	if len(persist) > 0 {
		c.lastSeq++
		c.busy = true
		c.inFlight = append(c.inFlight, batch{seq: c.lastSeq, last: c.log.appended, records: len(persist), snap: c.following.arriving})
		if earlyInstall.Planted() && c.following.arriving != nil {
			out.Install = c.following.arriving
			c.log.handed, c.log.applied = c.following.arriving.Zxid, c.following.arriving.Zxid
			c.inFlight[len(c.inFlight)-1].snap = nil
		}
		c.following.arriving = nil
		out.PersistSeq = c.lastSeq
	}
	c.takeCommitted(out)
}

// tickIgnored ends the links over which everything has been ignored for an election timeout. What
// the other server said at the beginning of the link is the reason, or what it said since. It may
// have changed, and nothing but another introduction tells.
func (c *Core) tickIgnored() {
	for _, p := range c.peers {
		due := p.up && (p.oldCopy || p.refused) && c.now >= p.ignoredFrom+c.opt.ElectionTimeout
		due = due && !ignoredEndlessly.Planted()
		if due {
			c.cut = append(c.cut, Link{p.id, p.gen})
			p.ignoredFrom = c.now // not with each tick, until the end of the link is reported
		}
	}
}

// takeCommitted outputs the entries that have become applicable since the last call.
func (c *Core) takeCommitted(out *Output) {
	out.CommitTo = max(c.log.handed, min(c.log.committed, c.log.durable))
	for i := c.log.entries.firstAbove(c.log.handed); i < c.log.entries.n; i++ {
		e := c.log.entries.at(i)
		if e.Zxid > out.CommitTo {
			break
		}
		out.Committed = append(out.Committed, *e)
	}
	c.log.handed = out.CommitTo
	keep := c.opt.CacheBytes
	if c.standalone {
		keep = 0
	}
	c.log.shrink(keep)
}

// updateSelfCounted updates whether this server counts. If an entry that was committed made it
// count, a hint has to make that durable.
func (c *Core) updateSelfCounted() {
	counts := c.selfCounts()
	if counts && !c.selfCounted && c.log.settled.Seeded() {
		c.selfCountedAt = c.log.committed
		c.hintTo = c.log.committed
	}
	c.selfCounted = counts
}

// setStatus changes the status.
func (c *Core) setStatus(s Status) {
	c.updateSelfCounted()
	s.Observer = !c.standalone && !c.voter(c.opt.ID)
	c.listStatus(&s)
	c.reportList()
	s.NotCounted, s.Awaits = "", ""
	if s.Role == Looking {
		s.Awaits = c.awaits()
	}
	if !s.Observer {
		s.NotCounted = c.notCountedReason()
	}
	if s != c.status {
		c.status = s
		c.changed = true
	}
}

// refresh updates the status after the history or the peers changed.
func (c *Core) refresh() { c.setStatus(c.status) }

func (c *Core) event(level Level, peer SID, text string) {
	c.events = append(c.events, Event{Level: level, Text: text, Peer: peer})
}

// halt stops taking part: the histories of servers contradict each other, and only an
// operator can decide which data to keep.
func (c *Core) halt(reason string) {
	c.leaveRole()
	c.event(Error, 0, "halted: "+reason)
	c.setStatus(Status{Role: Halted, Epoch: c.log.appended.Epoch(), Reason: reason})
}

// fail stops the process because the core contradicts itself.
func (c *Core) fail(reason string) {
	c.fatal = reason
	c.halt(reason)
}

// jitter returns a number below n.
func (c *Core) jitter(n uint64) uint64 { return c.random64() % max(n, 1) }

// random64 is splitmix64.
func (c *Core) random64() uint64 {
	c.random += 0x9e3779b97f4a7c15
	z := c.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
