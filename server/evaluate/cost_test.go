package evaluate_test

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// maxPaths is the greatest length of the paths that one request makes of nodes that it does not name.
const maxPaths = 4 << 20

// deepWorld has a chain of nodes /d/d/d..., and leaves below the last one, which session 1 owns if they are
// ephemeral.
func deepWorld(t *testing.T, depth, leaves int, mode jute.CreateMode) (w *world, bottom string) {
	w = newWorld(t, defaults)
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
	for range depth {
		bottom += "/d"
		w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: bottom, ACL: openACL}))
		w.settle()
	}
	for i := range leaves {
		w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("%s/leaf-%05d", bottom, i), ACL: openACL, Mode: mode}))
		w.settle()
	}
	return w, bottom
}

func deleteTree(path string, limit int32) evaluate.Request {
	return evaluate.Request{Op: jute.OpMulti, Session: 1,
		Body: multiBody(jute.MultiOp{Type: jute.OpDeleteTree, Path: path, Version: -1, Limit: limit})}
}

// What a deleteTree costs is in proportion to its nodes and their paths, wherever they are.
func TestDeleteTreeIsLinear(t *testing.T) {
	for _, shape := range []struct{ depth, leaves int }{{1000, 0}, {1000, 500}, {1, 3000}} {
		w, _ := deepWorld(t, shape.depth, shape.leaves, jute.ModePersistent)
		lookups, nodes := w.reader.Lookups(), shape.depth+shape.leaves
		txn := w.do(deleteTree("/d", 0))
		if len(txn.Ops) != nodes+1 || txn.Ops[0].Kind != datatree.OpDelete {
			t.Fatalf("%+v: %d operations, want %d deletes and a check", shape, len(txn.Ops), nodes)
		}
		if n := w.reader.Lookups() - lookups; n > 4*nodes {
			t.Errorf("%+v: %d look-ups for %d nodes", shape, n, nodes)
		}
		paths := 0
		for i := range txn.Ops {
			paths += len(txn.Ops[i].Path)
		}
		if cost := w.ev.Cost(); cost < nodes-1 || cost > nodes+paths/256 {
			t.Errorf("%+v: the cost is said to be %d, for %d nodes with %d bytes of paths", shape, cost, nodes, paths)
		}
		w.settle()
		if s := w.tree.Stats(); s.Skipped > 0 || w.tree.CountDescendants("/") != 3 {
			t.Errorf("%+v: afterwards %+v", shape, s)
		}
	}
}

// A deleteTree whose transaction would be too long is refused after a bounded part of the work, which
// counts.
func TestDeleteTreeIsBounded(t *testing.T) {
	for _, tc := range []struct {
		depth, leaves int
		limit         int32
		most          int // cost
	}{
		{3000, 0, 0, maxPaths/256 + 3000},
		{2500, 2000, 0, maxPaths/256 + 4500},
		{1, 4000, 100, 101},
	} {
		w, _ := deepWorld(t, tc.depth, tc.leaves, jute.ModePersistent)
		lookups := w.reader.Lookups()
		txn := w.do(deleteTree("/d", tc.limit))
		if len(txn.Ops) != 1 || txn.Ops[0].Code != jute.ErrNotEmpty {
			t.Fatalf("%+v: %d operations, want %v", tc, len(txn.Ops), jute.ErrNotEmpty)
		}
		if cost := w.ev.Cost(); cost < 100 || cost > tc.most {
			t.Errorf("%+v: the cost is said to be %d", tc, cost)
		}
		if n := w.reader.Lookups() - lookups; n > 4*(tc.depth+tc.leaves) {
			t.Errorf("%+v: %d look-ups", tc, n)
		}
	}
}

