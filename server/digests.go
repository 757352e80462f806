package server

import (
	"slices"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

const (
	digestEvery = 128  // a digest is kept for every zxid that is a multiple of this
	digestKept  = 1024 // the four-letter word hash shows this many
)

// digestLog keeps the tree's digest at the last zxids that are multiples of digestEvery,
// so that servers can be compared with each other. The ensemble's own entries, such as
// the first one of an epoch, have zxids too. The servers compare those as well, but
// operators see only transactions, as in ZooKeeper.
type digestLog struct {
	mu      sync.Mutex
	entries []digestAt // a ring once it is full
	next    int
}

type digestAt struct {
	zxid   jute.Zxid
	digest datatree.Digest
	txn    bool // zxid is a transaction's
}

func newDigestLog() *digestLog { return &digestLog{} }

// applied records the digest if zxid is a multiple of digestEvery, and reports whether it
// is. txn says whether zxid is a transaction's. Only the applier calls it, with the tree
// locked.
func (l *digestLog) applied(zxid jute.Zxid, tree *datatree.Tree, txn bool) bool {
	if zxid%digestEvery != 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := digestAt{zxid, tree.Digest(), txn}
	if len(l.entries) < digestKept {
		l.entries = append(l.entries, e)
		return true
	}
	l.entries[l.next] = e
	l.next = (l.next + 1) % digestKept
	return true
}

// at returns the digest at a zxid, if it is kept.
func (l *digestLog) at(zxid jute.Zxid) (datatree.Digest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		if l.entries[i].zxid == zxid {
			return l.entries[i].digest, true
		}
	}
	return datatree.Digest{}, false
}

// transactions returns the entries of transactions, oldest first.
func (l *digestLog) transactions() []digestAt {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]digestAt, 0, len(l.entries))
	list = append(list, l.entries[l.next:]...)
	list = append(list, l.entries[:l.next]...)
	return slices.DeleteFunc(list, func(e digestAt) bool { return !e.txn })
}
