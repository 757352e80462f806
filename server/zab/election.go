package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// election is the state of a server that looks for a leader. The server asks whether it
// would be promised an epoch (pre-vote, which binds no server), makes its promise to itself
// durable, and asks the others for theirs. With durable promises from a quorum it leads the
// epoch: two quorums share a server, and that server promised the epoch only once.
type election struct {
	round     uint64
	nextRound uint64 // when the next round may begin
	answersBy uint64 // when it may begin at the latest, although linked voters have not answered
	fairAt    uint64 // when the counting of rounds began
	waitUntil uint64 // in a fair round, until when a quorum waits for the answers of the others

	// joining is the leader to which MsgFollow was sent last.
	joining    SID
	joiningGen uint64
	joinedAt   uint64

	deadline uint64 // of a candidacy, or of a renewal
	failures int    // candidacies that failed since this server had a leader
	foundBy  uint64 // until then a new ensemble waits for all linked servers
	resendAt uint64
	transfer uint32 // the epoch whose leader chose this server as its successor

	// promisedUntil is the end of the time that another server has to become the leader of the
	// epoch that it was promised. Until then no third server gets a pre-vote, and this one does
	// not stand itself.
	promisedUntil uint64
	ackEpochDue   bool // to be sent when the promise is durable
	// nonce is the nonce of the newest summary, 0 for none. The two fields after it are the
	// history's version and the promise at that time.
	nonce        uint64
	nonceVersion uint64
	noncePromise Promise
	nonces       uint64
}

// fairRounds is the number of rounds in which the highest id wins among equal servers.
// Later every server may win, since a better server that can't be reached would block the
// election.
const fairRounds = 2

// look gives up the current role and looks for a leader, or becomes one. The first round
// begins after delay ms.
func (c *Core) look(reason string, delay uint64) {
	if c.status.Role != Looking && c.status.Role != Candidate {
		c.seekingFrom, c.reportedAwaits = c.now, ""
	}
	c.leaveRole()
	c.setStatus(Status{Role: Looking, Epoch: c.log.tip.Zxid.Epoch(), Reason: reason})
	c.vote.round, c.vote.fairAt, c.vote.joining = 0, c.now, 0
	for _, p := range c.peers {
		p.granted = false
	}
	c.vote.nextRound = c.now + delay
	if delay == 0 {
		c.startRound()
	}
}

// leaveRole ends the current role. It does not touch the log: the next leader decides about
// entries that are not committed.
func (c *Core) leaveRole() {
	switch c.status.Role {
	case SyncingLeader, Leading:
		c.vote.failures = 0
		c.leaveLeading()
	case SyncingFollower, Following:
		c.vote.failures = 0
		c.leaveFollowing()
	}
	c.failReads()
	c.vote.transfer = 0
	c.lead.renewing = false
}

// loseCandidacy ends a candidacy, and looks for a leader after a random time. Its range
// doubles with each failure: servers whose links are slow, or whose clocks tick rarely, would
// otherwise become candidates at the same time again and again.
func (c *Core) loseCandidacy(reason string) {
	c.vote.failures++
	c.look(reason, 1+c.jitter(min(c.opt.Heartbeat<<min(c.vote.failures-1, 8), c.opt.ElectionTimeout)))
}

// electable reports whether this server may become leader.
func (c *Core) electable() bool {
	return c.voter(c.opt.ID) && c.selfCounts() && !c.otherListMayDecide()
}

// startRound sends a pre-vote request to every peer.
func (c *Core) startRound() {
	c.vote.round++
	wait := c.opt.Heartbeat * min(1+c.vote.round/8, 10)
	c.vote.nextRound = c.now + wait + c.jitter(wait/2)
	c.vote.answersBy = c.now + c.opt.ElectionTimeout/2
	c.vote.waitUntil = c.now + c.opt.Heartbeat/5
	for _, p := range c.peers {
		p.granted, p.answered, p.yieldTo = false, false, false
		c.sendPrevote(p)
	}
	c.countPrevotes()
}

