package clients

import "github.com/zkd-project/zkd/server/replica"

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
// those on connections that have ended since. If report is false it forgets those that
// have ended, and returns list unchanged.
func (s *Clients) Touches(list []replica.Touch, now int64, report bool) []replica.Touch {
	live, ended := s.conns.LiveAndEnded()
	if !report {
		return list
	}
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
