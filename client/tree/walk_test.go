package tree_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
)

// makeTree creates nodes in the order given, pipelined; each has its path for data.
func makeTree(t *testing.T, c *client.Client, paths ...string) {
	t.Helper()
	made := make([]*client.Future[client.Created], len(paths))
	for i, path := range paths {
		made[i] = c.Async().Create(path, []byte(path), client.CreateOptions{})
	}
	for _, f := range made {
		_, err := f.Wait(t.Context())
		must(t, err)
	}
}

func walked(ctx context.Context, c *client.Client, path string, o tree.WalkOptions) (paths []string, err error) {
	for e, err := range tree.Walk(ctx, c, path, o) {
		if err != nil {
			return paths, err
		}
		paths = append(paths, e.Path)
	}
	return paths, nil
}

var forest = []string{"/a", "/a/x", "/a/x/1", "/a/x/2", "/a/y", "/b", "/b-c", "/b/z"}

func TestWalkOrder(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t).Namespace("/d")
	must(t, settle.Ensure(t.Context(), c, "/", client.CreateOptions{}))
	makeTree(t, c, forest...)
	tests := []struct {
		name string
		path string
		o    tree.WalkOptions
		want string
	}{
		{"depth first", "/", tree.WalkOptions{}, "/ /a /a/x /a/x/1 /a/x/2 /a/y /b /b/z /b-c"},
		{"breadth first", "/", tree.WalkOptions{BreadthFirst: true}, "/ /a /b /b-c /a/x /a/y /b/z /a/x/1 /a/x/2"},
		{"part", "/a/x", tree.WalkOptions{}, "/a/x /a/x/1 /a/x/2"},
		{"children only", "/", tree.WalkOptions{Depth: 1}, "/ /a /b /b-c"},
		{"two levels", "/", tree.WalkOptions{Depth: 2, BreadthFirst: true}, "/ /a /b /b-c /a/x /a/y /b/z"},
		{"a leaf", "/b/z", tree.WalkOptions{}, "/b/z"},
	}
	for _, test := range tests {
		for _, window := range []int{0, 1, 2, 5} {
			for _, data := range []bool{false, true} {
				test.o.Window, test.o.Data = window, data
				for _, o := range []tree.WalkOptions{test.o, test.o.Plain()} {
					got, err := walked(t.Context(), c, test.path, o)
					if err != nil || strings.Join(got, " ") != test.want {
						t.Errorf("%s, %+v: %v, %v; want %v", test.name, o, got, err, test.want)
					}
				}
			}
		}
	}
}

func TestWalkEntries(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	makeTree(t, c, forest...)
	for _, depth := range []int{0, 1} {
		for e, err := range tree.Walk(t.Context(), c, "/a", tree.WalkOptions{Data: true, Depth: depth}) {
			must(t, err)
			node, err := c.Get(t.Context(), e.Path)
			must(t, err)
			if e.Stat != node.Stat || string(e.Data) != string(node.Data) || e.Depth != strings.Count(e.Path, "/")-1 {
				t.Errorf("entry is %+v, the node %+v, %q", e, node.Stat, node.Data)
			}
		}
	}
	for e, err := range tree.Walk(t.Context(), c, "/a", tree.WalkOptions{Depth: 1}) {
		if must(t, err); e.Path == "/a/x" && e.Stat.NumChildren != 2 {
			t.Errorf("the entry at the last depth is %+v", e)
		}
	}
}

func TestWalkWhateverBreaks(t *testing.T) {
	for _, o := range []tree.WalkOptions{
		{Data: true, Window: 3}, {BreadthFirst: true, Window: 4}, {Depth: 2, Window: 2},
		tree.WalkOptions{Data: true, Window: 3}.Plain(), tree.WalkOptions{BreadthFirst: true, Window: 4}.Plain(), tree.WalkOptions{Depth: 2, Window: 2}.Plain(),
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			everyBreak(t, func(b *breakage) { makeTree(b.T, b.Look, "/a", "/a/x", "/b", "/b/y") }, func(ctx context.Context, b *breakage) {
				want := "/ /a /a/x /b /b/y"
				if o.BreadthFirst {
					want = "/ /a /b /a/x /b/y"
				}
				got, err := walked(ctx, b.C, "/", o)
				if err != nil || strings.Join(got, " ") != want {
					b.T.Fatalf("%v, %v", got, err)
				}
			})
		})
	}
}

