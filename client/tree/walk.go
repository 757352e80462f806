package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// WalkOptions say how to walk. The zero value visits everything, depth first.
type WalkOptions struct {
	// BreadthFirst visits all nodes of one depth before those that are deeper.
	BreadthFirst bool
	// Data reads each node's data, too: a second request for each.
	Data bool
	// Depth limits how far the walk goes below the path: 1 means its children. 0 means
	// no limit.
	Depth int
	// Window is how many nodes are read at a time. Breadth first, that is also how many
	// results are held at a time; depth first, there may be as many at each depth. 0
	// means 256.
	Window int

	plain bool // as on a server without pages
}

// Entry is a node that Walk visits.
type Entry struct {
	Path  string
	Stat  client.Stat
	Data  []byte       // with WalkOptions.Data
	ACL   []client.ACL // with FrozenOptions.ACLs
	Depth int          // below the path where the walk began, which has 0

	children []string // names, sorted
}

// Walk visits a node and all nodes below it: parents before their children, children in
// the order of their names. On servers that offer pages it needs little memory, whatever the
// number of children, and a request for each page of them. From others it reads each node. Reads
// are pipelined, so a walk does not wait a round trip for each. It is not a snapshot: it may omit nodes that
// are created or deleted while it walks.
//
// An error that concerns one node, such as ErrNoAuth, comes with an Entry that has the
// node's Path, and the walk continues without the nodes below if the loop does. Any
// other error has no Path and is the last. ErrNoNode is returned if the first node does
// not exist. Reads that fail because the connection broke are repeated as the policy of
// c says.
func Walk(ctx context.Context, c *client.Client, path string, o WalkOptions) iter.Seq2[Entry, error] {
	if o.Window <= 0 {
		o.Window = 256
	}
	return func(yield func(Entry, error) bool) {
		if !o.plain && offersPages(ctx, c) {
			(&pageWalk{c: c.WithRetry(c.Options().Retry), o: o}).begin(ctx, path, yield)
			return
		}
		w := &walk{c: c.WithRetry(nil), o: o, policy: c.Options().Retry, pending: visits{breadth: o.BreadthFirst}}
		w.pending.insert(0, []*visit{{path: path}})
		w.run(ctx, yield)
	}
}

// offersPages reports whether the server offers pages. If there is no connection, it waits for
// one.
func offersPages(ctx context.Context, c *client.Client) bool {
	if c.Status().Server == "" {
		_, _ = c.WithRetry(c.Options().Retry).Exists(ctx, "/") // the first read tells the error
	}
	return c.Status().Features&jute.FeaturePaging != 0
}

// walk is a walk under way.
type walk struct {
	c       *client.Client
	o       WalkOptions
	policy  *client.RetryPolicy
	pending visits
	since   int // visits done since requests were last issued
}

func (w *walk) run(ctx context.Context, yield func(Entry, error) bool) {
	for w.pending.len() > 0 {
		v := w.pending.at(0)
		e, err := w.read(ctx, v)
		w.pending.pop()
		w.since++
		switch {
		case err == nil:
			if !v.expanded {
				w.pending.insert(0, w.children(v, e.children))
			}
			if !yield(e, nil) {
				return
			}
		case errors.Is(err, client.ErrNoNode) && v.depth > 0:
		case errors.Is(err, client.ErrNoAuth):
			if !yield(Entry{Path: v.path, Depth: v.depth}, err) {
				return
			}
		default:
			yield(Entry{}, err)
			return
		}
	}
}

// read waits for a visit's results, with more requests under way meanwhile.
func (w *walk) read(ctx context.Context, v *visit) (Entry, error) {
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil { // also if there is an answer by now
			return Entry{}, fmt.Errorf("walk %s: %w", v.path, context.Cause(ctx))
		}
		if !v.issued() || w.since >= w.o.Window/4 {
			w.issue()
		}
		e, err := v.wait(ctx)
		if err == nil {
			w.policy.Succeeded()
			return e, nil
		}
		if client.IsTransient(err) {
			err = w.policy.Again(ctx, attempt, err)
		}
		if err != nil {
			return e, err
		}
		w.repeat()
	}
}

