package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// Introduction is what a server says about itself when a link to it begins. It does not
// change while the link is up.
type Introduction struct {
	Cluster     ID // of its committed history; zero for none
	Incarnation ID // of its data
	Boot        uint64
	// Starts is Notes.Starts of its log; empty if the log is not synced.
	Starts []Start
	// Vouched means that its operator accepts its data: Options.AcceptOldData.
	Vouched bool
	// Members is the list in its configuration file, without a text.
	Members Members
	// List is the version of the newest list of members in its history, 0 for none.
	List jute.Zxid
}

// Introduction returns what this server says about itself on new links. It changes with the
// Status, and before Output.Relink.
func (c *Core) Introduction() Introduction {
	return Introduction{
		Cluster: c.log.settled.Init.Cluster, Incarnation: c.incarnation, Boot: c.opt.Boot, Starts: c.seen.Starts,
		Vouched: c.opt.AcceptOldData, Members: c.opt.Members.bare(), List: c.status.List,
	}
}

// IntroductionStands reports whether a link may come up: what this server said of itself on it is still
// true. It said so when its core had asked for said Output.Relinks, and now there have been relinks.
func IntroductionStands(said, relinks uint64) bool {
	stands := said == relinks
	return stands || lateHello.Planted()
}

// Heard reports the introduction of a server to which there is no link because one of the
// two does not list the other. If that server has a history, this server must not found
// another ensemble; and its list of members may contest this server's.
func (c *Core) Heard(id SID, in Introduction) {
	if c.standalone || c.status.Role == Halted || id == 0 || id == c.opt.ID || c.linked(id) != nil {
		return
	}
	p := c.addPeer(id)
	p.seeded = in.Cluster != ID{}
	c.compareFiles(p, &in)
	c.refresh()
}

// start returns the number of the first record that the server's process wrote to its log,
// 0 if it does not say.
func (in *Introduction) start() uint64 {
	if n := len(in.Starts); n > 0 {
		return in.Starts[n-1].Position
	}
	return 0
}

// introduce handles the introduction of a server on a new link.
func (c *Core) introduce(p *peer, gen uint64, in *Introduction) {
	if p.incarnation != in.Incarnation {
		p.seeded, p.damaged, p.reportsCounted = false, false, false
		p.match, p.acked = 0, 0
	}
	if in.Vouched {
		p.acked = 0
	}
	p.up, p.gen, p.incarnation, p.boot, p.refused, p.syncedHere = true, gen, in.Incarnation, in.Boot, false, false
	c.compareFiles(p, in)
	c.checkSighting(p, in)
	c.refresh()
}

// compareFiles reports a server whose configuration file has another list of members than
// this server's file: once for each list, not for each link.
func (c *Core) compareFiles(p *peer, in *Introduction) {
	p.introduced, p.file, p.sameFile = true, in.Members, c.opt.Members.Same(&in.Members)
	text := ""
	if !p.sameFile {
		text = in.Members.String()
	}
	if p.reported == text {
		return
	}
	p.reported = text
	if p.sameFile {
		c.event(Info, p.id, fmt.Sprintf("the configuration files of both servers have the same members now: %v", &c.opt.Members))
		return
	}
	if c.log.anchored() && c.log.tip.Members.Commanded || c.opt.AdmitLearners && (c.log.anchored() || in.List != 0) {
		return // files do not decide here
	}
	counts := "no history says yet which list is right, so neither server votes for the other; make the server lines the same and restart"
	switch {
	case !c.log.anchored() && in.List != 0:
		counts = fmt.Sprintf("what counts is the list that the history of the other server has had since %v", in.List)
	case c.log.anchored():
		counts = fmt.Sprintf("what counts are the members %v, which the history has had since %v", c.log.tip.Members, c.log.tip.Members.Version)
	}
	c.event(Error, p.id, fmt.Sprintf("the configuration files differ: that of the other server has the members %v, that of this one %v; %s", text, &c.opt.Members, counts))
}
