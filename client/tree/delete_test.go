package tree_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// everyWay is how Delete works on servers with pages and on those without.
var everyWay = map[string]tree.DeleteOptions{"pages": {}, "plain": tree.DeleteOptions{}.Plain()}

func TestDeleteAllWhateverBreaks(t *testing.T) {
	for name, o := range everyWay {
		t.Run(name, func(t *testing.T) {
			everyBreak(t, func(b *breakage) { makeTree(b.T, b.Look, forest...) }, func(ctx context.Context, b *breakage) {
				n, err := tree.Delete(ctx, b.C, "/a", o)
				if err != nil || n != 5 {
					b.T.Fatalf("deleted %d, %v", n, err)
				}
				if got, err := walked(ctx, b.Look, "/", tree.WalkOptions{}); err != nil || strings.Join(got, " ") != "/ /b /b/z /b-c" {
					b.T.Fatalf("left are %v, %v", got, err)
				}
			})
		})
	}
}

func TestDeleteAllOptions(t *testing.T) {
	srv := newWorld(t, 1)
	tests := []struct {
		name string
		path string
		o    tree.DeleteOptions
		n    int
		left string
	}{
		{"keep the root", "/a", tree.DeleteOptions{KeepRoot: true}, 4, "/ /a /b /b/z /b-c"},
		{"dry run", "/a", tree.DeleteOptions{DryRun: true}, 5, "/ /a /a/x /a/x/1 /a/x/2 /a/y /b /b/z /b-c"},
		{"a leaf", "/b/z", tree.DeleteOptions{}, 1, "/ /a /a/x /a/x/1 /a/x/2 /a/y /b /b-c"},
		{"nothing below", "/b/z", tree.DeleteOptions{KeepRoot: true}, 0, "/ /a /a/x /a/x/1 /a/x/2 /a/y /b /b/z /b-c"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := srv.Client(t).Namespace(fmt.Sprintf("/d%d", i))
			must(t, settle.Ensure(t.Context(), c, "/", client.CreateOptions{}))
			makeTree(t, c, forest...)
			n, err := tree.Delete(t.Context(), c, test.path, test.o)
			if err != nil || n != test.n {
				t.Errorf("deleted %d, %v; want %d", n, err, test.n)
			}
			got, err := walked(t.Context(), c, "/", tree.WalkOptions{})
			if err != nil || strings.Join(got, " ") != test.left {
				t.Errorf("left are %v, %v; want %s", got, err, test.left)
			}
			if _, err := tree.Delete(t.Context(), c, "/", tree.DeleteOptions{}); err != nil {
				t.Errorf("delete the view's root: %v", err)
			}
			if found, err := c.Exists(t.Context(), "/"); err != nil || found.Exists {
				t.Errorf("the view's root is there: %v, %v", found.Exists, err)
			}
		})
	}
}

func TestDeleteAllSparesTheServersNodes(t *testing.T) {
	c := zktest.Start(t).Client(t) // it empties the whole tree
	for _, path := range []string{"/zookeeper", "/zookeeper/quota"} {
		_, err := tree.Delete(t.Context(), c, path, tree.DeleteOptions{})
		mustBe(t, err, client.ErrBadArguments)
	}
	_, err := tree.Delete(t.Context(), c.Namespace("/zookeeper"), "/quota", tree.DeleteOptions{})
	mustBe(t, err, client.ErrBadArguments)
	_, err = tree.Delete(t.Context(), c, "/none", tree.DeleteOptions{})
	mustBe(t, err, client.ErrNoNode)

	makeTree(t, c, "/a", "/a/b", "/zookeeperish", "/zookeeperish/x")
	n, err := tree.Delete(t.Context(), c, "/", tree.DeleteOptions{})
	if err != nil || n != 4 {
		t.Errorf("deleted %d, %v", n, err)
	}
	list, err := c.Children(t.Context(), "/")
	if err != nil || strings.Join(list.Names, " ") != "zookeeper" {
		t.Errorf("left are %v, %v", list.Names, err)
	}
	if found, err := c.Exists(t.Context(), "/zookeeper/config"); err != nil || !found.Exists {
		t.Errorf("/zookeeper/config: %v, %v", found.Exists, err)
	}
}

// More nodes than go into one multi, with names that fill a request before the count
// does: all children of one node, and with a grandchild.
func TestDeleteAllOfManyNodes(t *testing.T) {
	for _, more := range [][]string{nil, {"/many/0007/x"}} {
		for name, o := range everyWay {
			t.Run(fmt.Sprint(name, more), func(t *testing.T) { testDeleteMany(t, more, o) })
		}
	}
}

