package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/watch"
)

// Watches: clients set one-shot watches by reads, and persistent ones, and restore them when they reconnect. A node
// has the watch table of servers. The ghost knows every change, so that it knows which events
// a client must have had.

// treeEvent is an event of a committed transaction.
type treeEvent struct {
	zxid jute.Zxid
	typ  jute.EventType
}

// clientWatch is a watch that a client has set and that has not fired.
type clientWatch struct {
	list  watch.List // in which a setWatches request names it
	path  string
	since jute.Zxid // the state in which the client set it
	gone  bool      // while it is restored: the client was told of the node's deletion for another list
}

// matches reports whether events of a type fire the watch.
func (w *clientWatch) matches(typ jute.EventType) bool {
	if w.list == watch.ChildList {
		return typ == jute.EventChildrenChanged || typ == jute.EventDeleted
	}
	return typ != jute.EventChildrenChanged
}

// watched reports whether the client has a watch of the kind that a read sets.
func (c *client) watched(op jute.OpCode, path string) bool {
	return slices.ContainsFunc(c.watches, func(w clientWatch) bool {
		return w.path == path && (w.list == watch.ChildList) == (op == jute.OpGetChildren)
	})
}

// chooseWatch makes a read set a watch, unless the client has it or has asked for it.
func (s *Sim) chooseWatch(c *client, req *request) {
	if s.percent(20) {
		s.chooseAddWatch(c, req)
		return
	}
	s.chooseOneShot(c, req)
}

// chooseOneShot makes a read set a one-shot watch, unless the client has it or has asked for it.
func (s *Sim) chooseOneShot(c *client, req *request) {
	req.op, req.path = pick(s.rng, jute.OpGetData, jute.OpExists, jute.OpGetChildren), s.paths[s.rng.IntN(len(s.paths))]
	if s.cfg.Cached > 0 && s.percent(50) {
		req.path = pick(s.rng, "/", s.paths[0], s.paths[1])
	}
	child := req.op == jute.OpGetChildren
	req.watch = !c.watched(req.op, req.path) && !slices.ContainsFunc(c.inFlight, func(o request) bool {
		return o.watch && o.path == req.path && (o.op == jute.OpGetChildren) == child
	})
}

// restoreWatches is the first request on a connection of a client that has watches.
func (s *Sim) restoreWatches(c *client) {
	if len(c.watches)+len(c.persistent) == 0 {
		return
	}
	c.cxid++
	req := request{kind: reqSetWatches, origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, seen: c.seen,
		floor: s.ghost.acked, sent: s.now, restore: &jute.SetWatchesRequest{RelativeZxid: c.told}}
	for _, w := range c.watches {
		list := [...]*[]string{&req.restore.Data, &req.restore.Exist, &req.restore.Child}[w.list]
		*list = append(*list, w.path)
	}
	for _, w := range c.persistent {
		list := &req.restore.Persistent
		if w.recursive {
			list = &req.restore.PersistentRecursive
		}
		*list = append(*list, w.path)
	}
	c.restoring = true
	s.ask(c, req)
}

// restored ends the restoring of watches, with its last reply or with the connection.
func (c *client) restored() {
	c.restoring = false
	c.watches = slices.DeleteFunc(c.watches, func(w clientWatch) bool { return w.gone })
}

// noteChanges records the events of a committed transaction.
func (g *ghost) noteChanges(zxid jute.Zxid, events []datatree.Event) {
	for i := range events {
		path := events[i].Path
		g.events[path] = append(g.events[path], treeEvent{zxid, events[i].Type})
		if !hides(events[i].ACL) { // or else nobody is told
			g.history = append(g.history, pathEvent{treeEvent{zxid, events[i].Type}, path})
		}
	}
}

// missed returns an event after since, up to z, that fires a watch.
func (g *ghost) missed(w *clientWatch, z jute.Zxid) (treeEvent, bool) {
	for _, ch := range slices.Backward(g.events[w.path]) {
		if ch.zxid <= w.since {
			break
		}
		if ch.zxid <= z && w.matches(ch.typ) {
			return ch, true
		}
	}
	return treeEvent{}, false
}

// exists reports whether the node at path exists in the state at z.
func (g *ghost) exists(path string, z jute.Zxid) bool {
	for _, ch := range slices.Backward(g.events[path]) {
		if ch.zxid <= z && (ch.typ == jute.EventCreated || ch.typ == jute.EventDeleted) {
			return ch.typ == jute.EventCreated
		}
	}
	return false
}

// gotEvent handles an event at a client. It must belong to a watch and to a change: W2, W3. While the
// client's watches are restored, a deletion is told once for each list, or once for all those that the
// server has restored before it.
func (s *Sim) gotEvent(c *client, r *reply) {
	fired, persistent := 0, s.firesPersistent(c, r)
	if c.restoring { // as the server does, list by list: it may apply transactions meanwhile
		slices.SortStableFunc(c.watches, func(a, b clientWatch) int { return cmp.Compare(a.list, b.list) })
	}
	var left []clientWatch
	for _, w := range c.watches {
		if w.path != r.path || !w.matches(r.event) || c.restoring && fired > 0 {
			w.gone = w.gone || c.restoring && w.path == r.path && w.list != watch.ExistList && r.event == jute.EventDeleted
			left = append(left, w)
			continue
		}
		fired++
		real := slices.Contains(s.ghost.events[w.path], treeEvent{r.zxid, r.event}) && r.zxid > w.since
		if c.restoring {
			_, real = s.ghost.missed(&w, math.MaxInt64)
		}
		if !real {
			s.fail("W3", "client %d is told event %v of %s at %v, which did not happen since %v", c.id, r.event, w.path, r.zxid, w.since)
		}
	}
	c.watches = left
	if fired == 0 && !persistent {
		s.fail("W2", "client %d is told event %v of %s at %v, and has no such watch", c.id, r.event, r.path, r.zxid)
	}
}

// checkWatches checks that a client that sees the state at z has had the events of all its
// watches up to there: W1. A node that came and went while the client was away is no event.
func (s *Sim) checkWatches(c *client, z jute.Zxid) {
	s.checkPersistent(c, z)
	for i := range c.watches {
		w := &c.watches[i]
		if (c.restoring || c.readOnly) && w.list == watch.ExistList && !s.ghost.exists(w.path, max(z, c.knownAway(w.path))) {
			w.since = max(w.since, z)
		}
		if ch, ok := s.ghost.missed(w, z); ok && !w.gone {
			s.fail("W1", "client %d sees %v, and was not told event %v of %s at %v, which it has watched since %v", c.id, z, ch.typ, w.path, ch.zxid, w.since)
		}
	}
}

// noteWatch records the watch that a read has set.
func (s *Sim) noteWatch(c *client, req *request, r *reply) {
	s.notePersistent(c, req, r)
	list := watch.DataList
	switch {
	case req.op == jute.OpGetChildren:
		list = watch.ChildList
	case !r.exists:
		list = watch.ExistList
	}
	if req.watch && req.op != jute.OpAddWatch && (r.exists || req.op == jute.OpExists) {
		c.watches = append(c.watches, clientWatch{list: list, path: req.path, since: r.zxid})
		s.stats.WatchesSet++
	}
}
