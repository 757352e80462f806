package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// election is how a server without a leader gets one. It asks whether it would
// be promised an epoch (pre-vote, which binds nobody), makes the promise to
// itself durable, and asks for the others'. With a quorum of durable promises it
// is the epoch's leader: two quorums share a server, and that promised the epoch
// to one only.
type election struct {
	round     uint64
	nextRound uint64 // when it begins
	fairAt    uint64 // since when rounds are counted
	waitUntil uint64 // in a fair round, for the answers of all that are linked
	outdone   bool   // a better server has answered in this round, or a leader is alive

	// joining is the leader that was asked with MsgFollow last.
	joining    SID
	joiningGen uint64
	joinedAt   uint64

	deadline uint64 // of a candidate, or of a renewal
	foundBy  uint64 // until then a new ensemble waits for all that are linked
	resendAt uint64
	transfer uint32 // the epoch whose leader made this server its successor

	// promisedUntil is how long the server that was promised an epoch is given to
	// become its leader, before others get a pre-vote.
	promisedUntil uint64
	ackEpochDue   bool // when the promise is durable
	// nonce is the newest summary's, 0 for none; the history and the promise were these
	// then.
	nonce        uint64
	nonceVersion uint64
	noncePromise Promise
	nonces       uint64
}

// fairRounds is for how many rounds the highest id wins among equals. Later
// everybody may, or a better server that is out of reach would be in the way.
const fairRounds = 2

// look gives up what the server is, and looks for a leader, or becomes one. The
// first round begins after a delay.
func (c *Core) look(reason string, delay uint64) {
	c.leave()
	c.setStatus(Status{Role: Looking, Epoch: c.tip.Zxid.Epoch(), Reason: reason})
	c.round, c.fairAt, c.joining = 0, c.now, 0
	for _, p := range c.peers {
		p.granted = false
	}
	c.nextRound = c.now + delay
	if delay == 0 {
		c.startRound()
	}
}

// leave ends whatever the role was. Nothing is cleaned up in the log: what is
// not committed is for the next leader to decide.
func (c *Core) leave() {
	switch c.status.Role {
	case SyncingLeader, Leading:
		c.leaveLeading()
	case SyncingFollower, Following:
		c.leaveFollowing()
	}
	c.failReads()
	c.transfer = 0
	c.renewing = false
}

// electable reports whether this server may become leader.
func (c *Core) electable() bool {
	return c.voter(c.opt.ID) && c.selfCounts() && !c.contested()
}

// startRound asks everybody.
func (c *Core) startRound() {
	c.round++
	wait := c.opt.Heartbeat * min(1+c.round/8, 10)
	c.nextRound = c.now + wait + c.jitter(wait/2)
	c.waitUntil = c.now + c.opt.Heartbeat/5
	c.outdone = false
	for _, p := range c.peers {
		p.granted, p.answered = false, false
		c.sendPrevote(p)
	}
	c.countPrevotes()
}

// meet asks a server that has just been linked. If rounds have not been fair for
// a while they begin anew: or this server, which had nobody to ask, and the other
// one would become candidates at the same time.
func (c *Core) meet(p *peer) {
	if c.now < c.fairAt+c.opt.ElectionTimeout || !c.voter(p.id) {
		c.sendPrevote(p)
		return
	}
	c.round, c.fairAt = 0, c.now
	c.startRound()
}

func (c *Core) sendPrevote(p *peer) {
	m := Message{Kind: MsgPrevote, Epoch: c.nextEpoch(), Promise: c.promise.Epoch, Zxid: c.appended, Commit: c.committed, Seq: c.round,
		Flags: c.selfFlags() | c.listedFlag(p)}
	if !c.electable() {
		m.Flags |= FlagAsking
	}
	c.post(p, m)
}

// listedFlag tells a server that the first marker, not committed yet, lists it:
// it may help to commit that although it has no data itself.
func (c *Core) listedFlag(p *peer) uint16 {
	if !c.settled.Seeded() && c.tip.Seeded() && c.admits(Admission{p.id, p.incarnation}) {
		return FlagListed
	}
	return 0
}

func (c *Core) tickLooking() {
	if c.now >= c.nextRound {
		c.startRound()
	} else {
		c.countPrevotes()
	}
}

// liveLeader returns the leader that this server leads as or hears of, or 0.
func (c *Core) liveLeader() SID {
	switch c.status.Role {
	case SyncingLeader, Leading:
		return c.opt.ID
	case SyncingFollower, Following:
		if c.now < c.heardAt+c.opt.ElectionTimeout {
			return c.status.Leader
		}
	}
	return 0
}

