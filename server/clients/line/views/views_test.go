package views

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// world is a tree with /a/b and /c, and views of it by connections that are numbers.
type world struct {
	t     *testing.T
	tree  *datatree.Tree
	table Table[int]
	zxid  jute.Zxid
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, tree: datatree.New(), table: Table[int]{Limits: Limits{Views: 2, Life: time.Minute, Bytes: 3*datatree.SavedBytes + 50}}}
	for _, path := range []string{"/a", "/a/b", "/c"} {
		w.apply(datatree.Op{Kind: datatree.OpCreate, Path: path, Data: []byte(path)})
	}
	return w
}

func (w *world) apply(op datatree.Op) {
	w.zxid++
	w.tree.Apply(&datatree.Txn{Zxid: w.zxid, Ops: []datatree.Op{op}}, new(datatree.Applied))
}

func (w *world) open(root string, c int, now time.Duration, want error) *View[int] {
	w.t.Helper()
	v, err := w.table.Open(w.tree, root, c, []string{fmt.Sprint("address", c/10)}, now)
	if err != want {
		w.t.Errorf("open %s: %v, want %v", root, err, want)
	}
	return v
}

func (w *world) get(v *View[int], root string, c int, now time.Duration, want error) {
	w.t.Helper()
	if got, err := w.table.Get(v.Number(), root, c, now); err != want || err == nil && got != v {
		w.t.Errorf("get view %d of %s for %d: %v, want %v", v.Number(), root, c, err, want)
	}
}

// TestViewsAreShared checks that a view ends for a newcomer if its connection, or those of its address, have
// more, or if it has been open for very long, and else not.
func TestViewsAreShared(t *testing.T) {
	w := newWorld(t)
	w.table.Limits.Views = 4
	read := func(now time.Duration, views ...*View[int]) {
		t.Helper()
		for _, v := range views {
			w.get(v, "/", v.conn, now, nil)
		}
	}
	// Two connections hold all four, and read them all the time.
	a1, b1 := w.open("/", 1, 0, nil), w.open("/", 2, 1, nil)
	a2, b2 := w.open("/", 1, 2, nil), w.open("/", 2, 3, nil)
	w.open("/none", 3, 4, jute.ErrNoNode)
	read(4, a1, a2, b1, b2)
	c := w.open("/", 3, 5, nil)
	w.get(a1, "/", 1, 5, jute.ErrOperationTimeout)
	w.open("/", 1, 6, jute.ErrThrottledOp) // it had its share
	d := w.open("/", 4, 7, nil)
	w.get(b1, "/", 2, 7, jute.ErrOperationTimeout)
	read(8, a2, b2, c, d)
	w.open("/", 5, 9, jute.ErrThrottledOp) // each has one, all at one address
	e := w.open("/", 11, 10, nil)          // at another address
	w.get(a2, "/", 1, 10, jute.ErrOperationTimeout)
	f := w.open("/", 21, 11, nil)
	w.get(b2, "/", 2, 11, jute.ErrOperationTimeout)
	w.open("/", 12, 12, jute.ErrThrottledOp)
	// They go on for very long.
	for now := 30 * time.Second; now < 10*time.Minute; now += 30 * time.Second {
		read(now, c, d, e, f)
		w.open("/", 5, now, jute.ErrThrottledOp)
	}
	read(10*time.Minute+4, c, d, e, f)
	g := w.open("/", 5, 10*time.Minute+5, nil)
	w.get(c, "/", 3, 10*time.Minute+5, jute.ErrOperationTimeout)
	read(10*time.Minute+5, d, e, f, g)
	if u := w.table.Usage(); u.Open != 4 || u.Lost != 5 || w.tree.NumSubtrees() != 4 {
		t.Errorf("used %+v, and the tree keeps %d", u, w.tree.NumSubtrees())
	}
}

func TestViewsEnd(t *testing.T) {
	w := newWorld(t)
	w.open("/none", 1, 0, jute.ErrNoNode)
	first := w.open("/a", 1, 0, nil)
	w.get(first, "/a", 1, time.Minute-1, nil)
	w.get(first, "/a", 2, 0, jute.ErrOperationTimeout)
	w.get(first, "/c", 1, 0, jute.ErrOperationTimeout)
	second := w.open("/", 2, time.Second, nil)
	w.open("/a", 3, time.Second, jute.ErrThrottledOp)
	w.table.Drop(2)
	w.get(second, "/", 2, time.Second, jute.ErrOperationTimeout)
	w.open("/a", 1, time.Second, jute.ErrThrottledOp) // one is for others
	third := w.open("/a", 3, time.Second, nil)
	w.get(third, "/a", 3, time.Minute, nil)
	const later = 2*time.Minute - 1 // a minute after first was read
	w.get(first, "/a", 1, later, jute.ErrOperationTimeout)
	fourth := w.open("/c", 4, later, nil)
	w.table.Close(fourth)
	w.get(fourth, "/c", 4, later, jute.ErrOperationTimeout)
	for i := range 4 {
		w.apply(datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprint("/n", i)})
		w.apply(datatree.Op{Kind: datatree.OpSetData, Path: "/a", Version: 1})
	}
	for _, path := range []string{"/a/b", "/c"} {
		w.apply(datatree.Op{Kind: datatree.OpSetData, Path: path, Version: 1})
	}
	w.get(third, "/a", 3, later, jute.ErrOperationTimeout) // too much has changed
	if n := w.tree.NumSubtrees(); n != 0 {
		t.Errorf("%d subtrees are left", n)
	}
	w.open("/a", 4, time.Minute, nil)
	w.table.Tick(2*time.Minute - 1)
	if got, want := w.table.Usage(), (Usage{Open: 1, Refused: 2, Lost: 2}); got != want {
		t.Errorf("used %+v, want %+v", got, want)
	}
	w.table.Tick(2 * time.Minute)
	if n := w.tree.NumSubtrees(); n != 0 {
		t.Errorf("%d subtrees are left that nobody reads", n)
	}
}

func TestWalk(t *testing.T) {
	w := newWorld(t)
	hidden := []jute.ACL{{Perms: jute.PermWrite}}
	w.apply(datatree.Op{Kind: datatree.OpSetACL, Path: "/c", ACL: hidden})
	w.apply(datatree.Op{Kind: datatree.OpCreate, Path: "/c/d"})
	for _, tt := range []struct{ root, want string }{
		{"/a", `["" /a "/b" /a/b]`},
		{"/c", `["" hidden]`},
	} {
		v := w.open(tt.root, 1, 0, nil)
		var got []string
		page := func() bool { // of one node
			n := 0
			return v.Walk(func(acl []jute.ACL) bool { return len(acl) == 0 || acl[0].Perms != jute.PermWrite },
				func(name string, node *datatree.Node, data []byte, readable bool) bool {
					if n++; n > 1 {
						return false
					}
					if !readable {
						data = []byte("hidden")
					}
					got = append(got, fmt.Sprintf("%q %s", name, data))
					return true
				})
		}
		for page() {
			w.apply(datatree.Op{Kind: datatree.OpSetData, Path: "/a/b", Data: []byte("new"), Version: 1})
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, want %s", tt.root, got, tt.want)
		}
		w.table.Close(v)
	}
}
