package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// following is what a server has as a learner: a follower or an observer.
//
// Invariant: while streaming, all of its history is known to equal the leader's.
type following struct {
	streaming bool
	heardAt   uint64 // the leader's last word
	patience  uint64 // how long it may be silent

	beat uint64 // the newest heartbeat of the leader

	// The leader repeats the number of our last pong, a stamp. If it gets none of them
	// the link works in one direction only.
	pongSeq   uint64
	echoedSeq uint64
	echoedAt  uint64

	ackSeq Seq       // what was done on MsgSync is durable with it
	acked  jute.Zxid // since MsgSync
	target jute.Zxid // to be applied before clients are served; 0 until it is known

	snapToken uint64    // of the snapshot waited for; 0 for none
	snapFrom  uint64    // when that began, or bytes of it came last
	common    jute.Zxid // up to here the leader has this server's history
	arriving  *SnapInfo // becomes the history with the next batch
}

func (c *Core) leaveFollowing() { c.following = following{arriving: c.arriving} }

// follow takes a server as the leader, or goes on with it in a new epoch.
func (c *Core) follow(p *peer, epoch uint32) {
	if s := c.status; c.follows() && s.Leader == p.id && s.LeaderGen == p.gen {
		s.Epoch = epoch
		c.setStatus(s)
	} else {
		c.leave()
		c.following = following{
			arriving: c.arriving, heardAt: c.now, echoedAt: c.now,
			patience: c.opt.ElectionTimeout + c.jitter(c.opt.ElectionTimeout/2),
		}
		c.setStatus(Status{Role: SyncingFollower, Epoch: epoch, Leader: p.id, LeaderGen: p.gen, Reason: "the leader synchronizes it"})
	}
	p.ours = true
	c.epoch, c.marker = epoch, jute.MakeZxid(epoch, 0)
	c.heardAt, c.echoedAt = c.now, c.now
	c.nonce, c.joining, c.promisedUntil = 0, 0, 0
	c.acked, c.target, c.snapToken = 0, 0, 0
}

// follows reports whether this server follows a leader.
func (c *Core) follows() bool {
	return c.status.Role == SyncingFollower || c.status.Role == Following
}

// isLeader reports whether p is the leader that this server follows.
func (c *Core) isLeader(p *peer) bool { return c.follows() && c.status.Leader == p.id }

// onSync obeys a leader that was promised its epoch: it drops what the leader's
// history does not have, which is safe because that one has everything that was
// or can be committed in any epoch before.
func (c *Core) onSync(p *peer, m *Message) {
	fresh := m.Nonce != 0 && m.Nonce == c.nonce && m.Boot == c.opt.Boot && c.nonceVersion == c.version
	if c.promise != (Promise{m.Epoch, p.id}) || !fresh && !mutated(staleSyncObeyed) || c.leads() || c.status.Role == Candidate {
		return
	}
	at := m.Zxid
	switch {
	case !c.tip.contains(at):
		c.event(2, p.id, fmt.Sprintf("asked to go on behind %v, which this server does not have", at))
		c.nonce = 0 // the next summary must not get the same answer
		return
	case at < c.committed:
		c.halt(fmt.Sprintf("the leader, server %d, has the history of this server only up to %v, but %v is committed: data was lost, here or there", p.id, at, c.committed))
		return
	}
	if e := c.entries.find(at); m.Flags&FlagCRC != 0 && e != nil && e.crc() != m.CRC {
		c.halt(fmt.Sprintf("entry %v differs from that of the leader, server %d", at, p.id))
		return
	}
	c.follow(p, m.Epoch)
	if m.Flags&FlagSnapshot != 0 {
		c.streaming = false
		c.stopServing()
		c.snapToken, c.snapFrom, c.common = m.Seq, c.now, at
		return
	}
	c.truncate(at)
	c.streaming = true
	c.ackSeq = c.pendingSeq()
	c.refresh()
	c.sendAck()
}

// truncate drops the entries behind z, by a record in the log.
func (c *Core) truncate(z jute.Zxid) {
	if z == c.appended {
		return
	}
	c.event(1, c.promise.To, fmt.Sprintf("dropped the entries from behind %v up to %v: they never were committed", z, c.appended))
	c.history.truncate(z)
	for i := range c.inFlight {
		c.inFlight[i].last = min(c.inFlight[i].last, z)
	}
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogTruncate, Upto: z})
}

// heardFrom takes down that the leader is alive.
func (c *Core) heardFrom() { c.heardAt = c.now }

