package clients

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// send puts a frame into a connection's buffer, as the applier does. It returns false if the client is too slow.
func (c *conn) send(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.Send(frame)
}

// endSession ends a connection as after the reply to a closeSession.
func (c *conn) endSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.End(false)
}

// establish gives a connection a local session, and drops the response. Its requests may be answered without the leader.
func establish(t testing.TB, c *conn, id jute.SessionID) {
	t.Helper()
	s := c.clients
	c.line.SetTimeout(10_000)
	s.locals.Add(id, c.line.TimeoutMs(), millis(s.now()))
	c.mu.Lock()
	if !c.line.OpenLocal(id, false, millis(s.now()), func(*line.Line) {}) {
		t.Fatal("no session")
	}
	c.mu.Unlock()
	c.line.Arriving()
	c.line.Arrived(0, s.now(), s.backend.AnswersUntil())
	c.mu.Lock()
	c.releaseOut(c.line.Take())
	c.mu.stats.sent = 0
	c.mu.Unlock()
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
