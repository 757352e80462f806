package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// tickAdmission admits servers that have the history but were empty or damaged before. An
// admission is an entry that is committed without the admitted server's vote. It is
// attached to the next transaction or, if none comes within a second, appended as an entry
// by itself. A voter that comes for the first time does not wait: see founders.go.
func (c *Core) tickAdmission() {
	if c.lead.admitting.Server != 0 {
		p := c.linked(c.lead.admitting.Server)
		switch {
		case p == nil || p.incarnation != c.lead.admitting.Incarnation || !p.synced:
			c.lead.admitting = Admission{}
		case c.now >= c.lead.admittingAt+admissionPatience || c.neverAdmitted(p.id):
			z, ok := c.NextZxid()
			if !ok {
				return
			}
			data := c.lead.admitting.Append(nil)
			c.admit(z)
			c.append(Entry{Zxid: z, Prev: c.log.appended, Type: EntryAdmit, Data: data})
		}
		return
	}
	c.nextAdmission()
}

// nextAdmission selects a server to be admitted.
func (c *Core) nextAdmission() {
	if c.lead.admitting.Server != 0 || !c.leads() {
		return
	}
	for _, p := range c.peers {
		if a := (Admission{p.id, p.incarnation}); p.up && p.synced && (c.voter(p.id) || c.lead.refusedMembers.Voter(p.id) || c.opt.AdmitLearners) && !c.log.tip.Admits(a.Server, a.Incarnation) {
			c.lead.admitting, c.lead.admittingAt = a, c.now
			return
		}
	}
}

// admissionPatience is how long an admission waits for a transaction, in ms.
const admissionPatience = 1000

// attachAdmission puts the waiting admission in front of a transaction.
func (c *Core) attachAdmission(e *Entry) {
	data := make([]byte, 0, admissionSize+len(e.Data))
	e.Data = append(c.lead.admitting.Append(data), e.Data...)
	e.Type = EntryTxn | EntryAdmits
	c.admit(e.Zxid)
}

// admit records that the entry z admits the waiting server.
func (c *Core) admit(z jute.Zxid) {
	c.event(Info, c.lead.admitting.Server, fmt.Sprintf("a server that had no data, or lost some, is admitted at %v", z))
	c.lead.admitting = Admission{}
}
