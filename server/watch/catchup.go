package watch

import "github.com/zkd-project/zkd/jute"

// List is one of the lists of paths of a setWatches or setWatches2 request, in
// the order in which a server works through them.
type List uint8

// The lists. setWatches has the first three.
const (
	DataList List = iota
	ExistList
	ChildList
	PersistentList
	RecursiveList
)

// Seen is what the server knows of a path while it works on its entry in a
// list.
type Seen struct {
	Exists bool
	Mzxid  jute.Zxid // of a node that exists
	Pzxid  jute.Zxid // likewise
}

// CatchUp decides what a client that comes back is owed for a path in list l.
// Its last view of the server was at relative. Either it missed something:
// then ok is true, the event goes to it at once, with no check of ACLs, and no
// watch is set. Or it did not: then a watch of the mode returned is set.
//
// The caller looks at the node, calls CatchUp and adds the watch under one hold
// of the tree's read lock; else a change in between would be lost. What a
// persistent watch missed is lost by design: the protocol has no catch-up for
// it.
func (l List) CatchUp(node Seen, relative jute.Zxid) (event jute.EventType, mode Mode, ok bool) {
	switch l {
	case DataList:
		switch {
		case !node.Exists:
			return jute.EventDeleted, 0, true
		case node.Mzxid > relative:
			return jute.EventDataChanged, 0, true
		}
		return 0, Data, false
	case ExistList:
		if node.Exists {
			return jute.EventCreated, 0, true
		}
		return 0, Data, false
	case ChildList:
		switch {
		case !node.Exists:
			return jute.EventDeleted, 0, true
		case node.Pzxid > relative:
			return jute.EventChildrenChanged, 0, true
		}
		return 0, Child, false
	case PersistentList:
		return 0, Persistent, false
	default:
		return 0, PersistentRecursive, false
	}
}