// issue makes sure that the visits that are due next are being read. Depth first, the
// children of a visit whose results have come are due right after it.
func (w *walk) issue() {
	w.since = 0
	for i := 0; i < w.o.Window && i < w.pending.len(); i++ {
		v := w.pending.at(i)
		if !v.issued() {
			w.start(v)
			continue
		}
		if w.o.BreadthFirst || v.expanded || v.listing == nil {
			continue
		}
		if l, ok, err := v.listing.Result(); ok && err == nil {
			slices.Sort(l.Names)
			w.pending.insert(i+1, w.children(v, l.Names))
			v.expanded = true
		}
	}
}

// start issues the requests of a visit.
func (w *walk) start(v *visit) {
	a := w.c.Async()
	deepest := w.o.Depth > 0 && v.depth == w.o.Depth
	switch {
	case !deepest:
		v.listing = a.Children(v.path)
	case !w.o.Data:
		v.presence = a.Exists(v.path)
	}
	if w.o.Data {
		v.node = a.Get(v.path)
	}
}

// repeat issues the reads again that were lost with the connection.
func (w *walk) repeat() {
	a := w.c.Async()
	for i := 0; i < w.o.Window && i < w.pending.len(); i++ {
		v := w.pending.at(i)
		if isBroken(v.listing) {
			v.listing = a.Children(v.path)
		}
		if isBroken(v.presence) {
			v.presence = a.Exists(v.path)
		}
		if isBroken(v.node) {
			v.node = a.Get(v.path)
		}
	}
}

func (w *walk) children(v *visit, names []string) []*visit {
	all := make([]*visit, len(names))
	for i, name := range names {
		all[i] = &visit{path: jute.Join(v.path, name), depth: v.depth + 1}
	}
	return all
}

// visit is a node that is to be visited. Its requests may be under way.
type visit struct {
	path     string
	depth    int
	expanded bool // its children are among the pending visits
	listing  *client.Future[client.Listing]
	presence *client.Future[client.Presence]
	node     *client.Future[client.Node]
}

func (v *visit) issued() bool { return v.listing != nil || v.presence != nil || v.node != nil }

// isBroken reports whether a read has failed in a way that is worth another attempt.
func isBroken[T any](f *client.Future[T]) bool {
	if f == nil {
		return false
	}
	_, ok, err := f.Result()
	return ok && err != nil && client.IsTransient(err)
}

// wait puts the results together. Data and the list of children may be of different
// times; the Stat is the data's.
func (v *visit) wait(ctx context.Context) (Entry, error) {
	e := Entry{Path: v.path, Depth: v.depth}
	if v.listing != nil {
		l, err := v.listing.Wait(ctx)
		if err != nil {
			return e, err
		}
		slices.Sort(l.Names) // in place: the future has them sorted, too
		e.children, e.Stat = l.Names, l.Stat
	}
	if v.presence != nil {
		p, err := v.presence.Wait(ctx)
		if err != nil {
			return e, err
		}
		if !p.Exists {
			return e, &client.Error{Op: jute.OpExists, Path: v.path, Err: client.ErrNoNode}
		}
		e.Stat = p.Stat
	}
	if v.node != nil {
		n, err := v.node.Wait(ctx)
		if err != nil {
			return e, err
		}
		e.Data, e.Stat = n.Data, n.Stat
	}
	return e, nil
}

// visits are in the order in which they are due, as far as the nodes are known: a
// queue if breadth, or else a stack, whose top is the end of the list.
type visits struct {
	list    []*visit
	head    int // of the queue
	breadth bool
}

func (p *visits) len() int { return len(p.list) - p.head }

// at returns the i-th visit that is due.
func (p *visits) at(i int) *visit {
	if p.breadth {
		return p.list[p.head+i]
	}
	return p.list[len(p.list)-1-i]
}

// pop takes out the visit that is due.
func (p *visits) pop() {
	if !p.breadth {
		p.list[len(p.list)-1] = nil
		p.list = p.list[:len(p.list)-1]
		return
	}
	p.list[p.head] = nil
	p.head++
	if p.head > 1024 && p.head > len(p.list)/2 {
		p.list = slices.Delete(p.list, 0, p.head)
		p.head = 0
	}
}

// insert adds children: in a stack so that the first becomes the i-th that is due,
// in a queue after all others.
func (p *visits) insert(i int, children []*visit) {
	if p.breadth {
		p.list = append(p.list, children...)
		return
	}
	slices.Reverse(children)
	p.list = slices.Insert(p.list, len(p.list)-i, children...)
}
