package cache

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/subtrees"
	"github.com/zkd-project/zkd/jute"
)

// issue sends reads until the window is full. They are answered in that order, each from a
// state of the server that is not older than that of the previous one.
func (l *watching) issue() {
	for len(l.work.flights) < l.opts.Window {
		t := l.work.next()
		if t == nil {
			return
		}
		what, seg := t.take()
		f := &flight{t: t, what: what, seg: seg, gen: l.gen}
		l.start(f)
		l.work.flights = append(l.work.flights, f)
	}
}

// start issues one read. With one-shot watches it sets the watch that the node lacks.
func (l *watching) start(f *flight) {
	a, path := l.set.Async(), f.t.path
	lacks := l.shots.use && !l.shots.has(path, f.what == wantList)
	switch {
	case f.what == wantList && lacks:
		f.list = a.ChildrenW(path)
	case f.what == wantList:
		f.list = a.Children(path)
	case f.what == wantNode && lacks:
		f.node = a.GetW(path)
	case f.what == wantNode && (l.shots.use || !l.opts.NoData):
		f.node = a.Get(path)
	case f.what == wantStat && lacks && path == l.tree.Path && l.tree.Root == nil:
		f.stat = a.ExistsW(path) // a get of a missing node sets no watch
	default:
		f.stat = a.Exists(path)
	}
}

// done returns a channel that is closed when there is a reply.
func (f *flight) done() <-chan struct{} {
	switch {
	case f.node != nil:
		return f.node.Done()
	case f.stat != nil:
		return f.stat.Done()
	case f.page != nil:
		return f.page.Done()
	}
	return f.list.Done()
}

// reply is the result of a read.
type reply struct {
	data  []byte
	stat  client.Stat
	names []string
	more  bool          // there are names after these
	watch *client.Watch // the watch that it set, or nil
	err   error         // ErrNoNode also of an exists
}

// result returns the reply if it is there.
func (f *flight) result() (r reply, ok bool) {
	switch {
	case f.node != nil:
		var v client.Node
		v, ok, r.err = f.node.Result()
		r.data, r.stat, r.watch = v.Data, v.Stat, v.Watch
	case f.stat != nil:
		var v client.Presence
		v, ok, r.err = f.stat.Result()
		r.stat, r.watch = v.Stat, v.Watch
		if r.err == nil && !v.Exists {
			r.err = client.ErrNoNode
			return r, ok // an exists sets its watch even then
		}
	case f.page != nil:
		var v client.Page
		v, ok, r.err = f.page.Result()
		r.names, r.stat, r.more = f.names, v.Stat, v.More
		for i := range v.Children {
			r.names = append(r.names, v.Children[i].Name)
		}
	default:
		var v client.Listing
		v, ok, r.err = f.list.Result()
		r.names, r.stat, r.watch = v.Names, v.Stat, v.Watch
	}
	if r.err != nil {
		r.watch = nil
	}
	return r, ok
}

// land takes the replies that have arrived, in the order of the requests.
func (l *watching) land() {
	for len(l.work.flights) > 0 {
		f := l.work.flights[0]
		r, ok := f.result()
		if !ok {
			return
		}
		l.work.flights[0] = nil
		l.work.flights = l.work.flights[1:]
		l.landed(f, r)
	}
}

func (l *watching) landed(f *flight, r reply) {
	path := f.t.path
	if sh := (shot{path, f.what == wantList}); r.watch != nil && !l.shots.add(sh, r.watch) {
		l.heardShot(sh)
	}
	switch {
	case f.gen != l.gen:
		// Everything is being read again, and this reply may be older.
	case f.list != nil && errors.Is(r.err, client.ErrMarshalling) && !l.shots.use, r.err == nil && r.more:
		l.startPage(f, r.names)
		return
	case errors.Is(r.err, client.ErrNoNode):
		l.gone(f)
	case errors.Is(r.err, client.ErrNoAuth):
		l.deny(f, r.err)
	case r.err == nil && f.what == wantList:
		l.putList(f, r)
	case r.err == nil:
		l.put(f, r)
	case passing(r.err), errors.Is(r.err, client.ErrClosed), errors.Is(r.err, client.ErrAuthFailed):
		f.t.add(f.what, f.seg) // the coming change of state decides
	default:
		if len(l.again) == 0 {
			l.pause.Reset(retryAfter)
		}
		l.again = append(l.again, l.work.postpone(f))
		return
	}
	l.work.landed(f)
}

// startPage issues a read of the children after those that f has brought. The pages of a list may be
// of different states: the watch reports what has changed between them.
func (l *watching) startPage(f *flight, names []string) {
	var o client.PageOptions
	if len(names) > 0 {
		o.After = names[len(names)-1]
	}
	f.list, f.names, f.page = nil, names, l.set.Async().ChildrenPage(f.t.path, o)
	l.work.flights = append(l.work.flights, f)
}

