package sim

import (
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// pilotText is the text of the lists that autopilot makes.
const pilotText = "autopilot"

// autopilot returns the autopilot of a replica. While a quorum must make progress it changes
// nothing, so that the quorum stays one.
func (s *Sim) autopilot() replica.Autopilot {
	return replica.Autopilot{
		After: time.Duration(s.cfg.AutopilotMs) * time.Millisecond,
		Text: func(*zab.Members) ([]byte, error) {
			if s.phase == phaseLive {
				return nil, jute.ErrBadArguments
			}
			return []byte(pilotText), nil
		},
		Readable: func() bool { return true },
		Changed:  func() {},
	}
}

// leave stops one or two servers for about as long as autopilot waits, or longer.
func (s *Sim) leave(n *node) {
	for range 1 + s.rng.IntN(2) {
		s.crash(n, s.percent(50))
		s.agenda.push(event{at: s.now + s.between(s.cfg.AutopilotMs*500, s.cfg.AutopilotMs*4000), kind: evRestart, node: n.idx})
		n = s.anyNode()
	}
}

// isDemoted reports whether autopilot has yet to make a server a voter again.
func (s *Sim) isDemoted() bool { return len(s.membersNow().Demoted()) > 0 }

// withoutMarks returns a list as an operator writes it.
func withoutMarks(list []zab.Member) []zab.Member {
	list = slices.Clone(list)
	for i := range list {
		list[i].Demoted = false
	}
	return list
}

// namesAll reports whether a client's change names all members, not only those whose roles
// differ.
func namesAll(text string) bool { return text[len(text)-1]%2 == 0 }

// checkRoles checks a change of the members that a leader proposes: only autopilot marks
// servers, and only those that it makes observers; it makes voters only of marked ones; the
// voters that it makes observers are gone, and one more of the others may fail: I26.
func (s *Sim) checkRoles(n *node, e *zab.Entry, m *zab.Members) {
	old := s.newestList(n)
	pilot := string(m.Text) == pilotText
	var demoted []zab.SID
	up := func(v zab.SID) bool {
		heard := n.heardAt[v-1]
		if !slices.Contains(demoted, v) { // a request to follow shows that a server is there
			heard = max(heard, n.askedAt[v-1])
		}
		return v == n.id || s.now < heard+s.cfg.ElectionMs*1000
	}
	for i := range m.List {
		one := &m.List[i]
		was := old.Find(one.ID)
		switch {
		case !pilot && one.Demoted && (was == nil || !was.Demoted || s.ghost.wanted[string(m.Text)] != nil && namesAll(string(m.Text))):
			s.fail("I26", "%v, of server %d, marks server %d, and is not autopilot's", e.Zxid, n.id, one.ID)
		case !pilot:
		case was == nil || one.Observer == was.Observer && one.Demoted != was.Demoted || one.Observer && !was.Observer && !one.Demoted || !one.Observer && was.Observer && !was.Demoted:
			s.fail("I26", "by %v, autopilot of server %d makes %+v of %+v", e.Zxid, n.id, one, was)
		case one.Observer && !was.Observer:
			demoted = append(demoted, one.ID)
			if heard := max(n.heardAt[one.ID-1], n.ledSince); s.now < heard+s.cfg.AutopilotMs*500 {
				s.fail("I26", "by %v, autopilot of server %d makes server %d an observer, which was there %d ms before", e.Zxid, n.id, one.ID, (s.now-heard)/1000)
			}
		}
	}
	if !pilot {
		return
	}
	spare := func(list *zab.Members) (k int) {
		for _, id := range ids(list) {
			if up(id) {
				k++
			}
		}
		return k - len(ids(list))/2 - 1
	}
	if m.Hierarchical || len(m.List) != len(old.List) || spare(m) < spare(old) || len(demoted) > 0 && (spare(m) < 1 || len(ids(m)) < 3) {
		s.fail("I26", "by %v, autopilot of server %d makes the members %v of %v: %d can fail, before %d could", e.Zxid, n.id, m, old, spare(m), spare(old))
	}
}
