package state

import (
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

const (
	// DigestEvery is the distance of the zxids at which a digest is kept.
	DigestEvery = 128
	digestsKept = 1024 // the four-letter word hash shows this many
)

// Digests keeps the tree's digest at the last zxids that are multiples of DigestEvery, so that
// servers can be compared with each other. The ensemble's own entries, such as the first one of an
// epoch, have zxids too. The servers compare those as well, but operators see only transactions, as
// in ZooKeeper. Its methods may be called from any goroutine.
type Digests struct {
	mu      sync.Mutex
	entries []digestAt // a ring once it is full
	next    int
}

// DigestAt is the digest of the tree at a zxid.
type DigestAt struct {
	Zxid   jute.Zxid
	Digest datatree.Digest
}

type digestAt struct {
	DigestAt
	txn bool // zxid is a transaction's
}

// Applied records the digest of a tree if its last zxid is a multiple of DigestEvery, and reports
// whether it is. txn says whether that zxid is a transaction's. The tree is locked.
func (l *Digests) Applied(zxid jute.Zxid, tree *datatree.Tree, txn bool) bool {
	if zxid%DigestEvery != 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := digestAt{DigestAt{zxid, tree.Digest()}, txn}
	if len(l.entries) < digestsKept {
		l.entries = append(l.entries, e)
		return true
	}
	l.entries[l.next] = e
	l.next = (l.next + 1) % digestsKept
	return true
}

// At returns the digest at a zxid, if it is kept.
func (l *Digests) At(zxid jute.Zxid) (datatree.Digest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		if l.entries[i].Zxid == zxid {
			return l.entries[i].Digest, true
		}
	}
	return datatree.Digest{}, false
}

// Transactions returns the digests at transactions, oldest first.
func (l *Digests) Transactions() []DigestAt {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]DigestAt, 0, len(l.entries))
	for _, half := range [][]digestAt{l.entries[l.next:], l.entries[:l.next]} {
		for i := range half {
			if half[i].txn {
				list = append(list, half[i].DigestAt)
			}
		}
	}
	return list
}