// better reports whether this server should rather lead than one with the last
// zxid z, in a round.
func (c *Core) better(id SID, z jute.Zxid, round uint64) bool {
	return c.appended > z || c.appended == z && round <= fairRounds && c.opt.ID > id && c.electable()
}

// mayVote reports whether this server's vote for a candidate, with the flags
// that it showed, would mean anything. Whether either of them is a voter is for
// the candidate to say: its history is the longer one, and may have a change of
// the members that this server does not know of. Only where neither history has a
// list of members, the files of both must have the same.
func (c *Core) mayVote(p *peer, flags uint16) bool {
	switch {
	case flags&FlagAnchored == 0 && !c.agreed(p):
		return false
	case mutated(wipedVotes) || c.selfCounts():
		return c.tip.Seeded() || flags&(FlagSeeded|FlagListed) != FlagSeeded || mutated(wipedVotes)
	}
	return flags&FlagListed != 0 && !c.damaged && !c.tip.Seeded()
}

func (c *Core) onPrevote(p *peer, m *Message) {
	c.note(p, m)
	if c.promise.To == p.id {
		c.promisedUntil = 0 // it gave up
	}
	resp := Message{Kind: MsgPrevoteResp, Seq: m.Seq, Zxid: c.appended, Commit: c.committed, Promise: c.promise.Epoch, Flags: c.selfFlags()}
	if !c.voter(c.opt.ID) {
		resp.Promise = 0 // the epochs of an observer are of no interest
	}
	leader := c.liveLeader()
	if leader != 0 {
		resp.Leader, resp.Epoch = leader, c.status.Epoch
	} else if c.grants(p, m) {
		resp.Flags |= FlagGranted
	}
	c.post(p, resp)
	if leader == 0 && resp.Flags&FlagGranted == 0 && c.status.Role == Looking && c.electable() && !p.granted &&
		(c.better(p.id, m.Zxid, m.Seq) || m.Flags&FlagAsking != 0) {
		c.sendPrevote(p) // it is looking now, and had perhaps a leader when it was asked
	}
}

func (c *Core) grants(p *peer, m *Message) bool {
	busy := c.status.Role == Candidate || c.now < c.promisedUntil && c.promise.To != p.id
	return m.Flags&FlagAsking == 0 && !busy && c.mayVote(p, m.Flags) && !c.better(p.id, m.Zxid, m.Seq)
}

func (c *Core) onPrevoteResp(p *peer, m *Message) {
	c.note(p, m)
	if c.status.Role != Looking {
		return
	}
	if m.Leader != 0 && m.Leader != c.opt.ID {
		if l := c.linked(m.Leader); l != nil {
			c.outdone = true
			c.join(l)
		}
		return
	}
	if m.Seq != c.round {
		return
	}
	p.answered = true
	p.granted = m.Flags&FlagGranted != 0
	if !p.granted && m.Flags&FlagCounts != 0 && c.voter(p.id) && (m.Zxid > c.appended || m.Zxid == c.appended && p.id > c.opt.ID) {
		c.outdone = true
	}
	c.countPrevotes()
}

// yields reports whether to leave this round to a better server, or to a leader:
// two candidates at a time could split the promises. A server that is linked but
// hangs is waited for only a moment.
func (c *Core) yields() bool {
	if c.round > fairRounds || c.outdone {
		return c.round <= fairRounds
	}
	for _, p := range c.peers {
		if p.up && !p.refused && !p.answered && c.voter(p.id) {
			return c.now < c.waitUntil
		}
	}
	return false
}

