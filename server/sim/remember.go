package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/internal/subtrees"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/feed"
)

// Memories: in some runs edges follow subtrees, and answer reads of their clients from these. What they answer are the rules of package resume, and whom they tell
// of an event are those of package subtrees, and so are the nodes, as a client's cache has them. The subtrees are kept by the feeds of servers.

// memory is that of an edge.
type memory struct {
	s     *Sim
	edge  int
	table *subtrees.Table[*relay]
	trees []*cached
	alone uint64 // since when there is no connection, µs; 0 if there is one
}

// cached is a subtree, and its connection with a server. It implements subtrees.Keeper.
type cached struct {
	m    *memory
	tree *subtrees.Tree

	copy  subtrees.Copy
	fed   bool          // it is read, and all changes have come since
	known bool          // it was read since the edge began
	stale bool          // there may be more
	since uint64        // when it became stale, µs
	base  jute.Zxid     // as of which it was read
	part  []jute.Change // of a transaction of which more is to come

	feed  *feed.Feed // nil while there is no connection
	rests uint64     // until then there is none, µs
	node  *node
	life  uint32 // of the node's process
}

// xidCatchUp is the xid of the syncs by which an edge has a server have what a client has seen.
const xidCatchUp int32 = -18

// newMemories begins the memories of edges.
func (s *Sim) newMemories() {
	if s.cfg.Edges == 0 || s.cfg.Cached == 0 {
		return
	}
	for edge := range numEdges {
		m := &memory{s: s, edge: edge}
		var trees []*subtrees.Tree
		for _, path := range [][]string{{"/"}, s.paths[:2]}[s.cfg.Cached-1] {
			t := &cached{m: m, tree: &subtrees.Tree{Path: path}, stale: true}
			m.trees, trees = append(m.trees, t), append(trees, t.tree)
			t.turn()
		}
		m.table = subtrees.New[*relay](trees...)
		s.memories = append(s.memories, m)
	}
}

// turn reads what the feed has.
func (t *cached) turn() {
	s := t.m.s
	s.afterUndo(s.between(1, 4*s.cfg.ThinkUs+1000), func() {
		t.follow()
		t.m.noteServers()
		t.m.tell()
		t.turn()
	})
}

func (t *cached) follow() {
	s := t.m.s
	switch cut := s.now < s.cut[t.m.edge] || s.phase == phaseChaos && s.percent(1); {
	case t.feed != nil && (cut || !t.node.alive || t.node.paused || t.node.life != t.life):
		t.lost()
		return
	case t.feed == nil && !cut && s.now >= t.rests:
		t.connect(s.nodes[s.rng.IntN(len(s.nodes))])
	}
	if t.feed == nil {
		if t.fed && s.now-t.since > s.cfg.SessionMs*500 { // watches wait no longer
			t.m.table.Leave(t.tree)
		}
		return
	}
	t.feed.Grant(int32(pick(s.rng, 0, 50, 1000)))
	frame := t.feed.Append(nil, s.readable)
	if len(frame) == 0 {
		if t.feed.State() == feed.Current && t.m.table.Lags(t.tree) { // as a sync shows
			t.reaches(t.feed.Zxid(), true)
		}
		return
	}
	var head jute.ReplyHeader
	var e jute.FeedEvent
	d := jute.NewDecoder(frame[4:])
	head.Decode(&d)
	e.Decode(&d)
	if e.Compacted {
		t.unfed()
		return
	}
	t.part = append(t.part, e.Changes...)
	t.reaches(e.Zxid, e.Level)
}

