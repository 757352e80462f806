// Package views keeps the subtrees that the clients of a server are reading, each at one zxid. Servers and
// the simulator use it. It is pure: the time comes in as an argument.
package views

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/fair"
)

// Limits bound what views cost: each keeps the former version of every node that changes, at some 200 bytes
// and its data.
type Limits struct {
	Views int           // at a time; a connection may have all but one of them, and at least one
	Life  time.Duration // of a view that is not read
	Bytes int           // of the former versions that a view keeps
}

// longestLife is after how many of Life a view gives way to another connection's, although it is read.
const longestLife = 10

// Table has the views of connections, which are told apart by a C. The tree must be locked for reading when
// a method is called. It is not safe for concurrent use.
type Table[C comparable] struct {
	Limits Limits
	views  []*View[C]
	last   int64 // number

	refused, lost int64 // since the start
}

// Usage is what has become of views.
type Usage struct {
	Open    int64
	Refused int64
	Lost    int64 // not read for too long, or too much changed
}

// View is a subtree that a connection reads, page by page.
type View[C comparable] struct {
	subtree *datatree.Subtree
	number  int64
	conn    C
	groups  []string // of the connection: see package fair
	root    string
	opened  time.Duration
	read    time.Duration // the last time
}

// Open opens a view of the node at root for a connection that has these groups: see package fair. If there
// is no room, another one ends for it: of those who have most, or one that has been open for very long. The
// error is jute.ErrNoNode or jute.ErrThrottledOp.
func (t *Table[C]) Open(tree *datatree.Tree, root string, c C, groups []string, now time.Duration) (*View[C], error) {
	t.Tick(now)
	if _, ok := tree.Get(root); !ok {
		return nil, jute.ErrNoNode
	}
	if !t.makeRoom(c, groups, now) {
		t.refused++
		return nil, jute.ErrThrottledOp
	}
	subtree, _ := tree.FreezeBelow(root, t.Limits.Bytes)
	t.last++
	v := &View[C]{subtree, t.last, c, groups, strings.Clone(root), now, now}
	t.views = append(t.views, v)
	return v, nil
}

// makeRoom reports whether a connection may have one more view, and ends another one for it if need be.
func (t *Table[C]) makeRoom(c C, groups []string, now time.Duration) bool {
	holders := fair.Count(func(yield func(C, []string) bool) {
		for _, v := range t.views {
			yield(v.conn, v.groups)
		}
	})
	newcomer := fair.Newcomer(holders, c, groups)
	switch {
	case newcomer.Amount >= int64(max(1, t.Limits.Views-1)):
		return false
	case len(t.views) != t.Limits.Views: // there may be more than allowed, as the limit was lowered
		return len(t.views) < t.Limits.Views
	}
	// Views are in the order in which they were opened.
	old := slices.IndexFunc(t.views, func(v *View[C]) bool { return v.conn != c && now-v.opened >= longestLife*t.Limits.Life })
	if i := fair.Displace(holders, newcomer); i >= 0 {
		old = slices.IndexFunc(t.views, func(v *View[C]) bool { return v.conn == holders[i].Key })
	}
	if old < 0 {
		return false
	}
	t.lost++
	t.Close(t.views[old])
	return true
}

// Has reports whether there is a view with a number.
func (t *Table[C]) Has(number int64) bool {
	return slices.ContainsFunc(t.views, func(v *View[C]) bool { return v.number == number })
}

// Usage returns the counts.
func (t *Table[C]) Usage() Usage { return Usage{int64(len(t.views)), t.refused, t.lost} }

// Get returns the view with a number. The error is jute.ErrOperationTimeout if it is over, or is not one of this
// connection and this root.
func (t *Table[C]) Get(number int64, root string, c C, now time.Duration) (*View[C], error) {
	t.Tick(now)
	i := slices.IndexFunc(t.views, func(v *View[C]) bool { return v.number == number && v.conn == c && v.root == root })
	if i < 0 {
		return nil, jute.ErrOperationTimeout
	}
	v := t.views[i]
	v.read = now
	return v, nil
}

// Close closes a view.
func (t *Table[C]) Close(v *View[C]) { t.close(func(other *View[C]) bool { return other == v }) }

// Drop closes the views of a connection that has ended.
func (t *Table[C]) Drop(c C) { t.close(func(v *View[C]) bool { return v.conn == c }) }

// Tick closes the views that have not been read for too long, or whose state is lost.
func (t *Table[C]) Tick(now time.Duration) {
	before := len(t.views)
	t.close(func(v *View[C]) bool { return v.subtree.Lost() || now-v.read >= t.Limits.Life })
	t.lost += int64(before - len(t.views))
}

func (t *Table[C]) close(over func(*View[C]) bool) {
	t.views = slices.DeleteFunc(t.views, func(v *View[C]) bool {
		if over(v) {
			v.subtree.Close()
			return true
		}
		return false
	})
}

// Number returns the number of the view, which is not 0.
func (v *View[C]) Number() int64 { return v.number }

// Zxid returns the zxid of the state.
func (v *View[C]) Zxid() jute.Zxid { return v.subtree.Zxid() }

// Walk calls add for the nodes that come next, until there are no more or it returns false: the next Walk then
// begins with this node. Parents come before their children, and these in the byte order of their names. Those
// below a node that may not be read are left out. name is the path below the root.
func (v *View[C]) Walk(readable func(acl []jute.ACL) bool, add func(name string, n *datatree.Node, data []byte, readable bool) bool) (more bool) {
	above := len(strings.TrimSuffix(v.root, "/"))
	return v.subtree.Walk(func(path []byte, n *datatree.Node, data []byte) datatree.Visited {
		name := ""
		if len(path) > len(v.root) {
			name = string(path[above:])
		}
		allowed := readable(n.ACL)
		switch {
		case !add(name, n, data, allowed):
			return datatree.Again
		case !allowed:
			return datatree.Skip
		}
		return datatree.Enter
	})
}
