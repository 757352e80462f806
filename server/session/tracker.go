package session

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// Tracker is the leader's table of sessions: when each expires, which are
// closing, and which connection owns each. Create it with NewTracker.
//
// Times are int64 milliseconds of one monotonic clock.
type Tracker struct {
	tick int64
	// delay is the sum of all postponements. Deadlines are kept in the tracker's own
	// time, which is the caller's time minus delay, so that Postpone moves all of them at
	// once.
	delay atomic.Int64

	mu       sync.RWMutex // guards the fields below, and those that Session names
	sessions map[jute.SessionID]*Session
	buckets  map[int64][]*Session // by time, in the tracker's own
}

// NewTracker returns an empty tracker whose buckets are tickMs apart. tickMs is tickTime
// and must be positive.
func NewTracker(tickMs int64) *Tracker {
	return &Tracker{
		tick:     tickMs,
		sessions: make(map[jute.SessionID]*Session),
		buckets:  make(map[int64][]*Session),
	}
}

// deadline returns the time of the bucket, in the tracker's own time, of a session that
// was touched at now. If it reads an old delay while Postpone runs, the deadline is later
// than necessary.
func (t *Tracker) deadline(now int64, timeoutMs int32) int64 {
	return t.roundUp(now - t.delay.Load() + int64(timeoutMs))
}

// roundUp returns the next multiple of tick after ms, as Apache's ExpiryQueue
// does for times that are not negative.
func (t *Tracker) roundUp(ms int64) int64 {
	rest := ms % t.tick
	if rest < 0 {
		rest += t.tick
	}
	return ms - rest + t.tick
}

// Add adds a session that was heard of at now. If one with this id exists, it returns
// that one unchanged, and false.
func (t *Tracker) Add(id jute.SessionID, timeoutMs int32, now int64) (*Session, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		return s, false
	}
	s := &Session{tracker: t, id: id, slot: -1}
	s.timeout.Store(timeoutMs)
	t.sessions[id] = s
	t.startLocked(s, now)
	return s, true
}

// Get returns a session, or nil. A connection keeps the session, to touch it without a
// lookup.
func (t *Tracker) Get(id jute.SessionID) *Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[id]
}

// Touch calls Session.Touch by id. It returns false for an unknown session too.
func (t *Tracker) Touch(id jute.SessionID, now int64, timeoutMs int32) bool {
	s := t.Get(id)
	return s != nil && s.Touch(now, timeoutMs)
}

// Renew sets another timeout for a session and counts it from now, even if the session
// then expires earlier: the client has reconnected and negotiated again. It returns false
// if the session is unknown or closing.
func (t *Tracker) Renew(id jute.SessionID, timeoutMs int32, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil || s.Closing() {
		return false
	}
	s.timeout.Store(timeoutMs)
	s.resuming.Store(0)
	t.startLocked(s, now)
	return true
}

// Resume makes origin the owner of a session that was heard of at now and whose client
// has asked for a timeout. It returns the previous owner, and false if the session is
// unknown or closing. Until SetTimeout or Reset the longer of the two timeouts counts: a
// server that has applied the new one may promise it before this server knows.
func (t *Tracker) Resume(id jute.SessionID, timeoutMs int32, origin uint64, now int64) (before uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil || s.Closing() {
		return 0, false
	}
	s.resuming.Store(timeoutMs)
	s.Touch(now, s.TimeoutMs())
	return s.owner.Swap(origin), true
}

// SetTimeout sets the timeout that a session's client has negotiated on the connection
// origin. If origin owns the session, the timeout counts from now, or from the last touch
// if that is later, even if the session then expires earlier than before. A later owner
// has another resumption under way.
func (t *Tracker) SetTimeout(id jute.SessionID, timeoutMs int32, origin uint64, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil {
		return
	}
	before := s.TimeoutMs()
	s.timeout.Store(timeoutMs)
	if s.Owner() != origin {
		return
	}
	s.resuming.Store(0)
	if deadline := s.deadline.Load(); deadline != closing {
		heard := deadline + t.delay.Load() - int64(before) - 1 // or up to a tick earlier
		t.startLocked(s, max(now, heard))
	}
}

// Remove removes a session whose close is applied, and reports whether it was in the
// table.
func (t *Tracker) Remove(id jute.SessionID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil {
		return false
	}
	s.markClosing()
	t.leaveLocked(s)
	delete(t.sessions, id)
	return true
}

// MarkClosing makes a session closing, and reports whether this call did: only then the
// caller proposes its close.
func (t *Tracker) MarkClosing(id jute.SessionID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil || !s.markClosing() {
		return false
	}
	t.leaveLocked(s)
	return true
}