// onAppend adds entries that stand directly behind this server's history.
func (c *Core) onAppend(p *peer, m *Message) {
	if m.Epoch < c.promise.Epoch && !c.isLeader(p) {
		c.refuseOld(p, m.Epoch)
		return
	}
	if !c.isLeader(p) || !c.streaming || m.Epoch != c.epoch || c.promise.Epoch != m.Epoch {
		return
	}
	c.heardFrom()
	for i := range m.Entries {
		e := m.Entries[i]
		if e.Zxid <= c.appended && c.tip.contains(e.Zxid) {
			continue // sent twice
		}
		if err := c.acceptable(&e); err != nil {
			c.lost(p, err.Error())
			return
		}
		c.append(e)
		if c.status.Role == Halted {
			return
		}
	}
	c.learnCommit(m.Commit)
	if mutated(ackBeforeFsync) {
		c.sendAck()
	}
	if len(c.control) > 0 {
		c.refresh()
	}
}

// acceptable checks an entry of the leader's.
func (c *Core) acceptable(e *Entry) error {
	if mutated(appendWithoutPrev) && e.Prev != c.appended && e.Zxid > c.appended {
		e.Prev = c.appended
	}
	if e.Zxid.Epoch() > c.epoch {
		return fmt.Errorf("entry %v is of a later epoch", e.Zxid)
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("entry %v: %w", e.Zxid, err)
	}
	return c.tip.follows(e)
}

// lost takes in that entries did not come that were sent before.
func (c *Core) lost(p *peer, why string) {
	c.events = append(c.events, Event{Level: 2, Peer: p.id, Text: "entries were lost on the way: " + why, Lost: true})
	c.gap(p, why)
}

// gap asks the leader to be synchronized again.
func (c *Core) gap(p *peer, why string) {
	c.event(0, p.id, "has to be synchronized again: "+why)
	c.streaming, c.snapToken = false, 0
	c.sendFollow(p)
}

// refuseOld tells a leader whose epoch is over.
func (c *Core) refuseOld(p *peer, epoch uint32) {
	c.post(p, Message{Kind: MsgNackEpoch, Epoch: epoch, Promise: c.promise.Epoch, Zxid: c.appended, Flags: c.selfFlags()})
}

func (c *Core) onCommit(p *peer, m *Message) {
	if !c.isLeader(p) || m.Epoch != c.epoch {
		return
	}
	c.heardFrom()
	c.learnCommit(m.Commit)
	c.checkGap(p, m.Zxid)
}

// checkGap sees that this server has the entries that it was sent. The message that
// says how far that is must have its place behind them.
func (c *Core) checkGap(p *peer, sent jute.Zxid) {
	if c.streaming && sent > c.appended {
		c.lost(p, fmt.Sprintf("%v was sent, and %v is the last here", sent, c.appended))
	}
}

// learnCommit takes in how far the leader has committed.
func (c *Core) learnCommit(z jute.Zxid) {
	if !c.streaming {
		return
	}
	if z >= c.marker && c.target == 0 {
		c.target = z
	}
	if known := min(z, c.appended); known > c.committed && c.tip.contains(known) {
		if c.commit(known) {
			c.hintTo = c.committed
			c.refresh()
		}
	}
	c.checkFollowing()
}

// checkFollowing begins to serve clients: when the marker is durable here and
// known to be committed, and what the leader then had committed is applied.
func (c *Core) checkFollowing() {
	if c.status.Role != SyncingFollower || !c.streaming || c.target == 0 ||
		c.acked < c.marker || c.committed < c.marker || c.applied < c.target {
		return
	}
	s := c.status
	s.Role, s.Reason = Following, "synchronized"
	c.setStatus(s)
}

// stopServing ends the service for clients until checkFollowing: what a snapshot skips
// would be neither an event nor the end of a session to them.
func (c *Core) stopServing() {
	if c.status.Role == Following {
		s := c.status
		s.Role, s.Reason = SyncingFollower, "the leader sends a snapshot"
		c.setStatus(s)
	}
}

// sendAck tells the leader how far this server's history is durable.
func (c *Core) sendAck() {
	z := c.durable
	ready := c.streaming && c.persisted >= c.ackSeq
	if mutated(ackBeforeFsync) {
		z, ready = c.appended, c.streaming
	}
	p := c.linked(c.status.Leader)
	if !ready || p == nil || z <= c.acked {
		return
	}
	c.acked = z
	c.post(p, Message{Kind: MsgAck, Epoch: c.epoch, Zxid: z, Flags: c.unsureFlag()})
	c.checkFollowing()
}

// unsureFlag tells the leader not to count on this server.
func (c *Core) unsureFlag() uint16 {
	if c.weighty && c.weightAt == 0 {
		return 0
	}
	return FlagUnsure
}

