package zab

import (
	"fmt"
	"slices"
	"strings"
)

// Founders, and what an ensemble without a leader waits for:
//
// A voter that was not there when its ensemble was founded has no vote until a leader has admitted
// it. It has lost nothing; but others can't tell it from one that has voted and was wiped since. The
// history alone does not tell. Suppose that a server counts as long as the history has no
// admission of it. Server 3 leads, and has just synchronized server 1, when it is cut off from
// both others. These elect server 2 and commit. Server 1 is wiped, and comes back to server 3
// alone, which still leads, and has no admission of server 1 in its history: the two commit as
// well. (The mutant founderVotes.) To tell takes a quorum of the others that durably remember
// which data the server had first, and that is what an admission is.
//
// What can be done is to be quick, and to say what is missing. A leader admits a voter that its
// history has never admitted as soon as it is synchronized, and waits for no transaction to carry
// the admission.

// neverAdmitted reports whether a server is a voter that the history has not admitted with any
// incarnation.
func (c *Core) neverAdmitted(id SID) bool {
	return c.voter(id) && !slices.ContainsFunc(c.log.tip.Admitted, func(a Admission) bool { return a.Server == id })
}

// reportAwaited says in the log what a server that has looked for a leader for long waits for.
func (c *Core) reportAwaited() {
	waits := c.status.Awaits
	if waits == "" || waits == c.reportedAwaits || c.now < c.seekingFrom+3*c.opt.ElectionTimeout {
		return
	}
	c.reportedAwaits = waits
	c.event(Warn, 0, fmt.Sprintf("no leader for %d s: %s", (c.now-c.seekingFrom)/1000, waits))
}

// awaits returns what is missing for a leader, as far as this server can see, or "" if nothing is:
// the voters that are there and have a vote are a quorum.
func (c *Core) awaits() string {
	has := func(id SID) bool {
		if id == c.opt.ID {
			return c.selfCounts()
		}
		p := c.linked(id)
		return p != nil && p.withoutVote(c) == ""
	}
	if c.standalone || !c.voter(c.opt.ID) || c.quorum(has) {
		return ""
	}
	var away, voteless []string
	for id := range Zero { // 1 to 255, and server 0
		if id++; !c.voter(id) || has(id) {
			continue
		}
		switch p := c.linked(id); {
		case id == c.opt.ID:
			voteless = append(voteless, "this server has no vote: "+c.notCountedReason())
		case p == nil:
			away = append(away, fmt.Sprint(id))
		default:
			voteless = append(voteless, fmt.Sprintf("server %d has no vote: %s", id, p.withoutVote(c)))
		}
	}
	var parts []string
	switch len(away) {
	case 0:
	case 1:
		parts = append(parts, "no link to server "+away[0])
	default:
		parts = append(parts, "no links to servers "+strings.Join(away, ", "))
	}
	parts = append(parts, voteless...)
	return "too few voters for a majority: " + strings.Join(parts, "; ")
}

// withoutVote returns why a linked server has no vote as far as c knows, or "".
func (p *peer) withoutVote(c *Core) string {
	switch {
	case p.refused:
		return "it belongs to another ensemble"
	case p.oldCopy:
		return "it runs on an old copy of its data"
	case !c.agreed(p):
		return "its configuration file has other members"
	case c.counts(p):
		return ""
	case c.log.tip.Seeded():
		return "a leader has to admit it first, as its data is new or lost some"
	case p.damaged:
		return "it has lost data"
	}
	return "it has data, and this server has none"
}