// connect continues the feed at a server, or begins it.
func (t *cached) connect(n *node) {
	s := t.m.s
	if !n.alive || n.paused || n.service == 0 || n.tree == nil || n.applied < t.copy.Version {
		return
	}
	q := jute.SubscribeRequest{Path: t.tree.Path, Feed: 1, Recursive: true, After: t.copy.Version, Credit: 1000,
		Kinds: jute.ChangeKindsOf(jute.ChangeCreated, jute.ChangeDeleted, jute.ChangeData, jute.ChangeACL, jute.ChangeChildren)}
	if !t.fed {
		q.After = n.applied
	}
	f, err := n.changes.Subscribe(&q, n.applied)
	if err != nil {
		t.unfed()
		return
	}
	t.feed, t.node, t.life, t.part = f, n, n.life, nil
	if t.fed {
		return
	}
	s.stats.Remembers++
	t.fed, t.known, t.base, t.copy.Lists, t.copy.Nodes = true, true, n.applied, n.applied, subtrees.Nodes{Path: t.tree.Path}
	t.read(n, t.tree.Path)
	t.reaches(t.base, true)
}

// read reads a node and those below it.
func (t *cached) read(n *node, path string) {
	at, ok := n.tree.Get(path)
	if !ok || !t.m.s.readable(at.ACL) {
		return
	}
	t.copy.Add(path, nil, at.Stat())
	for name := range n.tree.Children(path) {
		t.read(n, jute.Join(path, name))
	}
}

// lost is called when there is no connection any more.
func (t *cached) lost() {
	s := t.m.s
	if t.feed = nil; s.phase == phaseChaos && s.percent(30) {
		t.rests = s.now + s.between(0, s.cfg.SessionMs*1000)
	}
	if !t.stale {
		t.stale, t.since = true, s.now
	}
}

// unfed has the subtree be read again.
func (t *cached) unfed() {
	t.lost()
	if t.fed {
		t.m.table.Reset(t.tree)
	}
	t.fed = false
}

// reaches is called when all changes up to a zxid have come. level: there is no more.
func (t *cached) reaches(zxid jute.Zxid, level bool) {
	whole := 0
	for whole < len(t.part) && t.part[whole].Zxid <= zxid {
		whole++
	}
	partial := false
	for i := range t.part[:whole] {
		if c := &t.part[i]; c.Zxid > t.base {
			partial = t.copy.Apply(c, t) || partial
			t.m.table.Changed(c.Zxid, c.Kind, c.Path)
		}
	}
	t.part = slices.Clone(t.part[whole:])
	t.copy.Version = max(t.copy.Version, zxid)
	t.m.table.Complete(t.tree, t.copy.Version)
	switch {
	case partial: // a node has become readable
		t.unfed()
	case level:
		t.stale = false
	}
}

func (t *cached) Put(path string, _ []byte, stat jute.Stat) {
	n := t.copy.Find(path)
	if n != nil && n.Stat.Czxid == stat.Czxid {
		t.copy.Set(n, nil, stat)
		return
	}
	t.Remove(n, path, false)
	t.copy.Add(path, nil, stat)
}

func (t *cached) Set(n *subtrees.Node, _ string, _ []byte, stat jute.Stat) { t.copy.Set(n, nil, stat) }

func (t *cached) Remove(n *subtrees.Node, path string, _ bool) {
	if n != nil {
		t.copy.Remove(n, path, func(*subtrees.Node, string) {})
	}
}

// see returns what is known of a path, if that is up to date.
func (t *cached) see(path string) (n resume.Remembered, known bool) {
	version, live := t.m.table.Version(t.tree)
	if !t.fed || t.stale || !live {
		return n, false
	}
	n, known = t.copy.Look(path)
	n.Zxid = version
	return n, known
}

// tell has the edge's clients told, soon.
func (m *memory) tell() {
	told, _ := m.table.Told()
	slices.SortFunc(told, func(a, b *relay) int { return cmp.Compare(a.c.id, b.c.id) })
	for _, e := range slices.Compact(told) {
		m.s.afterUndo(m.s.between(1, 1000), e.tellLocal)
	}
}

// memory returns that of the edge, or nil.
func (e *relay) memory() *memory {
	if len(e.s.memories) == 0 {
		return nil
	}
	return e.s.memories[e.edge]
}

// Heard gets an event of the memory.
func (e *relay) Heard(zxid jute.Zxid, ev jute.WatcherEvent) {
	e.local = append(e.local, resume.Event{Zxid: zxid, WatcherEvent: ev})
}

