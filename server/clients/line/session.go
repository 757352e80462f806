package line

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

// Session is the session of a line, and when its client was last heard of.
type Session struct {
	// Set by the reader, or by the applier while the reader waits, before there is a session.
	timeoutMs int32 // negotiated

	// Read by all.
	id      atomic.Int64                    // jute.SessionID; 0 until established
	local   atomic.Bool                     // the session is local to this server
	tracked atomic.Pointer[session.Session] // set before id
	touched atomic.Int64                    // when the client was last heard of, in ms; or arriving

	reported int64 // the part of touched that was reported to the leader; owned by the caller of Lines.Touches
}

// arriving is the time of a touch before the clock has been read, so that a report can't miss a
// request that arrived before the report was made.
const arriving = -1

// ID returns the session's id, 0 until it is established. It may be called from any goroutine.
func (s *Session) ID() jute.SessionID { return jute.SessionID(s.id.Load()) }

// Local reports whether the session is local to this server. It may be called from any goroutine.
func (s *Session) Local() bool { return s.local.Load() }

// TimeoutMs returns the session's timeout.
func (s *Session) TimeoutMs() int32 { return s.timeoutMs }

// SetTimeout sets the timeout that was negotiated, before Line.Open.
func (s *Session) SetTimeout(ms int32) { s.timeoutMs = ms }

// establish makes a session the line's.
func (s *Session) establish(id jute.SessionID, tracked *session.Session, local bool) {
	s.local.Store(local)
	s.tracked.Store(tracked)
	s.id.Store(int64(id))
}

// becomesGlobal makes the local session one of the ensemble.
func (s *Session) becomesGlobal(tracked *session.Session) {
	s.tracked.Store(tracked)
	if !staysLocal.Planted() {
		s.local.Store(false)
	}
}

// Arriving notes that the client is heard of, before the clock is read. Line.Arrived must follow. The reader
// calls both, without the lock.
func (s *Session) Arriving() (last int64) { return s.touched.Swap(arriving) }

// arrived notes the time at which the client was heard of, in ms, and reports whether the session has not expired.
func (s *Session) arrived(now int64) (lives bool) {
	s.touched.Store(now)
	return s.tracked.Load().Touch(now, s.timeoutMs)
}

// toReport reports whether the leader has to hear of the touches: it knows no local sessions.
func (s *Session) toReport() bool {
	global := !s.local.Load()
	return global || localReported.Planted()
}

// lastTouch returns what is reported when the line has ended. A local session's leader need not hear of it.
func (s *Session) lastTouch() (register.LastTouch, bool) {
	id := s.ID()
	return register.LastTouch{Session: id, TimeoutMs: s.timeoutMs, At: s.touched.Load()}, id != 0 && s.toReport()
}

// appendTouch appends the last touch unless it was reported before.
func (s *Session) appendTouch(list []replica.Touch, now int64) []replica.Touch {
	at, id := s.touched.Load(), s.ID()
	if at == s.reported || id == 0 || !s.toReport() {
		return list
	}
	if arrivingMissed.Planted() && at == arriving {
		return list
	}
	s.reported = at
	if at == arriving {
		at = now
	}
	if touchedNow.Planted() {
		at = now
	}
	return append(list, replica.Touch{Session: id, TimeoutMs: s.timeoutMs, AgeMs: now - at})
}
