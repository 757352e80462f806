package zab

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Which list of members decides:
//
// The history's list decides, not the list in a server's configuration file: lists that
// differ from file to file would make quorums without a common server. The first marker of
// an ensemble carries the list in its leader's file. From then on a change takes an entry
// that needs a quorum of the old and of the new list (EntryMembers).
//
// While the history has no list, because the ensemble is being founded or because older
// builds wrote it, files decide. Then a server counts only the servers whose files have the
// same list as its own, and does not lead while others with another list could elect a
// leader by that list. It waits a moment for servers that it has not heard of yet.
//
// A file that differs from the history says what its operator wants. When the files of a
// quorum of both lists, including the leader's, have the same new list, the leader proposes
// it. Two quorums of the old list share a server, and a server has one file: so only one
// new list can be proposed, and the ensemble does not return to the old list before the
// files of a quorum do. A list that a command made (Members.Commanded) stays, whatever the
// files say.

// members returns the list that decides now: the committed one. A first list decides before
// it is committed.
func (c *Core) members() *Members {
	switch {
	case fileDecides.Planted():
	case c.log.settled.Members != nil:
		return c.log.settled.Members
	case len(c.log.pending) > 0:
		return &c.log.pending[0].Members
	}
	return &c.opt.Members
}

// Lists returns the committed list of members, or the list used in its place, and the
// newest list in the history; they are the same if no change is under way. The caller must
// not change them.
func (c *Core) Lists() (settled, newest *Members) {
	settled = c.members()
	if n := len(c.log.pending); n > 0 {
		return settled, &c.log.pending[n-1].Members
	}
	return settled, settled
}

// News returns the list of members that a linked server is to be told, whose newest list has the version theirs,
// or nil. A list of files is news only to a server without a history, whose own file may be an older one.
func (c *Core) News(theirs jute.Zxid) *Members {
	list := c.members()
	first := theirs == 0
	first = first && !firstListUntold.Planted()
	if theirs < list.Version && (list.Commanded || first) {
		return list
	}
	return nil
}

// Leads reports whether a list of members that another server has told is a reason to link with the servers in it.
// have is the version of the newest list that this server has or was told, and linked reports whether it
// links with a server already.
func (m *Members) Leads(have jute.Zxid, linked func(SID) bool) bool {
	return m.Version > have &&
		(m.Commanded || slices.ContainsFunc(m.List, func(x Member) bool { return !linked(x.ID) }))
}

// agreed reports whether the lists allow a server to count: the history decides, or both
// files have the same list.
func (c *Core) agreed(p *peer) bool {
	same := c.log.anchored() || p.sameFile
	return same || filesNotCompared.Planted()
}

// voter reports whether a server has a vote in a list in force: the committed list, and the
// later ones in the history.
func (c *Core) voter(id SID) bool {
	if c.members().Voter(id) {
		return true
	}
	for i := range c.log.pending {
		if c.log.pending[i].Voter(id) {
			return true
		}
	}
	return false
}

// otherListMayDecide reports whether, while no history has a list, the servers with another list in
// their files may form a quorum of that list. A server counts as one of them unless it is
// known to have this list or a third one.
func (c *Core) otherListMayDecide() bool {
	if c.log.anchored() {
		return false
	}
	if filesNotCompared.Planted() {
		return false
	}
	for _, p := range c.peers {
		if !p.introduced || p.refused || p.sameFile {
			continue
		}
		if p.file.Quorum(func(id SID) bool {
			q := c.peer(id)
			return id != c.opt.ID && (q == nil || !q.introduced || q.file.Same(&p.file)) && c.mayCount(id)
		}) {
			return true
		}
	}
	return false
}

// awaitsUnheardVoter reports whether to wait for a voter of the file that has not been heard of since
// the start: its list may differ, or it may have data.
func (c *Core) awaitsUnheardVoter() bool {
	if c.log.anchored() || c.now >= c.opt.ElectionTimeout {
		return false
	}
	return slices.ContainsFunc(c.opt.Members.List, func(m Member) bool {
		p := c.peer(m.ID)
		return m.ID != c.opt.ID && c.opt.Members.Voter(m.ID) && (p == nil || !p.introduced)
	})
}

// mayCount reports whether a server could count by its data: either there is no ensemble
// yet, or the ensemble has admitted the server.
func (c *Core) mayCount(id SID) bool {
	return !c.log.tip.Seeded() || slices.ContainsFunc(c.log.tip.Admitted, func(a Admission) bool { return a.Server == id })
}

