package zab

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// learnerState is what a leader is doing for a learner.
type learnerState uint8

const (
	learnerNone     learnerState = iota
	learnerStream                // sends entries after next
	learnerQueued                // a snapshot is to be sent, when others are done
	learnerSnapshot              // a snapshot is being sent
)

// maxSnapshots is the number of learners that are sent snapshots at the same time.
const maxSnapshots = 2

// learner is a leader's state for a peer. Synchronizing it and keeping it up to date are
// the same: there is one cursor into the leader's log.
//
// Invariant: match <= next.
type learner struct {
	state     learnerState
	invited   bool // was asked to promise the epoch before its synchronization
	synced    bool
	next      jute.Zxid // the last entry sent; before the snapshot, the common point
	match     jute.Zxid // durable there
	served    summary   // the summary that the newest MsgSync answered, except its nonce
	common    jute.Zxid // the learner was told to drop its history after it
	token     uint64    // of the snapshot
	snapAt    jute.Zxid // the snapshot's zxid, while it is being sent; 0 before
	delivered bool      // the whole snapshot
	since     uint64    // when it was queued for a snapshot, or when that began
	yields    uint64    // until when it has no precedence: a transfer to it had made no progress

	inflight      []sent
	inflightBytes int
	sentCommit    jute.Zxid
	reading       bool      // from the log
	readAfter     jute.Zxid // where the read starts
	progressAt    uint64    // when bytes of entries or of the snapshot last got through

	echo     uint64 // newest heartbeat answered
	echoedAt uint64
	heardAt  uint64
	pongSeq  uint64
	diskMs   uint64
	full     bool   // its disk is full
	memory   uint64 // how much its tree may take; 0: no bound

	leasedSeq    uint64 // the newest pong when it was last sent a lease
	answersUntil uint64 // upper bound of the leases that this leader gave it

	timeoutNowSent bool      // told to take over, in this hand-over
	reportsCounted bool      // by its last acknowledgement, it counts
	acked          jute.Zxid // the highest zxid that it has acknowledged in this leadership
	by             uint64    // the boot of the process that acknowledged it
}

// sent is a message of entries that is not acknowledged.
type sent struct {
	upto  jute.Zxid
	bytes int
}

func (c *Core) stopLearner(p *peer) {
	if p.state == learnerSnapshot {
		c.sendSnap = append(c.sendSnap, SnapSend{Peer: p.id, Gen: p.gen, Token: p.token, Stop: true})
	}
	p.state, p.synced, p.reading, p.invited = learnerNone, false, false, false
	p.inflight, p.inflightBytes = p.inflight[:0], 0
}

// onFollow accepts a server that wants to follow.
func (c *Core) onFollow(p *peer, m *Message) {
	c.noteState(p, m)
	if !c.leads() {
		return
	}
	p.heardAt = c.now
	switch {
	case c.lead.renewing:
	case p.summary.later(m): // the work under way for the later summary is not cancelled
	case m.Promise > c.promise.Epoch:
		c.onHigherPromise(p)
	case m.Promise == c.lead.epoch && m.Leader == c.opt.ID:
		c.answerSummary(p, m)
	default:
		if !c.sendingSnapshot(p, m.Zxid, m.Epochs) {
			c.stopLearner(p)
		}
		c.inviteLearner(p)
	}
}

// sendingSnapshot reports whether a snapshot chosen for the given history is queued or being sent
// to a learner.
func (c *Core) sendingSnapshot(p *peer, last jute.Zxid, epochs []EpochEnd) bool {
	sending := (p.state == learnerQueued || p.state == learnerSnapshot && !p.delivered) &&
		p.served.last == last && slices.Equal(p.served.epochs, epochs)
	return sending && !followRestarts.Planted()
}

