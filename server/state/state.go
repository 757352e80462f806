package state

import (
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

// State is the data from which requests are answered. Its lock orders reads, the
// registration of watches and the applier's changes.
type State struct {
	sync.RWMutex
	Tree    *datatree.Tree
	Watches *watch.Table // has its own lock, taken after that of State
	Digests Digests      // of the tree; has its own lock
	// Ensemble is the state of the ensemble at the same entry, as Tree is that of the znodes.
	Ensemble zab.State

	slicing chan struct{} // closed at the end of the transaction that is applied in slices
	applied atomic.Int64  // jute.Zxid
	own     secret.Key    // for the keys, while the history has no secret
	keys    atomic.Pointer[session.Keys]
}

// Applied returns the zxid of the last applied entry. It needs no lock.
func (s *State) Applied() jute.Zxid { return jute.Zxid(s.applied.Load()) }

// SetApplied is called before any effect of the entry becomes visible.
func (s *State) SetApplied(z jute.Zxid) { s.applied.Store(int64(z)) }

// Keys returns the keys of the sessions' passwords. It needs no lock.
func (s *State) Keys() *session.Keys { return s.keys.Load() }

// Password returns the password of a session. The caller holds the lock.
func (s *State) Password(id jute.SessionID) session.Password {
	if s.Tree.FromApache(id) {
		return session.ApachePassword(id)
	}
	return s.Keys().Password(id)
}

// Begin sets the server's own secret, before others use the state. It counts while the history has none.
func (s *State) Begin(own secret.Key) {
	s.own = own
	s.DeriveKeys()
}

// DeriveKeys is called when the secret in Ensemble may have changed. The caller holds the lock.
func (s *State) DeriveKeys() {
	of := s.own
	if s.Ensemble.Seeded() {
		of = s.Ensemble.Init.Secret
	}
	s.keys.Store(session.NewKeys(of))
}

// Cluster returns the id of the ensemble, or false while the history has none. It takes the lock.
func (s *State) Cluster() (zab.ID, bool) {
	s.RLock()
	defer s.RUnlock()
	return s.Ensemble.Init.Cluster, s.Ensemble.Seeded()
}

// HasNode reports whether there is a node. It takes the lock.
func (s *State) HasNode(path string) bool {
	s.RLock()
	defer s.RUnlock()
	_, ok := s.Tree.Get(path)
	return ok
}

// TreeMemory returns the memory of the tree. It takes the lock.
func (s *State) TreeMemory() int64 {
	s.RLock()
	defer s.RUnlock()
	return s.Tree.Memory()
}

// BeginSlices begins a transaction that is applied in slices. The caller holds the lock.
func (s *State) BeginSlices() { s.slicing = make(chan struct{}) }

// EndSlices ends it, if there is one. The caller holds the lock.
func (s *State) EndSlices() {
	if s.slicing != nil {
		close(s.slicing)
		s.slicing = nil
	}
}

// Slicing returns a channel that is closed at the end of the transaction being applied in
// slices, and nil if the tree is at a transaction boundary. The caller holds the read lock.
func (s *State) Slicing() <-chan struct{} { return s.slicing }
