package server

import "github.com/zkd-project/zkd/server/replica"

// arriving stands for the time of a touch before the clock has been read. So a
// report can't miss a request that came before it was made.
const arriving = -1

// arrive notes that the client was heard of, before the first request of a batch
// is handled, and whether its requests may be answered without the leader.
func (c *conn) arrive() {
	last := c.touched.Swap(arriving)
	c.started = c.srv.now()
	now := millis(c.started)
	c.touched.Store(now)
	lives := c.tracked.Load().Touch(now, c.timeoutMs)
	c.alone = c.local.Load() || lives && now < c.srv.answersUntil.Load() && now-last < replica.LateAfter(c.timeoutMs)
}

// reportTouches tells the leader which sessions were heard of since the last report, also
// on connections that have ended since. See server/replica for what that is for.
func (l *loop) reportTouches(now int64) {
	l.reportedAt = now
	live, ended := l.conns.heard()
	if !l.replica.Follows() {
		return
	}
	touches := l.touches[:0]
	for _, c := range live {
		at, id := c.touched.Load(), c.sessionID()
		if at == c.reported || id == 0 || c.local.Load() {
			continue
		}
		c.reported = at
		if at == arriving {
			at = now
		}
		touches = append(touches, replica.Touch{Session: id, TimeoutMs: c.timeoutMs, AgeMs: now - at})
	}
	for _, t := range ended {
		touches = append(touches, replica.Touch{Session: t.session, TimeoutMs: t.timeoutMs, AgeMs: now - t.at})
	}
	l.replica.ReportTouches(touches)
	l.touches = touches
}