// answerSummary answers a learner's summary of its history. If the learner asks again for what is
// already under way, it only gets MsgSync again, which may have been lost or delayed. The
// work itself continues: restarting it each time would never finish on a slow link.
func (c *Core) answerSummary(p *peer, m *Message) {
	s := &p.summary
	switch {
	case s.later(m): // the sender would not obey the answer
	case m.Boot == s.boot && m.Nonce == s.nonce && p.state != learnerNone:
		c.sendSync(p)
	default:
		p.summary = summaryOf(m)
		c.synchronize(p)
	}
}

// synchronize brings a learner that has sent a summary up to date. A snapshot on its way
// for the same history remains valid.
func (c *Core) synchronize(p *peer) {
	if c.sendingSnapshot(p, p.summary.last, p.summary.epochs) {
		c.sendSync(p)
		return
	}
	c.startSync(p)
}

// inviteLearner makes a server promise the epoch first. There can be no other leader of the
// epoch, so the server may do so even if it promised it to another.
func (c *Core) inviteLearner(p *peer) {
	p.invited = true
	c.post(p, Message{Kind: MsgNewEpoch, Epoch: c.lead.epoch, Promise: c.lead.since, Zxid: c.log.appended, Flags: FlagEstablished | c.selfFlags()})
}

// startSync decides how to bring a learner up to date, and sets the cursor in the same
// step, so that no proposal can fall in between (ZOOKEEPER-962, 3104, 4394).
func (c *Core) startSync(p *peer) {
	s := &p.summary
	p.syncedHere, p.served = true, *s
	c.stopLearner(p)
	p.match, p.snapAt, p.delivered = 0, 0, false
	p.echoedAt, p.heardAt, p.pongSeq, p.leasedSeq = c.now, c.now, 0, 0
	p.progressAt = c.now
	at := commonPoint(c.log.tip.Epochs, s.epochs)
	oldCopy := at < p.acked && p.by != p.boot && p.start != 0
	oldCopy = oldCopy && !oldCopyTrusted.Planted()
	if oldCopy {
		c.ignoreOldCopy(p, fmt.Sprintf("it had acknowledged everything up to %v, and has this history up to %v only", p.acked, at))
		return
	}
	if at < s.commit {
		c.event(Error, p.id, fmt.Sprintf("the server says that %v is committed, but only up to %v it has the history of this one", s.commit, at))
	}
	p.state, p.next, p.common = learnerStream, at, at
	if c.needsSnapshot(at) {
		c.vote.nonces++
		p.token = max(c.opt.Boot+c.vote.nonces, 1) // distinct from those of an earlier process
		p.state, p.since = learnerQueued, c.now
	}
	p.sentCommit = c.log.committed
	if !c.voter(p.id) {
		p.next = min(p.next, c.log.committed)
	}
	c.sendSync(p)
	c.post(p, Message{Kind: MsgPing, Epoch: c.lead.epoch, Commit: c.log.committed, Seq: c.lead.pingSeq})
	c.startSnapshots()
}

// sendSync tells a learner where its stream begins.
func (c *Core) sendSync(p *peer) {
	m := Message{Kind: MsgSync, Epoch: c.lead.epoch, Zxid: p.common, Boot: p.summary.boot, Nonce: p.summary.nonce, Commit: c.log.committed}
	if e := c.log.entries.find(p.common); e != nil {
		m.CRC, m.Flags = e.crc(), FlagCRC
	}
	if p.state != learnerStream {
		m.Seq = p.token
		m.Flags |= FlagSnapshot
	}
	c.post(p, m)
}

// smallLog is the size up to which the log is sent rather than a snapshot, in bytes.
const smallLog = 64 << 20

// needsSnapshot reports whether a snapshot is better for a learner with the history up to
// z: the log after z is gone, or is larger than a third of a snapshot (like ZooKeeper's
// snapshotSizeFactor). A snapshot older than z is never sent: the learner's
// acknowledgements after it may have been counted, and the learner would lack these entries
// until they were sent again.
func (c *Core) needsSnapshot(z jute.Zxid) bool {
	if _, ok := c.log.entries.after(z); ok || z == c.log.appended {
		return false
	}
	if z < c.log.logStart {
		return true
	}
	if c.log.snapZxid < z {
		return false
	}
	bytes := float64(c.log.logBytes)
	if e := z.Epoch(); e == c.log.logStart.Epoch() && e == c.log.appended.Epoch() && c.log.appended > c.log.logStart {
		bytes *= float64(c.log.appended-z) / float64(c.log.appended-c.log.logStart)
	}
	return bytes > smallLog && bytes > float64(c.log.snapBytes)/3 && c.log.snapBytes > 0
}