func (c *Core) countPrevotes() {
	if c.status.Role != Looking || !c.electable() || c.yields() || c.early() {
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

// nextEpoch is above all epochs that were ever promised, as far as is known.
func (c *Core) nextEpoch() uint32 {
	e := max(c.promise.Epoch, c.appended.Epoch())
	for _, p := range c.peers {
		if c.voter(p.id) {
			e = max(e, p.promise)
		}
	}
	if mutated(epochReusedAfterRestart) && !c.ran && c.promise.To == c.opt.ID && e == c.promise.Epoch {
		return e
	}
	return e + 1
}

// campaign makes this server a candidate: with its own promise durable it asks
// for the others'. transfer is the epoch of the leader that wants it so, or 0.
func (c *Core) campaign(transfer uint32) {
	e := c.nextEpoch()
	if e > maxEpoch {
		c.event(3, 0, fmt.Sprintf("no epochs are left: the highest is %d", e-1))
		return
	}
	c.leave()
	c.transfer = transfer
	c.setStatus(Status{Role: Candidate, Epoch: e, Reason: "a quorum would accept it"})
	c.askPromises(e)
}

// askPromises promises an epoch to this server itself, which when durable is
// followed by asking the others.
func (c *Core) askPromises(e uint32) {
	c.ran = true
	for _, p := range c.peers {
		p.promised, p.nacked = false, false
	}
	c.deadline = c.now + c.opt.ElectionTimeout
	c.foundBy = c.now + c.opt.Heartbeat
	c.setPromise(Promise{e, c.opt.ID})
	if mutated(newEpochBeforeFsync) {
		c.sendNewEpochs()
	}
}

// setPromise promises an epoch. It holds in memory at once; others hear of it
// when it is durable.
func (c *Core) setPromise(to Promise) {
	c.promise = to
	c.ackEpochDue = false
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogPromise, Promise: to})
	c.promiseSeq = c.pendingSeq()
}

// asking reports whether this server asks for promises now.
func (c *Core) asking() bool {
	return (c.status.Role == Candidate || c.renewing) && c.promise.To == c.opt.ID
}

// promiseDurable goes on with what had to wait for that.
func (c *Core) promiseDurable() {
	if c.asking() {
		c.sendNewEpochs()
		c.countPromises()
	}
	if c.ackEpochDue {
		c.sendAckEpoch()
	}
}

func (c *Core) sendNewEpochs() {
	c.resendAt = c.now + c.opt.Heartbeat
	for _, p := range c.peers {
		if !p.promised {
			c.sendNewEpoch(p)
		}
	}
}

func (c *Core) sendNewEpoch(p *peer) {
	if !c.voter(p.id) || c.persisted < c.promiseSeq && !mutated(newEpochBeforeFsync) {
		return
	}
	m := Message{Kind: MsgNewEpoch, Epoch: c.promise.Epoch, Zxid: c.appended, Flags: c.selfFlags() | c.listedFlag(p)}
	switch {
	case c.transfer != 0:
		m.Flags |= FlagTransfer
		m.Promise = c.transfer
	case c.renewing:
		m.Promise = c.since
	}
	c.post(p, m)
}

func (c *Core) tickCandidate() {
	switch {
	case c.now >= c.deadline:
		c.look("a quorum did not promise in time", 1+c.jitter(c.opt.Heartbeat))
	case c.now >= c.resendAt:
		c.countPromises()
		c.sendNewEpochs()
	}
}

// founding reports whether to wait a moment more for promises although there is
// a quorum: who founds an ensemble need not be admitted later.
func (c *Core) founding() bool {
	if c.tip.Seeded() || c.now >= c.foundBy {
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
		c.post(p, Message{Kind: MsgNackEpoch, Epoch: m.Epoch, Promise: c.promise.Epoch, Zxid: c.appended, Flags: c.selfFlags()})
		return
	}
	wanted := Promise{m.Epoch, p.id}
	if c.promise == wanted {
		if !(c.isLeader(p) && c.streaming && c.epoch == m.Epoch) {
			c.ackEpochDue = true
			c.sendAckEpoch()
		}
		return
	}
	switch {
	case c.isLeader(p) && leadsSince(m, c.status.Epoch):
		c.streaming = false // until it synchronizes us in its new epoch
		c.joinedAt = c.now
	case c.status.Role != Looking:
		c.look(fmt.Sprintf("server %d leads epoch %d", p.id, m.Epoch), c.opt.ElectionTimeout)
	}
	c.nonce = 0
	c.nextRound = max(c.nextRound, c.now+c.opt.Heartbeat)
	c.promisedUntil = c.now + c.opt.ElectionTimeout
	c.setPromise(wanted)
	c.ackEpochDue = true
	c.sendAckEpoch()
}

// leadsSince reports whether the sender of a MsgNewEpoch has led all the time since an
// epoch, and only renews: what it was sent in that epoch it knows of.
func leadsSince(m *Message, epoch uint32) bool {
	return m.Flags&FlagTransfer == 0 && 0 < m.Promise && m.Promise <= epoch
}

