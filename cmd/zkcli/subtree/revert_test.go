package subtree_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	. "github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

var everything = ReadOptions{Data: true, ACL: true, SkipSystem: true}

// recorded returns the nodes of a subtree as they are now.
func recorded(t *testing.T, c *client.Client, root string) iter.Seq2[Node, error] {
	t.Helper()
	var list []Node
	for n, err := range Live(t.Context(), c, root, everything) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return func(yield func(Node, error) bool) {
		for _, n := range list {
			if !yield(n, nil) {
				return
			}
		}
	}
}

// TestRevert brings subtrees back after random changes.
func TestRevert(t *testing.T) {
	c := zktest.Start(t).Client(t)
	rng := rand.New(rand.NewPCG(1, 2))
	path := func() string {
		p := "/r"
		for range rng.IntN(3) {
			p += fmt.Sprint("/", rng.IntN(4))
		}
		return p
	}
	change := func() {
		p := path()
		switch rng.IntN(5) {
		case 0, 1:
			_, _ = c.Create(t.Context(), p, []byte(fmt.Sprint(rng.IntN(5))), client.CreateOptions{}) // it may exist, or have no parent
		case 2:
			_, _ = c.Set(t.Context(), p, []byte(fmt.Sprint(rng.IntN(5))), client.AnyVersion)
		case 3:
			_, _ = c.SetACL(t.Context(), p, []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}},
				{Perms: client.PermRead, ID: client.ID{Scheme: "ip", ID: fmt.Sprint("10.0.0.", rng.IntN(3))}}}, client.AnyVersion)
		case 4:
			_ = c.Delete(t.Context(), p, client.AnyVersion)
		}
	}
	plant(t, c, node{path: "/r"})
	for round := range 30 {
		for range 20 {
			change()
		}
		if _, err := c.Create(t.Context(), "/r", nil, client.CreateOptions{}); err != nil && !errors.Is(err, client.ErrNodeExists) {
			t.Fatal(err)
		}
		former := recorded(t, c, "/r")
		for range 20 {
			change()
		}
		r, err := treediff.Revert("/r", former, Live(t.Context(), c, "/r", everything), 0)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Restore(t.Context(), r, c, nil)
		if err != nil || report.Left != 0 || report.Counts != r.Counts() {
			t.Fatalf("round %d: %+v, %v; want %+v", round, report, err, r.Counts())
		}
		for d, err := range treediff.Diff(former, Live(t.Context(), c, "/r", everything), DiffOptions{}) {
			t.Errorf("round %d: %+v, %v", round, d, err)
		}
	}
}

// TestRevertLeavesEphemerals leaves out those that were, and keeps those that are, with what is above them.
func TestRevertLeavesEphemerals(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/r"}, node{path: "/r/gone", mode: client.Ephemeral}, node{path: "/r/p", data: []byte("1")})
	former := recorded(t, c, "/r")
	for _, p := range []string{"/r/gone", "/r/p"} {
		if err := c.Delete(t.Context(), p, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	plant(t, c, node{path: "/r/new"}, node{path: "/r/new/below"}, node{path: "/r/new/lock", mode: client.Ephemeral}, node{path: "/r/p", mode: client.Ephemeral})
	r, err := treediff.Revert("/r", former, Live(t.Context(), c, "/r", everything), 0)
	if err != nil || len(r.LeftOut) != 1 || len(r.Kept) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	report, err := Restore(t.Context(), r, c, nil)
	if err != nil || report.Deleted != 1 || report.Created+report.Changed != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRevertDetectsRaces writes each kind of change after the comparison.
func TestRevertDetectsRaces(t *testing.T) {
	c := zktest.Start(t).Client(t)
	for name, race := range map[string]func(root string) error{
		"set": func(root string) error {
			_, err := c.Set(t.Context(), root+"/a", []byte("race"), client.AnyVersion)
			return err
		},
		"delete": func(root string) error { return c.Delete(t.Context(), root+"/a", client.AnyVersion) },
		"create": func(root string) error {
			_, err := c.Create(t.Context(), root+"/b", nil, client.CreateOptions{})
			return err
		},
		"created below": func(root string) error {
			_, err := c.Create(t.Context(), root+"/c/d", nil, client.CreateOptions{})
			return err
		},
		"set of the created": func(root string) error {
			_, err := c.Set(t.Context(), root+"/c", []byte("race"), client.AnyVersion)
			return err
		},
	} {
		root := "/" + name[:3] + fmt.Sprint(len(name))
		plant(t, c, node{path: root}, node{path: root + "/a"}, node{path: root + "/b"})
		former := recorded(t, c, root)
		if _, err := c.Set(t.Context(), root+"/a", []byte("1"), client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), root+"/b", client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		plant(t, c, node{path: root + "/c"})
		r, err := treediff.Revert(root, former, Live(t.Context(), c, root, everything), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := race(root); err != nil {
			t.Fatal(err)
		}
		report, err := Restore(t.Context(), r, c, nil)
		if _, ok := errors.AsType[*treediff.RacedError](err); !ok || report.Left != 3 {
			t.Errorf("%s: %v; %+v", name, err, report)
		}
	}
}

// TestRevertOfNothing brings back a root that is gone.
func TestRevertOfNothing(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/up"}, node{path: "/up/r"}, node{path: "/up/r/a", data: []byte("x")})
	former := recorded(t, c, "/up/r")
	for _, p := range []string{"/up/r/a", "/up/r", "/up"} {
		if err := c.Delete(t.Context(), p, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	r, err := treediff.Revert("/up/r", former, Live(t.Context(), c, "/up/r", everything), 0)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := Restore(t.Context(), r, c, nil); err != nil || report.Created != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}