// startSnapshots begins to send queued snapshots, to voters first, and then to who has waited longest. If
// there is no place, a voter gets that of an observer, and anybody that of a transfer without progress;
// that learner begins again. So no voter waits for servers that don't read.
func (c *Core) startSnapshots() {
	for {
		next := c.nextSnapshot()
		if next == nil {
			return
		}
		if !c.snapshotPlace(next) {
			return
		}
		next.state, next.since, next.progressAt = learnerSnapshot, c.now, c.now
		c.sendSnap = append(c.sendSnap, SnapSend{Peer: next.id, Gen: next.gen, AtLeast: max(c.log.logStart, next.next), Token: next.token})
	}
}

// nextSnapshot returns the learner whose queued snapshot is sent next, or nil.
func (c *Core) nextSnapshot() (next *peer) {
	for _, p := range c.peers {
		if p.state != learnerQueued {
			continue
		}
		first := next == nil || c.precedes(p, next)
		if first || !c.precedes(next, p) && p.since < next.since {
			next = p
		}
	}
	return next
}

// precedes reports whether a learner gets a snapshot before another one, however long that has waited.
func (c *Core) precedes(a, b *peer) bool {
	rank := func(p *peer) int {
		switch {
		case c.now < p.yields:
			return 0
		case !c.voter(p.id):
			return 1
		}
		return 2
	}
	return rank(a) > rank(b)
}

// snapshotPlace reports whether there is a place for the snapshot of a learner, and makes one if possible.
func (c *Core) snapshotPlace(next *peer) bool {
	taken := 0
	var gives *peer
	for _, p := range c.peers {
		if p.state != learnerSnapshot {
			continue
		}
		taken++
		switch idle := c.idle(p); {
		case !idle && (p.delivered || !c.precedes(next, p)):
		case gives == nil, idle && !c.idle(gives), idle == c.idle(gives) && p.since > gives.since:
			gives = p
		}
	}
	if taken < maxSnapshots {
		return true
	}
	full := gives == nil
	full = full || placesKept.Planted()
	if full {
		return false
	}
	if c.idle(gives) {
		gives.yields = c.now + joinerPatience*c.opt.InitLimit
	}
	c.event(Info, gives.id, fmt.Sprintf("the snapshot that is sent to it begins again later: server %d needs one", next.id))
	c.askAgain(gives)
	return true
}

// idle reports whether a transfer has made no progress for long.
func (c *Core) idle(p *peer) bool {
	patience := c.opt.InitLimit
	if p.delivered { // it has to be loaded
		patience *= joinerPatience
	}
	return c.now >= p.progressAt+patience
}

// snapshotLearner returns the learner to which the snapshot with the given token is being sent, or
// nil.
func (c *Core) snapshotLearner(peer SID, gen, token uint64) *peer {
	p := c.linked(peer)
	if p == nil || p.gen != gen || p.token != token || p.state != learnerSnapshot || !c.leads() {
		return nil
	}
	return p
}

// SnapshotBegun reports which snapshot is being sent for Output.SendSnap. From then on the
// log after it is needed.
func (c *Core) SnapshotBegun(peer SID, gen, token uint64, zxid jute.Zxid) {
	if p := c.snapshotLearner(peer, gen, token); p != nil {
		p.snapAt, p.progressAt = zxid, c.now
	}
}