func TestWalkEndsWithTheSession(t *testing.T) {
	everyExpiry(t, false, func(ctx context.Context, b *breakage) {
		makeTree(b.T, b.Look, "/a", "/a/x")
		_, err := walked(ctx, b.C, "/", tree.WalkOptions{Window: 1})
		if b.Broken() {
			mustBe(b.T, err, client.ErrSessionExpired)
		} else {
			must(b.T, err)
		}
	})
}

func TestWalkOfWhatIsNotThere(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	for _, o := range []tree.WalkOptions{{}, {Data: true}, {BreadthFirst: true}} {
		_, err := walked(t.Context(), c, "/none", o)
		mustBe(t, err, client.ErrNoNode)
		_, err = walked(t.Context(), c, "none", o)
		mustBe(t, err, client.ErrBadArguments)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := walked(ctx, c, "/", tree.WalkOptions{})
	mustBe(t, err, context.Canceled)
}

// Nodes that go under the walk, because the loop itself deletes them here, are left out, unless
// they are in a page that is under way.
func TestWalkSkipsWhatVanishes(t *testing.T) {
	for o, want := range map[tree.WalkOptions]string{{Window: 1}: "/d /d/a /d/b /d/z", tree.WalkOptions{Window: 1}.Plain(): "/d /d/a /d/z"} {
		c := newWorld(t, 1).Client(t)
		makeTree(t, c, "/d", "/d/a", "/d/b", "/d/b/c", "/d/z")
		var got []string
		for e, err := range tree.Walk(t.Context(), c, "/d", o) {
			must(t, err)
			if got = append(got, e.Path); e.Path == "/d/a" {
				_, err := tree.Delete(t.Context(), c, "/d/b", tree.DeleteOptions{})
				must(t, err)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: walked %v, want %v", o, got, want)
		}
	}
}

func TestWalkGoesOnWhereItMayNotRead(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	makeTree(t, c, "/d", "/d/a", "/d/closed", "/d/closed/x", "/d/z")
	admin := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "ip", ID: "192.0.2.1"}}}
	_, err := c.SetACL(t.Context(), "/d/closed", admin, client.AnyVersion)
	must(t, err)
	var got []string
	for e, err := range tree.Walk(t.Context(), c, "/d", tree.WalkOptions{}) {
		if err != nil {
			mustBe(t, err, client.ErrNoAuth)
			e.Path += "!"
		}
		got = append(got, e.Path)
	}
	if want := "/d /d/a /d/closed! /d/z"; strings.Join(got, " ") != want {
		t.Errorf("walked %v, want %v", got, want)
	}
}

// A wide tree and a deep one, against the sorted list of what was created.
func TestWalkOfManyNodes(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	paths := []string{"/many"}
	for i := range 300 {
		dir := fmt.Sprintf("/many/%03d", i)
		paths = append(paths, dir)
		for j := range i % 7 {
			paths = append(paths, fmt.Sprintf("%s/%d", dir, j))
		}
	}
	for path := "/many/x"; len(path) < 200; path += "/x" {
		paths = append(paths, path)
	}
	makeTree(t, c, paths...)
	for _, o := range []tree.WalkOptions{{}, {Window: 7}, {Window: 16, Data: true}} {
		got, err := walked(t.Context(), c, "/many", o)
		if must(t, err); !slices.Equal(got, paths) {
			t.Errorf("%+v: walked %d nodes, want %d", o, len(got), len(paths))
		}
	}
	got, err := walked(t.Context(), c, "/many", tree.WalkOptions{BreadthFirst: true, Window: 7})
	must(t, err)
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	if !slices.Equal(got, paths) {
		t.Errorf("breadth first: walked %d nodes, want %d", len(got), len(paths))
	}
}