// refuses reports whether a promise must not, or should not, be given.
func (c *Core) refuses(p *peer, m *Message) bool {
	established := m.Flags&FlagEstablished != 0
	transfer := m.Flags&FlagTransfer != 0 && m.Promise == c.status.Epoch && c.status.Role >= SyncingLeader
	leader := c.liveLeader()
	switch {
	case m.Epoch < c.promise.Epoch || m.Epoch > maxEpoch || m.Epoch <= c.appended.Epoch() && !established:
		return true
	case m.Epoch == c.promise.Epoch && c.promise.To != p.id && !established && !mutated(promiseRepointed):
		return true
	case m.Zxid < c.appended && !mutated(promiseWithoutHistory):
		return true
	case leader != 0 && leader != p.id && !transfer:
		return true
	}
	return !established && !c.mayVote(p, m.Flags)
}

// sendAckEpoch tells the server that was promised the epoch, if that is durable.
func (c *Core) sendAckEpoch() {
	if c.persisted < c.promiseSeq && !mutated(ackEpochBeforeFsync) {
		return
	}
	c.ackEpochDue = false
	p := c.linked(c.promise.To)
	if p == nil {
		return
	}
	m := c.summarize(MsgAckEpoch)
	m.Epoch = c.promise.Epoch
	c.post(p, m)
}

// summarize makes a message with the summary of the history. The leader's answer
// must repeat its nonce, and is obeyed once, if the history is still the same:
// a late one would cut off what was acknowledged since. A summary that is repeated
// keeps its nonce, so that an answer which is on its way still counts.
func (c *Core) summarize(kind MessageKind) Message {
	if c.nonce == 0 || c.nonceVersion != c.version || c.noncePromise != c.promise || mutated(followRestarts) {
		c.nonces++
		c.nonce, c.nonceVersion, c.noncePromise = c.nonces, c.version, c.promise
	}
	return Message{
		Kind: kind, Promise: c.promise.Epoch, Leader: c.promise.To, Flags: c.selfFlags(),
		Zxid: c.appended, Commit: c.committed, Epochs: append([]EpochEnd(nil), c.tip.Epochs...),
		Boot: c.opt.Boot, Nonce: c.nonce,
	}
}

// join asks an established leader to be synchronized.
func (c *Core) join(p *peer) {
	if c.joining == p.id && c.joiningGen == p.gen && c.now < c.joinedAt+5*c.opt.Heartbeat {
		return // it has not had the time to answer
	}
	c.sendFollow(p)
}

func (c *Core) sendFollow(p *peer) {
	c.joining, c.joiningGen, c.joinedAt = p.id, p.gen, c.now
	c.post(p, c.summarize(MsgFollow))
}

func (c *Core) onAckEpoch(p *peer, m *Message) {
	c.note(p, m)
	switch {
	case c.asking() && m.Epoch == c.promise.Epoch:
		if c.persisted >= c.promiseSeq || mutated(newEpochBeforeFsync) {
			p.promised = true
			if !p.summary.stale(m) {
				p.summary = summaryOf(m)
			}
			c.countPromises()
		}
	case c.leads() && m.Epoch == c.epoch:
		c.attend(p, m)
	}
}

func (c *Core) onNackEpoch(p *peer, m *Message) {
	p.promise = max(p.promise, m.Promise)
	switch {
	case c.asking() && m.Epoch == c.promise.Epoch:
		p.nacked = true
		c.countPromises()
		c.checkHopes()
	case c.leads() && m.Promise > c.promise.Epoch:
		c.hearOf(p, m.Promise)
		c.strayed(p)
	}
}

// checkHopes has a candidate give up at once that can't be promised the epoch by
// a quorum any more.
func (c *Core) checkHopes() {
	if c.status.Role == Candidate && !c.quorum(func(id SID) bool {
		p := c.linked(id)
		return id == c.opt.ID || p != nil && !p.nacked && !p.refused
	}) {
		c.look("a quorum does not promise", 1+c.jitter(c.opt.Heartbeat))
	}
}

// countPromises makes this server the leader of the epoch, with a quorum of
// durable promises.
func (c *Core) countPromises() {
	if c.persisted < c.promiseSeq && !mutated(newEpochBeforeFsync) {
		return
	}
	ok := c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return c.selfCounts()
		}
		p := c.linked(id)
		return p != nil && p.promised && c.counts(p)
	})
	if ok && c.founding() {
		return
	}
	if ok || c.renewing && mutated(renewalWithoutQuorum) {
		c.establish()
	}
}
