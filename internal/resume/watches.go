package resume

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Kind is the kind of request that set a watch.
type Kind uint8

// The kinds, in the order of the vectors of a setWatches2.
const (
	Data Kind = iota
	Exist
	Children
	Persistent
	Recursive
	Kinds
)

// OneShot reports whether watches of the kind have one event.
func (k Kind) OneShot() bool { return k < Persistent }

func kindOf(mode jute.AddWatchMode) Kind {
	if mode == jute.AddPersistentRecursive {
		return Recursive
	}
	return Persistent
}

// watch is a watch that a client has asked for.
type watch struct {
	kind     Kind
	path     string
	armed    bool // the server has set it
	restored bool // by a setWatches, whose reply comes after what it has missed
}

// Watches are those of a client, as it has asked for them.
type Watches struct {
	byPath Table[*watch]
	// since is the zxid from which on there may be watches that the server has been asked to set by themselves, and has not confirmed; 0 if
	// there are none.
	since jute.Zxid
}

// ask adds a watch that a request is to set.
func (t *Watches) ask(kind Kind, path string) *watch {
	w := &watch{kind: kind, path: strings.Clone(path)}
	t.byPath.Put(kind, w.path, w)
	return w
}

// Set adds a watch that is set.
func (t *Watches) Set(kind Kind, path string) { t.add(&watch{kind: kind, path: strings.Clone(path)}) }

func (t *Watches) add(w *watch) {
	if w.armed = true; !t.Armed(w.kind, w.path) {
		t.byPath.Put(w.kind, w.path, w)
	}
}

// Armed reports whether there is a watch that is set.
func (t *Watches) Armed(kind Kind, path string) bool {
	return slices.ContainsFunc(t.byPath[kind][path], func(w *watch) bool { return w.armed })
}

// Empty reports whether there is no watch, set or asked for.
func (t *Watches) Empty() bool {
	for k := range t.byPath {
		if len(t.byPath[k]) > 0 {
			return false
		}
	}
	return true
}

// settle records the reply to the request that was to set a watch. The watch is set if there is no error, or there is no node for an exists. If
// that finds the node, its watch is like that of a get.
func (t *Watches) settle(w *watch, code jute.Code) {
	known := t.drop(w)
	switch {
	case !known || code != 0 && (w.kind != Exist || code != jute.ErrNoNode):
		return
	case w.kind == Exist && code == 0:
		w.kind = Data
	}
	t.add(w)
}

// restored records the outcome of a setWatches for one of its watches.
func (t *Watches) restored(w *watch, ok bool) {
	if t.drop(w) && ok {
		t.add(w)
	}
}

// drop removes a watch and reports whether it was there.
func (t *Watches) drop(w *watch) bool { return t.byPath.Drop(w.kind, w.path, w) }

// End removes all watches.
func (t *Watches) End() { *t = Watches{} }

// fire removes the one-shot watches that an event fires.
func (t *Watches) fire(ev *jute.WatcherEvent) {
	for _, k := range FiredBy(ev.Type) {
		t.byPath.Keep(k, ev.Path, func(w *watch) bool { return !w.armed && !w.restored })
	}
}

// FiredBy reports whether there are one-shot watches that an event fires.
func (t *Watches) FiredBy(ev *jute.WatcherEvent) bool {
	return slices.ContainsFunc(FiredBy(ev.Type), func(k Kind) bool { return t.Armed(k, ev.Path) })
}

// Paths returns the paths of the watches that are set.
func (t *Watches) Paths() (all [Kinds][]string) {
	for k := range Kinds {
		for path := range t.byPath[k] {
			if t.Armed(k, path) {
				all[k] = append(all[k], path)
			}
		}
		slices.Sort(all[k])
	}
	return all
}

// Restore returns the requests that set watches again, at a server that tells what they have missed since a zxid. chunk is roughly the
// most bytes of the paths of one. The wider watches come last.
func Restore(since jute.Zxid, paths [Kinds][]string, chunk int) (all []jute.SetWatchesRequest) {
	var r *jute.SetWatchesRequest
	size := 0
	for k := range Kinds {
		for _, path := range paths[k] {
			if r == nil || size+len(path)+4 > chunk {
				all = append(all, jute.SetWatchesRequest{RelativeZxid: since})
				r, size = &all[len(all)-1], 0
			}
			k.Add(r, path)
			size += len(path) + 4
		}
	}
	return all
}

// Add adds the path of a watch to a request.
func (k Kind) Add(r *jute.SetWatchesRequest, path string) {
	list := [Kinds]*[]string{&r.Data, &r.Exist, &r.Child, &r.Persistent, &r.PersistentRecursive}[k]
	*list = append(*list, path)
}

// root returns the node that all persistent watches are on or below. any reports whether there are any.
func (t *Watches) root() (root string, any bool) {
	for _, k := range []Kind{Persistent, Recursive} {
		for path := range t.byPath[k] {
			switch {
			case !t.Armed(k, path):
			case !any:
				root, any = path, true
			default:
				for !below(path, root) {
					root = jute.Parent(root)
				}
			}
		}
	}
	if !strings.HasPrefix(root, "/") {
		root = "/"
	}
	return root, any
}

// below reports whether a node is the other one, or below it.
func below(path, of string) bool {
	return of == "/" || of == "" || path == of || strings.HasPrefix(path, of) && path[len(of)] == '/'
}

// eventsOf are the types of the events that changes are.
var eventsOf = map[jute.ChangeKind]jute.EventType{
	jute.ChangeCreated: jute.EventCreated, jute.ChangeDeleted: jute.EventDeleted, jute.ChangeData: jute.EventDataChanged, jute.ChangeChildren: jute.EventChildrenChanged,
}

// appendMissed appends the event that a change is for persistent watches, if it is one.
func (t *Watches) appendMissed(to []Event, c *jute.Change) []Event {
	watched := t.Armed(Persistent, c.Path)
	switch {
	case c.Kind == jute.ChangeChildren: // for recursive watches the child itself is the event
		watched = watched && !noParent.Planted()
	default:
		watched = watched || t.watchedAbove(c.Path)
	}
	if !watched {
		return to
	}
	return append(to, Event{c.Zxid, jute.WatcherEvent{Type: eventsOf[c.Kind], State: jute.StateSyncConnected, Path: c.Path}})
}

// watchedAbove reports whether there is a recursive watch on a node, or on one above it.
func (t *Watches) watchedAbove(path string) bool {
	for above := path; ; above = jute.Parent(above) {
		watched := t.Armed(Recursive, above)
		if notBelow.Planted() && above != path {
			watched = false
		}
		if watched || above == "/" || above == "" {
			return watched
		}
	}
}
