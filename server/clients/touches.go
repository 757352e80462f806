package clients

import (
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/replica"
)

// arriving stands for the time of a touch before the clock has been read, so that a
// report can't miss a request that arrived before the report was made.
const arriving = -1

// recordTouch records that the client was heard of, before the first request of a batch is
// handled, and whether its requests may be answered without the leader.
func (c *conn) recordTouch() {
	last := c.touched.Swap(arriving)
	c.started = c.clients.now()
	now := millis(c.started)
	c.touched.Store(now)
	lives := c.tracked.Load().Touch(now, c.timeoutMs)
	c.alone = c.local.Load() || lives && now < c.clients.backend.AnswersUntil() && now-last < replica.LateAfter(c.timeoutMs)
}

// Touches appends to list the sessions that were heard of since the last call, including
// those on connections that have ended since.
func (s *Clients) Touches(list []replica.Touch, now int64) []replica.Touch {
	live, ended := s.conns.LiveAndEnded()
	for _, c := range live {
		at, id := c.touched.Load(), c.SessionID()
		if at == c.reported || id == 0 || c.local.Load() {
			continue
		}
		c.reported = at
		if at == arriving {
			at = now
		}
		list = append(list, replica.Touch{Session: id, TimeoutMs: c.timeoutMs, AgeMs: now - at})
	}
	for _, t := range ended {
		list = append(list, replica.Touch{Session: t.Session, TimeoutMs: t.TimeoutMs, AgeMs: now - t.At})
	}
	return list
}

// KeepTouches replaces a call of Touches while this server follows nobody. The touches of
// connections that ended with the role are kept for the next report: the leader may still
// be the same, over the same link, and counts on hearing of all of them.
func (s *Clients) KeepTouches(now int64) {
	s.conns.DropEnded(func(t register.LastTouch) bool { return t.Useless(now) })
}

// ForgetTouches replaces a call of Touches while this server leads.
func (s *Clients) ForgetTouches() {
	s.conns.DropEnded(func(register.LastTouch) bool { return true })
}