// put sets a node of the cache.
func (l *watching) put(f *flight, r reply) {
	path := f.t.path
	n := l.tree.Find(path)
	if f.what == wantStat && !sameNode(n, r.stat) {
		l.work.mark(path, wantNode, f.seg)
		return
	}
	l.mu.Lock()
	l.allowLocked(path)
	switch {
	case n != nil && older(r.stat, n.Stat):
		// Servers do not answer so: see arm. The cache never goes back.
		l.mu.Unlock()
		return
	case n != nil && f.what == wantStat:
		l.setLocked(n, path, n.Data, r.stat)
	case n != nil && n.Stat.Czxid == r.stat.Czxid:
		l.setLocked(n, path, l.wanted(r.data), r.stat)
	default:
		if n != nil {
			l.removeLocked(n, path)
		}
		n = l.addLocked(path, l.wanted(r.data), r.stat)
	}
	l.checkSizeLocked()
	l.mu.Unlock()
	if n != nil {
		l.descend(n, path, f.seg)
	}
}

// sameNode reports whether two Stats are of the same node with the same data and ACL.
func sameNode(n *subtrees.Node, s client.Stat) bool {
	return n != nil && n.Stat.Czxid == s.Czxid && n.Stat.Mzxid == s.Mzxid && n.Stat.Aversion == s.Aversion
}

// older reports whether Stat a is older than Stat b.
func older(a, b client.Stat) bool {
	return a.Czxid < b.Czxid || a.Czxid == b.Czxid && (a.Mzxid < b.Mzxid || a.Pzxid < b.Pzxid)
}

// descend reads the list of a node's children, unless the cache has it. With a persistent
// watch one reading is enough, because the watch reports all later children.
func (l *watching) descend(n *subtrees.Node, path string, seg *segment) {
	if n.Gen == l.gen && (!l.shots.use || l.shots.has(path, true)) {
		return
	}
	deepest := l.tree.Depth(path) >= l.levels()
	if l.shots.use || n.Stat.NumChildren > 0 && !deepest {
		l.work.mark(path, wantList, seg)
		return
	}
	l.prune(n, path, nil)
	n.Gen = l.gen
}

// prune removes the children of n whose names are not in the sorted list.
func (l *watching) prune(n *subtrees.Node, path string, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pruneLocked(n, path, func(kid *subtrees.Node) bool {
		_, ok := slices.BinarySearch(names, kid.Name)
		return ok
	})
}

// putList applies a list of children: it removes the children that are not in it, and reads
// the new ones. When everything is read again, it reads the others, too.
func (l *watching) putList(f *flight, r reply) {
	path := f.t.path
	n := l.tree.Find(path)
	if n == nil {
		return
	}
	if !sameNode(n, r.stat) {
		l.work.mark(path, wantNode, f.seg)
	}
	if n.Stat.Czxid != r.stat.Czxid {
		return // another node of the same name, whose children will be read with it
	}
	if sameNode(n, r.stat) {
		l.mu.Lock()
		l.setLocked(n, path, n.Data, r.stat)
		l.mu.Unlock()
	}
	again := n.Gen != l.gen
	n.Gen = l.gen
	if l.tree.Depth(path) >= l.levels() {
		return
	}
	names := slices.DeleteFunc(r.names, func(name string) bool { return !l.takes(jute.Join(path, name)) })
	slices.Sort(names)
	l.prune(n, path, names)
	var held []string
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := n.Kid(name)
		if ok && again && (!l.shots.use || l.shots.has(jute.Join(path, name), false)) {
			held = append(held, name)
			return true
		}
		return ok && !again
	})
	l.work.push(path, held, wantStat, f.seg)
	l.work.push(path, names, wantNode, f.seg)
}

// gone removes a node that does not exist, and all nodes below it. If some of those are new,
// they will be read.
func (l *watching) gone(f *flight) {
	path := f.t.path
	l.mu.Lock()
	l.allowLocked(path)
	if n := l.tree.Find(path); n != nil {
		l.removeLocked(n, path)
	}
	l.mu.Unlock()
	if l.shots.use && path == l.tree.Path && !l.shots.has(path, false) {
		l.work.mark(path, wantStat, f.seg)
	}
}

// deny removes a node that the client may not read. If only its Stat is cached, it keeps the
// node without children.
func (l *watching) deny(f *flight, err error) {
	path := f.t.path
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forbidLocked(path, err)
	n := l.tree.Find(path)
	switch {
	case n == nil:
	case l.opts.NoData && f.what == wantList:
		l.pruneLocked(n, path, func(*subtrees.Node) bool { return false })
		n.Gen = l.gen
	default:
		l.removeLocked(n, path)
	}
}
