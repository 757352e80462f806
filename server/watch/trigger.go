package watch

import "github.com/zkd-project/zkd/jute"

// Trigger calls deliver once for each watcher of an event of type typ on path, and
// removes the one-shot watches that match. A delete is two events (EventDeleted of the
// node, then EventChildrenChanged of its parent), and so is a create.
//
// deliver runs with the table locked: it must neither block nor call the table. If it
// drops an event because the connection may not read the node, a one-shot watch is
// consumed nevertheless (ZOOKEEPER-4799).
//
// Only the goroutine that applies transactions calls Trigger, under the tree's write
// lock, so events are in the order of transactions. It allocates nothing.
func (t *Table) Trigger(typ jute.EventType, path string, deliver func(w Watcher)) {
	path = tableKey(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	hash := t.hash(path, Data)
	if typ != jute.EventChildrenChanged {
		t.fireLocked(Data, path, hash, deliver)
		t.fireAncestorsLocked(path, deliver)
	}
	if typ == jute.EventChildrenChanged || typ == jute.EventDeleted {
		t.fireLocked(Child, path, hash, deliver)
	}
	t.fireLocked(Persistent, path, hash, deliver)
}

// fireLocked fires the watches of one mode on exactly path.
func (t *Table) fireLocked(mode Mode, path string, hash uint32, deliver func(w Watcher)) {
	r := &t.modes[mode]
	if r.watches == 0 {
		return
	}
	p := r.find(path, hash)
	if p == 0 {
		return
	}
	var next uint32
	for id := r.head(p); id != 0; id = next {
		t.steps.Add(1)
		next = r.next(id)
		watcher := r.watcherOf(id)
		w := t.watchers[watcher]
		if w.round != t.round {
			w.round = t.round
			deliver(watcher)
		}
		if mode == Data || mode == Child {
			set := &w.sets[mode]
			set.remove(r.linkSlot(set, p), r.linkHash)
			r.unlink(id)
		}
	}
}

// fireAncestorsLocked fires the recursive watches on path and on each ancestor, including
// the root. It does not look at paths that are longer than any with such a watch: a path can have many names.
func (t *Table) fireAncestorsLocked(path string, deliver func(w Watcher)) {
	if t.modes[PersistentRecursive].watches == 0 {
		return
	}
	t.fireLocked(PersistentRecursive, "/", t.hash("/", PersistentRecursive), deliver)
	var h uint64
	for end := 0; end < len(path); {
		var name string
		name, end = nextName(path, end)
		if end > t.longest {
			return
		}
		t.looked++
		t.steps.Add(1)
		h = t.chain(h, name)
		t.fireLocked(PersistentRecursive, path[:end], uint32(h), deliver)
	}
}
