package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// following is the state of a learner: a follower or an observer.
//
// Invariant: while streaming is set, the whole history is known to equal the leader's.
type following struct {
	streaming     bool
	heardAt       uint64 // when the leader was last heard
	leaderTimeout uint64 // how long the leader may be silent

	beat uint64 // the leader's newest heartbeat

	// The leader echoes the number of the last pong, a stamp. If no pong arrives there, the link
	// works in one direction only.
	pongSeq   uint64
	echoedSeq uint64
	echoedAt  uint64

	ackSeq Seq       // the batch that makes the changes made on MsgSync durable
	acked  jute.Zxid // acknowledged since MsgSync
	target jute.Zxid // to be applied before clients are served; 0 if not known yet

	snapToken uint64    // of the awaited snapshot; 0 for none
	snapFrom  uint64    // when the wait began, or bytes of the snapshot came last
	common    jute.Zxid // up to here the leader has this server's history
	arriving  *SnapInfo // becomes the history with the next batch
}

func (c *Core) leaveFollowing() { c.following = following{arriving: c.following.arriving} }

// follow makes p the leader, or continues with it in a new epoch.
func (c *Core) follow(p *peer, epoch uint32) {
	if s := c.status; c.follows() && s.Leader == p.id && s.LeaderGen == p.gen {
		s.Epoch = epoch
		c.setStatus(s)
	} else {
		c.leaveRole()
		c.following = following{
			arriving: c.following.arriving, heardAt: c.now, echoedAt: c.now,
			leaderTimeout: c.opt.ElectionTimeout + c.jitter(c.opt.ElectionTimeout/2),
		}
		c.setStatus(Status{Role: SyncingFollower, Epoch: epoch, Leader: p.id, LeaderGen: p.gen, Reason: "the leader synchronizes it"})
	}
	p.syncedHere = true
	c.lead.epoch, c.lead.marker = epoch, jute.MakeZxid(epoch, 0)
	c.following.heardAt, c.following.echoedAt = c.now, c.now
	c.vote.nonce, c.vote.joining, c.vote.promisedUntil = 0, 0, 0
	c.following.acked, c.following.target, c.following.snapToken = 0, 0, 0
}

// follows reports whether this server follows a leader.
func (c *Core) follows() bool {
	return c.status.Role == SyncingFollower || c.status.Role == Following
}

// isLeader reports whether p is the leader that this server follows.
func (c *Core) isLeader(p *peer) bool { return c.follows() && c.status.Leader == p.id }

// onSync handles MsgSync from a leader that was promised its epoch. It drops the entries
// that the leader's history lacks. That is safe because the leader has every entry that was
// or can be committed in any earlier epoch.
func (c *Core) onSync(p *peer, m *Message) {
	fresh := m.Nonce != 0 && m.Nonce == c.vote.nonce && m.Boot == c.opt.Boot && c.vote.nonceVersion == c.log.version
	fresh = fresh || staleSyncObeyed.Planted()
	if c.promise != (Promise{m.Epoch, p.id}) || !fresh || c.leads() || c.status.Role == Candidate {
		return
	}
	at := m.Zxid
	switch {
	case !c.log.tip.contains(at):
		c.event(Warn, p.id, fmt.Sprintf("asked to continue after %v, which this server does not have", at))
		c.vote.nonce = 0 // the next summary must not match the same answer
		return
	case at < c.log.committed:
		c.halt(fmt.Sprintf("the leader, server %d, has the history of this server only up to %v, but %v is committed: data was lost, here or there", p.id, at, c.log.committed))
		return
	}
	if e := c.log.entries.find(at); m.Flags&FlagCRC != 0 && e != nil && e.crc() != m.CRC {
		c.halt(fmt.Sprintf("entry %v differs from that of the leader, server %d", at, p.id))
		return
	}
	c.follow(p, m.Epoch)
	if m.Flags&FlagSnapshot != 0 {
		c.following.streaming = false
		c.stopServing()
		c.following.snapToken, c.following.snapFrom, c.following.common = m.Seq, c.now, at
		return
	}
	c.truncate(at)
	c.following.streaming = true
	c.following.ackSeq = c.pendingSeq()
	c.refresh()
	c.sendAck()
}

// truncate drops the entries after z, by a record in the log.
func (c *Core) truncate(z jute.Zxid) {
	if z == c.log.appended {
		return
	}
	c.event(Info, c.promise.To, fmt.Sprintf("dropped the entries after %v up to %v: they never were committed", z, c.log.appended))
	c.log.truncate(z)
	for i := range c.inFlight {
		c.inFlight[i].last = min(c.inFlight[i].last, z)
	}
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogTruncate, Upto: z})
}

// heardFrom records that the leader is alive.
func (c *Core) heardFrom() { c.following.heardAt = c.now }

