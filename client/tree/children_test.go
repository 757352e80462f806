package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
)

func namesOf(ctx context.Context, c *client.Client, path string, o tree.ChildrenOptions) (names []string, err error) {
	for child, err := range tree.Children(ctx, c, path, o) {
		if err != nil {
			return names, err
		}
		names = append(names, child.Name)
	}
	return names, nil
}

// TestChildren lists nodes by pages of each size.
func TestChildren(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t).Namespace("/d")
	must(t, settle.Ensure(t.Context(), c, "/", client.CreateOptions{}))
	makeTree(t, c, "/p", "/empty")
	var paths, names []string
	for i := range 30 {
		names = append(names, fmt.Sprint(i*i))
		paths = append(paths, "/p/"+names[i])
	}
	makeTree(t, c, paths...)
	slices.Sort(names)
	for _, page := range []int{0, 1, 7, 29, 30, 31} {
		for _, o := range []tree.ChildrenOptions{{}, {Stats: true}, {Data: true}} {
			o.Page = page
			got, err := namesOf(t.Context(), c, "/p", o)
			if err != nil || !slices.Equal(got, names) {
				t.Errorf("%+v: %v, %v; want %v", o, got, err, names)
			}
			for child, err := range tree.Children(t.Context(), c, "/p", o) {
				must(t, err)
				if (child.Stat.Czxid != 0) != (o.Stats || o.Data) || (string(child.Data) == "/p/"+child.Name) != o.Data || child.Err != nil {
					t.Fatalf("%+v: %+v", o, child)
				}
			}
		}
	}
	if got, err := namesOf(t.Context(), c, "/empty", tree.ChildrenOptions{}); err != nil || got != nil {
		t.Errorf("of a node without children: %v, %v", got, err)
	}
	if _, err := namesOf(t.Context(), c, "/none", tree.ChildrenOptions{}); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("of no node: %v", err)
	}
}

// TestLongData reads data that is too long for a page, and nodes that can't be read.
func TestLongData(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	makeTree(t, c, "/p", "/p/a", "/p/c")
	long := strings.Repeat("x", 900_000)
	for path, acl := range map[string][]client.ACL{"/p/b": nil, "/p/closed": {client.DigestACL(client.PermAll, "other", "pw")}} {
		_, err := c.Create(t.Context(), path, []byte(long), client.CreateOptions{ACL: acl})
		must(t, err)
	}
	var got []string
	for child, err := range tree.Children(t.Context(), c, "/p", tree.ChildrenOptions{Data: true}) {
		must(t, err)
		got = append(got, fmt.Sprint(child.Name, " ", len(child.Data), " ", errors.Is(child.Err, client.ErrNoAuth)))
	}
	if want := []string{"a 4 false", "b 900000 false", "c 4 false", "closed 0 true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChildrenWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) { makeTree(b.T, b.Look, "/a", "/a/x", "/a/y", "/a/z") }, func(ctx context.Context, b *breakage) {
		got, err := namesOf(ctx, b.C, "/a", tree.ChildrenOptions{Stats: true, Page: 2})
		if err != nil || strings.Join(got, " ") != "x y z" {
			b.T.Fatalf("%v, %v", got, err)
		}
	})
}
