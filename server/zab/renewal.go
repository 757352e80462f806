package zab

import "fmt"

const (
	// renewalCounter is where a leader begins to renew its epoch, and
	// lastCounter where it stops to propose: a counter never runs over into the
	// epoch (ZOOKEEPER-1277).
	renewalCounter = 0xFFFF0000
	lastCounter    = 0xFFFFFFFE
)

// strayed takes in that a server has promised a higher epoch than this leader's,
// to one that did not become leader of it, or will depose this one. In the first
// case it can't follow before the leader's epoch is higher still.
func (c *Core) strayed(p *peer) {
	c.stopLearner(p)
	if c.renewTo < p.promise {
		c.renewTo = p.promise
	}
	c.checkLinks()
}

// tickRenewal renews the epoch in place when that is needed: the leader asks for
// promises of a higher one and goes on behind a new marker. Learners keep their
// role and their clients.
func (c *Core) tickRenewal() {
	if c.renewing {
		switch {
		case c.now >= c.deadline:
			c.look("a quorum did not promise the new epoch in time", 1+c.jitter(c.opt.Heartbeat))
		case c.now >= c.resendAt:
			c.sendNewEpochs()
		}
		return
	}
	if c.handingOver || c.committed < c.marker || c.shakyAt != 0 || c.unconfirmed != 0 {
		return
	}
	full := c.appended.Counter() >= renewalCounter && !mutated(counterWraps)
	stuck := c.renewTo > c.promise.Epoch && (!c.renewed || c.now >= c.lastRenewal+c.opt.RenewInterval)
	if full || stuck {
		c.renew()
	}
}

func (c *Core) renew() {
	e := max(c.nextEpoch(), c.renewTo+1)
	if e > maxEpoch {
		c.event(3, 0, fmt.Sprintf("no epochs are left: the highest is %d", e-1))
		c.renewTo = 0
		return
	}
	c.event(1, 0, fmt.Sprintf("renews its epoch: %d instead of %d", e, c.epoch))
	c.renewing, c.renewed, c.lastRenewal, c.renewTo = true, true, c.now, 0
	c.askPromises(e)
}
