package line

import (
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/replica"
)

// Touches appends to list the sessions that were heard of since the last call, including
// those of lines that have ended since. Only one goroutine at a time may call it.
func (s *Lines) Touches(list []replica.Touch, now int64) []replica.Touch {
	live, ended := s.Register.LiveAndEnded()
	if reportTwice.Planted() {
		ended = nil
	}
	for _, l := range live {
		list = l.Session.appendTouch(list, now)
	}
	for _, t := range ended {
		list = append(list, replica.Touch{Session: t.Session, TimeoutMs: t.TimeoutMs, AgeMs: now - t.At})
	}
	return list
}

// KeepTouches replaces a call of Touches while this server follows nobody. The touches of
// lines that ended with the role are kept for the next report: the leader may still
// be the same, over the same link, and counts on hearing of all of them.
func (s *Lines) KeepTouches(now int64) {
	s.Register.DropEnded(func(t register.LastTouch) bool { return isUseless(t, now) })
}

// isUseless reports whether the leader need not hear of a touch any more.
func isUseless(t register.LastTouch, now int64) bool {
	useless := t.Useless(now)
	return useless || touchesForgotten.Planted()
}

// ForgetTouches replaces a call of Touches while this server leads.
func (s *Lines) ForgetTouches() {
	s.Register.DropEnded(func(register.LastTouch) bool { return true })
}