// prevoteNewPeer sends a pre-vote request to a newly linked server. If the fair rounds began long
// enough ago, it restarts them. Otherwise this server, which had no peer to ask, and the
// new one would become candidates at the same time.
func (c *Core) prevoteNewPeer(p *peer) {
	if c.now < c.vote.fairAt+c.opt.ElectionTimeout || !c.voter(p.id) {
		c.sendPrevote(p)
		return
	}
	c.vote.round, c.vote.fairAt = 0, c.now
	c.startRound()
}

func (c *Core) sendPrevote(p *peer) {
	m := Message{Kind: MsgPrevote, Epoch: c.nextEpoch(), Promise: c.promise.Epoch, Zxid: c.log.appended, Commit: c.log.committed, Seq: c.vote.round,
		Flags: c.selfFlags() | c.listedFlag(p)}
	if !c.electable() {
		m.Flags |= FlagAsking
	}
	c.post(p, m)
}

// listedFlag returns FlagListed if the uncommitted first marker lists the peer. The peer
// may then help to commit the marker although it has no data.
func (c *Core) listedFlag(p *peer) uint16 {
	if !c.log.settled.Seeded() && c.log.tip.Seeded() && c.log.admits(Admission{p.id, p.incarnation}) {
		return FlagListed
	}
	return 0
}

// tickLooking begins the next round when it is due. An answer counts only in its round, so on slow
// links a round lasts until the answers have come.
func (c *Core) tickLooking() {
	complete := c.now >= c.vote.answersBy || c.allAnswered()
	complete = complete || roundsCutShort.Planted()
	if complete && c.now >= c.vote.nextRound {
		c.startRound()
	} else {
		c.countPrevotes()
	}
}

// allAnswered reports whether each linked voter has answered in this round.
func (c *Core) allAnswered() bool {
	for _, p := range c.peers {
		if p.up && !p.refused && !p.answered && c.voter(p.id) {
			return false
		}
	}
	return true
}

// liveLeader returns this server if it leads, else the leader that it still hears, or 0.
func (c *Core) liveLeader() SID {
	switch c.status.Role {
	case SyncingLeader, Leading:
		return c.opt.ID
	case SyncingFollower, Following:
		if c.now < c.following.heardAt+c.opt.ElectionTimeout {
			return c.status.Leader
		}
	}
	return 0
}

// ranksAbove reports whether this server is a better leader than server id with the last zxid
// z, in the given round.
func (c *Core) ranksAbove(id SID, z jute.Zxid, round uint64) bool {
	return c.log.appended > z || c.log.appended == z && round <= fairRounds && c.opt.ID > id && c.electable()
}

// mayVote reports whether this server's vote for a candidate with the given flags would be
// valid. The candidate decides whether either of them is a voter: its history is the longer
// one, and may have a change of the members that this server does not know. Only if neither
// history has a list of members, both servers' files must have the same list.
func (c *Core) mayVote(p *peer, flags uint16) bool {
	switch {
	case flags&FlagAnchored == 0 && !c.agreed(p):
		return false
	case wipedVotes.Planted():
		return true
	case c.selfCounts():
		return c.log.tip.Seeded() || flags&(FlagSeeded|FlagListed) != FlagSeeded
	}
	return flags&FlagListed != 0 && !c.damaged && !c.log.tip.Seeded()
}

func (c *Core) onPrevote(p *peer, m *Message) {
	c.noteState(p, m)
	if c.promise.To == p.id && c.promise.Epoch <= m.Promise {
		c.vote.promisedUntil = 0 // the peer gave up
	}
	resp := Message{Kind: MsgPrevoteResp, Seq: m.Seq, Zxid: c.log.appended, Commit: c.log.committed, Promise: c.promise.Epoch, Flags: c.selfFlags()}
	if !c.voter(c.opt.ID) {
		resp.Promise = 0 // epochs of an observer do not matter
	}
	leader := c.liveLeader()
	if leader != 0 {
		resp.Leader, resp.Epoch = leader, c.status.Epoch
	} else if c.grants(p, m) {
		resp.Flags |= FlagGranted
	}
	c.post(p, resp)
	if leader == 0 && resp.Flags&FlagGranted == 0 && c.status.Role == Looking && c.electable() && !p.granted &&
		(c.ranksAbove(p.id, m.Zxid, m.Seq) || m.Flags&FlagAsking != 0) {
		c.sendPrevote(p) // the peer is looking now; it may have had a leader when it was asked
	}
}

