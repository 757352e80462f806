package sim

import (
	"slices"
	"sort"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/watch"
)

// pathEvent is an event of a committed transaction, at its path.
type pathEvent struct {
	treeEvent
	path string
}

// persistentWatch is a watch of a client that fires for each event. Events that happen while
// the client has no connection are lost, as the protocol has it.
type persistentWatch struct {
	path      string
	recursive bool // for all below path, too, but without changes of lists of children
	// next is the index, in ghost.history, of the first event of which the client has not
	// been told; -1 while no server has the watch.
	next int
}

// matches reports whether an event fires the watch.
func (w *persistentWatch) matches(e *pathEvent) bool {
	if w.recursive {
		return e.typ != jute.EventChildrenChanged && (w.path == "/" || e.path == w.path || strings.HasPrefix(e.path, w.path+"/"))
	}
	return e.path == w.path
}

// set sets the watch in the state at z: later events fire it.
func (w *persistentWatch) set(g *ghost, z jute.Zxid) {
	w.next = sort.Search(len(g.history), func(i int) bool { return g.history[i].zxid > z })
}

// following returns the next event that fires the watch, up to z, or nil.
func (w *persistentWatch) following(g *ghost, z jute.Zxid) *pathEvent {
	for ; w.next < len(g.history) && g.history[w.next].zxid <= z; w.next++ {
		if e := &g.history[w.next]; w.matches(e) {
			return e
		}
	}
	return nil
}

// chooseAddWatch makes a request set a persistent watch that the client does not have.
func (s *Sim) chooseAddWatch(c *client, req *request) {
	req.op, req.path, req.mode = jute.OpAddWatch, "/", pick(s.rng, watch.Persistent, watch.PersistentRecursive)
	if s.percent(70) {
		req.path = s.paths[s.rng.IntN(len(s.paths))]
	}
	req.watch = !c.persists(req)
}

// persists reports whether the client has the persistent watch that a request sets.
func (c *client) persists(req *request) bool {
	return slices.ContainsFunc(c.persistent, func(w persistentWatch) bool {
		return w.path == req.path && w.recursive == (req.mode == watch.PersistentRecursive)
	})
}

// firesPersistent reports whether an event that a client is told fires persistent watches of
// it. For each it must be the next event: W4.
func (s *Sim) firesPersistent(c *client, r *reply) (fires bool) {
	told := pathEvent{treeEvent{r.zxid, r.event}, r.path}
	for i := range c.persistent {
		w := &c.persistent[i]
		if c.restoring && w.next < 0 && w.matches(&told) && slices.Contains(s.ghost.events[r.path], told.treeEvent) {
			fires = true // it is restored already, and the reply that says so follows
			continue
		}
		if w.next < 0 || r.zxid == 0 || !w.matches(&told) {
			continue
		}
		if next := w.following(&s.ghost, r.zxid); next == nil || *next != told {
			s.fail("W4", "client %d is told event %v of %s at %v, and its persistent watch of %s has next: %+v", c.id, r.event, r.path, r.zxid, w.path, next)
		}
		w.next++
		fires = true
	}
	return fires
}

// checkPersistent checks that a client that sees the state at z has had all events of its
// persistent watches up to there: W4.
func (s *Sim) checkPersistent(c *client, z jute.Zxid) {
	for i := range c.persistent {
		w := &c.persistent[i]
		if w.next < 0 {
			continue
		}
		if e := w.following(&s.ghost, z); e != nil {
			s.fail("W4", "client %d sees %v, and was not told event %v of %s at %v, for which it has a persistent watch of %s", c.id, z, e.typ, e.path, e.zxid, w.path)
		}
	}
}

// notePersistent records the persistent watches that an answered request has set: one, or
// those that it restores.
func (s *Sim) notePersistent(c *client, req *request, r *reply) {
	switch {
	case req.kind == reqSetWatches:
		for i := range c.persistent {
			c.persistent[i].set(&s.ghost, r.zxid)
		}
	case req.op == jute.OpAddWatch && req.watch:
		w := persistentWatch{path: req.path, recursive: req.mode == watch.PersistentRecursive}
		if c.persists(req) {
			return
		}
		w.set(&s.ghost, r.zxid)
		c.persistent = append(c.persistent, w)
		s.stats.WatchesSet++
	}
}