// onAppend adds entries that directly follow this server's history.
func (c *Core) onAppend(p *peer, m *Message) {
	if m.Epoch < c.promise.Epoch && !c.isLeader(p) {
		c.refuseOld(p, m.Epoch)
		return
	}
	if !c.isLeader(p) || !c.following.streaming || m.Epoch != c.lead.epoch || c.promise.Epoch != m.Epoch {
		return
	}
	c.heardFrom()
	for i := range m.Entries {
		e := m.Entries[i]
		if e.Zxid <= c.log.appended && c.log.tip.contains(e.Zxid) {
			continue // sent twice
		}
		if err := c.acceptable(&e); err != nil {
			c.entriesLost(p, err.Error())
			return
		}
		c.append(e)
		if c.status.Role == Halted {
			return
		}
	}
	c.learnCommit(m.Commit)
	if ackBeforeFsync.Planted() {
		c.sendAck()
	}
	if len(c.log.control) > 0 {
		c.refresh()
	}
}

// acceptable checks an entry from the leader.
func (c *Core) acceptable(e *Entry) error {
	if appendWithoutPrev.Planted() && e.Prev != c.log.appended && e.Zxid > c.log.appended {
		e.Prev = c.log.appended
	}
	if e.Zxid.Epoch() > c.lead.epoch {
		return fmt.Errorf("entry %v is of a later epoch", e.Zxid)
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("entry %v: %w", e.Zxid, err)
	}
	return c.log.tip.follows(e)
}

// entriesLost handles the loss of entries that the leader sent.
func (c *Core) entriesLost(p *peer, why string) {
	c.events = append(c.events, Event{Level: Warn, Peer: p.id, Text: "entries were lost on the way: " + why, Lost: true})
	c.requestSync(p, why)
}

// requestSync asks the leader to synchronize this server again.
func (c *Core) requestSync(p *peer, why string) {
	c.event(Debug, p.id, "has to be synchronized again: "+why)
	c.following.streaming, c.following.snapToken = false, 0
	c.sendFollow(p)
}

// refuseOld tells a leader that its epoch is over.
func (c *Core) refuseOld(p *peer, epoch uint32) {
	c.post(p, Message{Kind: MsgNackEpoch, Epoch: epoch, Promise: c.promise.Epoch, Zxid: c.log.appended, Flags: c.selfFlags()})
}

func (c *Core) onCommit(p *peer, m *Message) {
	if !c.isLeader(p) || m.Epoch != c.lead.epoch {
		return
	}
	c.heardFrom()
	c.learnCommit(m.Commit)
	c.checkGap(p, m.Zxid)
}

// checkGap checks that this server has all entries up to sent. The message that carries
// sent must be ordered after the entries.
func (c *Core) checkGap(p *peer, sent jute.Zxid) {
	if c.following.streaming && sent > c.log.appended {
		c.entriesLost(p, fmt.Sprintf("%v was sent, and %v is the last here", sent, c.log.appended))
	}
}

// learnCommit updates the committed zxid from the leader's.
func (c *Core) learnCommit(z jute.Zxid) {
	if !c.following.streaming {
		return
	}
	if z >= c.lead.marker && c.following.target == 0 {
		c.following.target = z
	}
	if known := min(z, c.log.appended); known > c.log.committed && c.log.tip.contains(known) {
		if c.log.commit(known) {
			c.hintTo = c.log.committed
			c.refresh()
		}
	}
	c.checkFollowing()
}

// checkFollowing begins to serve clients when the marker is durable here and known to be
// committed, and the entries that the leader had committed by then are applied.
func (c *Core) checkFollowing() {
	if c.status.Role != SyncingFollower || !c.following.streaming || c.following.target == 0 ||
		c.following.acked < c.lead.marker || c.log.committed < c.lead.marker || c.log.applied < c.following.target {
		return
	}
	s := c.status
	s.Role, s.Reason = Following, "synchronized"
	c.setStatus(s)
}

// stopServing stops serving clients until checkFollowing: clients would miss the events and
// the ends of sessions that a snapshot skips.
func (c *Core) stopServing() {
	if c.status.Role == Following {
		s := c.status
		s.Role, s.Reason = SyncingFollower, "the leader sends a snapshot"
		c.setStatus(s)
	}
}

// sendAck tells the leader up to which zxid this server's history is durable.
func (c *Core) sendAck() {
	z := c.log.durable
	ready := c.following.streaming && c.persisted >= c.following.ackSeq
	if ackBeforeFsync.Planted() {
		z, ready = c.log.appended, c.following.streaming
	}
	p := c.linked(c.status.Leader)
	if !ready || p == nil || z <= c.following.acked {
		return
	}
	c.following.acked = z
	c.post(p, Message{Kind: MsgAck, Epoch: c.lead.epoch, Zxid: z, Flags: c.uncountedFlag()})
	c.checkFollowing()
}

// uncountedFlag returns FlagUncounted if the leader must not count on this server.
func (c *Core) uncountedFlag() uint16 {
	if c.selfCounted && c.selfCountedAt == 0 {
		return 0
	}
	return FlagUncounted
}