func testDeleteMany(t *testing.T, more []string, o tree.DeleteOptions) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	paths := []string{"/many"}
	for i := range 3000 {
		paths = append(paths, fmt.Sprintf("/many/%04d", i))
	}
	for i := range 200 {
		paths = append(paths, fmt.Sprintf("/many/%s-%d", strings.Repeat("x", 2000), i))
	}
	paths = append(paths, more...)
	makeTree(t, c, paths...)
	before := srv.Requests()
	var done, found int
	o.Progress = func(d, f int) {
		if d < done || f < found || d > f {
			t.Errorf("progress goes from %d of %d to %d of %d", done, found, d, f)
		}
		done, found = d, f
	}
	n, err := tree.Delete(t.Context(), c, "/many", o)
	if err != nil || n != len(paths) || done != n || found != n {
		t.Errorf("deleted %d, progress says %d of %d, %v", n, done, found, err)
	}
	sent := srv.Requests().Since(before)
	if multis := sent.Of(jute.OpMulti); multis < 7 || multis > 20 {
		t.Errorf("%d multis", multis)
	}
	if reads := sent.Of(jute.OpGetChildren2, jute.OpExists, jute.OpGetData, jute.OpChildrenPage); more == nil && reads > 20 {
		t.Errorf("%d reads, though no node has children", reads)
	}
}

func TestDeleteAllInBatches(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	paths := []string{"/b"}
	for i := range 9 {
		paths = append(paths, fmt.Sprintf("/b/%d", i))
	}
	for batch, multis := range map[int]int{0: 1, 1: 10, 3: 4, 10: 1, 100: 1} {
		makeTree(t, c, paths...)
		before := srv.Requests()
		n, err := tree.Delete(t.Context(), c, "/b", tree.DeleteOptions{Batch: batch})
		if sent := srv.Requests().Since(before).Of(jute.OpMulti); err != nil || n != 10 || sent != multis {
			t.Errorf("batch %d: deleted %d by %d multis, %v; want %d multis", batch, n, sent, err, multis)
		}
	}
	_, err := tree.Delete(t.Context(), c, "/", tree.DeleteOptions{Batch: -1})
	mustBe(t, err, client.ErrBadArguments)
}

// Somebody creates a node each time when something was deleted, for a while.
func TestDeleteAllOfATreeThatGrows(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	paths := []string{"/g"} // more than are deleted at a time
	for i := range 29 {
		paths = append(paths, fmt.Sprintf("/g/%d", i))
	}
	makeTree(t, c, paths...)
	grown := 0
	n, err := tree.Delete(t.Context(), c, "/g", tree.DeleteOptions{Batch: 1, Progress: func(done, _ int) {
		if done < 4 && done > grown {
			grown++
			makeTree(t, c, fmt.Sprintf("/g/new%d", grown))
		}
	}})
	if err != nil || grown == 0 || n != len(paths)+grown {
		t.Errorf("deleted %d of 30 and %d that came, %v", n, grown, err)
	}
	if found, err := c.Exists(t.Context(), "/g"); err != nil || found.Exists {
		t.Errorf("/g: %v, %v", found.Exists, err)
	}
}

// Others create nodes in the tree and delete some while it goes.
func TestDeleteAllAmongOthers(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	paths := []string{"/d"}
	for i := range 50 {
		for j := range 20 {
			if j == 0 {
				paths = append(paths, fmt.Sprintf("/d/%d", i))
			}
			paths = append(paths, fmt.Sprintf("/d/%d/%d", i, j))
		}
	}
	makeTree(t, c, paths...)
	var others sync.WaitGroup
	for who := range 2 {
		other := srv.Client(t)
		others.Go(func() {
			for i := range 50 { // errors are those of nodes that are gone
				other.Delete(t.Context(), fmt.Sprintf("/d/%d/%d", i, who), client.AnyVersion)
				other.Create(t.Context(), fmt.Sprintf("/d/%d/new-%d", 49-i, who), nil, client.CreateOptions{})
			}
		})
	}
	_, err := tree.Delete(t.Context(), c, "/d", tree.DeleteOptions{})
	must(t, err)
	others.Wait()
	if found, err := c.Exists(t.Context(), "/d"); err != nil || found.Exists {
		t.Errorf("/d: %v, %v", found.Exists, err)
	}
}

