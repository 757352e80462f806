package zab

import "fmt"

const (
	// renewalCounter is the counter at which a leader begins to renew its epoch, and lastCounter
	// the one at which it stops proposing: a counter never overflows into the epoch
	// (ZOOKEEPER-1277).
	renewalCounter = 0xFFFF0000
	lastCounter    = 0xFFFFFFFE
)

// onHigherPromise handles a server that has promised an epoch higher than this leader's. The server
// that it was promised to either failed to lead it or will depose this leader. In the first
// case the stray can follow again only when the leader's epoch is higher still.
func (c *Core) onHigherPromise(p *peer) {
	c.stopLearner(p)
	if c.lead.renewTo < p.promise {
		c.lead.renewTo = p.promise
	}
}

// tickRenewal renews the epoch in place when necessary: the leader asks for promises of a
// higher epoch and continues after a new marker. Learners keep their role and their
// clients.
func (c *Core) tickRenewal() {
	if c.lead.renewing {
		switch {
		case c.now >= c.vote.deadline:
			c.look("a quorum did not promise the new epoch in time", 1+c.jitter(c.opt.Heartbeat))
		case c.now >= c.vote.resendAt:
			c.sendNewEpochs()
		}
		return
	}
	if c.lead.handingOver || c.log.committed < c.lead.marker || c.lead.quorumLostAt != 0 || c.lead.unconfirmed != 0 {
		return
	}
	full := c.log.appended.Counter() >= renewalCounter
	full = full && !counterWraps.Planted()
	stuck := c.lead.renewTo > c.promise.Epoch && (!c.lead.renewed || c.now >= c.lead.lastRenewal+c.opt.RenewInterval)
	if full || stuck {
		c.renew()
	}
}

func (c *Core) renew() {
	e := max(c.nextEpoch(), c.lead.renewTo+1)
	if e > maxEpoch {
		c.event(Error, 0, fmt.Sprintf("no epochs are left: the highest is %d", e-1))
		c.lead.renewTo = 0
		return
	}
	c.event(Info, 0, fmt.Sprintf("renews its epoch: %d instead of %d", e, c.lead.epoch))
	c.lead.renewing, c.lead.renewed, c.lead.lastRenewal, c.lead.renewTo = true, true, c.now, 0
	c.askPromises(e)
}
