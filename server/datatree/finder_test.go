package datatree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// deepTree has a chain of nodes /d/d/d..., and leaves below the last one that session 1 owns.
func deepTree(depth, leaves int) (tree *Tree, bottom string) {
	tree = New()
	var out Applied
	apply := func(op Op) { tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{op}}, &out) }
	apply(Op{Kind: OpCreateSession, TimeoutMs: 1000})
	for range depth {
		bottom += "/d"
		apply(Op{Kind: OpCreate, Path: bottom, ACL: openACL, Cversion: 1})
	}
	for i := range leaves {
		apply(Op{Kind: OpCreate, Path: fmt.Sprintf("%s/leaf-%d", bottom, i), ACL: openACL, Owner: jute.OwnerSession(1), Cversion: int32(i + 1)})
	}
	return tree, bottom
}

// TestDepthDoesNotCount checks that what changes of one subtree cost does not depend on how far it is from the root.
func TestDepthDoesNotCount(t *testing.T) {
	const depth, leaves = 1000, 200
	var out Applied
	tree, _ := deepTree(depth, 0)
	if n := tree.last.lookups; n > 2*depth {
		t.Errorf("%d look-ups for a chain of %d nodes", n, depth)
	}

	tree, bottom := deepTree(depth, leaves)
	begin := tree.last.lookups
	txn := Txn{Zxid: tree.LastZxid() + 1, Session: 1}
	for i := range leaves {
		txn.Ops = append(txn.Ops, Op{Kind: OpSetData, Path: fmt.Sprintf("%s/leaf-%d", bottom, i), Data: []byte("x")})
	}
	for i := range leaves {
		txn.Ops = append(txn.Ops, Op{Kind: OpDelete, Path: fmt.Sprintf("%s/leaf-%d", bottom, i)})
	}
	for path := bottom; path != ""; path, _ = split(path) {
		txn.Ops = append(txn.Ops, Op{Kind: OpDelete, Path: path})
	}
	tree.Apply(&txn, &out)
	if n := tree.last.lookups - begin; n > depth+2*leaves+2 || tree.skipped > 0 || tree.CountDescendants("/") != 3 {
		t.Errorf("%d look-ups for changes of %d leaves and the delete of %d levels, %d skipped", n, leaves, depth, tree.skipped)
	}

	tree, _ = deepTree(depth, leaves)
	begin = tree.last.lookups
	tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{{Kind: OpCloseSession, Paths: slices.Sorted(tree.Ephemerals(1, ""))}}}, &out)
	if n := tree.last.lookups - begin; n > depth+leaves || tree.Stats().Ephemerals > 0 {
		t.Errorf("%d look-ups for the close of a session with %d listed ephemerals at depth %d", n, leaves, depth)
	}
}

// TestEphemeralsOfAPrefix: ephemerals that don't match cost no path, however far they and their parents are from
// the root.
func TestEphemeralsOfAPrefix(t *testing.T) {
	const depth, leaves = 1000, 200
	tree, bottom := deepTree(depth, leaves)
	for path := bottom; path != ""; path = path[2:] { // one on each level
		var out Applied
		tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{{Kind: OpCreate, Path: path + "/leaf-", Owner: jute.OwnerSession(1)}}}, &out)
	}
	all := slices.Sorted(tree.Ephemerals(1, ""))
	for _, prefix := range []string{"", "/", bottom[:3], bottom, bottom + "/", all[0], all[0] + "x", bottom + "/leaf-1", bottom + "/leaf", bottom[4:] + "/l", "/d/", "//d", "/d//d", "/none", "/no/ne", "d", "x"} {
		want := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return !strings.HasPrefix(path, prefix) })
		if got := slices.Sorted(tree.Ephemerals(1, prefix)); !slices.Equal(got, want) {
			t.Errorf("prefix of %d bytes: %d ephemerals, want %d", len(prefix), len(got), len(want))
		}
	}
	none := func() {
		for path := range tree.Ephemerals(1, "/none") {
			t.Error(path)
		}
	}
	var c steps.Counter
	tree.CountSteps(&c)
	if none(); c.Total() > int64(2*len(all)+depth) {
		t.Errorf("%d steps to pass over %d ephemerals below %d nodes", c.Total(), len(all), depth)
	}
}

// TestReaderFindsWhatTheTreeFinds compares a reader with the tree, which has no memory, while nodes come and go.
func TestReaderFindsWhatTheTreeFinds(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+20; seed++ {
		rng := rand.New(rand.NewPCG(seed, 0))
		tree := New()
		readers := []*Reader{tree.NewReader(), tree.NewReader()}
		var out Applied
		path := func() string {
			var b strings.Builder
			for range rng.IntN(6) {
				b.WriteString("/" + []string{"a", "ab", "b", "a-long-name"}[rng.IntN(4)])
			}
			return b.String() + []string{"", "", "", "/", "//a", "x"}[rng.IntN(6)]
		}
		for range 2000 {
			op := Op{Kind: OpCreate, Path: path(), ACL: openACL}
			if rng.IntN(3) == 0 {
				op = Op{Kind: OpDelete, Path: op.Path}
			}
			tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Ops: []Op{op}}, &out)
			at, r := path(), readers[rng.IntN(2)]
			want, ok := tree.Get(at)
			got, found := r.Get(at)
			if found != ok || got.Czxid != want.Czxid || tree.last.find(at) != tree.find(at) {
				t.Fatalf("seed %d: %q is found as %v %v, want %v %v", seed, at, found, got.Czxid, ok, want.Czxid)
			}
			if a, b := slices.Collect(r.Children(at)), slices.Collect(tree.Children(at)); !slices.Equal(a, b) {
				t.Fatalf("seed %d: %q has the children %q, want %q", seed, at, a, b)
			}
		}
	}
}

// TestByPath compares the order of nodes with that of their paths.
func TestByPath(t *testing.T) {
	names := []string{"a", "a!", "a-", "a0", "a!b", "ab", "b", "-", "é", "many-start-alike-01", "many-start-alike-02", "many-start-alike-0", "many-start-alike-then-differ"}
	first := seeds.First(t)
	for seed := first; seed < first+50; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		tree := New()
		var out Applied
		apply := func(op Op) { tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{op}}, &out) }
		apply(Op{Kind: OpCreateSession, TimeoutMs: 1000})
		for range 300 {
			var path strings.Builder
			for range 1 + rng.IntN(4) {
				path.WriteString("/" + names[rng.IntN(len(names))])
			}
			apply(Op{Kind: OpCreate, Path: path.String(), ACL: openACL, Owner: jute.OwnerSession(jute.SessionID(rng.IntN(2)))})
		}
		var got []string
		for _, id := range tree.byPath(tree.ephemeralsOf(1)) {
			got = append(got, tree.path(id))
		}
		if want := slices.Sorted(tree.Ephemerals(1, "")); len(want) == 0 || !slices.Equal(got, want) {
			t.Fatalf("seed %d: got the order %q, want %q", seed, got, want)
		}
	}
}