// The caller ends it in the middle: what the error says is what there is.
func TestDeleteAllThatIsCancelledSaysWhatIsLeft(t *testing.T) {
	const nodes = 20000
	c := newWorld(t, 1).Client(t)
	paths := []string{"/d"}
	for i := range nodes - 1 {
		paths = append(paths, fmt.Sprintf("/d/%d", i))
	}
	makeTree(t, c, paths...)
	ctx, cancel := context.WithCancel(t.Context())
	n, err := tree.Delete(ctx, c, "/d", tree.DeleteOptions{Progress: func(done, found int) {
		if done > 0 {
			cancel()
		}
	}})
	mustBe(t, err, context.Canceled)
	e, ok := errors.AsType[*tree.DeleteError](err)
	if !ok || e.Deleted != n || e.Deleted+e.Left != nodes || e.Unknown != 0 || e.Left == 0 {
		t.Fatalf("%+v", e)
	}
	left, err := c.CountDescendants(t.Context(), "/d")
	if must(t, err); left+1 != e.Left {
		t.Errorf("the error says %d are left, there are %d", e.Left, left+1)
	}
}

// The caller leaves when the connection breaks, at any point: what the error says is
// not less than what is there, and not more than it calls unknown.
func TestDeleteAllThatIsLeftAtABreak(t *testing.T) {
	everyBreak(t, func(b *breakage) { makeTree(b.T, b.Look, forest...) }, func(ctx context.Context, b *breakage) {
		caller, leave := context.WithCancel(ctx)
		defer leave()
		go func() {
			select {
			case <-b.Cut.Done():
			case <-caller.Done():
			}
			leave()
		}()
		_, err := tree.Delete(caller, b.C, "/a", tree.DeleteOptions{})
		checkLeft(ctx, b, err)
	})
}

// checkLeft compares what Delete of /a in a forest says with what there is.
func checkLeft(ctx context.Context, b *breakage, err error) {
	b.T.Helper()
	must(b.T, b.Look.Sync(ctx, "/"))
	got, lookErr := walked(ctx, b.Look, "/a", tree.WalkOptions{})
	if lookErr != nil && !errors.Is(lookErr, client.ErrNoNode) {
		b.T.Fatal(lookErr)
	}
	e, ok := errors.AsType[*tree.DeleteError](err)
	if err != nil && !ok {
		b.T.Fatalf("error is %v", err)
	}
	if err == nil {
		e = &tree.DeleteError{Deleted: 5}
	}
	listed := e.Deleted+e.Left+e.Unknown == 5 // and not ended before it knew of all
	if e.Left > len(got) || listed && e.Left+e.Unknown < len(got) {
		b.T.Fatalf("%+v, but %v are left", e, got)
	}
}

// The session ends in the middle: the sums are right, whatever is unknown.
func TestDeleteAllAndTheEndOfTheSession(t *testing.T) {
	everyExpiry(t, false, func(ctx context.Context, b *breakage) {
		makeTree(b.T, b.Look, forest...)
		_, err := tree.Delete(ctx, b.C, "/a", tree.DeleteOptions{})
		if !b.Broken() {
			must(b.T, err)
			return
		}
		mustBe(b.T, err, client.ErrSessionExpired)
		checkLeft(ctx, b, err)
	})
}

func TestDeleteAllGoesRoundWhatItMayNot(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	makeTree(t, c, "/d", "/d/a", "/d/closed", "/d/closed/x", "/d/z", "/d/z/1")
	closed := []client.ACL{{Perms: client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	_, err := c.SetACL(t.Context(), "/d/closed", closed, client.AnyVersion)
	must(t, err)
	n, err := tree.Delete(t.Context(), c, "/d", tree.DeleteOptions{})
	mustBe(t, err, client.ErrNoAuth)
	e, ok := errors.AsType[*tree.DeleteError](err)
	if !ok || n != 3 || e.Deleted != 3 || e.Left != 3 {
		t.Errorf("deleted %d, %v", n, err)
	}
	if want := "delete /d/closed/x: "; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
	got, err := walked(t.Context(), c, "/d", tree.WalkOptions{})
	if err != nil || strings.Join(got, " ") != "/d /d/closed /d/closed/x" {
		t.Errorf("left are %v, %v", got, err)
	}
}

// What may not be listed can be deleted all the same, if it has no children.
func TestDeleteAllOfWhatMayNotBeListed(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	makeTree(t, c, "/d", "/d/closed")
	secret := []client.ACL{{Perms: client.PermAdmin, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	_, err := c.SetACL(t.Context(), "/d/closed", secret, client.AnyVersion)
	must(t, err)
	if n, err := tree.Delete(t.Context(), c, "/d", tree.DeleteOptions{}); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	makeTree(t, c, "/d", "/d/x")
	_, err = c.SetACL(t.Context(), "/d", secret, client.AnyVersion)
	must(t, err)
	n, err := tree.Delete(t.Context(), c, "/d", tree.DeleteOptions{KeepRoot: true})
	mustBe(t, err, client.ErrNoAuth)
	if n != 0 {
		t.Errorf("deleted %d of what could not be listed", n)
	}
}