// tellLocal tells the client what it has heard.
func (e *relay) tellLocal() {
	list := e.local
	e.local = nil
	for _, t := range list {
		switch {
		case e.over:
		case t.Type == 0:
			e.goUpstream()
		case e.rules.HearsLocally(t):
			e.s.stats.LocalEvents++
			e.tell(&reply{event: t.Type, path: t.Path, zxid: t.Zxid})
		}
	}
}

// remembers answers a read from the memory, if it can.
func (e *relay) remembers(req *request) bool {
	m := e.memory()
	if m == nil || req.kind != reqRead {
		return false
	}
	w := req.wire(false)
	i := slices.IndexFunc(m.trees, func(t *cached) bool { return req.op != jute.OpAddWatch && t.tree.Holds(requestPath(w.Body)) })
	if i < 0 {
		return false
	}
	e.tellLocal()
	busy := len(e.calls) > 0 || len(e.owed) > 0 || e.queue.Len() > 0
	if e.server == nil || e.restoring || !e.rules.Remembers(busy) {
		return false
	}
	var q jute.PathWatchRequest
	d := jute.NewDecoder(w.Body)
	q.Decode(&d)
	n, known := m.trees[i].see(q.Path)
	if !known {
		return false
	}
	r := e.rules.Recalls(w.Op, &q, &n)
	if r.Watches != 0 {
		m.table.Watch(e, q.Path, r.Watches)
	}
	if r.Behind {
		m.table.Behind(e.rules.Seen())
	}
	if !r.Answered {
		return false
	}
	e.s.stats.Remembered++
	e.s.checkRemembers(e, &q, &n, r.Zxid)
	rep := reply{kind: reqRead, cxid: req.cxid, zxid: r.Zxid, path: req.path, exists: n.Exists, exact: e.exact}
	if !n.Exists {
		rep.err = jute.ErrNoNode
	}
	rep.resumes, e.resumed = e.resumed, false
	e.tell(&rep)
	return true
}

func requestPath(body []byte) string {
	d := jute.NewDecoder(body)
	return d.String()
}

// goUpstream makes the server ready for a request.
func (e *relay) goUpstream() {
	m := e.memory()
	if m == nil {
		return
	}
	holds := e.server == nil || e.rules.Holds() || slices.ContainsFunc(e.calls, func(call *relayCall) bool { return !call.sent })
	u := e.rules.GoUpstream(!holds, math.MaxInt)
	if u.Syncs {
		e.send(request{kind: reqSync, cxid: xidCatchUp})
	}
	for _, q := range u.Watches {
		e.restoring, e.resumed = true, true
		e.send(request{kind: reqSetWatches, cxid: xidRestore, restore: &q})
	}
	if u.Forgets {
		m.table.Forget(e)
		e.s.stats.WentUpstream++
	}
}

// forget ends the watches of the client in the memory.
func (e *relay) forget() {
	if m := e.memory(); m != nil {
		m.table.Forget(e)
	}
	e.local = nil
}

// checkRemembers checks that an answer from the memory is what servers had at its zxid: X6.
func (s *Sim) checkRemembers(e *relay, q *jute.PathWatchRequest, n *resume.Remembered, zxid jute.Zxid) {
	var stat jute.Stat
	exists := q.Path == "/"
	for _, r := range s.ghost.records[:s.ghost.recordsAfter(zxid)] {
		switch c, lists := r.children(); {
		case r.Path == q.Path:
			exists = r.Kind != jute.ChangeDeleted
			stat.Mzxid, stat.Pzxid = r.Stat.Mzxid, max(stat.Pzxid, r.Stat.Pzxid)
		case lists && c.Path == q.Path:
			stat.Pzxid = r.Zxid
		}
	}
	if exists != n.Exists || exists && (stat.Mzxid != n.Stat.Mzxid || stat.Pzxid != n.Stat.Pzxid) {
		s.fail("X6", "an edge answers client %d from memory that %s is %+v (%v) at %v; it is %+v (%v)", e.c.id, q.Path, n.Stat, n.Exists, zxid, stat, exists)
	}
}