// A deleteTree looks through what is pending, and that counts.
func TestPendingCounts(t *testing.T) {
	w, _ := deepWorld(t, 1, 0, jute.ModePersistent)
	const pending = 3200
	for i := range pending {
		w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/other-%d", i), ACL: openACL}))
	}
	w.do(deleteTree("/d", 0))
	if cost := w.ev.Cost(); cost < pending/16 {
		t.Errorf("the cost is said to be %d, with %d changes pending", cost, pending)
	}
	w.do(request(1, jute.MultiOp{Type: jute.OpDelete, Path: "/other-1", Version: -1}))
	if cost := w.ev.Cost(); cost != 0 {
		t.Errorf("the cost of a delete is said to be %d", cost)
	}
}

// The close of a session lists its ephemerals if their paths are short enough together. It costs no more if
// they are far from the root.
func TestCloseSessionIsBounded(t *testing.T) {
	for _, tc := range []struct{ depth, leaves, listed int }{
		{1000, 1500, 1500}, {1000, 3000, 0}, {1, 9000, 9000}, {1, 11_000, 0},
	} {
		w, _ := deepWorld(t, tc.depth, tc.leaves, jute.ModeEphemeral)
		lookups := w.reader.Lookups()
		txn := w.do(evaluate.Request{Op: jute.OpCloseSession, Session: 1})
		if n := len(txn.Ops[0].Paths); n != tc.listed || w.ev.Ready() != (n > 0) {
			t.Errorf("%+v: %d are listed, ready is %v", tc, n, w.ev.Ready())
		}
		if n := w.reader.Lookups() - lookups; n > tc.depth+2*tc.leaves {
			t.Errorf("%+v: %d look-ups", tc, n)
		}
		if cost := w.ev.Cost(); cost < tc.listed || cost > maxPaths/256+tc.leaves {
			t.Errorf("%+v: the cost is said to be %d", tc, cost)
		}
		w.settle()
		if s := w.tree.Stats(); s.Ephemerals+s.Sessions > 0 || s.Skipped > 0 {
			t.Errorf("%+v: afterwards %+v", tc, s)
		}
	}
}

// Many operations on a subtree that is far from the root cost as much as those near it.
func TestMultiIsLinear(t *testing.T) {
	const depth, leaves = 1000, 500
	w, bottom := deepWorld(t, depth, 0, jute.ModePersistent)
	var ops []jute.MultiOp
	for i := range leaves {
		path := fmt.Sprintf("%s/leaf-%d", bottom, i)
		ops = append(ops, jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: openACL}, jute.MultiOp{Type: jute.OpCheck, Path: path, Version: 0},
			jute.MultiOp{Type: jute.OpSetData, Path: path, Version: 0}, jute.MultiOp{Type: jute.OpDelete, Path: path, Version: 1})
	}
	lookups := w.reader.Lookups()
	txn := w.do(evaluate.Request{Op: jute.OpMulti, Session: 1, Body: multiBody(ops...)})
	if n := w.reader.Lookups() - lookups; txn.Ops[0].Kind != datatree.OpCreate || n > depth+len(ops) {
		t.Errorf("%v: %d look-ups for %d operations", txn.Ops[0].Kind, n, len(ops))
	}
}

// The contenders for a place are looked up where they are, not from the root, and fewer of them if their paths
// are long.
func TestHoldersAreBounded(t *testing.T) {
	const depth, contenders = 1000, 1500
	w, bottom := deepWorld(t, depth, 0, jute.ModePersistent)
	for i := contenders; i > 0; i-- { // so that each is the first until the next one is looked at
		w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("%s/%010d", bottom, i), ACL: openACL, Mode: jute.ModeEphemeral}))
		w.settle()
	}
	holder := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "holder", ID: bottom}}}
	w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/held", ACL: holder}))
	w.settle()
	lookups := w.reader.Lookups()
	txn := w.do(request(1, jute.MultiOp{Type: jute.OpSetData, Path: "/held", Version: -1}))
	if n := w.reader.Lookups() - lookups; txn.Err != 0 || n > 2*depth+contenders {
		t.Errorf("%v after %d look-ups", txn.Err, n)
	}
	if cost := w.ev.Cost(); cost < contenders*(len(bottom)/256) {
		t.Errorf("the cost is said to be %d", cost)
	}

	many := jute.MultiRequest{}
	for range 100 {
		many.Ops = append(many.Ops, jute.MultiOp{Type: jute.OpSetData, Path: "/held", Version: -1})
	}
	txn = w.do(evaluate.Request{Op: jute.OpMulti, Session: 1, Body: many.Append(nil)})
	if cost := w.ev.Cost(); txn.Ops[0].Kind != datatree.OpError || cost > 21_000 {
		t.Errorf("%v: 100 operations by a holder cost %d", txn.Ops[0].Kind, cost)
	}
}

