package clients

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// send puts a frame into a connection's buffer, as the applier does. It returns false if the client is too slow.
func (c *conn) send(frame []byte) bool {
	c.line.Lock()
	defer c.line.Unlock()
	return c.line.Send(frame)
}

// endSession ends a connection as after the reply to a closeSession.
func (c *conn) endSession() {
	c.line.Lock()
	defer c.line.Unlock()
	c.line.Outbox.End(false)
}

// establish gives a connection a local session, and drops the response. Its requests may be answered without the leader.
func establish(t testing.TB, c *conn, id jute.SessionID) {
	t.Helper()
	c.joinCrowd()
	s := c.shared
	c.line.Session.SetTimeout(10_000)
	s.sessions.locals.Add(id, c.line.Session.TimeoutMs(), millis(s.now()))
	c.line.Lock()
	if !c.line.OpenLocal(id, false, millis(s.now()), func(*line.Line) {}) {
		t.Fatal("no session")
	}
	c.line.Unlock()
	c.line.Session.Arriving()
	c.line.Arrived(0, s.now(), s.backend.AnswersUntil())
	c.line.Lock()
	c.out.release(c.line.Outbox.Take())
	c.stats.sent = 0
	c.line.Unlock()
}

// watching sets watches of the data of some nodes that do not exist.
func watching(t testing.TB, c *conn, paths ...string) {
	t.Helper()
	for i, path := range paths {
		h := jute.RequestHeader{Xid: int32(i + 1), Type: jute.OpExists}
		r := jute.PathWatchRequest{Path: path, Watch: true}
		if err := c.handle(r.Append(h.Append(nil))); err != nil {
			t.Fatal(err)
		}
	}
}
