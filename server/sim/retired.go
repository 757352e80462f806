package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// retirement is a time during which the committed history says that the ensemble is retired.
type retirement struct{ from, to jute.Zxid } // to is 0 while it lasts

// retired returns the retirement that includes z, or nil.
func (g *ghost) retired(z jute.Zxid) *retirement {
	for i := range g.retirements {
		if r := &g.retirements[i]; r.from <= z && (r.to == 0 || z < r.to) {
			return r
		}
	}
	return nil
}

// retireLater has a client retire the ensemble with its next request.
func (s *Sim) retireLater() {
	if s.now < s.retired {
		return
	}
	if s.retired = s.now; !s.percent(25) { // else it ends soon
		s.retired += s.between(s.cfg.ElectionMs*500, s.cfg.SessionMs*3000)
	}
	s.clients[s.rng.IntN(len(s.clients))].retires = true
}

// endsRetirement reports whether clients are to end a retirement.
func (s *Sim) endsRetirement() bool {
	return s.ghost.retired(s.ghost.last) != nil && (s.now >= s.retired || s.phase != phaseChaos)
}

// chooseRetirement makes a client's request the creation of the node that retires the ensemble, or its removal.
func (s *Sim) chooseRetirement(c *client, req *request) bool {
	ends := s.endsRetirement()
	if !ends && (!c.retires || s.phase != phaseChaos) || slices.ContainsFunc(c.inFlight, func(r request) bool { return r.kind == reqSync }) {
		return false
	}
	c.retires = false
	op := jute.MultiOp{Type: jute.OpCreate, Path: jute.RetiredPath, ACL: openACL}
	if ends {
		op = jute.MultiOp{Type: jute.OpDelete, Path: jute.RetiredPath, Version: -1}
	} else {
		s.stats.Retires++
	}
	req.kind, req.op, req.body, req.auth = reqWrite, op.Type, op.Append(nil), []jute.ID{{Scheme: "super"}}
	return true
}

// checkRetired checks that nothing is done while the ensemble is retired but what operators need, E1, and gives the sessions
// their timeout when the retirement ends: S6.
func (s *Sim) checkRetired(txn *datatree.Txn) {
	g := &s.ghost
	r := g.retired(g.last)
	for i := range txn.Ops {
		op := &txn.Ops[i]
		switch {
		case op.Kind == datatree.OpError:
		case op.Kind == datatree.OpCreate && op.Path == jute.RetiredPath:
			g.retirements = append(g.retirements, retirement{from: txn.Zxid})
			s.stats.Retirements++
		case r == nil:
		case op.Kind == datatree.OpDelete && op.Path == jute.RetiredPath:
			r.to = txn.Zxid
			s.trace(nil, "the ensemble is not retired any more")
			for id, open := range g.sessions {
				if ms, ok := g.tree.Session(id); open && ok {
					g.kept[id] = max(g.kept[id], s.now+s.shortest(ms))
				}
			}
		case txn.Ops[0].Kind != datatree.OpCreateSession:
			s.fail("E1", "the ensemble is retired since %v, and %s", r.from, describeTxn(txn))
		}
	}
}

// checkAnsweredRetired checks that no client gets an answer of a retired ensemble, except for what operators need: E2.
func (s *Sim) checkAnsweredRetired(c *client, req *request, z jute.Zxid) {
	if r := s.ghost.retired(z); r != nil && z > r.from && (req.kind == reqSync || req.kind == reqWrite && req.op != jute.OpDelete) {
		s.fail("E2", "client %d is answered at %v: %v; the ensemble is retired since %v", c.id, z, req, r.from)
	}
}