// What auth stands for is in proportion to the bytes of the request, and a request compares long lists once.
func TestACLsAreBounded(t *testing.T) {
	w := newWorld(t, defaults)
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
	var ids []jute.ID
	for i := range 64 {
		ids = append(ids, jute.ID{Scheme: "digest", ID: fmt.Sprintf("user-%02d:0123456789012345678901234567", i)})
	}
	auths := func(n int) (acl []jute.ACL) {
		for i := range n {
			acl = append(acl, jute.ACL{Perms: jute.Perms(i), ID: jute.ID{Scheme: "auth"}})
		}
		return acl
	}
	multi := func(n, entries int) datatree.Txn {
		var ops []jute.MultiOp
		for i := range n {
			ops = append(ops, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/%d-%d-%d", n, entries, i), ACL: auths(entries)})
		}
		body := multiBody(ops...)
		txn := w.do(evaluate.Request{Op: jute.OpMulti, Session: 1, Auth: ids, Body: body})
		if size := len(txn.Append(nil)); size > 40<<10+9*len(body) {
			t.Errorf("a request of %d bytes comes to %d", len(body), size)
		}
		w.settle()
		return txn
	}
	for _, tc := range []struct {
		n, entries int
		want       datatree.OpKind
	}{
		{1, 1, datatree.OpCreate}, {10, 1, datatree.OpCreate}, {1000, 1, datatree.OpError}, {1, 10, datatree.OpCreate}, {1, 68, datatree.OpError}, {2, 12, datatree.OpError},
	} {
		if txn := multi(tc.n, tc.entries); txn.Ops[0].Kind != tc.want {
			t.Errorf("%+v: kind %v, %v", tc, txn.Ops[0].Kind, txn.Ops[0].Code)
		}
	}

	var list []jute.ACL
	for i := range 1000 {
		list = append(list, jute.ACL{Perms: jute.PermWrite, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("other-%d:hash", i)}})
	}
	w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/long", ACL: list}))
	w.settle()
	var sets []jute.MultiOp
	for range 1000 {
		sets = append(sets, jute.MultiOp{Type: jute.OpSetData, Path: "/long", Version: -1})
	}
	own := append(ids[:63:63], jute.ID{Scheme: "digest", ID: "other-999:hash"})
	txn := w.do(evaluate.Request{Op: jute.OpMulti, Session: 1, Auth: own, Body: multiBody(sets...)})
	if cost := w.ev.Cost(); txn.Ops[0].Kind != datatree.OpSetData || cost != len(list)*len(own)/256 {
		t.Errorf("%v: 1000 sets of a node with a long list cost %d", txn.Ops[0].Kind, cost)
	}
}

