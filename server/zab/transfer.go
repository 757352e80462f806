package zab

import "fmt"

// Transfer makes a leader hand over to the best prepared learner, before it stops for
// maintenance. It accepts no more proposals. Without such a learner nothing changes. The
// transfer is done when the role changes.
func (c *Core) Transfer() { c.handOver("asked to", 0) }

// TransferTo is like Transfer to a certain server, and to no other one. It returns an error if
// nothing changes.
func (c *Core) TransferTo(id SID) error {
	switch {
	case !c.proposing():
		return ErrNotLeading
	case !c.prepared(c.linked(id)):
		return ErrNotPrepared
	}
	c.handOver(fmt.Sprintf("asked to, to server %d", id), id)
	return nil
}

// handOver begins to hand over: when the successor has everything, it is told to take over
// at once, and the others promise it an epoch although they still hear this leader. to is
// the only possible successor, or 0.
func (c *Core) handOver(why string, to SID) {
	if c.status.Role != Leading || c.lead.handingOver || c.lead.renewing || c.bestSuccessor(to) == nil {
		return
	}
	c.event(Info, 0, "hands over: "+why)
	c.lead.handingOver, c.lead.handTo, c.lead.successor = true, to, 0
	c.lead.handDeadline = c.now + c.opt.ElectionTimeout
	for _, p := range c.peers {
		p.timeoutNowSent = false
	}
	c.tryHandOver()
}

// prepared reports whether a peer can take over: it is a healthy voter with the history of this
// leader.
func (c *Core) prepared(p *peer) bool {
	return p != nil && p.up && p.synced && p.state == learnerStream && p.diskMs < c.opt.DiskStall && !p.full &&
		c.now < p.echoedAt+3*c.opt.Heartbeat && c.members().Voter(p.id) && c.reliesOn(p)
}

// bestSuccessor returns the server to, unless that is 0, or the prepared one that lags least;
// among equals it prefers one that has not been told in vain.
func (c *Core) bestSuccessor(to SID) (best *peer) {
	for _, p := range c.peers {
		if (to == 0 || p.id == to) && c.prepared(p) && (best == nil || p.match > best.match || p.match == best.match && best.timeoutNowSent && !p.timeoutNowSent) {
			best = p
		}
	}
	return best
}

func (c *Core) tryHandOver() {
	if c.lead.successor != 0 && c.now < c.lead.timeoutNowAt+3*c.opt.Heartbeat {
		return // the successor is taking over
	}
	p := c.bestSuccessor(c.lead.handTo)
	complete := p != nil && p.match >= c.log.appended
	complete = complete || transferWithoutAck.Planted() && p != nil
	if !complete {
		return
	}
	c.lead.successor, c.lead.timeoutNowAt, p.timeoutNowSent = p.id, c.now, true
	c.post(p, Message{Kind: MsgTimeoutNow, Epoch: c.lead.epoch, Zxid: p.match, Commit: c.log.committed})
}

// successorLost chooses another successor: the link to the server that was told to take
// over is gone, and the message may not have arrived.
func (c *Core) successorLost() {
	c.lead.successor = 0
	c.tryHandOver()
}

// handOverIfNoVoter makes a leader leave that the members no longer list as a voter: as
// soon as that is committed, or when another server can take over.
func (c *Core) handOverIfNoVoter() {
	if !c.voter(c.opt.ID) {
		c.handOver("this server is no voter any more", 0)
	}
}

func (c *Core) tickHandOver() {
	c.handOverIfNoVoter()
	if !c.lead.handingOver {
		return
	}
	if c.now < c.lead.handDeadline {
		c.tryHandOver()
		return
	}
	c.lead.handingOver, c.lead.successor = false, 0
	c.event(Warn, 0, "could not hand over in time")
	if !c.members().Voter(c.opt.ID) {
		c.look("this server is no voter any more", 1)
	}
}

// onTimeoutNow takes over from the leader.
func (c *Core) onTimeoutNow(p *peer, m *Message) {
	if !c.isLeader(p) || m.Epoch != c.lead.epoch || c.promise != (Promise{m.Epoch, p.id}) || !c.electable() ||
		c.log.appended != m.Zxid {
		return
	}
	c.campaign(m.Epoch)
}
