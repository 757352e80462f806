package datatree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
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
	return walkAll(t, s, func() {})
}

// walkAll walks a subtree in steps of a few nodes, with something between them.
func walkAll(t *testing.T, s *Subtree, between func()) (nodes map[string]string, order []string) {
	t.Helper()
	nodes = map[string]string{}
	for more := true; more; between() {
		left := 3
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
			for i, p := range order[1:] {
				if parent := p[:max(1, strings.LastIndexByte(p, '/'))]; !slices.Contains(order[:i+1], parent) {
					t.Fatalf("seed %d: %s comes before its parent", seed, p)
				}
			}
			view := tree.Freeze()
			a, _ := tree.FreezeBelow(path, 1<<20)
			b, _ := tree.FreezeBelow(other, 1<<20)
			got, _ := walkAll(t, a, change)
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d: %s is now\n%v\nand was\n%v", seed, path, got, want)
			}
			a.Close()
			if got, _ := walkAll(t, b, change); !maps.Equal(got, all) {
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
	s, _ := tree.FreezeBelow("/wide", 50)
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
