package subtree

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/client"
)

// ReadOptions say what Live reads.
type ReadOptions struct {
	Data, ACL bool
	// Depth is how far below the root to go, if Limit is set.
	Depth int
	Limit bool
	// Window is for how many nodes requests are under way at most; 0 is 64.
	Window int
	// SkipSystem leaves out /zookeeper, which is the servers' own, unless root is
	// in it.
	SkipSystem bool
}

// Live returns the nodes of the subtree at root, in tree order, as they are when
// each is read: not all at one point in time. A node that is gone by then is left
// out; a lost connection is waited for.
//
// An error comes with a Node of which only the path counts. If it is ErrNoAuth
// the next node follows, without those below the node at hand; all others end the
// stream. ErrNoNode means that root does not exist.
func Live(ctx context.Context, c *client.Client, root string, o ReadOptions) iter.Seq2[Node, error] {
	if o.Window <= 0 {
		o.Window = 64
	}
	return func(yield func(Node, error) bool) {
		w := walker{ctx: ctx, c: c, async: c.Async(), root: root, o: o}
		w.ahead.PushBack(w.ask("/"))
		w.asked = 1
		for w.ahead.Len() > 0 {
			w.lookAhead()
			n, err := w.take()
			switch {
			case errors.Is(err, client.ErrNoNode) && n.Path != "/":
			case !yield(n, err):
				return
			case err != nil && !errors.Is(err, client.ErrNoAuth):
				return
			}
		}
	}
}

// walker reads ahead of the node that is wanted next: ahead is what follows, in
// tree order. Its elements are nodes that have been asked for (*asked) and runs
// of siblings that have not (*siblings). A node's children are spliced in behind
// it as soon as they are known, whether or not it is its turn, so that requests
// are under way for what really comes next.
type walker struct {
	ctx   context.Context
	c     *client.Client
	async client.Async
	root  string
	o     ReadOptions
	ahead list.List
	asked int // how many *asked are in ahead
}

type asked struct {
	path     string
	data     *client.Future[client.Node]
	children *client.Future[client.Listing]
	presence *client.Future[client.Presence] // instead of children at the last level
	acl      *client.Future[client.Access]
	spliced  bool
}

type siblings struct {
	parent string
	names  []string // sorted, not empty
}

func (w *walker) ask(rel string) *asked {
	a := &asked{path: rel}
	w.issue(a)
	return a
}

func (w *walker) issue(a *asked) {
	full := Join(w.root, a.path)
	switch {
	case !w.o.Limit || Depth(a.path) < w.o.Depth:
		a.children = w.async.Children(full)
	case !w.o.Data:
		a.presence = w.async.Exists(full)
	}
	if w.o.Data {
		a.data = w.async.Get(full)
	}
	if w.o.ACL {
		a.acl = w.async.GetACL(full)
	}
}

// lookAhead asks for the nodes that come next, up to the window.
func (w *walker) lookAhead() {
	seen := 0
	for e := w.ahead.Front(); e != nil && seen < w.o.Window; e = e.Next() {
		switch x := e.Value.(type) {
		case *asked:
			w.splice(e, x)
		case *siblings:
			if w.asked >= w.o.Window && e != w.ahead.Front() {
				return
			}
			first := w.ahead.InsertBefore(w.ask(child(x.parent, x.names[0])), e)
			w.asked++
			if x.names = x.names[1:]; len(x.names) == 0 {
				w.ahead.Remove(e)
			}
			e = first
		}
		seen++
	}
}

// splice puts the children of a node behind it, if they are known by now.
func (w *walker) splice(e *list.Element, a *asked) {
	if a.spliced || a.children == nil {
		return
	}
	l, ok, err := a.children.Result()
	if !ok || err != nil {
		return
	}
	a.spliced = true
	names := l.Names
	if a.path == "/" && w.root == "/" && w.c.Root() == "" && w.o.SkipSystem {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "zookeeper" })
	}
	if len(names) > 0 {
		slices.Sort(names)
		w.ahead.InsertAfter(&siblings{a.path, names}, e)
	}
}

func child(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// take removes the first node of those ahead and waits for it.
func (w *walker) take() (Node, error) {
	e := w.ahead.Front()
	a := e.Value.(*asked)
	n, err := w.wait(a)
	for errors.Is(err, client.ErrConnectionLoss) && w.ctx.Err() == nil {
		w.issue(a) // the client is connecting again, and keeps it until then
		n, err = w.wait(a)
	}
	if err == nil {
		w.splice(e, a)
	}
	w.ahead.Remove(e)
	w.asked--
	return n, err
}

func (w *walker) wait(a *asked) (Node, error) {
	n := Node{Path: a.path}
	if a.children != nil {
		l, err := a.children.Wait(w.ctx)
		if err != nil {
			return n, err
		}
		n.Stat = l.Stat
	}
	if a.presence != nil {
		p, err := a.presence.Wait(w.ctx)
		if err == nil && !p.Exists {
			err = client.ErrNoNode
		}
		if err != nil {
			return n, err
		}
		n.Stat = p.Stat
	}
	if a.acl != nil {
		acc, err := a.acl.Wait(w.ctx)
		if err != nil {
			return n, err
		}
		n.ACL = acc.ACL
	}
	if a.data != nil {
		d, err := a.data.Wait(w.ctx)
		if err != nil {
			return n, err
		}
		n.Data, n.Stat = d.Data, d.Stat
	}
	return n, nil
}
