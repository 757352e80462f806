package sim

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// change is a change of the members that a client asks for.
type change struct {
	origin  uint64
	cxid    int32
	list    zab.Members
	version jute.Zxid // that the present members must have; 0 means any
	allowed bool      // the client may change the members
}

// changeBy identifies a change, as the text of the list.
func changeBy(origin uint64, cxid int32) string {
	return fmt.Sprintf("%020d%010d", origin, cxid)
}

// changeSize is the length of what changeBy returns.
const changeSize = 20 + 10

// changeText is how a client asks for a list: as text, since strings of requests are.
func changeText(by string, list *zab.Members) string {
	return by + hex.EncodeToString(list.Append(nil))
}

// wantChange makes a client ask for other members with its next request.
func (s *Sim) wantChange() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	list := *s.membersNow()
	list.List = withoutMarks(list.List)
	for range 1 + s.rng.IntN(3) {
		s.changeOneMember(&list)
	}
	if len(ids(&list)) < 2 {
		return
	}
	c.change = &change{list: list, allowed: s.percent(85)}
	switch s.rng.IntN(4) {
	case 0:
		c.change.version = s.membersNow().Version
	case 1:
		c.change.version = s.membersNow().Version - jute.Zxid(s.rng.IntN(2))
	}
}

// chooseChange makes a client's request a change of the members, if it wants one.
func (s *Sim) chooseChange(c *client, req *request) bool {
	if c.change == nil || c.relay != nil || slices.ContainsFunc(c.inFlight, func(r request) bool { return r.kind == reqSync }) {
		return false
	}
	want := c.change
	c.change = nil
	want.origin, want.cxid = c.origin, req.cxid
	text := changeBy(want.origin, want.cxid)
	s.ghost.wanted[text] = want
	body := jute.ReconfigRequest{NewMembers: changeText(text, &want.list), ConfigID: -1}
	if want.version != 0 {
		body.ConfigID = int64(want.version)
	}
	req.kind, req.op, req.body = reqReconfig, jute.OpReconfig, body.Append(nil)
	if want.allowed {
		req.auth = []jute.ID{{Scheme: "super"}}
	}
	return true
}

// reconfigure is replica.Options.Reconfigure. After the chaos it refuses everything, so that
// the quorum that must make progress stays one.
func (s *Sim) reconfigure(now *zab.Members, r jute.ReconfigRequest) (list zab.Members, remarks []string, err error) {
	switch {
	case s.phase != phaseChaos:
		return list, nil, jute.ErrBadArguments
	case r.Joining != "":
		list, err = withJoined(now, r.Joining)
		return list, nil, err
	}
	text := r.NewMembers[:changeSize]
	b, err := hex.DecodeString(r.NewMembers[changeSize:])
	if err == nil {
		err = list.Decode(b)
	}
	if err != nil {
		return list, nil, fmt.Errorf("%w: %w", err, jute.ErrBadArguments)
	}
	list.Text = []byte(text)
	replica.KeepMarks(now, &list, func(id zab.SID) bool {
		was := now.Find(id)
		return namesAll(text) || was != nil && was.Observer != list.Find(id).Observer
	})
	return list, nil, nil
}

// checkChange checks a change of the members that a leader proposes for a client: the client
// asked for it and may do so, no other change has come first, and a quorum of the new members
// has the leader's history: I24.
func (s *Sim) checkChange(n *node, e *zab.Entry) {
	var m zab.Members
	err := m.Decode(e.Data)
	if err == nil {
		s.checkRoles(n, e, &m)
	}
	if err != nil || len(m.Text) == 0 {
		return
	}
	if strings.HasPrefix(string(m.Text), "server.") {
		s.checkJoined(n, e.Zxid, &m)
		return
	}
	want, now := s.ghost.wanted[string(m.Text)], s.membersNow()
	switch {
	case string(m.Text) == pilotText:
	case want == nil || !sameList(&want.list, &m):
		s.fail("I24", "server %d changes the members to %v by %v, which no client has asked for", n.id, &m, e.Zxid)
	case !want.allowed:
		s.fail("I24", "server %d changes the members by %v for a client that may not do that", n.id, e.Zxid)
	case want.version != 0 && want.version != now.Version:
		s.fail("I24", "server %d changes the members by %v for a client that means those of %v; they are those of %v", n.id, e.Zxid, want.version, now.Version)
	}
	if late := s.late(n, now, &m); !isQuorum(&m, func(id zab.SID) bool { return !slices.Contains(late, id) }) {
		s.fail("I24", "server %d changes the members to %v by %v, and %v are not up to date", n.id, &m, e.Zxid, late)
	}
}

