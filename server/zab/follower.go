package zab

import (
	"fmt"
	"slices"

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
	snapFrom  uint64    // since when
	common    jute.Zxid // up to here the leader has this server's history
	arriving  *SnapInfo // becomes the history with the next batch
}

// earlySnapshot is one that came before the message that announces it: snapshots
// travel on streams of their own.
type earlySnapshot struct {
	token uint64
	snap  SnapInfo
}

// maxEarly is how many of these a peer keeps. One counts; but those that were sent
// before, and called off, may come behind it.
const maxEarly = 4

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
		if i := slices.IndexFunc(p.early, func(e earlySnapshot) bool { return e.token == m.Seq }); i >= 0 {
			c.SnapshotReceived(p.id, m.Seq, p.early[i].snap)
		}
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
			c.gap(p, err.Error())
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

// gap has the leader begin anew: something between was lost on the way.
func (c *Core) gap(p *peer, why string) {
	c.event(0, p.id, "has to be synchronized again: "+why)
	c.streaming = false
	c.sendFollow(p)
}

// refuseOld tells a leader whose epoch is over.
func (c *Core) refuseOld(p *peer, epoch uint32) {
	c.post(p, Message{Kind: MsgNackEpoch, Epoch: epoch, Promise: c.promise.Epoch, Zxid: c.appended, Flags: c.selfFlags()})
}

func (c *Core) onCommit(p *peer, m *Message) {
	if c.isLeader(p) && m.Epoch == c.epoch {
		c.heardFrom()
		c.learnCommit(m.Commit)
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
	default:
		if c.status.Role == Looking && p.id != c.opt.ID {
			c.join(p) // it leads
		}
		return
	}
	c.heardFrom()
	if m.Echo > c.echoedSeq {
		c.echoedSeq, c.echoedAt = min(m.Echo, c.pongSeq), c.now
	}
	c.beat = max(c.beat, m.Seq)
	c.leased(m)
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
	if c.streaming && m.Epoch == c.epoch {
		c.learnCommit(m.Commit)
		if m.Zxid > c.appended {
			c.gap(p, fmt.Sprintf("%v was sent, and %v is the last here", m.Zxid, c.appended))
		}
	}
}

// onRejoin begins anew with a leader, or looks for another if that has given up.
func (c *Core) onRejoin(p *peer, m *Message) {
	if !c.isLeader(p) || m.Epoch != c.epoch {
		return
	}
	if m.Leader == 0 {
		c.look("the leader gave up", 0)
		return
	}
	c.gap(p, "the leader wants it")
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
			c.snapFrom = c.now
			c.gap(p, "no snapshot came")
		}
	case c.now >= c.joinedAt+5*c.opt.Heartbeat:
		c.sendFollow(p)
	}
}

// SnapshotReceived tells that a snapshot from the leader is complete, verified
// and durable in its file. token came with it. The core decides whether it
// still wants it.
func (c *Core) SnapshotReceived(from SID, token uint64, snap SnapInfo) {
	p := c.linked(from)
	if p == nil {
		return // what would announce it was lost with the link
	}
	if !c.isLeader(p) || token == 0 || token != c.snapToken || c.promise != (Promise{c.epoch, from}) {
		p.early = append(p.early[max(0, len(p.early)-maxEarly+1):], earlySnapshot{token, snap})
		return
	}
	p.early = nil
	c.snapToken = 0
	if snap.Zxid < max(c.committed, c.common) || snap.Zxid != snap.State.Zxid {
		// Whether or not what would be dropped is known to be committed: it may be,
		// counting on this server.
		c.gap(p, fmt.Sprintf("the snapshot at %v is of no use: up to %v all is here", snap.Zxid, max(c.committed, c.common)))
		return
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
}
