package zab

import "github.com/zkd-project/zkd/jute"

// matched returns the zxid up to which a server's acknowledgements count.
func (c *Core) matched(id SID) jute.Zxid {
	if id == c.opt.ID {
		if !c.selfCounts() {
			return 0
		}
		if leaderCountsBeforeFsync.Planted() {
			return c.log.appended
		}
		return c.log.durable
	}
	p := c.byID[id]
	if p == nil || !c.reliesOn(p) {
		return 0
	}
	return p.match
}

// reliesOn reports whether a learner's acknowledgements count: it has been admitted, and
// would know that after a restart. Otherwise it could hold entries that were committed with
// its help, but neither vote nor be voted for.
func (c *Core) reliesOn(p *peer) bool {
	knows := p.reportsCounted
	knows = knows || damagedCounted.Planted()
	return c.counts(p) && knows
}

// advanceCommit commits the entries that are durable on a quorum of each configuration in
// force at them. Only entries of the leader's own epoch are committed by counting; older
// entries are committed with the epoch's marker. The quorum need not include the leader's
// own disk.
func (c *Core) advanceCommit() {
	for c.leads() && c.lead.unconfirmed == 0 {
		z := c.committable()
		if z <= c.log.committed {
			break
		}
		c.commitAsLeader(z)
	}
	c.activate()
}

// committable returns the highest zxid that is committed by counting.
func (c *Core) committable() (best jute.Zxid) {
	for _, p := range c.peers {
		best = c.tryCommit(best, c.matched(p.id))
	}
	best = c.tryCommit(best, c.matched(c.opt.ID))
	for i := range c.log.pending { // up to this entry the previous configuration may suffice
		best = c.tryCommit(best, c.log.pending[i].prev)
	}
	return best
}

// tryCommit returns z if z is above best and committed by counting, and best otherwise.
func (c *Core) tryCommit(best, z jute.Zxid) jute.Zxid {
	earlier := z < c.lead.marker
	earlier = earlier && !oldEpochByCounting.Planted()
	if z <= best || z <= c.log.committed || earlier {
		return best
	}
	has := func(id SID) bool { return c.matched(id) >= z }
	members := c.members()
	for i := range c.log.pending {
		if c.log.pending[i].Version > z {
			break
		}
		if oneConfigQuorum.Planted() {
			members = &c.log.pending[i].Members
		} else if !c.log.pending[i].Quorum(has) {
			return best
		}
	}
	if !members.Quorum(has) {
		return best
	}
	return z
}

func (c *Core) commitAsLeader(z jute.Zxid) {
	first := c.log.committed < c.lead.marker
	control := c.log.commit(z)
	if control {
		c.controlCommitted()
	}
	if first {
		for _, p := range c.peers {
			p.synced = p.state == learnerStream && p.match >= c.lead.marker
		}
		c.nextAdmission()
	}
}

// controlCommitted handles a change of the ensemble's committed state.
func (c *Core) controlCommitted() {
	c.hintTo = c.log.committed
	c.refresh()
	c.handOverIfNoVoter()
}

// addHint adds a commit hint to a batch that is persisted anyway.
func (c *Core) addHint() {
	if c.standalone || c.now < c.hintedAt+c.opt.ElectionTimeout && !c.hintDue() {
		return
	}
	c.hint()
}

// hint persists the committed zxid. Nothing waits for it: an old hint only makes a restart
// slower.
func (c *Core) hint() {
	z := min(c.log.committed, c.log.durable)
	if hintAheadOfCommit.Planted() {
		z = c.log.appended
	}
	if z <= c.hinted {
		return
	}
	c.hinted, c.hintedAt = z, c.now
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogCommitHint, Upto: z})
	c.hintSeq = c.pendingSeq()
}

// hintDue reports whether to persist a hint at once, because an entry that changes which
// servers count was committed.
func (c *Core) hintDue() bool { return c.hinted < c.hintTo && c.log.durable >= c.hintTo }

// tickHint persists a hint if nothing was persisted since the last Tick.
func (c *Core) tickHint() {
	if !c.busy && len(c.unpersisted) == 0 && len(c.inFlight) == 0 {
		c.hint()
	}
	c.busy = false
}
