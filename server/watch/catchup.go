package watch

import "github.com/zkd-project/zkd/jute"

// List is one of the lists of paths of a setWatches or setWatches2 request, in the order
// in which a server processes them.
type List uint8

// The lists. setWatches has the first three.
const (
	DataList List = iota
	ExistList
	ChildList
	PersistentList
	RecursiveList
)

// Seen is the state of a path while the server processes its entry in a list.
type Seen struct {
	Exists bool
	Mzxid  jute.Zxid // of a node that exists
	Pzxid  jute.Zxid // of a node that exists
	Hidden bool      // the client may not read it, and gets no event about it
}

// Restoration is a request to restore the watches of a client that has reconnected, from its begin to its end.
type Restoration struct {
	lists    [RecursiveList + 1][]string
	relative jute.Zxid
	list     List
	done     int // paths of the list
}

// NewRestoration returns what a request asks for.
func NewRestoration(p *jute.SetWatchesRequest) *Restoration {
	return &Restoration{lists: [...][]string{p.Data, p.Exist, p.Child, p.Persistent, p.PersistentRecursive}, relative: p.RelativeZxid}
}

// pathWork is how many bytes of a path take as long as another path.
const pathWork = 256

// Restore restores watches of w, up to an amount of work, and reports whether there are more. look returns the state
// of a path. missed is called for each event that the client has missed; it is sent at once,
// before the reply. The caller holds the tree's read lock, and may release it between two calls.
func (t *Table) Restore(w Watcher, r *Restoration, work int, look func(path string) Seen, missed func(typ jute.EventType, path string)) (more bool) {
	for ; int(r.list) < len(r.lists); r.list, r.done = r.list+1, 0 {
		for paths := r.lists[r.list]; r.done < len(paths); r.done++ {
			if work <= 0 {
				return true
			}
			path := paths[r.done]
			work -= 1 + len(path)/pathWork
			if event, mode, ok := r.list.CatchUp(look(path), r.relative); ok {
				missed(event, path)
			} else {
				t.Add(w, path, mode)
			}
		}
	}
	return false
}

// CatchUp decides what a reconnecting client gets for a path in list l. Its last view of
// the server was at relative. If it missed something, ok is true: the event is sent to it
// at once, and no watch is set. Otherwise a watch of the returned mode is set. So it is for a
// node that the client may not read, too: it can't tell from that whether there is one.
//
// The caller reads the node, calls CatchUp and adds the watch under one hold of the
// tree's read lock; otherwise a change in between would be lost. Events that a persistent
// watch missed are lost by design: the protocol has no catch-up for them.
func (l List) CatchUp(node Seen, relative jute.Zxid) (event jute.EventType, mode Mode, ok bool) {
	shown := !node.Hidden
	switch l {
	case DataList:
		switch {
		case !node.Exists:
			return jute.EventDeleted, 0, true
		case shown && node.Mzxid > relative:
			return jute.EventDataChanged, 0, true
		}
		return 0, Data, false
	case ExistList:
		if shown && node.Exists {
			return jute.EventCreated, 0, true
		}
		return 0, Data, false
	case ChildList:
		switch {
		case !node.Exists:
			return jute.EventDeleted, 0, true
		case shown && node.Pzxid > relative:
			return jute.EventChildrenChanged, 0, true
		}
		return 0, Child, false
	case PersistentList:
		return 0, Persistent, false
	default:
		return 0, PersistentRecursive, false
	}
}
