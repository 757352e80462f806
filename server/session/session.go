package session

import (
	"math"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// Session is a session in a tracker's table. It stays usable after it was removed: it is
// then permanently closing.
type Session struct {
	tracker *Tracker
	id      jute.SessionID
	// deadline is in the tracker's own time (see Tracker.delay), and a multiple of the
	// tick; or it is closing. Only holders of tracker.mu set or clear that mark.
	deadline atomic.Int64
	owner    atomic.Uint64 // 0: none yet
	timeout  atomic.Int32  // ms; written under tracker.mu
	resuming atomic.Int32  // ms, or 0; written under tracker.mu: see Tracker.Resume

	// Guarded by tracker.mu: where the session is in the buckets. A slot of -1
	// means nowhere.
	slot   int32
	bucket int64
}

// closing is the deadline of a session that is being closed. It is the largest value, so
// that a touch needs only one comparison to see that it has no effect.
const closing int64 = math.MaxInt64

// ID returns the session's id.
func (s *Session) ID() jute.SessionID { return s.id }

// TimeoutMs returns the session's timeout as given to Add, Renew or SetTimeout, or that
// of a resumption under way if it is longer.
func (s *Session) TimeoutMs() int32 { return max(s.timeout.Load(), s.resuming.Load()) }

// Closing reports whether the session is being closed, or gone.
func (s *Session) Closing() bool { return s.deadline.Load() == closing }

// Touch records that the session's client was heard of at time now, and must be heard of
// again within timeoutMs. It returns false if the session is closing. A touch that would
// not make the deadline later changes nothing, so an old touch (a follower's report) is
// harmless.
//
// It takes no lock and allocates nothing. Usually the deadline is in the same bucket as
// before, and then it only reads.
func (s *Session) Touch(now int64, timeoutMs int32) bool {
	deadline := s.tracker.deadline(now, timeoutMs)
	for {
		old := s.deadline.Load()
		if old >= deadline {
			return old != closing
		}
		if s.deadline.CompareAndSwap(old, deadline) {
			return true
		}
	}
}

// CheckOwner checks whether a write from origin may be done. The first origin becomes the
// owner, unless SetOwner named one. CheckOwner returns jute.ErrSessionExpired if the
// session is closing, and jute.ErrSessionMoved if another origin owns it: that write was
// under way when the client moved, and must not be done any more. origin is the number of
// a connection, which is not 0.
func (s *Session) CheckOwner(origin uint64) error {
	if s.Closing() {
		return jute.ErrSessionExpired
	}
	if owner := s.owner.Load(); owner == origin {
		return nil
	}
	if s.owner.CompareAndSwap(0, origin) || s.owner.Load() == origin {
		return nil
	}
	return jute.ErrSessionMoved
}

// Owner returns the owner, or 0 if there is none yet.
func (s *Session) Owner() uint64 { return s.owner.Load() }

// Own makes origin the owner of a session that has none, and reports whether it had none.
func (s *Session) Own(origin uint64) bool { return s.owner.CompareAndSwap(0, origin) }

// Disown makes nobody the owner of a session that origin owns.
func (s *Session) Disown(origin uint64) { s.owner.CompareAndSwap(origin, 0) }

// markClosing makes the session closing and reports whether this call did.
func (s *Session) markClosing() bool { return s.deadline.Swap(closing) != closing }

// expire makes the session closing if its deadline is not after now, and hold does not
// object. It returns the deadline that it compared. The session must not be closing.
func (s *Session) expire(now int64, hold Hold) (deadline int64, expired bool) {
	for {
		deadline = s.deadline.Load()
		if deadline > now || hold != nil && hold(s.Owner(), deadline+s.tracker.delay.Load(), s.TimeoutMs()) {
			return deadline, false
		}
		if s.deadline.CompareAndSwap(deadline, closing) {
			return deadline, true
		}
	}
}