// IsClosing reports whether a session is in the table and closing.
func (t *Tracker) IsClosing(id jute.SessionID) bool {
	s := t.Get(id)
	return s != nil && s.Closing()
}

// SetOwner makes origin the owner, because the client has connected there. It returns
// jute.ErrSessionExpired if the session is unknown or closing.
func (t *Tracker) SetOwner(id jute.SessionID, origin uint64) error {
	s := t.Get(id)
	if s == nil || s.Closing() {
		return jute.ErrSessionExpired
	}
	s.owner.Store(origin)
	return nil
}

// Disown makes nobody the owner of any session.
func (t *Tracker) Disown() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.sessions {
		s.owner.Store(0)
	}
}

// CheckOwner calls Session.CheckOwner by id. For an unknown session it returns
// jute.ErrSessionExpired.
func (t *Tracker) CheckOwner(id jute.SessionID, origin uint64) error {
	s := t.Get(id)
	if s == nil {
		return jute.ErrSessionExpired
	}
	return s.CheckOwner(origin)
}

// Hold reports whether a session must not expire yet although its deadline has passed:
// the owner's server may have heard of its client and not reported it.
type Hold func(owner uint64, deadline int64, timeoutMs int32) bool

// Expire makes every session closing whose deadline is not after now, except those for
// which hold returns true; a nil hold keeps none. It returns them by deadline, and by id
// within a deadline. The caller proposes their closes. It costs the sessions in the
// buckets that are due; the leader calls it once each tick.
func (t *Tracker) Expire(now int64, hold Hold) []jute.SessionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	now -= t.delay.Load()
	var expired []due
	for at, bucket := range t.buckets {
		if at > now {
			continue
		}
		delete(t.buckets, at)
		for _, s := range bucket {
			s.slot = -1
			// A session that is not expired gets a bucket after now, which the loop
			// skips.
			if deadline, ok := s.expire(now, hold); ok {
				expired = append(expired, due{deadline, s.id})
			} else {
				t.enterLocked(s, max(deadline, t.roundUp(now)))
			}
		}
	}
	slices.SortFunc(expired, due.compare)
	ids := make([]jute.SessionID, len(expired))
	for i, d := range expired {
		ids[i] = d.id
	}
	return ids
}

// TouchOwned touches the sessions whose owner satisfies match.
func (t *Tracker) TouchOwned(match func(owner uint64) bool, now int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.sessions {
		if match(s.Owner()) {
			s.Touch(now, s.TimeoutMs())
		}
	}
}

// Pause returns for how many ms a process heard of nobody because it was stopped or starved. It looks at
// the clock each periodMs, and last did so sinceMs ago. It is 0 for a process that is only a little late.
func Pause(sinceMs, periodMs int64) int64 {
	gap := sinceMs - periodMs
	late := gap > periodMs
	late = late && !noPostpone.Planted()
	if !late {
		return 0
	}
	return gap
}

// Postpone moves all deadlines gapMs later, because no client could be heard of for that
// long. gapMs is positive. It is exact, so that many short gaps do not keep a dead
// session alive.
func (t *Tracker) Postpone(gapMs int64) { t.delay.Add(gapMs) }

// Reset gives every session its full timeout from now, and makes none closing: a new leader
// does not know which clients were heard of last, and a close that the old leader proposed
// may be lost. owner returns a session's owner, or 0 if it is not known; nil means that none is.
func (t *Tracker) Reset(now int64, owner func(jute.SessionID) uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		s.owner.Store(0)
		if owner != nil {
			s.owner.Store(owner(s.id))
		}
		s.resuming.Store(0)
		t.startLocked(s, now)
	}
}

// Revive gives every session its full timeout from now, and makes none closing.
func (t *Tracker) Revive(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		t.startLocked(s, now)
	}
}

// startLocked gives a session its full timeout from now.
func (t *Tracker) startLocked(s *Session, now int64) {
	deadline := t.deadline(now, s.timeout.Load())
	t.leaveLocked(s)
	s.deadline.Store(deadline)
	t.enterLocked(s, deadline)
}

func (t *Tracker) enterLocked(s *Session, at int64) {
	s.bucket, s.slot = at, int32(len(t.buckets[at]))
	t.buckets[at] = append(t.buckets[at], s)
}

// leaveLocked removes a session from its bucket: the bucket's last one takes its place.
func (t *Tracker) leaveLocked(s *Session) {
	if s.slot < 0 {
		return
	}
	bucket := t.buckets[s.bucket]
	last := len(bucket) - 1
	bucket[s.slot] = bucket[last]
	bucket[s.slot].slot = s.slot
	bucket[last] = nil
	if last == 0 {
		delete(t.buckets, s.bucket)
	} else {
		t.buckets[s.bucket] = bucket[:last]
	}
	s.slot = -1
}
