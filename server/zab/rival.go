package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// A leader that hears of a higher epoch may have been replaced. To find out, it commits and
// proposes nothing until a quorum has answered a heartbeat sent afterwards. A leader that
// was replaced gets no such answers, since a quorum has promised the higher epoch.
//
// So if a quorum does confirm a leader that has heard of another leader of a higher epoch,
// two quorums have no server in common. Only an operator can cause that: by copying
// directories, or by lists of members that differed before the history had one. Both sides
// may have acknowledged writes, and nobody can merge them. The leader with the older list
// of members stops; with equal lists, the one with the lower epoch.

// rivals is what a leader has heard of other leaders since it began to lead.
type rivals struct {
	heard uint32 // the highest epoch above its own
	// rival is the leader with the highest epoch among the servers that said that they lead; list
	// is the version of its list of members.
	rival    SID
	epoch    uint32
	list     jute.Zxid
	judged   bool // a quorum has confirmed this leader since
	reported SID  // the server that was reported as a second leader
}

// onHigherEpoch handles the news of an epoch above the leader's own.
func (c *Core) onHigherEpoch(p *peer, epoch uint32) {
	if !c.leads() || epoch <= max(c.promise.Epoch, c.lead.others.heard) {
		return
	}
	if higherEpochIgnored.Planted() {
		return
	}
	c.lead.others.heard = epoch
	c.event(Warn, p.id, fmt.Sprintf("heard of epoch %d while leading epoch %d: confirms nothing until a majority says that this server still leads", epoch, c.lead.epoch))
	c.requireConfirmation()
}

// sendLead tells the servers that do not follow this leader that it leads.
func (c *Core) sendLead() {
	for _, p := range c.peers {
		if !p.up || p.state != learnerNone || p.invited {
			continue
		}
		m := Message{Kind: MsgLead, Epoch: c.lead.epoch, Zxid: c.listVersion(), Flags: c.selfFlags()}
		if c.lead.others.judged && c.lead.others.rival == p.id {
			m.Promise = c.lead.others.epoch
		}
		c.post(p, m)
	}
}

// onLead handles the claim of a leader that this server does not follow.
func (c *Core) onLead(p *peer, m *Message) {
	switch {
	case c.leads() && m.Epoch > c.promise.Epoch:
		if m.Epoch > c.lead.others.epoch {
			c.lead.others = rivals{rival: p.id, epoch: m.Epoch, list: m.Zxid}
			c.onHigherEpoch(p, m.Epoch)
		}
	case c.leads() && m.Promise >= c.lead.epoch && c.lead.others.reported != p.id:
		c.twoLeaders(p, m.Epoch, m.Zxid)
	case m.Epoch < c.promise.Epoch && !c.isLeader(p):
		c.refuseOld(p, m.Epoch)
	case c.status.Role == Looking:
		c.join(p)
	}
}

// onConfirmed handles the confirmation of this leader by a quorum.
func (c *Core) onConfirmed() {
	c.lead.unconfirmed = 0
	if o := &c.lead.others; o.epoch > c.lead.epoch && !o.judged {
		o.judged = true
		if p := c.linked(o.rival); p != nil {
			c.post(p, Message{Kind: MsgLead, Epoch: c.lead.epoch, Zxid: c.listVersion(), Promise: o.epoch, Flags: c.selfFlags()})
			c.twoLeaders(p, o.epoch, o.list)
		}
	}
	c.advanceCommit()
}

// twoLeaders handles two leaders of the same ensemble that quorums have both confirmed.
func (c *Core) twoLeaders(p *peer, epoch uint32, list jute.Zxid) {
	c.lead.others.reported = p.id
	own := c.listVersion()
	text := fmt.Sprintf("servers %d and %d both lead this ensemble, and a majority has confirmed each: server %d leads epoch %d, with the members of %v and %v in its file; "+
		"server %d leads epoch %d, with the members %v of %v and %v in its file. Each may have confirmed writes that the other does not have. "+
		"Find out which data is to be kept before you remove any",
		c.opt.ID, p.id, p.id, epoch, list, &p.file, c.opt.ID, c.lead.epoch, c.members(), own, &c.opt.Members)
	if own < list || own == list && c.lead.epoch < epoch {
		c.halt(text)
		return
	}
	c.event(Error, p.id, text)
}
