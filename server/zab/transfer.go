package zab

// Transfer makes a leader hand over to the best prepared learner, before it stops for
// maintenance. It accepts no more proposals. Without such a learner nothing changes. The
// transfer is done when the role changes.
func (c *Core) Transfer() { c.handOver("asked to") }

// handOver begins to hand over: when the successor has everything, it is told to take over
// at once, and the others promise it an epoch although they still hear this leader.
func (c *Core) handOver(why string) {
	if c.status.Role != Leading || c.handingOver || c.renewing || c.bestSuccessor() == nil {
		return
	}
	c.event(1, 0, "hands over: "+why)
	c.handingOver, c.successor = true, 0
	c.handDeadline = c.now + c.opt.ElectionTimeout
	for _, p := range c.peers {
		p.timeoutNowSent = false
	}
	c.tryHandOver()
}

// bestSuccessor returns the healthy voter that lags least; among equals it prefers one that
// has not been told in vain.
func (c *Core) bestSuccessor() (best *peer) {
	for _, p := range c.peers {
		well := p.up && p.synced && p.state == learnerStream && p.diskMs < c.opt.DiskStall && !p.full &&
			c.now < p.echoedAt+3*c.opt.Heartbeat && c.members().Voter(p.id) && c.reliesOn(p)
		if well && (best == nil || p.match > best.match || p.match == best.match && best.timeoutNowSent && !p.timeoutNowSent) {
			best = p
		}
	}
	return best
}

func (c *Core) tryHandOver() {
	if c.successor != 0 && c.now < c.timeoutNowAt+3*c.opt.Heartbeat {
		return // the successor is taking over
	}
	p := c.bestSuccessor()
	if p == nil || p.match < c.appended && !mutated(transferWithoutAck) {
		return
	}
	c.successor, c.timeoutNowAt, p.timeoutNowSent = p.id, c.now, true
	c.post(p, Message{Kind: MsgTimeoutNow, Epoch: c.epoch, Zxid: p.match, Commit: c.committed})
}

// successorLost chooses another successor: the link to the server that was told to take
// over is gone, and the message may not have arrived.
func (c *Core) successorLost() {
	c.successor = 0
	c.tryHandOver()
}

// handOverIfNoVoter makes a leader leave that the members no longer list as a voter: as
// soon as that is committed, or when another server can take over.
func (c *Core) handOverIfNoVoter() {
	if !c.voter(c.opt.ID) {
		c.handOver("this server is no voter any more")
	}
}

func (c *Core) tickHandOver() {
	c.handOverIfNoVoter()
	if !c.handingOver {
		return
	}
	if c.now < c.handDeadline {
		c.tryHandOver()
		return
	}
	c.handingOver, c.successor = false, 0
	c.event(2, 0, "could not hand over in time")
	if !c.members().Voter(c.opt.ID) {
		c.look("this server is no voter any more", 1)
	}
}

// onTimeoutNow takes over from the leader.
func (c *Core) onTimeoutNow(p *peer, m *Message) {
	if !c.isLeader(p) || m.Epoch != c.epoch || c.promise != (Promise{m.Epoch, p.id}) || !c.electable() ||
		c.appended != m.Zxid {
		return
	}
	c.campaign(m.Epoch)
}
