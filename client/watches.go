package client

import (
	"slices"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// watches are the watches of a session by path. Several watches of one kind at one path are
// one watch at the server, which sends one notification for each change however many kinds it
// fires. Guarded by session.mu.
//
// Apache up to 3.8 keeps one mode for each path of a connection: the last one set wins
// (semantics.md section 9). So the client does not set a watch on a path where the server has
// a wider one: the wider watch covers it, and stays at the server until neither is needed. A
// recursive watch is wider than a persistent one, and that is wider than a one-shot watch.
//
// A recursive watch does not report changes of the list of children. So it covers no one-shot
// watch on children, which the server keeps in another table. For a persistent watch, fire
// derives these events from those of the children, except for children that the client must
// not read.
type watches struct {
	byPath resume.Table[*Watch]
	// recursive are the paths on which the current server has a recursive watch.
	recursive map[string]bool
	// since is the zxid from which on there may be watches that the current server has been
	// asked to set by themselves, and has not confirmed; 0 if there are none. See uncover.
	since Zxid
}

// arm adds a watch that call k is about to set, and reports whether the server must be asked
// to set it. The watch gets no events until settle records that it is set, but while it is in
// the table, the server's watch is not removed.
func (t *watches) arm(k *call, w *Watch, full string) (tell bool) {
	w.full = full
	k.watch = w
	tell = t.issue(w)
	t.put(w)
	return tell
}

// issue is called when the request that sets a watch takes its place on a connection. It
// reports whether there is no wider watch on the path, set or requested before.
func (t *watches) issue(w *Watch) (tell bool) {
	w.covered, w.issued, w.lacking = t.wider(w.kind, w.full), true, false
	return !w.covered
}

func (t *watches) wider(kind watchKind, full string) bool {
	has := func(k watchKind) bool {
		return slices.ContainsFunc(t.byPath[k][full], func(w *Watch) bool { return w.issued && !w.covered })
	}
	switch recursive := t.recursive[full] || has(watchRecursive); kind {
	case watchPersistent, watchRecursive:
		return recursive
	case watchChildren:
		return has(watchPersistent)
	default:
		return recursive || has(watchPersistent)
	}
}

// uncover handles the refusal of a wide watch. One-shot watches under way that it was to
// cover are now lacking, unless another watch covers them.
func (t *watches) uncover(full string) {
	for kind := range watchPersistent {
		for _, w := range t.byPath[kind][full] {
			if !w.armed && w.covered && !t.wider(kind, full) {
				w.covered, w.lacking = false, true
			}
		}
	}
}

// hasWide reports whether the server has a wide watch on the path, or has been asked for one.
func (t *watches) hasWide(full string) bool {
	return t.recursive[full] || len(t.byPath[watchPersistent][full])+len(t.byPath[watchRecursive][full]) > 0
}

// shared reports whether the server must keep its watches of the type, because other watches
// on the path need them or because of the rule of one mode for each path.
func (t *watches) shared(full string, wt WatchType) bool {
	left := func(k watchKind) bool { return len(t.byPath[k][full]) > 0 }
	wide := left(watchPersistent) || left(watchRecursive)
	return wide || (t.recursive[full] || wt == PersistentWatches || wt == RecursiveWatches) &&
		(left(watchData) || left(watchExist) || left(watchChildren))
}

func (t *watches) armed(kind watchKind, full string) bool {
	return slices.ContainsFunc(t.byPath[kind][full], func(w *Watch) bool { return w.armed })
}

// settle records the outcome of the call that was to set the watch. The watch is set if err
// is nil, or ErrNoNode of an exists. If an exists finds the node, its watch is like that of a
// get.
func (t *watches) settle(w *Watch, code jute.Code) {
	known := t.remove(w)
	if !known || code != 0 && !(w.kind == watchExist && code == ErrNoNode) {
		return
	}
	switch {
	case w.kind == watchExist && code == 0:
		w.kind = watchData
	case w.kind == watchRecursive, w.kind == watchPersistent && w.covered: // requested as a recursive watch
		t.setRecursive(w.full)
	}
	t.add(w)
}

func (t *watches) add(w *Watch) {
	w.armed = true
	t.put(w)
}

func (t *watches) put(w *Watch) { t.byPath.Put(w.kind, w.full, w) }

func (t *watches) setRecursive(path string) {
	if t.recursive == nil {
		t.recursive = map[string]bool{}
	}
	t.recursive[path] = true
}

// remove removes a watch and reports whether it was there.
func (t *watches) remove(w *Watch) bool { return t.byPath.Drop(w.kind, w.full, w) }

// unneeded returns what the server can remove at a path after a watch of the kind was
// removed.
func (t *watches) unneeded(full string, kind watchKind) (wt WatchType, ok bool) {
	has := func(k watchKind) bool { return len(t.byPath[k][full]) > 0 }
	data, child := has(watchData) || has(watchExist), has(watchChildren)
	switch {
	case has(watchPersistent) || has(watchRecursive):
		return 0, false // one mode for each path: leave the server's watch
	case !data && !child:
		delete(t.recursive, full)
		return AnyWatches, true
	case kind == watchChildren && !child:
		return ChildWatches, true
	case (kind == watchData || kind == watchExist) && !data:
		return DataWatches, true
	}
	return 0, false
}

// fire passes an event to all watches that it fires.
func (t *watches) fire(ev Event) {
	for _, k := range resume.FiredBy(jute.EventType(ev.Type)) {
		t.fireAt(k, ev.Path, ev)
	}
	if ev.Type == EventChildrenChanged && t.recursive[ev.Path] {
		return // fireParent has notified the persistent ones, or will
	}
	t.fireAt(watchPersistent, ev.Path, ev)
	if ev.Type == EventChildrenChanged || len(t.recursive) == 0 {
		return
	}
	for path := ev.Path; ; path = jute.Parent(path) {
		t.fireAt(watchRecursive, path, ev)
		if path == "/" || path == "" {
			break
		}
	}
	t.fireParent(ev)
}

// fireParent notifies the watches on the children of a node with a recursive watch that a
// child was created or deleted: the persistent watches that the recursive one covers, and the
// one-shot watches, which Apache 3.8.0 no longer fires after a recursive watch was set.
func (t *watches) fireParent(ev Event) {
	parent := jute.Parent(ev.Path)
	if ev.Type == EventDataChanged || ev.Path == "/" || !t.recursive[parent] {
		return
	}
	ev.Type, ev.Path = EventChildrenChanged, parent
	t.fireAt(watchChildren, parent, ev)
	t.fireAt(watchPersistent, parent, ev)
}

// fireAt fires the armed watches, and removes one-shot ones.
func (t *watches) fireAt(kind watchKind, path string, ev Event) {
	t.byPath.Keep(kind, path, func(w *Watch) bool {
		if w.armed {
			w.fire(ev)
		}
		return !w.armed || !kind.OneShot()
	})
}

// endAll closes all watches.
func (t *watches) endAll(err error) {
	for k := range t.byPath {
		for _, list := range t.byPath[k] {
			for _, w := range list {
				w.end(err)
			}
		}
		clear(t.byPath[k])
	}
	clear(t.recursive)
	t.since = 0
}

// rearmed notifies the persistent watches that they are set again.
func (t *watches) rearmed(ev Event) {
	for _, k := range []watchKind{watchPersistent, watchRecursive} {
		for path, list := range t.byPath[k] {
			ev.Path = path
			for _, w := range list {
				if w.armed {
					w.fire(ev)
				}
			}
		}
	}
}

// setWatchesChunk is the approximate number of bytes of paths in one setWatches request, as
// in the Java client: the request must be smaller than the servers' jute.maxbuffer.
const setWatchesChunk = 128 << 10

// requests returns the requests that set all armed watches again at a server, each with its
// operation: setWatches2 if it contains persistent watches. Wider watches come last, because
// the last one counts where a path has one mode.
func (t *watches) requests(since Zxid, chunk int) []jute.SetWatchesRequest {
	clear(t.recursive)
	if t.since != 0 {
		since = min(since, t.since)
	}
	var paths [watchKinds][]string
	for k := range watchKinds {
		for path := range t.byPath[k] {
			if t.armed(k, path) {
				paths[k] = append(paths[k], path)
			}
		}
		slices.Sort(paths[k])
	}
	for _, path := range paths[watchRecursive] {
		t.setRecursive(path)
	}
	return resume.Restore(since, paths, chunk)
}
