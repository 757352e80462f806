package resume

import (
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
)

// Event is an event of a watch, with the zxid of its transaction, or -1 if the server does not say it.
type Event struct {
	Zxid jute.Zxid
	jute.WatcherEvent
}

// Session is what a program knows of a client whose session it resumes. It is not safe for concurrent use.
type Session struct {
	// Bound means that the session can't continue on another connection without its client's knowledge.
	Bound bool
	// Watches are the client's.
	Watches Watches

	shown jute.Zxid // highest zxid of a reply
	last  jute.Zxid // of the newest event
	tail  []Event   // the events of that transaction, if there is no newer reply

	local bool // the client's watches are in a memory

	// Of the connection.
	exact   bool      // it is exactly-once
	feeds   bool      // it has feeds
	has     jute.Zxid // the server has everything up to it, or is asked to
	reads   reads
	replay  *replay       // while the client's requests wait for what its persistent watches have missed
	again   map[Event]int // events that the replay has told and the server may send yet, before any reply
	missed  []Event       // that wait for the reply to a setWatches, with those after them
	awaited []jute.Zxid   // which the replies to syncs under way must show
}

// New returns the session of a client that has seen everything up to a zxid, and has been told events of the transaction last.
func New(shown, last jute.Zxid, tail []Event) *Session {
	return &Session{shown: shown, last: last, tail: tail}
}

// Shown returns the highest zxid that a reply has shown.
func (s *Session) Shown() jute.Zxid { return s.shown }

// Seen returns the highest zxid that the client has seen, by a reply or an event.
func (s *Session) Seen() jute.Zxid { return max(s.shown, s.last) }

// Tail returns the zxid of the newest event, and the events of its transaction that the client has, if no reply has shown it.
func (s *Session) Tail() (last jute.Zxid, tail []Event) {
	if s.last <= s.shown {
		return s.last, nil
	}
	return s.last, s.tail
}

// Greets is called when a connection is asked for: its server will have what the client has seen. Greets returns that.
func (s *Session) Greets() jute.Zxid {
	s.has = s.Seen()
	return s.has
}

// Connected is called for each connection, before anything is sent on it.
func (s *Session) Connected(features jute.Features) {
	s.exact, s.feeds = features&jute.FeatureExactlyOnce != 0, features&jute.FeatureFeed != 0
	s.reads, s.replay, s.again, s.missed, s.awaited = reads{}, nil, nil, nil, nil
}

// Shows is called when the client is shown a zxid.
func (s *Session) Shows(zxid jute.Zxid) { s.shown = max(s.shown, zxid) }

// Header returns the zxid that the answer to a request has for the client. An outcome of an earlier connection may come after answers and events that show
// more, and the client takes the zxid of its newest answer to the next server that it connects to.
func (s *Session) Header(zxid jute.Zxid) jute.Zxid {
	if headerBehind.Planted() {
		return zxid
	}
	return max(zxid, s.shown, s.last-1) // of the last transaction, other events may follow
}

// Replied is called for each reply to a request of the client.
func (s *Session) Replied(zxid jute.Zxid) {
	s.shown, s.has, s.again = max(s.shown, zxid), max(s.has, zxid), nil
}

// Resumes reports whether the session is to continue on another connection without its client's knowledge. For a client that has been silent for
// so long it is not.
func (s *Session) Resumes(silent, timeout time.Duration) bool {
	resumes := s.exact && !s.Bound && silent < timeout*2/3
	return resumes && !notResumed.Planted()
}

// After returns the number of the last request of a session on a new connection, whose last write with an outcome is done. A session that its client has
// had before continues after its last write.
func After(number, done int64, underWay int) int64 {
	fresh := underWay == 0
	fresh = fresh && !renumbered.Planted()
	if fresh {
		return max(number, done)
	}
	return number
}

// Fate returns what becomes of a request of the client that was sent on an earlier connection: see exact.FateOf. Reads are asked again, as no later write changes what
// they show.
func Fate(number int64, op jute.OpCode, done int64, replied bool) exact.Fate {
	fate := exact.FateOf(number, exact.Covers(op), done, replied)
	again := fate == exact.Lost
	again = again && !readLost.Planted()
	if again {
		return exact.Again
	}
	return fate
}

// Again reports whether a request that is no write can be sent again on another connection, on which the same watches are set. The session of one that has closed it is
// not found there.
func Again(op jute.OpCode) bool {
	switch op {
	case jute.OpSync:
		again := true
		return again && !syncOnce.Planted()
	case jute.OpCloseSession, jute.OpAddWatch, jute.OpSetWatches, jute.OpSetWatches2, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpWhoAmI:
		return true
	}
	return exact.Reads(op)
}
