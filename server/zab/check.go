package zab

import "fmt"

// Check returns an error if the core contradicts itself. Such an error is a bug of the
// core, regardless of the messages received. Check is cheap enough to be called after each
// input.
func (c *Core) Check() error {
	h := &c.log
	switch {
	case h.handed > h.committed:
		return fmt.Errorf("handed out %v, committed %v", h.handed, h.committed)
	case h.committed > h.appended:
		return fmt.Errorf("committed %v, the last entry is %v", h.committed, h.appended)
	case h.handed > h.durable:
		return fmt.Errorf("handed out %v, durable is %v", h.handed, h.durable)
	case h.durable > h.appended:
		return fmt.Errorf("durable %v, the last entry is %v", h.durable, h.appended)
	case h.tip.Zxid != h.appended:
		return fmt.Errorf("the state is at %v, the last entry is %v", h.tip.Zxid, h.appended)
	case h.settled.Zxid != h.committed:
		return fmt.Errorf("the committed state is at %v, committed is %v", h.settled.Zxid, h.committed)
	case h.entries.n > 0 && h.entries.at(h.entries.n-1).Zxid != h.appended:
		return fmt.Errorf("the last entry in memory is %v, of all %v", h.entries.at(h.entries.n-1).Zxid, h.appended)
	case len(h.control) > 0 && h.control[0].Zxid <= h.committed:
		return fmt.Errorf("control entry %v is taken as not committed, committed is %v", h.control[0].Zxid, h.committed)
	case c.persisted > c.lastSeq:
		return fmt.Errorf("batch %d is durable, %d were handed out", c.persisted, c.lastSeq)
	}
	if c.standalone || c.status.Role == Halted {
		return nil
	}
	return c.checkRole()
}

func (c *Core) checkRole() error {
	s := &c.status
	switch {
	case c.leads() && s.Epoch != c.lead.epoch, c.follows() && s.Epoch != c.lead.epoch:
		return fmt.Errorf("%d in epoch %d, says %d", s.Role, c.lead.epoch, s.Epoch)
	case c.leads() && c.log.appended.Epoch() != c.lead.epoch:
		return fmt.Errorf("leads epoch %d, the last entry is %v", c.lead.epoch, c.log.appended)
	case c.leads() && c.promise.Epoch < c.lead.epoch:
		return fmt.Errorf("leads epoch %d, promised %d", c.lead.epoch, c.promise.Epoch)
	case c.leads() && c.promise.To != c.opt.ID:
		return fmt.Errorf("leads epoch %d, promised %d to server %d", c.lead.epoch, c.promise.Epoch, c.promise.To)
	case s.Role == Leading && c.log.committed < c.lead.marker && !c.lead.renewed:
		return fmt.Errorf("leads epoch %d actively, committed is %v", c.lead.epoch, c.log.committed)
	case c.follows() && c.following.streaming && c.promise != (Promise{c.lead.epoch, s.Leader}):
		return fmt.Errorf("follows server %d in epoch %d, promised %d to %d", s.Leader, c.lead.epoch, c.promise.Epoch, c.promise.To)
	case c.log.tip.Seeded() && c.log.appended.Epoch() > c.promise.Epoch: // a standalone server makes no promises
		return fmt.Errorf("the last entry is %v, promised is epoch %d", c.log.appended, c.promise.Epoch)
	}
	if !c.leads() {
		return nil
	}
	for _, p := range c.peers {
		if p.state == learnerStream && p.match > p.next {
			return fmt.Errorf("server %d has acknowledged %v, was sent up to %v", p.id, p.match, p.next)
		}
	}
	return nil
}
