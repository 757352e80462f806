package datatree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// below returns what a walk of a subtree that is frozen now gives, by path, with the paths in the
// order of the walk.
func below(t *testing.T, tree *Tree, path string) (nodes map[string]string, order []string) {
	t.Helper()
	s, ok := tree.FreezeBelow(path, 1<<20)
	if !ok {
		return nil, nil
	}
	defer s.Close()
	return walkAll(t, s, 1000, func() {})
}

// TestYoungChildren walks a subtree of which a node has got very many children since: one walk does not look at all.
func TestYoungChildren(t *testing.T) {
	tree := New()
	var out Applied
	create := func(path string) {
		tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Ops: []Op{{Kind: OpCreate, Path: path, ACL: openACL}}}, &out)
	}
	for _, path := range []string{"/p", "/p/a", "/p/z", "/p/z/x"} {
		create(path)
	}
	s, _ := tree.FreezeBelow("/p", 1<<20)
	defer s.Close()
	const young = 4 * mostLooked
	for i := range young {
		create(fmt.Sprintf("/p/young-%07d", i))
	}
	var c steps.Counter
	tree.CountSteps(&c)
	var paths []string
	walks := 0
	for more := true; more; walks++ {
		before := c.Total()
		more = s.Walk(func(path []byte, _ *Node, _ []byte) Visited {
			paths = append(paths, string(path))
			return Enter
		})
		if n := c.Total() - before; n > 2*mostLooked {
			t.Errorf("a walk has looked at %d nodes", n)
		}
	}
	if got := strings.Join(paths, " "); got != "/p /p/a /p/z /p/z/x" || walks < young/mostLooked || walks > 2*young/mostLooked {
		t.Errorf("%d walks have visited %s", walks, got)
	}
}

// walkAll walks a subtree in steps of so many nodes, with something between them.
func walkAll(t *testing.T, s *Subtree, step int, between func()) (nodes map[string]string, order []string) {
	t.Helper()
	nodes = map[string]string{}
	for more := true; more; between() {
		left := step
		more = s.Walk(func(path []byte, n *Node, data []byte) Visited {
			if left--; left < 0 {
				return Again
			}
			if _, again := nodes[string(path)]; again {
				t.Fatalf("%s comes twice", path)
			}
			nodes[string(path)] = fmt.Sprintf("%+v %q %v", n.Stat(), data, n.ACL)
			order = append(order, string(path))
			return Enter
		})
	}
	return nodes, order
}

// inTreeOrder compares paths: parents come before their children, and these in the byte order of their names.
func inTreeOrder(a, b string) int {
	return slices.Compare(strings.Split(strings.TrimSuffix(a, "/"), "/"), strings.Split(strings.TrimSuffix(b, "/"), "/"))
}

// TestSubtreeIsFrozen walks subtrees while the tree changes at random, two at a time and beside a View.
func TestSubtreeIsFrozen(t *testing.T) {
	compared := 0
	first := seeds.First(t)
	for seed := first; seed < first+30; seed++ {
		tree := New()
		g := &generator{rng: rand.New(rand.NewPCG(seed, 2)), zxid: 0}
		var out Applied
		change := func() {
			txn := g.txn(tree)
			tree.Apply(&txn, &out)
		}
		for range 300 {
			change()
		}
		for range 20 {
			path, other := g.path(), "/"
			want, order := below(t, tree, path)
			all, _ := below(t, tree, other)
			if want == nil {
				if _, ok := tree.Get(path); ok {
					t.Fatalf("seed %d: no subtree of %s", seed, path)
				}
				change()
				continue
			}
			if len(want) != tree.CountDescendants(path)+1 || order[0] != path || len(all) != tree.numNodes() {
				t.Fatalf("seed %d: %d nodes of %s, %d in all", seed, len(want), path, len(all))
			}
			if !slices.IsSortedFunc(order, inTreeOrder) {
				t.Fatalf("seed %d: not in order: %s", seed, order)
			}
			view := tree.Freeze()
			a, _ := tree.FreezeBelow(path, 1<<20)
			b, _ := tree.FreezeBelow(other, 1<<20)
			got, gotOrder := walkAll(t, a, 3, change)
			if !maps.Equal(got, want) || !slices.Equal(gotOrder, order) {
				t.Fatalf("seed %d: %s is now\n%v\nand was\n%v", seed, path, got, want)
			}
			a.Close()
			if got, _ := walkAll(t, b, 3, change); !maps.Equal(got, all) {
				t.Fatalf("seed %d: all is now\n%v\nand was\n%v", seed, got, all)
			}
			b.Close()
			view.Close()
			compared += len(all)
		}
		if len(tree.subtrees) != 0 {
			t.Fatalf("%d subtrees are left", len(tree.subtrees))
		}
	}
	if compared < 1000 {
		t.Errorf("only %d nodes were compared: a poor mixture", compared)
	}
}