// quorum reports whether the servers for which in is true are a quorum in each list in
// force.
func (c *Core) quorum(in func(SID) bool) bool {
	if oneConfigQuorum.Planted() && len(c.log.pending) > 0 {
		return c.log.pending[len(c.log.pending)-1].Quorum(in)
	}
	if !c.members().Quorum(in) {
		return false
	}
	for i := range c.log.pending {
		if !c.log.pending[i].Quorum(in) {
			return false
		}
	}
	return true
}

// listStatus sets the fields of the status about lists.
func (c *Core) listStatus(s *Status) {
	settled, newest := c.Lists()
	s.List, s.Settled = newest.Version, 0
	if c.log.settled.Members != nil {
		s.Settled = settled.Version
	}
	s.FileDiffers = !newest.Commanded && !newest.Same(&c.opt.Members)
	s.OtherFiles = 0
	for _, p := range c.peers {
		if p.up && !p.sameFile {
			s.OtherFiles++
		}
	}
}

// reportList reports, once, what a newly committed list means for this server.
func (c *Core) reportList() {
	list := c.log.settled.Members
	if c.standalone || list == nil || list.Version == c.reportedList {
		return
	}
	first := c.reportedList == 0
	c.reportedList = list.Version
	if list.Find(c.opt.ID) == nil {
		advice := "put it into the configuration files of the others too, and restart them one by one"
		if c.opt.AdmitLearners {
			advice = "use reconfig"
		}
		c.event(Warn, 0, fmt.Sprintf("this server is not a member: the members are %v since %v. It has the data and serves clients, but has no vote. "+
			"If it was removed, stop it; to add it, %s", list, list.Version, advice))
		return
	}
	same := list.Same(&c.opt.Members)
	switch {
	case list.Commanded && first && !same:
		c.event(Warn, 0, fmt.Sprintf("the members are %v since %v, by a command or autopilot, and the configuration file of this server has %v: the former count",
			list, list.Version, &c.opt.Members))
	case list.Commanded && !first:
		c.event(Info, 0, fmt.Sprintf("the members are %v since %v, by a command or autopilot", list, list.Version))
	case !same:
		c.event(Warn, 0, fmt.Sprintf("the members are %v since %v, and the configuration file of this server has %v: the former count. "+
			"Files change the members when those of a majority, and the leader's, have the same new list", list, list.Version, &c.opt.Members))
	}
}

// tickMembers makes a leader propose the list in its configuration file if it differs from
// the history's and the servers with the same list in their files are a quorum of both
// lists. Voters to be added are first brought up to date and admitted, as far as they are
// linked.
func (c *Core) tickMembers() {
	file := &c.opt.Members
	if len(c.log.pending) > 0 || c.log.committed < c.lead.marker || c.members().Commanded || c.members().Same(file) {
		return
	}
	has := func(id SID) bool {
		p := c.linked(id)
		return id == c.opt.ID || p != nil && !p.refused && !p.oldCopy && p.sameFile
	}
	both := c.members().Quorum(has) && file.Quorum(has)
	both = both || oneFileMoves.Planted()
	if !both {
		return
	}
	if !c.lead.refusedMembers.Same(file) {
		c.event(Info, 0, fmt.Sprintf("the configuration files of a majority have the members %v instead of %v: the ensemble is going to change to them", file, c.members()))
		c.lead.refusedMembers = *file
	}
	for _, p := range c.peers {
		if file.Voter(p.id) && has(p.id) && !c.Ready(p.id) {
			return
		}
	}
	if z, err := c.ProposeMembers(*file); err == nil {
		c.event(Info, 0, fmt.Sprintf("changes the members to %v at %v", file, z))
	}
}

// proposedList returns the list that a new marker has to carry, nil for none.
func (c *Core) proposedList() *Members {
	anchored := c.log.anchored()
	anchored = anchored && !markerReplacesList.Planted()
	anchored = anchored || markerWithoutList.Planted()
	if anchored {
		return nil
	}
	list := c.opt.Members.bare()
	return &list
}

// listVersion returns the version of the committed list, 0 for none.
func (c *Core) listVersion() jute.Zxid {
	if c.log.settled.Members == nil {
		return 0
	}
	return c.log.settled.Members.Version
}
