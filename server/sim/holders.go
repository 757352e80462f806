package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Holders: clients contend for the ephemeral /hold and for the first place in /line, where
// there are two kinds of contenders, and write znodes that only a holder may write.

// guards are the znodes that only a holder may write, with the place that it must hold.
var guards = map[string]string{
	"/guarded-hold":  "/hold",
	"/guarded-line":  "/line",
	"/guarded-write": "/line/*-write-*",
}

var guardNames = [...]string{"/guarded-hold", "/guarded-line", "/guarded-write"}

// chooseGuarded draws a write of a guarded znode, or one that changes the holders.
func (s *Sim) chooseGuarded(req *request) {
	guarded := guardNames[s.rng.IntN(len(guardNames))]
	set := jute.MultiOp{Type: jute.OpSetData, Path: guarded, Version: -1, Data: strconv.AppendUint(nil, s.rng.Uint64()>>40, 36)}
	op := jute.MultiOp{Type: jute.OpCreate, ACL: openACL, Version: -1}
	switch s.rng.IntN(10) {
	case 0:
		op.Path, op.ACL = guarded, []jute.ACL{
			{Perms: jute.PermAll &^ jute.PermWrite, ID: jute.WorldAnyone},
			{Perms: jute.PermWrite, ID: jute.ID{Scheme: "holder", ID: guards[guarded]}},
		}
	case 1:
		op.Path = "/line"
	case 2, 3:
		op.Path, op.Mode = pick(s.rng, "/line/a-read-", "/line/a-write-"), jute.ModeEphemeralSequential
	case 4:
		op.Path, op.Mode = "/hold", jute.ModeEphemeral
	case 5:
		op.Type, op.Path = jute.OpDelete, s.contender()
	case 6: // a holder loses its place, and may not write any more
		op.Type, op.Path = jute.OpDelete, s.contender()
		m := jute.MultiRequest{Ops: []jute.MultiOp{op, set}}
		req.op, req.body = jute.OpMulti, m.Append(nil)
		return
	default:
		op = set
	}
	req.op, req.body = op.Type, op.Append(make([]byte, 0, 64))
}

// contender draws a znode that may be a holder's.
func (s *Sim) contender() string {
	if names := slices.Sorted(s.ghost.tree.Children("/line")); len(names) > 0 && s.percent(70) {
		return "/line/" + names[s.rng.IntN(len(names))]
	}
	return "/hold"
}

// checkGuarded checks a transaction that is about to be applied to the reference: only the
// session that holds the place writes a guarded znode. H1.
func (s *Sim) checkGuarded(txn *datatree.Txn) {
	var gone []string
	for i := range txn.Ops {
		op := &txn.Ops[i]
		switch place, guarded := guards[op.Path]; {
		case op.Kind == datatree.OpDelete:
			gone = append(gone, op.Path)
		case guarded && op.Kind == datatree.OpSetData:
			s.stats.Guarded++
			if holder := s.holderOf(place, gone); holder != txn.Session {
				s.fail("H1", "%v: session %v writes %s, and session %v holds %s", txn.Zxid, txn.Session, op.Path, holder, place)
			}
		}
	}
}

// holderOf returns the session that holds a place in the reference, without the znodes that
// are gone.
func (s *Sim) holderOf(place string, gone []string) jute.SessionID {
	tree := s.ghost.tree
	owner := func(path string) jute.SessionID {
		n, _ := tree.Get(path)
		if slices.Contains(gone, path) {
			return 0
		}
		return n.Owner.Session()
	}
	if place == "/hold" {
		return owner(place)
	}
	names := slices.SortedFunc(tree.Children("/line"), func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	for _, name := range names {
		if id := owner(fmt.Sprintf("/line/%s", name)); id != 0 && (place == "/line" || strings.Contains(name, "-write-")) {
			return id
		}
	}
	return 0
}
