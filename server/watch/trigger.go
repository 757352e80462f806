package watch

import (
	"math"

	"github.com/zkd-project/zkd/jute"
)

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
	f := NewFiring(typ, path)
	t.Fire(&f, math.MaxInt, deliver)
}

// Firing is an event on its way to its watchers: what Trigger does, in parts.
type Firing struct {
	typ  jute.EventType
	path string

	begun bool
	open  bool   // place is not done
	place place  // where watches may match
	stage int    // after place
	above int    // the length of the last ancestor
	chain uint64 // of the ancestor: see Table.chain
}

// place is a path of which all watches of one mode match an event.
type place struct {
	mode Mode
	path string
	hash uint32
}

// NewFiring returns an event of type typ on path, which path must outlive.
func NewFiring(typ jute.EventType, path string) Firing {
	return Firing{typ: typ, path: tableKey(path)}
}

// Fire does the next part of a Trigger, for up to most watches, and reports whether there are more. Between two parts,
// which are of one event, nobody may add a watch that matches it; watches may be removed, and watchers dropped.
func (t *Table) Fire(f *Firing, most int, deliver func(w Watcher)) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !f.begun {
		f.begun = true
		t.round++
	}
	for f.open || t.nextPlaceLocked(f) {
		f.open = true
		if !t.fireLocked(&f.place, &most, deliver) {
			return true
		}
		f.open = false
	}
	return false
}

// Matches returns how many watches match an event, or most if there are more. It changes nothing.
func (t *Table) Matches(typ jute.EventType, path string, most int) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := NewFiring(typ, path); t.nextPlaceLocked(&f); {
		r := &t.modes[f.place.mode]
		p := r.find(f.place.path, f.place.hash)
		if p == 0 {
			continue
		}
		for id := r.head(p); id != 0; id = r.next(id) {
			if n == most {
				return n
			}
			t.steps.Add(1)
			n++
		}
	}
	return n
}

// MayHaveHerd reports whether more than some watches can match any event.
func (t *Table) MayHaveHerd(some int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sharedLocked() > some
}

// sharedLocked returns at least how many watches match an event, but for one of each other mode.
func (t *Table) sharedLocked() int {
	n := t.modes[PersistentRecursive].watches // an event has many places for these
	for _, m := range [...]Mode{Data, Child, Persistent} {
		n += t.modes[m].links.live
	}
	return n
}

// The stages of a firing, by the places that they have.
const (
	ofData = iota
	ofRoot
	ofAncestors
	ofChildren
	ofPersistent
)

// nextPlaceLocked finds the next place where watches may match the event.
func (t *Table) nextPlaceLocked(f *Firing) bool {
	children := f.typ == jute.EventChildrenChanged
	recursive := t.modes[PersistentRecursive].watches > 0 && !children
	for ; f.stage <= ofPersistent; f.stage++ {
		switch f.stage {
		case ofData:
			if !children {
				return f.at(Data, t.hash(f.path, Data))
			}
		case ofRoot:
			if recursive {
				f.stage++
				f.place = place{PersistentRecursive, "/", t.hash("/", PersistentRecursive)}
				return true
			}
		case ofAncestors:
			if recursive && t.nextAncestorLocked(f) {
				return true
			}
		case ofChildren:
			if children || f.typ == jute.EventDeleted {
				return f.at(Child, t.hash(f.path, Child))
			}
		case ofPersistent:
			return f.at(Persistent, t.hash(f.path, Persistent))
		}
	}
	return false
}

// at makes the path of the event, in a mode, the place of the stage.
func (f *Firing) at(mode Mode, hash uint32) bool {
	f.stage++
	f.place = place{mode, f.path, hash}
	return true
}

// nextAncestorLocked finds the next of the ancestors of the path, and at last itself, for recursive watches. It does not
// look at paths that are longer than any with such a watch: a path can have many names.
func (t *Table) nextAncestorLocked(f *Firing) bool {
	if f.above == len(f.path) {
		return false
	}
	name, end := nextName(f.path, f.above)
	if end > t.longest {
		return false
	}
	t.looked++
	t.steps.Add(1)
	f.above, f.chain = end, t.chain(f.chain, name)
	f.place = place{PersistentRecursive, f.path[:end], uint32(f.chain)}
	return true
}

// fireLocked fires the watches of a place, of which earlier parts have fired some, and reports whether these were all. Each
// takes one from most.
func (t *Table) fireLocked(at *place, most *int, deliver func(w Watcher)) (all bool) {
	r := &t.modes[at.mode]
	id := r.cursor
	r.cursor = 0
	if id == 0 {
		if r.watches == 0 {
			return true
		}
		p := r.find(at.path, at.hash)
		if p == 0 {
			return true
		}
		id = r.head(p)
	}
	for id != 0 {
		if *most <= 0 {
			r.keep(id)
			return false
		}
		*most--
		t.steps.Add(1)
		next := r.next(id)
		watcher := r.watcherOf(id)
		w := t.watchers[watcher]
		if w.round != t.round {
			w.round = t.round
			deliver(watcher)
		}
		if at.mode == Data || at.mode == Child {
			set := &w.sets[at.mode]
			set.remove(r.linkSlot(set, r.pathOf(id)), r.linkHash)
			r.unlink(id)
		}
		id = next
	}
	return true
}
