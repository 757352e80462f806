package replica

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

// Autopilot makes observers of voters that are gone for long, so that the ensemble tolerates
// further failures, and voters of these again when they are back.
//
// Member.Demoted marks what it has demoted. The mark is in the list of members, and so in
// the history: each later leader knows it, also after a restart of all servers. A command
// that names a server takes its mark away; then the server stays what the command made it.
type Autopilot struct {
	// After is for how long a voter must be gone; 0 turns autopilot off.
	After time.Duration
	// Text returns Members.Text for a list of which only roles have changed.
	Text func(*zab.Members) ([]byte, error)
	// Readable reports whether all linked servers can read the mark. Older ones can't.
	Readable func() bool
	// Changed is called after a change was proposed. It must not block.
	Changed func()
}

// condition is what a leader knows about a server.
type condition struct {
	silent time.Duration // since it was last heard
	ready  bool          // up to date; it counts, if it is a voter
}

// nextRoles returns the servers that autopilot makes observers, or voters, in the next change:
// not both. of returns the condition of a server.
//
// All voters that are gone for long become observers in one change, or as many of them as the
// rule allows, those first that are gone for longest. The rule: a quorum of the remaining voters,
// plus one, must be ready. So at least 3 stay, and one of them can fail. How many can fail never
// becomes less: a voter that is gone is none of those that are ready, and without it the quorum
// is not larger. A server that is ready and becomes a voter makes up for a larger quorum.
//
// Lists with groups and weights are left alone.
func nextRoles(list *zab.Members, after time.Duration, of func(zab.SID) condition) (demote, promote []zab.SID) {
	if list.Hierarchical {
		return nil, nil
	}
	for i := range list.List {
		m := &list.List[i]
		c := of(m.ID)
		marked := m.Demoted
		marked = marked || promotesAnother.Planted() && m.Observer
		gone := c.silent >= after
		gone = gone || demotesSoon.Planted()
		switch {
		case marked && c.ready:
			promote = append(promote, m.ID)
		case gone && !m.Observer && !c.ready:
			demote = append(demote, m.ID)
		}
	}
	if len(promote) > 0 {
		return nil, promote
	}
	slices.SortStableFunc(demote, func(a, b zab.SID) int { return cmp.Compare(of(b).silent, of(a).silent) })
	for ; len(demote) > 0; demote = demote[:len(demote)-1] {
		next := withRoles(list, demote, nil)
		spare := spareVoters(&next, of) > 0
		spare = spare || demotesTooMany.Planted()
		if spare {
			return demote, nil
		}
	}
	return nil, nil
}

// spareVoters returns how many of the voters that are ready can be lost before the rest is no
// quorum; below 0 if they are none.
func spareVoters(list *zab.Members, of func(zab.SID) condition) (n int) {
	for i := range list.List {
		if m := &list.List[i]; !m.Observer && of(m.ID).ready {
			n++
		}
	}
	return n - (list.NumVoters()/2 + 1)
}

// withRoles returns the list with other roles of some servers. A demoted one is marked.
func withRoles(list *zab.Members, demote, promote []zab.SID) zab.Members {
	next := *list
	next.List = slices.Clone(list.List)
	for i := range next.List {
		switch m := &next.List[i]; {
		case slices.Contains(demote, m.ID):
			m.Observer, m.Demoted = true, true
			if markForgotten.Planted() {
				m.Demoted = false
			}
		case slices.Contains(promote, m.ID):
			m.Observer, m.Demoted = false, false
		}
	}
	return next
}

// autopilotEvery is the time between two looks at the members, in ms, unless they have to be
// gone for less than ten times that.
const autopilotEvery = 1000

// runAutopilot changes the roles of members if it is time to. It does nothing while another
// change is under way, and while writes are refused. A new leader has heard of nobody yet: for
// it, all servers are there when it begins to lead.
func (r *Replica) runAutopilot() {
	pilot, now := &r.o.Autopilot, r.now()
	if pilot.After == 0 || r.status.Role != zab.Leading || now < r.leading.lookAt || r.refusesWrites() {
		return
	}
	r.leading.lookAt = now + min(autopilotEvery, pilot.After.Milliseconds()/10)
	settled, newest := r.Core.Lists()
	if settled != newest || settled.Version == 0 {
		return
	}
	r.warnOfGroups(settled)
	demote, promote := nextRoles(settled, pilot.After, func(id zab.SID) condition {
		return condition{time.Duration(r.Core.Silent(id)) * time.Millisecond, r.Core.Ready(id)}
	})
	if len(demote)+len(promote) == 0 || len(demote) > 0 && !pilot.Readable() {
		return
	}
	next := withRoles(settled, demote, promote)
	next.Commanded = true
	text, err := pilot.Text(&next)
	if err == nil {
		next.Text = text
		_, err = r.Core.ProposeMembers(next)
	}
	if err == nil {
		pilot.Changed()
	}
	switch {
	case errors.Is(err, zab.ErrNotLeading):
	case err != nil:
		r.event(zab.Warn, 0, fmt.Sprintf("autopilot can't change the members to %v: %v", &next, err))
	case len(demote) > 0:
		r.stats.Demoted += int64(len(demote))
		r.event(zab.Info, demote[0], fmt.Sprintf("autopilot makes observers of the voters %v, which are gone for longer than %v; the voters left are %d, and %d of them can fail",
			demote, pilot.After, next.NumVoters(), (next.NumVoters()-1)/2))
	default:
		r.stats.Promoted += int64(len(promote))
		r.event(zab.Info, promote[0], fmt.Sprintf("autopilot makes voters of %v again, which are back and up to date", promote))
	}
}

// warnOfGroups reports, once in each leadership, that autopilot leaves a list alone.
func (r *Replica) warnOfGroups(list *zab.Members) {
	if list.Hierarchical && !r.leading.warned {
		r.leading.warned = true
		r.event(zab.Warn, 0, "the members have groups or weights: autopilot does nothing")
	}
}

// KeepMarks gives the servers that a command does not name the marks that they have now.
func KeepMarks(now, next *zab.Members, names func(zab.SID) bool) {
	for i := range next.List {
		m := &next.List[i]
		was := now.Find(m.ID)
		named := names(m.ID)
		named = named && !markKept.Planted()
		m.Demoted = was != nil && was.Demoted && m.Observer && !named
	}
}