func (c *Core) onPing(p *peer, m *Message) {
	switch {
	case c.isLeader(p) && (m.Epoch == c.lead.epoch || m.Epoch == c.promise.Epoch):
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
	if m.Echo > c.following.echoedSeq {
		c.following.echoedSeq, c.following.echoedAt = min(m.Echo, c.following.pongSeq), c.now
	}
	c.following.beat = max(c.following.beat, m.Seq)
	c.extendLease(m)
	c.pong(p, m)
	if c.following.streaming && m.Epoch == c.lead.epoch {
		// Entries sent before the ping may still be on their way. Of the entries that have
		// arrived, those up to m.Commit are committed: while this server streams, the leader has
		// them too.
		c.learnCommit(m.Commit)
		if gapCheckByPing.Planted() {
			c.checkGap(p, m.Zxid)
		}
	}
}

// pong answers a heartbeat. It says that no higher epoch was promised, so it may be sent
// while MsgSync of that epoch is still on its way: a new leader must not give up because
// that takes long.
func (c *Core) pong(p *peer, m *Message) {
	c.following.pongSeq = c.stamp(c.following.pongSeq)
	pong := Message{Kind: MsgPong, Epoch: m.Epoch, Seq: c.following.pongSeq, Echo: m.Seq, Ms: uint32(min(c.diskMs, 1<<32-1))}
	if c.following.streaming && m.Epoch == c.lead.epoch {
		pong.Zxid, pong.Flags = c.following.acked, c.uncountedFlag() // an earlier acknowledgement may have been lost
	}
	if c.full {
		pong.Flags |= FlagFull
	}
	pong.Nonce, pong.Boot = c.position(), c.room
	c.post(p, pong)
}

// onRejoin asks the leader again for synchronization, or looks for another leader if this
// one has given up. It may arrive before the MsgSync that it cancels.
func (c *Core) onRejoin(p *peer, m *Message) {
	switch {
	case c.isLeader(p) && m.Epoch == c.lead.epoch && m.Leader == 0 && m.Promise > m.Epoch:
		c.look("the leader has handed over", c.opt.ElectionTimeout) // the successor asks for a promise
	case c.isLeader(p) && m.Epoch == c.lead.epoch && m.Leader == 0:
		c.look("the leader gave up", 0)
	case c.isLeader(p) && m.Epoch == c.lead.epoch:
		c.vote.nonce = 0
		c.requestSync(p, "the leader wants it")
	case c.status.Role == Looking && c.vote.joining == p.id && c.vote.joiningGen == p.gen && m.Leader != 0:
		c.vote.nonce = 0
		c.sendFollow(p)
	}
}

// tickLearner leaves a leader that is silent or does not hear this server.
func (c *Core) tickLearner() {
	p := c.linked(c.status.Leader)
	switch {
	case p == nil || c.now >= c.following.heardAt+c.following.leaderTimeout:
		c.look("no word from the leader", 0)
	case c.now >= c.following.echoedAt+c.following.leaderTimeout+c.opt.Heartbeat:
		c.look("the leader does not hear this server", 0)
	case c.following.streaming:
	case c.following.snapToken != 0:
		if c.now >= c.following.snapFrom+10*c.opt.InitLimit {
			c.requestSync(p, "no snapshot came")
		}
	case c.now >= c.vote.joinedAt+5*c.opt.Heartbeat:
		c.sendFollow(p)
	}
}

// WantsSnapshot returns the token of the awaited snapshot and the server that sends it, or
// 0. After 0 the same token may come back, for example when the leader has renewed its
// epoch.
func (c *Core) WantsSnapshot() (from SID, token uint64) {
	if !c.follows() || c.following.snapToken == 0 || c.promise != (Promise{c.lead.epoch, c.status.Leader}) {
		return 0, 0
	}
	return c.status.Leader, c.following.snapToken
}

// SnapshotReceived reports that the snapshot named by WantsSnapshot is complete, verified
// and durable in its file. It returns false if it is not the awaited one, or is useless.
func (c *Core) SnapshotReceived(from SID, token uint64, snap SnapInfo) bool {
	p := c.linked(from)
	if wants, t := c.WantsSnapshot(); p == nil || token == 0 || from != wants || token != t {
		return false
	}
	c.following.snapToken = 0
	if snap.Zxid < max(c.log.committed, c.following.common) || snap.Zxid != snap.State.Zxid {
		// The entries that the snapshot would drop may be committed, counting on this server,
		// even if they are not known to be.
		c.requestSync(p, fmt.Sprintf("the snapshot at %v is of no use: up to %v all is here", snap.Zxid, max(c.log.committed, c.following.common)))
		return false
	}
	c.event(Info, from, fmt.Sprintf("installs the snapshot at %v", snap.Zxid))
	c.log.replace(&snap)
	c.log.durable = c.log.handed
	for i := range c.inFlight {
		c.inFlight[i].last = c.log.handed
	}
	c.following.arriving = &snap
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogSnapshot, Upto: snap.Zxid, Snap: snap})
	c.following.streaming = true
	c.following.ackSeq = c.pendingSeq()
	c.refresh()
	return true
}