// measured are operations whose cost is measured, and in what requests they can be.
var measured = []struct {
	name          string
	exists        bool // the node has to be there before
	single, multi bool
	op            jute.MultiOp
}{
	{"create", false, true, true, jute.MultiOp{Type: jute.OpCreate, ACL: openACL}},
	{"create2", false, true, true, jute.MultiOp{Type: jute.OpCreate2, ACL: openACL}},
	{"create of an ephemeral", false, true, true, jute.MultiOp{Type: jute.OpCreate, ACL: openACL, Mode: jute.ModeEphemeral}},
	{"create of a sequential node", false, true, true, jute.MultiOp{Type: jute.OpCreate, ACL: openACL, Mode: jute.ModePersistentSequential}},
	{"createContainer", false, true, true, jute.MultiOp{Type: jute.OpCreateContainer, ACL: openACL, Mode: jute.ModeContainer}},
	{"createTTL", false, true, true, jute.MultiOp{Type: jute.OpCreateTTL, ACL: openACL, Mode: jute.ModePersistentTTL, TTL: 1000}},
	{"createOrSet of a new node", false, false, true, jute.MultiOp{Type: jute.OpCreateOrSet, ACL: openACL, Version: -1}},
	{"createOrSet", true, false, true, jute.MultiOp{Type: jute.OpCreateOrSet, ACL: openACL, Version: -1}},
	{"checkAbsent", false, false, true, jute.MultiOp{Type: jute.OpCheckAbsent}},
	{"check", true, false, true, jute.MultiOp{Type: jute.OpCheck, Version: -1}},
	{"setData", true, true, true, jute.MultiOp{Type: jute.OpSetData, Version: -1}},
	{"setACL", true, true, false, jute.MultiOp{Type: jute.OpSetACL, ACL: openACL, Version: -1}},
	{"delete", true, true, true, jute.MultiOp{Type: jute.OpDelete, Version: -1}},
}

// What each operation looks up is in proportion to the bytes of its request, however deep its node is and
// however many siblings it has; and a row of them in a multi looks the way down to them up once. For
// deleteTree and closeSession see above.
func TestEachOperationIsLinear(t *testing.T) {
	for _, world := range []struct {
		name          string
		depth, leaves int
	}{{"deep", 1500, 10}, {"wide", 1, 5000}} {
		w, bottom := deepWorld(t, world.depth, world.leaves, jute.ModePersistent)
		next := 0
		for _, k := range measured {
			prepared := func() jute.MultiOp {
				next++
				o := k.op
				o.Path = fmt.Sprintf("%s/x-%d-", bottom, next)
				if k.exists {
					w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: o.Path, ACL: openACL}))
					w.settle()
				}
				return o
			}
			if o := prepared(); k.single && k.op.Type == jute.OpSetACL {
				r := jute.SetACLRequest{Path: o.Path, ACL: o.ACL, Version: o.Version}
				w.measure(t, world.name+": "+k.name, evaluate.Request{Op: o.Type, Session: 1, Body: r.Append(nil)}, world.depth+8)
			} else if k.single {
				w.measure(t, world.name+": "+k.name, request(1, o), world.depth+8)
			}
			if k.multi {
				ops := make([]jute.MultiOp, 200)
				for i := range ops {
					ops[i] = prepared()
				}
				w.measure(t, world.name+": a multi of "+k.name, evaluate.Request{Op: jute.OpMulti, Session: 1, Body: multiBody(ops...)}, world.depth+4*len(ops))
			}
		}
	}
}

// measure evaluates and applies a request, which may look up most names.
func (w *world) measure(t *testing.T, what string, r evaluate.Request, most int) {
	t.Helper()
	w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/elsewhere", ACL: openACL})) // the way down is not known
	w.settle()
	lookups := w.reader.Lookups()
	txn := w.do(r)
	if txn.Err != 0 || len(txn.Ops) == 0 || txn.Ops[0].Kind == datatree.OpError {
		t.Fatalf("%s fails: %v", what, txn.Err)
	}
	n, cost := w.reader.Lookups()-lookups, w.ev.Cost()
	t.Logf("%s: %d bytes, %d look-ups, cost %d", what, len(r.Body), n, cost)
	if n > most {
		t.Errorf("%s: %d look-ups, want %d at most, in a request of %d bytes", what, n, most, len(r.Body))
	}
	if cost > len(r.Body)/16 {
		t.Errorf("%s: the cost is said to be %d for %d bytes", what, cost, len(r.Body))
	}
	w.settle()
	if s := w.tree.Stats(); s.Skipped > 0 {
		t.Errorf("%s: %d operations are skipped", what, s.Skipped)
	}
}