// SnapshotSent reports the outcome of Output.SendSnap: whether the snapshot at zxid was
// delivered.
func (c *Core) SnapshotSent(peer SID, gen, token uint64, zxid jute.Zxid, ok bool) {
	p := c.snapshotLearner(peer, gen, token)
	if p == nil {
		return
	}
	if ok {
		p.snapAt, p.delivered, p.progressAt = zxid, true, c.now
		c.snapshotAcknowledged(p)
		return
	}
	c.event(Warn, peer, "a snapshot was not delivered")
	c.restartSync(p)
}

// snapshotAcknowledged streams the entries after a snapshot once the learner has made the
// snapshot its history.
func (c *Core) snapshotAcknowledged(p *peer) {
	if p.state == learnerSnapshot && p.delivered && p.match >= p.snapAt {
		p.state, p.next = learnerStream, p.match
		c.startSnapshots()
		c.noteSynced(p)
	}
}

// noteSynced notes that a learner has what was there when the leader began, and that a quorum has it, if that is so now. It may
// have all of that from a snapshot.
func (c *Core) noteSynced(p *peer) {
	if !p.synced && p.match >= c.lead.marker && c.log.committed >= c.lead.marker {
		p.synced = true
		c.nextAdmission()
	}
}

// restartSync makes a learner start its synchronization again.
func (c *Core) restartSync(p *peer) {
	c.askAgain(p)
	c.startSnapshots()
}

// askAgain ends what is being done for a learner, and makes it ask again.
func (c *Core) askAgain(p *peer) {
	c.stopLearner(p)
	p.invited = true
	c.post(p, Message{Kind: MsgRejoin, Epoch: c.lead.epoch, Leader: c.opt.ID})
}

// feedLearners sends entries that are due to all learners.
func (c *Core) feedLearners() {
	if !c.leads() || c.lead.renewing {
		return
	}
	for _, p := range c.peers {
		if p.state == learnerStream {
			c.feed(p)
		}
	}
}

// feed sends a learner entries as far as its window allows, and the committed zxid if no
// entries carry it.
func (c *Core) feed(p *peer) {
	end := c.log.appended
	if !c.voter(p.id) {
		end = c.log.committed
	}
	for p.next < end && !p.reading && p.inflightBytes < c.opt.WindowBytes && p.room > 0 {
		batch := min(c.opt.BatchBytes, p.room)
		i, ok := c.log.entries.after(p.next)
		if !ok {
			p.reading, p.readAfter = true, p.next
			c.readLog = append(c.readLog, LogRead{Peer: p.id, Gen: p.gen, After: p.next, MaxBytes: batch})
			break
		}
		entries, bytes := c.log.entries.run(i, end, batch)
		c.sendEntries(p, entries, bytes)
	}
	if p.sentCommit < c.log.committed {
		c.sendCommit(p)
	}
}

// LinkRoom sets how many bytes of entries the link to a peer accepts before the next call.
// Without calls the link accepts any number.
func (c *Core) LinkRoom(peer SID, gen uint64, bytes int) {
	if p := c.linked(peer); p != nil && p.gen == gen {
		p.room = bytes
	}
}

// Progress reports that bytes of entries, or of a snapshot, got through: to a peer that
// read them, or from it. A slow server is not a dead one: a leader waits longer for the
// learners that it needs, and a learner for the snapshot and for its leader's messages.
// Progress promises nothing, and does not extend leases.
func (c *Core) Progress(peer SID, gen uint64) {
	p := c.linked(peer)
	switch {
	case p == nil || p.gen != gen:
	case c.isLeader(p):
		c.heardFrom()
		c.following.snapFrom = c.now
	case c.leads() && p.state != learnerNone:
		p.progressAt = c.now
		if c.voter(p.id) && c.counts(p) {
			c.lead.initDeadline = max(c.lead.initDeadline, c.now+c.opt.InitLimit)
		}
	}
}

// joinerPatience is how long a learner may make no progress, in multiples of InitLimit,
// before the log is no longer kept for it. A learner that has received a whole snapshot has
// to load it.
const joinerPatience = 3

