package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
)

// TestFrozen reads a tree of several pages while it changes behind the reader.
func TestFrozen(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t).Namespace("/d")
	must(t, settle.Ensure(t.Context(), c, "/", client.CreateOptions{}))
	const nodes = 5000
	var paths []string
	for i := range nodes / 2 {
		paths = append(paths, fmt.Sprint("/p/", i), fmt.Sprint("/p/", i, "/x"))
	}
	makeTree(t, c, "/p")
	makeTree(t, c, paths...)
	want := map[string]client.Stat{}
	for e, err := range tree.Walk(t.Context(), c, "/p", tree.WalkOptions{}) {
		must(t, err)
		want[e.Path] = e.Stat
	}
	n := 0
	var zxid client.Zxid
	for e, err := range tree.Frozen(t.Context(), c, "/p", tree.FrozenOptions{Data: true, Begun: func(z client.Zxid) { zxid = z }}) {
		must(t, err)
		if e.Stat != want[e.Path] || e.Stat.Mzxid > zxid || !bytes.Equal(e.Data, []byte(e.Path)) {
			t.Fatalf("%s: %+v, data %q; was %+v", e.Path, e.Stat, e.Data, want[e.Path])
		}
		if n++; n%100 == 1 && n < nodes/2 {
			_, err := c.Set(t.Context(), fmt.Sprint("/p/", nodes/2-n), []byte("new"), client.AnyVersion)
			must(t, err)
			must(t, c.Delete(t.Context(), fmt.Sprint("/p/", nodes/2-n, "/x"), client.AnyVersion))
			_, err = c.Create(t.Context(), fmt.Sprint("/p/new", n), nil, client.CreateOptions{})
			must(t, err)
		}
	}
	if n != nodes+1 || zxid == 0 {
		t.Errorf("%d nodes at %v", n, zxid)
	}
	for _, err := range tree.Frozen(t.Context(), c, "/none", tree.FrozenOptions{}) {
		if !errors.Is(err, client.ErrNoNode) {
			t.Errorf("of no node: %v", err)
		}
	}

	// Views that are not read to their end don't keep others out, and end with their connection.
	for range 10 {
		for _, err := range tree.Frozen(t.Context(), c, "/p", tree.FrozenOptions{}) {
			must(t, err)
			break
		}
	}
	page, err := c.SubtreePage(t.Context(), "/p", client.SubtreePageOptions{})
	must(t, err)
	for range 2 {
		_, err = c.SubtreePage(t.Context(), "/", client.SubtreePageOptions{})
		must(t, err)
	}
	if _, err = c.SubtreePage(t.Context(), "/p", client.SubtreePageOptions{}); !errors.Is(err, client.ErrThrottled) {
		t.Errorf("a fourth view of a connection, which leaves one to others: %v", err)
	}
	srv.CutConnections()
	for err = client.ErrConnectionLoss; errors.Is(err, client.ErrConnectionLoss); {
		_, err = c.SubtreePage(t.Context(), "/p", client.SubtreePageOptions{View: page.View})
	}
	if !errors.Is(err, client.ErrOperationTimeout) {
		t.Errorf("the view of an earlier connection: %v", err)
	}
	for {
		_, err = c.SubtreePage(t.Context(), "/p", client.SubtreePageOptions{})
		if !errors.Is(err, client.ErrThrottled) { // else the server has not noticed yet
			break
		}
	}
	must(t, err)
}
