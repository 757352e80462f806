package cache

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
)

// issue sends reads until the window is full. They are answered in that order, each from a
// state of the server that is not older than that of the previous one.
func (l *loop) issue() {
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
func (l *loop) start(f *flight) {
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
	case f.what == wantStat && lacks && path == l.tree.path && l.tree.root == nil:
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
func (l *loop) land() {
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

func (l *loop) landed(f *flight, r reply) {
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
func (l *loop) startPage(f *flight, names []string) {
	var o client.PageOptions
	if len(names) > 0 {
		o.After = names[len(names)-1]
	}
	f.list, f.names, f.page = nil, names, l.set.Async().ChildrenPage(f.t.path, o)
	l.work.flights = append(l.work.flights, f)
}

// put sets a node of the cache.
func (l *loop) put(f *flight, r reply) {
	path := f.t.path
	n := l.tree.find(path)
	if f.what == wantStat && !sameNode(n, r.stat) {
		l.work.mark(path, wantNode, f.seg)
		return
	}
	l.allow(path)
	l.mu.Lock()
	switch {
	case n != nil && older(r.stat, n.stat):
		// Servers do not answer so: see arm. The cache never goes back.
		l.mu.Unlock()
		return
	case n != nil && f.what == wantStat:
		l.setLocked(n, path, n.data, r.stat)
	case n != nil && n.stat.Czxid == r.stat.Czxid:
		l.setLocked(n, path, l.keep(r.data), r.stat)
	default:
		if n != nil {
			l.removeLocked(n, path)
		}
		n = l.addLocked(path, l.keep(r.data), r.stat)
	}
	tooLarge := l.opts.MaxBytes > 0 && l.tree.bytes > l.opts.MaxBytes
	l.mu.Unlock()
	if tooLarge {
		l.fatal = ErrTooLarge
	}
	if n != nil {
		l.descend(n, path, f.seg)
	}
}

// sameNode reports whether two Stats are of the same node with the same data and ACL.
func sameNode(n *node, s client.Stat) bool {
	return n != nil && n.stat.Czxid == s.Czxid && n.stat.Mzxid == s.Mzxid && n.stat.Aversion == s.Aversion
}

// older reports whether Stat a is older than Stat b.
func older(a, b client.Stat) bool {
	return a.Czxid < b.Czxid || a.Czxid == b.Czxid && (a.Mzxid < b.Mzxid || a.Pzxid < b.Pzxid)
}

func (l *loop) keep(data []byte) []byte {
	if l.opts.NoData {
		return nil
	}
	return data
}

// addLocked adds a new node. It returns nil if the parent is not in the cache: if the parent
// can be read, its children will be read with it.
func (l *loop) addLocked(path string, data []byte, stat client.Stat) *node {
	var parent *node
	name := ""
	if path != l.tree.path {
		var above string
		above, name = split(path)
		if parent = l.tree.find(above); parent == nil {
			return nil
		}
	}
	n := l.tree.add(parent, name, data, stat)
	l.tellAddedLocked(n, path)
	return n
}

func (l *loop) removeLocked(n *node, path string) {
	l.tree.remove(n, path, l.tellRemovedLocked)
}

// descend reads the list of a node's children, unless the cache has it. With a persistent
// watch one reading is enough, because the watch reports all later children.
func (l *loop) descend(n *node, path string, seg *segment) {
	if n.gen == l.gen && (!l.shots.use || l.shots.has(path, true)) {
		return
	}
	deepest := l.tree.depth(path) >= l.levels()
	if l.shots.use || n.stat.NumChildren > 0 && !deepest {
		l.work.mark(path, wantList, seg)
		return
	}
	l.prune(n, path, nil)
	n.gen = l.gen
}

// prune removes the children of n whose names are not in the sorted list.
func (l *loop) prune(n *node, path string, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := n.kids[:0]
	for _, kid := range n.kids {
		if _, ok := slices.BinarySearch(names, kid.name); ok {
			kept = append(kept, kid)
			continue
		}
		l.tree.forget(kid, join(path, kid.name), l.tellRemovedLocked)
	}
	clear(n.kids[len(kept):])
	if n.kids = kept; len(kept) == 0 {
		n.kids = nil
	}
}

// putList applies a list of children: it removes the children that are not in it, and reads
// the new ones. When everything is read again, it reads the others, too.
func (l *loop) putList(f *flight, r reply) {
	path := f.t.path
	n := l.tree.find(path)
	if n == nil {
		return
	}
	if !sameNode(n, r.stat) {
		l.work.mark(path, wantNode, f.seg)
	}
	if n.stat.Czxid != r.stat.Czxid {
		return // another node of the same name, whose children will be read with it
	}
	if sameNode(n, r.stat) {
		l.mu.Lock()
		l.setLocked(n, path, n.data, r.stat)
		l.mu.Unlock()
	}
	again := n.gen != l.gen
	n.gen = l.gen
	if l.tree.depth(path) >= l.levels() {
		return
	}
	names := slices.DeleteFunc(r.names, func(name string) bool { return !l.takes(join(path, name)) })
	slices.Sort(names)
	l.prune(n, path, names)
	var held []string
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := n.kid(name)
		if ok && again && (!l.shots.use || l.shots.has(join(path, name), false)) {
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
func (l *loop) gone(f *flight) {
	path := f.t.path
	l.allow(path)
	if n := l.tree.find(path); n != nil {
		l.mu.Lock()
		l.removeLocked(n, path)
		l.mu.Unlock()
	}
	if l.shots.use && path == l.tree.path && !l.shots.has(path, false) {
		l.work.mark(path, wantStat, f.seg)
	}
}

// allow records that a node can be read, or does not exist.
func (l *loop) allow(path string) {
	if _, told := l.denied[path]; !told {
		return
	}
	delete(l.denied, path)
	l.mu.Lock()
	delete(l.unreadable, path)
	l.mu.Unlock()
}

// deny removes a node that the client may not read. If only its Stat is cached, it keeps the
// node without children.
func (l *loop) deny(f *flight, err error) {
	path := f.t.path
	n := l.tree.find(path)
	if _, told := l.denied[path]; !told {
		l.mu.Lock()
		l.unreadable[path] = err
		l.tellLocked(Event{Type: Unreadable, Node: Node{Path: path}, Err: err})
		l.mu.Unlock()
	}
	l.denied[path] = l.gen
	switch {
	case n == nil:
	case l.opts.NoData && f.what == wantList:
		l.prune(n, path, nil)
		n.gen = l.gen
	default:
		l.mu.Lock()
		l.removeLocked(n, path)
		l.mu.Unlock()
	}
}