func (c *Core) grants(p *peer, m *Message) bool {
	busy := c.status.Role == Candidate || c.awaitsPromised() && c.promise.To != p.id
	return m.Flags&FlagAsking == 0 && !busy && c.mayVote(p, m.Flags) && !c.ranksAbove(p.id, m.Zxid, m.Seq)
}

func (c *Core) onPrevoteResp(p *peer, m *Message) {
	c.noteState(p, m)
	if c.status.Role != Looking {
		return
	}
	p.answered = p.answered || m.Seq == c.vote.round
	if m.Leader != 0 && m.Leader != c.opt.ID {
		if l := c.linked(m.Leader); l != nil {
			p.granted, p.yieldTo = false, true
			c.join(l)
		}
		return
	}
	if m.Seq != c.vote.round {
		return
	}
	p.granted = m.Flags&FlagGranted != 0
	p.yieldTo = !p.granted && m.Flags&FlagCounts != 0 && c.voter(p.id) && (m.Zxid > c.log.appended || m.Zxid == c.log.appended && p.id > c.opt.ID)
	c.countPrevotes()
}

// yields reports whether to leave this round to a better server, or to a leader, because
// two concurrent candidates could split the promises. A linked server that hangs delays a
// round only briefly.
func (c *Core) yields() bool {
	if c.vote.round > fairRounds {
		return false
	}
	for _, p := range c.peers {
		if p.up && p.yieldTo {
			return true
		}
	}
	return c.now < c.vote.waitUntil && !c.allAnswered()
}

// awaitsPromised reports whether another server still has time to become the leader of the
// epoch that this one has promised it.
func (c *Core) awaitsPromised() bool { return c.now < c.vote.promisedUntil }

func (c *Core) countPrevotes() {
	awaited := c.awaitsPromised()
	awaited = awaited && !promisedStands.Planted()
	if c.status.Role != Looking || !c.electable() || c.yields() || c.awaitsUnheardVoter() || awaited {
		return
	}
	ok := c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return true
		}
		p := c.linked(id)
		return p != nil && p.granted && c.counts(p)
	})
	if ok {
		c.campaign(0)
	}
}

// nextEpoch returns an epoch above all epochs known to be promised.
func (c *Core) nextEpoch() uint32 {
	e := max(c.promise.Epoch, c.log.appended.Epoch())
	for _, p := range c.peers {
		if c.voter(p.id) {
			e = max(e, p.promise)
		}
	}
	if epochReusedAfterRestart.Planted() && !c.ran && c.promise.To == c.opt.ID && e == c.promise.Epoch {
		return e
	}
	return e + 1
}

// campaign makes this server a candidate: when its own promise is durable, it asks for the
// others'. transfer is the epoch of the leader that requested it, or 0.
func (c *Core) campaign(transfer uint32) {
	e := c.nextEpoch()
	if e > maxEpoch {
		c.event(Error, 0, fmt.Sprintf("no epochs are left: the highest is %d", e-1))
		return
	}
	c.leaveRole()
	c.vote.transfer = transfer
	c.setStatus(Status{Role: Candidate, Epoch: e, Reason: "a quorum would accept it"})
	c.askPromises(e)
}

// askPromises promises an epoch to this server. When that is durable, the server asks the
// others.
func (c *Core) askPromises(e uint32) {
	c.ran = true
	for _, p := range c.peers {
		p.promised, p.nacked = false, false
	}
	c.vote.deadline = c.now + c.opt.ElectionTimeout
	c.vote.foundBy = c.now + c.opt.Heartbeat
	c.vote.promisedUntil = 0
	c.setPromise(Promise{e, c.opt.ID})
	if newEpochBeforeFsync.Planted() {
		c.sendNewEpochs()
	}
}

// setPromise promises an epoch. The promise holds in memory at once; it is sent to others
// when it is durable.
func (c *Core) setPromise(to Promise) {
	c.promise = to
	c.vote.ackEpochDue = false
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogPromise, Promise: to})
	c.promiseSeq = c.pendingSeq()
}

// asking reports whether this server is asking for promises.
func (c *Core) asking() bool {
	return (c.status.Role == Candidate || c.lead.renewing) && c.promise.To == c.opt.ID
}

