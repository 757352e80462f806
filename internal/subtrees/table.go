package subtrees

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
)

// Watcher is a session that has watches in a Table.
type Watcher interface {
	comparable
	// Heard gets an event. One without a type means that all watches of the session have to go to its server.
	Heard(zxid jute.Zxid, ev jute.WatcherEvent)
}

// Table has the watches of sessions in several subtrees. It is not safe for concurrent use.
type Table[W Watcher] struct {
	trees   []*Tree
	version jute.Zxid // up to which all events are told
	wanted  jute.Zxid // that the subtrees should have
	waiting []event   // that not all subtrees have come to
	paths   map[string]map[W]resume.WatchSet
	watched map[W]map[string]bool // the paths of each
	told    []W                   // those that have heard something
	events  int64
}

type event struct {
	zxid jute.Zxid
	ev   jute.WatcherEvent
}

// Tree is a subtree.
type Tree struct {
	Path    string
	live    bool      // all its changes come
	version jute.Zxid // up to which it has everything
}

// New returns a table of subtrees, of which none is below another one.
func New[W Watcher](trees ...*Tree) *Table[W] {
	return &Table[W]{trees: trees, paths: map[string]map[W]resume.WatchSet{}, watched: map[W]map[string]bool{}}
}

// Holds reports whether a path is in the subtree.
func (t *Tree) Holds(path string) bool { return path == t.Path || treediff.Below(path, t.Path) }

// Version returns up to when sessions are shown what subtrees have, and whether t is shown.
func (m *Table[W]) Version(t *Tree) (zxid jute.Zxid, live bool) { return m.version, t.live }

// Watch adds kinds of watches of a session.
func (m *Table[W]) Watch(w W, path string, set resume.WatchSet) {
	if m.paths[path] == nil {
		m.paths[path] = map[W]resume.WatchSet{}
	}
	if m.watched[w] == nil {
		m.watched[w] = map[string]bool{}
	}
	m.paths[path][w] |= set
	m.watched[w][path] = true
}

// Forget ends the watches of a session.
func (m *Table[W]) Forget(w W) {
	for path := range m.watched[w] {
		m.unwatch(w, path)
	}
}

func (m *Table[W]) unwatch(w W, path string) {
	delete(m.paths[path], w)
	if len(m.paths[path]) == 0 {
		delete(m.paths, path)
	}
	delete(m.watched[w], path)
	if len(m.watched[w]) == 0 {
		delete(m.watched, w)
	}
}

// Behind is called when a session has seen more than is shown.
func (m *Table[W]) Behind(zxid jute.Zxid) { m.wanted = max(m.wanted, zxid) }

// Lags reports whether a subtree has to catch up with what a session has seen, or another subtree.
func (m *Table[W]) Lags(t *Tree) bool { return t.live && t.version < m.wanted }

// Lag reports whether any does.
func (m *Table[W]) Lag() bool { return slices.ContainsFunc(m.trees, m.Lags) }

// eventOf are the events that changes are.
var eventOf = map[jute.ChangeKind]jute.EventType{
	jute.ChangeCreated: jute.EventCreated, jute.ChangeDeleted: jute.EventDeleted, jute.ChangeData: jute.EventDataChanged, jute.ChangeChildren: jute.EventChildrenChanged,
}

// Changed is called for each change of a subtree. Complete follows.
func (m *Table[W]) Changed(zxid jute.Zxid, kind jute.ChangeKind, path string) {
	if parentSilent.Planted() && kind == jute.ChangeChildren {
		return
	}
	rights := kind == jute.ChangeACL
	rights = rights && !rightsKept.Planted()
	switch {
	case rights:
		m.leave(path)
	case kind == jute.ChangeACL:
	default:
		m.waiting = append(m.waiting, event{zxid, jute.WatcherEvent{Type: eventOf[kind], State: jute.StateSyncConnected, Path: path}})
	}
}

// Complete is called when all changes of a subtree up to a zxid have come.
func (m *Table[W]) Complete(t *Tree, zxid jute.Zxid) {
	t.live, t.version = true, zxid
	m.publish()
}

// Reset is called when changes of a subtree may be missing, up to the next call of Complete. Its watches go to the servers.
func (m *Table[W]) Reset(t *Tree) {
	t.live = false
	m.waiting = slices.DeleteFunc(m.waiting, func(e event) bool { return t.Holds(e.ev.Path) })
	if !resetKept.Planted() {
		m.Leave(t)
	}
	m.publish()
}

// leave makes all watches of those sessions go to the servers that have one on a path.
func (m *Table[W]) leave(path string) {
	for w := range m.paths[path] {
		w.Heard(0, jute.WatcherEvent{})
		m.told = append(m.told, w)
	}
}

// Leave makes all watches of those sessions go to the servers that have one in the subtree.
func (m *Table[W]) Leave(t *Tree) {
	for path := range m.paths {
		if t.Holds(path) {
			m.leave(path)
		}
	}
}

// publish tells the events that all subtrees have come to.
func (m *Table[W]) publish() {
	least, most := jute.Zxid(-1), jute.Zxid(0)
	for _, t := range m.trees {
		if !t.live {
			continue
		}
		if least < 0 || t.version < least {
			least = t.version
		}
		most = max(most, t.version)
	}
	if oneVersion.Planted() {
		least = most
	}
	m.version = least
	if len(m.trees) > 1 {
		slices.SortStableFunc(m.waiting, func(a, b event) int { return cmp.Compare(a.zxid, b.zxid) })
	}
	n := 0
	for n < len(m.waiting) && m.waiting[n].zxid <= least {
		m.fire(m.waiting[n])
		n++
	}
	m.waiting = slices.Delete(m.waiting, 0, n)
	if least < most {
		m.Behind(most)
	}
}

// fire has the watchers of a node hear of an event.
func (m *Table[W]) fire(e event) {
	for w, set := range m.paths[e.ev.Path] {
		fired := set.Fired(e.ev.Type)
		if fired == 0 {
			continue
		}
		kept := set &^ fired
		if firedKept.Planted() {
			kept = set
		}
		if m.paths[e.ev.Path][w] = kept; kept == 0 {
			m.unwatch(w, e.ev.Path)
		}
		w.Heard(e.zxid, e.ev)
		m.told = append(m.told, w)
		m.events++
	}
}

// Tells reports whether there are sessions that have heard something since the last call of Told.
func (m *Table[W]) Tells() bool { return len(m.told) > 0 }

// Told returns the sessions that have heard something since the last call, some perhaps more than once, and how many events these were.
func (m *Table[W]) Told() (all []W, events int64) {
	all, events = m.told, m.events
	m.told, m.events = nil, 0
	return all, events
}
