package datatree

import (
	"unsafe"

	"github.com/zkd-project/zkd/jute"
)

// The account of the memory that a tree takes. It is kept with each change, so that it costs nothing to
// ask for, and it counts what the tree holds, not what it needs: a slab of which one record is in use
// counts as a whole. TestMemory compares it with the heap.
const (
	recordBytes  = int64(unsafe.Sizeof(record{}))
	extraBytes   = int64(unsafe.Sizeof(extra{}))
	sessionBytes = int64(unsafe.Sizeof(session{})) + 96 // its places in the maps of sessions
	outcomeBytes = int64(unsafe.Sizeof(Outcome{}))
	listedBytes  = 16 // a child's place in a listing
	ownedBytes   = 72 // an ephemeral's, container's or TTL node's place in its set
	aclBytes     = int64(unsafe.Sizeof(aclEntry{})) + 96

	// NewSessionMemory bounds what a new session adds to Tree.Memory.
	NewSessionMemory = 2 * sessionBytes
)

// rounded is what an allocation of n bytes takes: those of Go's size classes waste up to an eighth.
func rounded(n int) int64 { return int64(n) + int64(n)/8 + 16 }

// NodeMemory bounds what a znode takes, of which name and data have these lengths, but for its ACL.
func NodeMemory(name, data int) int64 {
	return recordBytes + extraBytes + listedBytes + ownedBytes + rounded(name+data)
}

// ACLMemory bounds what a list adds to Tree.Memory if no znode has it yet.
func ACLMemory(list []jute.ACL) (n int64) {
	if isOpenACL(list) {
		return 0
	}
	n = aclBytes
	for i := range list {
		n += 2 * int64(8+len(list[i].ID.Scheme)+len(list[i].ID.ID)+int(unsafe.Sizeof(list[i])))
	}
	return n
}

// memory is what an outcome takes.
func (o *Outcome) memory() int64 { return 2*outcomeBytes + rounded(len(o.Body)) }

// Memory returns the account of the memory that the tree takes. It is nearly the same on all servers of an
// ensemble.
func (t *Tree) Memory() int64 {
	a := &t.arena
	owned := int64(t.ephemerals + t.containers.len() + t.ttls.len())
	return a.records.bytes() + a.extras.bytes() + int64(len(t.index.buckets))*bucketSize*4 +
		a.blobs + int64(t.numNodes())*listedBytes + owned*ownedBytes + t.acls.bytes +
		int64(len(t.sessions.slots))*sessionBytes + t.sessions.outcomes
}

// Retained is the memory that is kept besides, for the open view; 0 without one.
func (t *Tree) Retained() int64 {
	if t.view == nil {
		return 0
	}
	return t.arena.retained + int64(t.view.Saved())*SavedBytes
}

// bytes returns the memory of the slab.
func (s *slab[T]) bytes() int64 {
	var v T
	return int64(s.held) * chunkSize * int64(unsafe.Sizeof(v))
}