// late returns the servers to which a leader gives a vote and that lack the beginning of its
// epoch, or do not count. The leader may not know yet that a server has crashed, or has started
// without its disk. A client may name one of the site before, which there is not any more.
func (s *Sim) late(n *node, now, next *zab.Members) (late []zab.SID) {
	marker := jute.MakeZxid(n.status.Epoch, 0)
	for _, id := range ids(next) {
		o := s.node(id)
		if o == nil {
			late = append(late, id)
			continue
		}
		if slices.Contains(ids(now), id) || id == n.id || !o.alive || s.now < o.began+s.cfg.ElectionMs*3000 {
			continue
		}
		if last, _ := o.disk.durable.last(); last < marker || !s.counts(o) {
			late = append(late, id)
		}
	}
	return late
}

// commitChange takes a client's change off the list of its requests under way.
func (s *Sim) commitChange(m *zab.Members) {
	want := s.ghost.wanted[string(m.Text)]
	if want == nil {
		switch {
		case strings.HasPrefix(string(m.Text), "server."):
			s.stats.Joins++
		case string(m.Text) == pilotText:
			s.stats.Pilots++
		}
		return
	}
	s.stats.Reconfigs++
	asked := s.ghost.asked[want.origin]
	if !s.ghost.next(want.origin, want.cxid) && !s.cfg.refuses() {
		s.fail("R2", "connection %#x asked for %v, and %v is request %d", want.origin, asked, m.Version, want.cxid)
	}
}

// checkChanged checks the answer to a client whose change of the members was made: I9.
func (s *Sim) checkChanged(c *client, req *request, r *reply) {
	for i := range s.ghost.changes {
		if k := &s.ghost.changes[i]; k.zxid == r.zxid && string(k.members.Text) == changeBy(req.origin, req.cxid) {
			return
		}
	}
	s.fail("I9", "client %d is told that its change of the members was made at %v, where there is none of its", c.id, r.zxid)
}

// joinLine returns the line with which a node asks to join: its id, and its role. Some ask
// for a vote, and must be refused.
func (s *Sim) joinLine(n *node) string {
	switch {
	case !s.cfg.AdmitLearners:
		return ""
	case (s.cfg.Seed+uint64(n.id))%4 == 0:
		return fmt.Sprintf("%d participant", n.id)
	}
	return fmt.Sprintf("%d observer", n.id)
}

// parseJoin parses "server.<id>=" with the line of a node after it.
func parseJoin(text string) (id, asks zab.SID, role string, err error) {
	_, err = fmt.Sscanf(text, "server.%d=%d %s", &id, &asks, &role)
	return id, asks, role, err
}

// withJoined returns the members with a joining server, or with the other role of it.
func withJoined(now *zab.Members, text string) (zab.Members, error) {
	id, _, role, err := parseJoin(text)
	if err != nil {
		return zab.Members{}, fmt.Errorf("%w: %w", err, jute.ErrBadArguments)
	}
	list := *now
	list.Text = []byte(text)
	list.List = slices.DeleteFunc(slices.Clone(now.List), func(m zab.Member) bool { return m.ID == id })
	list.List = append(list.List, zab.Member{ID: id, Observer: role == "observer", Weight: 1})
	slices.SortFunc(list.List, func(a, b zab.Member) int { return int(a.ID) - int(b.ID) })
	return list, nil
}

// checkJoined checks a change of the members that a server asked for: it adds that server,
// as an observer, and changes nothing else: I24.
func (s *Sim) checkJoined(n *node, z jute.Zxid, m *zab.Members) {
	id, asks, _, err := parseJoin(string(m.Text))
	if err != nil {
		s.fail("I24", "server %d changes the members by %v as %q: %v", n.id, z, m.Text, err)
	}
	now := s.newestList(n)
	want := *now
	want.List = append(slices.Clone(now.List), zab.Member{ID: asks, Observer: true, Weight: 1})
	slices.SortFunc(want.List, func(a, b zab.Member) int { return int(a.ID) - int(b.ID) })
	if id != asks || now.Find(asks) != nil || !sameList(&want, m) {
		s.fail("I24", "server %d asks to join the members %v, and server %d changes them to %v by %v", asks, now, n.id, m, z)
	}
}