// promiseDurable continues the steps that waited for the promise to be durable.
func (c *Core) promiseDurable() {
	if c.asking() {
		c.sendNewEpochs()
		c.countPromises()
	}
	if c.vote.ackEpochDue {
		c.sendAckEpoch()
	}
}

func (c *Core) sendNewEpochs() {
	c.vote.resendAt = c.now + c.opt.Heartbeat
	for _, p := range c.peers {
		if !p.promised {
			c.sendNewEpoch(p)
		}
	}
}

func (c *Core) sendNewEpoch(p *peer) {
	unsynced := c.persisted < c.promiseSeq
	unsynced = unsynced && !newEpochBeforeFsync.Planted()
	if unsynced || !c.voter(p.id) {
		return
	}
	m := Message{Kind: MsgNewEpoch, Epoch: c.promise.Epoch, Zxid: c.log.appended, Flags: c.selfFlags() | c.listedFlag(p)}
	switch {
	case c.vote.transfer != 0:
		m.Flags |= FlagTransfer
		m.Promise = c.vote.transfer
	case c.lead.renewing:
		m.Promise = c.lead.since
	}
	c.post(p, m)
}

func (c *Core) tickCandidate() {
	switch {
	case c.now >= c.vote.deadline:
		c.loseCandidacy("a quorum did not promise in time")
	case c.now >= c.vote.resendAt:
		c.sendNewEpochs() // before it leads: its log then has the epoch's marker, and an epoch is offered with one history
		c.countPromises()
	}
}

// awaitsFounders reports whether to wait a moment for more promises although there is already a
// quorum: a server that takes part in founding an ensemble need not be admitted later.
func (c *Core) awaitsFounders() bool {
	if c.log.tip.Seeded() || c.now >= c.vote.foundBy {
		return false
	}
	for _, p := range c.peers {
		if p.up && !p.refused && c.voter(p.id) && !p.promised && !p.nacked {
			return true
		}
	}
	return false
}

func (c *Core) onNewEpoch(p *peer, m *Message) {
	if refusal := c.refuses(p, m); refusal {
		c.post(p, Message{Kind: MsgNackEpoch, Epoch: m.Epoch, Promise: c.promise.Epoch, Zxid: c.log.appended, Flags: c.selfFlags()})
		return
	}
	wanted := Promise{m.Epoch, p.id}
	if c.promise == wanted {
		if !(c.isLeader(p) && c.following.streaming && c.lead.epoch == m.Epoch) {
			c.vote.ackEpochDue = true
			c.sendAckEpoch()
		}
		return
	}
	c.setPromise(wanted)
	switch {
	case c.isLeader(p) && leadsSince(m, c.status.Epoch):
		c.following.streaming = false // until the peer synchronizes this server in its new epoch
		c.vote.joinedAt = c.now
	case c.status.Role != Looking:
		c.look(fmt.Sprintf("server %d leads epoch %d", p.id, m.Epoch), c.opt.ElectionTimeout)
	}
	c.vote.nonce = 0
	c.vote.nextRound = max(c.vote.nextRound, c.now+c.opt.Heartbeat)
	c.vote.promisedUntil = c.now + c.opt.ElectionTimeout
	c.vote.ackEpochDue = true
	c.sendAckEpoch()
}

// leadsSince reports whether the sender of a MsgNewEpoch has led continuously since epoch
// and only renews. It then knows all that was sent to it in that epoch.
func leadsSince(m *Message, epoch uint32) bool {
	return m.Flags&FlagTransfer == 0 && 0 < m.Promise && m.Promise <= epoch
}

// refuses reports whether a promise must not, or should not, be given.
func (c *Core) refuses(p *peer, m *Message) bool {
	established := m.Flags&FlagEstablished != 0
	transfer := m.Flags&FlagTransfer != 0 && m.Promise == c.status.Epoch && c.status.Role >= SyncingLeader
	leader := c.liveLeader()
	repointed := m.Epoch == c.promise.Epoch && c.promise.To != p.id && !established
	repointed = repointed && !promiseRepointed.Planted()
	behind := m.Zxid < c.log.appended
	behind = behind && !promiseWithoutHistory.Planted()
	switch {
	case repointed || behind:
		return true
	case m.Epoch < c.promise.Epoch || m.Epoch > maxEpoch || m.Epoch <= c.log.appended.Epoch() && !established:
		return true
	case leader != 0 && leader != p.id && !transfer:
		return true
	}
	return !established && !c.mayVote(p, m.Flags)
}

