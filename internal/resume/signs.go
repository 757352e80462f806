package resume

import (
	"sync/atomic"
	"time"
)

// Signs are the signs of life of a connection. All times are since one moment. Its methods may be called from any goroutine.
type Signs struct {
	heard atomic.Int64 // an answer has come
	asked atomic.Int64 // the first bytes after it were sent
	wrote atomic.Int64 // the last bytes were sent
}

// Begins is called when the connection is the session's: that was an answer.
func (s *Signs) Begins(now time.Duration) {
	s.heard.Store(int64(now))
	s.wrote.Store(int64(now))
}

// Hears is called when an answer, or a part of one, has come. Events of watches are no answers: they come from a server that gets nothing, too.
func (s *Signs) Hears(now time.Duration) { s.heard.Store(int64(now)) }

// Writes is called when something was sent.
func (s *Signs) Writes(now time.Duration) {
	if s.asked.Load() <= s.heard.Load() {
		s.asked.Store(int64(now))
	}
	s.wrote.Store(int64(now))
}

// Wrote returns when something was sent last.
func (s *Signs) Wrote() time.Duration { return time.Duration(s.wrote.Load()) }

// Silence returns for how long no answer has come.
func (s *Signs) Silence(now time.Duration) time.Duration { return now - time.Duration(s.heard.Load()) }

// Look decides what to do with the connection of a client, whose session has this timeout: whether to give it up, since the server answers nothing; whether to
// ping; and how soon to look again.
func (s *Signs) Look(now, timeout time.Duration) (silent, pings bool, next time.Duration) {
	return s.look(now, timeout/3, timeout*2/3)
}

// PingWithin returns for how long a relay may hold back a ping of an idle client, to send it with those of others.
func PingWithin(timeout time.Duration) time.Duration { return timeout / 20 }

// LookForRelay is Look for a connection of a relay. Its client gives up two thirds of the timeout after it was told something, and some clients do not ping while
// they wait for an answer: a relay that waits for one, too, needs another server before that. One that waits for none may hear nothing for all of the timeout,
// and does not ping: its client does.
func (s *Signs) LookForRelay(now, timeout time.Duration, waits bool) (silent bool, next time.Duration) {
	most := timeout
	waits = waits && !patient.Planted()
	if waits {
		most = max(timeout/2, time.Duration(s.asked.Load()-s.heard.Load())+timeout/6)
	}
	silent, _, next = s.look(now, timeout/6, most)
	return silent, next
}

func (s *Signs) look(now, again, most time.Duration) (silent, pings bool, next time.Duration) {
	silence := s.Silence(now)
	next = again - max(now-s.Wrote(), silence)
	if pings = next <= 0; pings {
		next = min(again, most-silence)
	}
	return silence >= most, pings, max(next, time.Millisecond)
}