// TestSubtreeIsGivenUp changes more nodes than a subtree may keep.
func TestSubtreeIsGivenUp(t *testing.T) {
	tree := wideTree(100)
	s, _ := tree.FreezeBelow("/wide", 50*(SavedBytes+10))
	defer s.Close()
	var out Applied
	for i := range 40 {
		apply(tree, &out, Op{Kind: OpSetData, Path: fmt.Sprintf("/wide/%d", i), Version: 1})
	}
	if s.Lost() {
		t.Error("given up too early")
	}
	for i := range 20 {
		apply(tree, &out, Op{Kind: OpSetData, Path: fmt.Sprintf("/wide/%d", 50+i), Version: 1})
	}
	if !s.Lost() {
		t.Error("not given up")
	}
}

// TestLongDataGivesASubtreeUp counts the data that is kept.
func TestLongDataGivesASubtreeUp(t *testing.T) {
	tree := wideTree(2)
	var out Applied
	set := func(path string, bytes int) {
		apply(tree, &out, Op{Kind: OpSetData, Path: path, Data: make([]byte, bytes), Version: 1})
	}
	set("/wide/0", 10_000)
	s, _ := tree.FreezeBelow("/wide", 10_000)
	defer s.Close()
	if set("/wide/1", 20_000); s.Lost() {
		t.Error("given up for new data, which it does not keep")
	}
	if set("/wide/0", 0); !s.Lost() {
		t.Error("not given up for data that it has no room for")
	}
}

// TestWideSubtreeIsFrozen walks nodes with so many children that these come in several batches, while children are
// created and deleted, and at last all of them and the nodes.
func TestWideSubtreeIsFrozen(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+20; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		tree, zxid := New(), jute.Zxid(0)
		var out Applied
		do := func(kind OpKind, path string) bool {
			zxid++
			tree.Apply(&Txn{Zxid: zxid, Ops: []Op{{Kind: kind, Path: path}}}, &out)
			return out.Results[0].Code == 0
		}
		child := func() string { return fmt.Sprintf("/w/%c/%04d", 'a'+rng.IntN(2), rng.IntN(3500)) }
		do(OpCreate, "/w")
		do(OpCreate, "/w/a")
		do(OpCreate, "/w/b")
		for range 5 * batchSize {
			do(OpCreate, child())
		}
		want, order := below(t, tree, "/w")
		if !slices.IsSortedFunc(order, inTreeOrder) || len(order) != tree.CountDescendants("/w")+1 {
			t.Fatalf("seed %d: %d nodes, or not in order", seed, len(order))
		}
		steps := 0
		change := func() {
			for range 200 {
				do([]OpKind{OpCreate, OpDelete, OpDelete}[rng.IntN(3)], child())
			}
			if steps++; steps == 5 {
				for _, child := range slices.Collect(tree.Children("/w/b")) {
					do(OpDelete, "/w/b/"+child)
				}
				if !do(OpDelete, "/w/b") || !do(OpCreate, "/b") { // in its record
					t.Fatalf("seed %d: /w/b can't be deleted", seed)
				}
			}
		}
		s, _ := tree.FreezeBelow("/w", 1<<20)
		got, gotOrder := walkAll(t, s, 300, change)
		if !maps.Equal(got, want) || !slices.Equal(gotOrder, order) {
			t.Fatalf("seed %d: %d nodes were %d", seed, len(got), len(want))
		}
		s.Close()
	}
}