// Needs returns the zxid after which the log must be kept for the learners that are being
// brought up to date, as long as they make progress. It returns the last zxid if there are
// none.
func (c *Core) Needs() jute.Zxid {
	needs := c.log.appended
	if !c.leads() {
		return needs
	}
	for _, p := range c.peers {
		switch {
		case c.now >= p.progressAt+joinerPatience*c.opt.InitLimit:
		case p.state == learnerStream:
			needs = min(needs, p.next)
		case p.state == learnerSnapshot && p.snapAt != 0:
			needs = min(needs, p.snapAt)
		}
	}
	return needs
}

func (c *Core) sendEntries(p *peer, entries []Entry, bytes int) {
	last := entries[len(entries)-1].Zxid
	c.post(p, Message{Kind: MsgAppend, Epoch: c.lead.epoch, Prev: p.next, Commit: c.log.committed, Entries: entries})
	p.inflight = append(p.inflight, sent{last, bytes})
	p.inflightBytes += bytes
	p.room -= min(p.room, bytes)
	p.next = last
	p.sentCommit = c.log.committed
}

// LogRead answers Output.ReadLog with entries after a zxid. purged means that the log no
// longer has them.
func (c *Core) LogRead(peer SID, gen uint64, after jute.Zxid, entries []Entry, purged bool) {
	p := c.linked(peer)
	if p == nil || p.gen != gen || !p.reading || p.readAfter != after || !c.leads() {
		return
	}
	p.reading = false
	if p.next != after {
		return // meanwhile it has shown that it has more
	}
	if purged {
		c.restartSync(p)
		return
	}
	end := c.log.appended
	if !c.voter(p.id) {
		end = c.log.committed
	}
	prev, n, bytes := after, 0, 0
	for n < len(entries) && entries[n].Prev == prev && entries[n].Zxid <= end && c.log.tip.contains(entries[n].Zxid) {
		prev = entries[n].Zxid
		bytes += entryBytes(&entries[n])
		n++
	}
	if n == 0 {
		c.event(Warn, peer, fmt.Sprintf("the log has nothing to send after %v", after))
		c.restartSync(p)
		return
	}
	c.sendEntries(p, entries[:n:n], bytes)
}

func (c *Core) onAck(p *peer, m *Message) {
	if c.leads() && m.Epoch == c.lead.epoch {
		c.acknowledged(p, m)
	}
}

// acknowledged handles a learner's report that everything up to m.Zxid is durable.
func (c *Core) acknowledged(p *peer, m *Message) {
	z, counts := m.Zxid, m.Flags&FlagUncounted == 0
	if p.state == learnerNone || p.state == learnerQueued || !c.log.tip.contains(z) {
		return
	}
	p.heardAt = c.now
	if z <= p.match && counts == p.reportsCounted {
		return
	}
	p.match, p.reportsCounted = max(p.match, z), counts
	if p.match > p.acked {
		p.acked, p.by = p.match, p.boot
	}
	if p.state == learnerSnapshot {
		c.snapshotAcknowledged(p)
		return
	}
	p.next = max(p.next, z) // an observer may have more than the committed entries
	n := 0
	for n < len(p.inflight) && p.inflight[n].upto <= z {
		p.inflightBytes -= p.inflight[n].bytes
		n++
	}
	p.inflight = append(p.inflight[:0], p.inflight[n:]...)
	c.advanceCommit()
	c.noteSynced(p)
}

// Peers appends what a leader knows about its learners, sorted by id.
func (c *Core) Peers(dst []PeerStatus) []PeerStatus {
	if !c.leads() {
		return dst
	}
	for _, p := range c.peers {
		if p.state == learnerNone {
			continue
		}
		dst = append(dst, PeerStatus{
			ID: p.id, Observer: !c.voter(p.id), Synced: p.synced, Match: p.match, Inflight: p.inflightBytes,
			Counted: c.voter(p.id) && c.reliesOn(p), HeardMs: c.now - p.heardAt, AnswersUntil: c.origin + p.answersUntil,
		})
	}
	return dst
}