// sendAckEpoch acknowledges the promise to the server that it was made to, once it is
// durable.
func (c *Core) sendAckEpoch() {
	unsynced := c.persisted < c.promiseSeq
	unsynced = unsynced && !ackEpochBeforeFsync.Planted()
	if unsynced {
		return
	}
	c.vote.ackEpochDue = false
	p := c.linked(c.promise.To)
	if p == nil {
		return
	}
	m := c.summarize(MsgAckEpoch)
	m.Epoch = c.promise.Epoch
	c.post(p, m)
}

// summarize returns a message with the summary of the history. The leader's answer must
// repeat the nonce. It is obeyed once, and only if the history has not changed: a late
// answer would cut off entries acknowledged since. A repeated summary keeps its nonce, so
// that an answer already on its way still counts.
func (c *Core) summarize(kind MessageKind) Message {
	changed := c.vote.nonce == 0 || c.vote.nonceVersion != c.log.version || c.vote.noncePromise != c.promise
	changed = changed || followRestarts.Planted()
	if changed {
		c.vote.nonces++
		c.vote.nonce, c.vote.nonceVersion, c.vote.noncePromise = c.vote.nonces, c.log.version, c.promise
	}
	return Message{
		Kind: kind, Promise: c.promise.Epoch, Leader: c.promise.To, Flags: c.selfFlags(),
		Zxid: c.log.appended, Commit: c.log.committed, Epochs: append([]EpochEnd(nil), c.log.tip.Epochs...),
		Boot: c.opt.Boot, Nonce: c.vote.nonce,
	}
}

// join asks an established leader for synchronization.
func (c *Core) join(p *peer) {
	if c.vote.joining == p.id && c.vote.joiningGen == p.gen && c.now < c.vote.joinedAt+5*c.opt.Heartbeat {
		return // the leader has not had time to answer
	}
	c.sendFollow(p)
}

func (c *Core) sendFollow(p *peer) {
	c.vote.joining, c.vote.joiningGen, c.vote.joinedAt = p.id, p.gen, c.now
	c.post(p, c.summarize(MsgFollow))
}

func (c *Core) onAckEpoch(p *peer, m *Message) {
	c.noteState(p, m)
	switch {
	case c.asking() && m.Epoch == c.promise.Epoch:
		synced := c.persisted >= c.promiseSeq
		synced = synced || newEpochBeforeFsync.Planted()
		if synced {
			p.promised = true
			if !p.summary.stale(m) {
				p.summary = summaryOf(m)
			}
			c.countPromises()
		}
	case c.leads() && m.Epoch == c.lead.epoch:
		c.answerSummary(p, m)
	}
}

func (c *Core) onNackEpoch(p *peer, m *Message) {
	p.promise = max(p.promise, m.Promise)
	switch {
	case c.asking() && m.Epoch == c.promise.Epoch:
		p.nacked = true
		c.countPromises()
		c.checkCandidacy()
	case c.leads() && m.Promise > c.promise.Epoch:
		c.onHigherEpoch(p, m.Promise)
		c.onHigherPromise(p)
	}
}

// checkCandidacy ends a candidacy at once when a quorum can no longer promise the epoch.
func (c *Core) checkCandidacy() {
	if c.status.Role == Candidate && !c.quorum(func(id SID) bool {
		p := c.linked(id)
		return id == c.opt.ID || p != nil && !p.nacked && !p.refused
	}) {
		c.loseCandidacy("a quorum does not promise")
	}
}

// countPromises makes this server the leader of the epoch when a quorum's promises are
// durable.
func (c *Core) countPromises() {
	unsynced := c.persisted < c.promiseSeq
	unsynced = unsynced && !newEpochBeforeFsync.Planted()
	if unsynced {
		return
	}
	ok := c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return c.selfCounts()
		}
		p := c.linked(id)
		return p != nil && p.promised && c.counts(p)
	})
	if ok && c.awaitsFounders() {
		return
	}
	ok = ok || renewalWithoutQuorum.Planted() && c.lead.renewing
	if ok {
		c.establish()
	}
}