func (c *Core) onPing(p *peer, m *Message) {
	switch {
	case c.isLeader(p) && (m.Epoch == c.epoch || m.Epoch == c.promise.Epoch):
	case m.Epoch < c.promise.Epoch:
		c.refuseOld(p, m.Epoch)
		return
	case c.status.Role == Looking: // p leads
		if c.promise == (Promise{m.Epoch, p.id}) {
			c.pong(p, m)
		}
		c.join(p)
		return
	default:
		return
	}
	c.heardFrom()
	if m.Echo > c.echoedSeq {
		c.echoedSeq, c.echoedAt = min(m.Echo, c.pongSeq), c.now
	}
	c.beat = max(c.beat, m.Seq)
	c.leased(m)
	c.pong(p, m)
	if c.streaming && m.Epoch == c.epoch {
		// Entries may be on their way that were sent before. What is committed of those
		// that are here is so all the same: while it streams, the leader has them too.
		c.learnCommit(m.Commit)
		if mutated(gapCheckByPing) {
			c.checkGap(p, m.Zxid)
		}
	}
}

// pong answers a heartbeat. It says that no higher epoch was promised, so it may be
// sent while MsgSync of that epoch is still on its way: a new leader must not give up
// because that takes long.
func (c *Core) pong(p *peer, m *Message) {
	c.pongSeq = c.stamp(c.pongSeq)
	pong := Message{Kind: MsgPong, Epoch: m.Epoch, Seq: c.pongSeq, Echo: m.Seq, Ms: uint32(min(c.diskMs, 1<<32-1))}
	if c.streaming && m.Epoch == c.epoch {
		pong.Zxid, pong.Flags = c.acked, c.unsureFlag() // what told it may have been lost
	}
	if c.full {
		pong.Flags |= FlagFull
	}
	pong.Nonce = c.position()
	c.post(p, pong)
}

// onRejoin asks a leader again to be synchronized, or looks for another if that has
// given up. It may come before the MsgSync that it makes void.
func (c *Core) onRejoin(p *peer, m *Message) {
	switch {
	case c.isLeader(p) && m.Epoch == c.epoch && m.Leader == 0:
		c.look("the leader gave up", 0)
	case c.isLeader(p) && m.Epoch == c.epoch:
		c.nonce = 0
		c.gap(p, "the leader wants it")
	case c.status.Role == Looking && c.joining == p.id && c.joiningGen == p.gen && m.Leader != 0:
		c.nonce = 0
		c.sendFollow(p)
	}
}

// tickLearner leaves a leader that is silent, or does not hear.
func (c *Core) tickLearner() {
	p := c.linked(c.status.Leader)
	switch {
	case p == nil || c.now >= c.heardAt+c.patience:
		c.look("no word from the leader", 0)
	case c.now >= c.echoedAt+c.patience+c.opt.Heartbeat:
		c.look("the leader does not hear this server", 0)
	case c.streaming:
	case c.snapToken != 0:
		if c.now >= c.snapFrom+10*c.opt.InitLimit {
			c.gap(p, "no snapshot came")
		}
	case c.now >= c.joinedAt+5*c.opt.Heartbeat:
		c.sendFollow(p)
	}
}

// WantsSnapshot returns the token of the snapshot that this server waits for and who
// sends it, or 0. If that becomes 0 it may become the same again: when the leader has
// renewed its epoch, say.
func (c *Core) WantsSnapshot() (from SID, token uint64) {
	if !c.follows() || c.snapToken == 0 || c.promise != (Promise{c.epoch, c.status.Leader}) {
		return 0, 0
	}
	return c.status.Leader, c.snapToken
}

// SnapshotReceived tells that the snapshot that WantsSnapshot names is complete,
// verified and durable in its file. It returns false if that is not the one, or of no
// use.
func (c *Core) SnapshotReceived(from SID, token uint64, snap SnapInfo) bool {
	p := c.linked(from)
	if wants, t := c.WantsSnapshot(); p == nil || token == 0 || from != wants || token != t {
		return false
	}
	c.snapToken = 0
	if snap.Zxid < max(c.committed, c.common) || snap.Zxid != snap.State.Zxid {
		// Whether or not what would be dropped is known to be committed: it may be,
		// counting on this server.
		c.gap(p, fmt.Sprintf("the snapshot at %v is of no use: up to %v all is here", snap.Zxid, max(c.committed, c.common)))
		return false
	}
	c.event(1, from, fmt.Sprintf("installs the snapshot at %v", snap.Zxid))
	c.replace(&snap)
	c.durable = c.handed
	for i := range c.inFlight {
		c.inFlight[i].last = c.handed
	}
	c.arriving = &snap
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogSnapshot, Upto: snap.Zxid, Snap: snap})
	c.streaming = true
	c.ackSeq = c.pendingSeq()
	c.refresh()
	return true
}
