//go:build zabmutants

package datatree

import "testing"

// TestMutants checks that a finder that continues from a node that is gone is noticed. Runs of the simulator find the other
// faults of the package; with this one they may never end, as nodes that take the places of others become their own parents.
func TestMutants(t *testing.T) {
	finds := func() bool {
		tree, out := New(), new(Applied)
		apply(tree, out, Op{Kind: OpCreate, Path: "/a", ACL: openACL})
		apply(tree, out, Op{Kind: OpDelete, Path: "/a"})
		return tree.last.find("/a") != 0
	}
	if finds() {
		t.Fatal("a node that was deleted is found without a fault")
	}
	defer unlinkedKept.Plant()()
	if !finds() {
		t.Errorf("nothing finds %v", unlinkedKept)
	}
	t.Log("counts: faults=1")
}
