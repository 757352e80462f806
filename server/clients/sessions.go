package clients

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// sessions are the sessions of the ensemble, and the local ones of this server. It may be used from any goroutine.
type sessions struct {
	state  *state.State
	ids    *session.IDs // of sessions and of connections
	locals *session.Tracker
}

// next returns a fresh session id.
func (s *sessions) next() jute.SessionID {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.nextLocked()
}

// nextLocked is next for callers that have locked the tree.
func (s *sessions) nextLocked() jute.SessionID {
	return s.ids.Next(func(id jute.SessionID) bool {
		_, taken := s.state.Tree.Session(id)
		return taken
	})
}

// verify reports whether password is that of the session. A session that Apache's server has
// opened keeps the password of that server, so that its client may also go back there.
func (s *sessions) verify(id jute.SessionID, password []byte) bool {
	if s.state.Keys().Verify(id, password) {
		return true
	}
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.FromApache(id) && session.VerifyApache(id, password)
}

// isGlobal reports whether the ensemble has a session.
func (s *sessions) isGlobal(id jute.SessionID) bool {
	s.state.RLock()
	defer s.state.RUnlock()
	_, ok := s.state.Tree.Session(id)
	return ok
}

// exists reports whether there is a session.
func (s *sessions) exists(id jute.SessionID) bool { return s.isGlobal(id) || s.locals.Get(id) != nil }
