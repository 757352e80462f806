package sim

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// attach connects a client to a server, with a new session.
func (s *script) attach(n *node) *client {
	c := &client{id: len(s.clients), node: -1, attempt: 1, asked: s.now}
	s.clients = append(s.clients, c)
	s.serve(n, c.id, &request{kind: reqCreateSession, attempt: 1, timeout: 1 << 20})
	s.wait("the client is connected", func() bool { return c.node >= 0 })
	return c
}

// request sends a request of a client, and waits for the answer or the end of the connection.
func (s *script) request(c *client, req request) {
	s.ask(c, req)
	s.wait("an answer", func() bool { return len(c.inFlight) == 0 })
}

// ask sends a request of a client.
func (s *script) ask(c *client, req request) {
	c.cxid++
	req.origin, req.attempt, req.cxid, req.session, req.sent = c.origin, c.attempt, c.cxid, c.session, s.now
	c.inFlight = append(c.inFlight, req)
	s.serve(s.nodes[c.node], c.id, &req)
}

// A client watches at a server that is cut off and then gets a snapshot. No entry between the
// two states is applied there, so no event comes of them: the connection must not survive.
func TestReg_WatchOverASnapshot(t *testing.T) { play(t, snapshotting(), watchOverASnapshot) }

func watchOverASnapshot(s *script) {
	leader := s.lead()
	lag := s.others(leader)[0]
	s.committed(s.write(leader))
	s.everywhere()
	c := s.attach(lag)
	s.request(c, request{kind: reqRead, op: jute.OpExists, path: "/nAd", watch: true}) // the script's writes will create it
	s.cut(lag)
	for range 40 {
		s.committed(s.write(leader))
	}
	s.wait("the log is purged", func() bool { return leader.disk.durable.start > 0 })
	s.join()
	s.everywhere()
	if s.stats.Installs == 0 {
		s.fail("script", "no snapshot was installed")
	}
	if c.node >= 0 {
		s.request(c, request{kind: reqPing})
	}
}

// A client misses a change while it has no connection, and is told when it has another one.
func TestReg_WatchOverAConnection(t *testing.T) {
	play(t, scriptConfig(), func(s *script) {
		leader := s.lead()
		first, second := s.others(leader)[0], s.others(leader)[1]
		c := s.attach(first)
		s.request(c, request{kind: reqRead, op: jute.OpExists, path: "/nAb", watch: true})
		if len(c.watches) != 1 {
			t.Fatalf("watches: %+v", c.watches)
		}
		s.down(first)
		s.wait("the client knows", func() bool { return c.node < 0 })
		s.committed(s.write(leader)) // creates it
		s.wait("the other server has it", func() bool { return second.applied == s.ghost.last })
		c.attempt++
		s.serve(second, c.id, &request{kind: reqResume, attempt: c.attempt, session: c.session, seen: c.seen, timeout: c.timeout})
		s.wait("the watches are restored", func() bool { return c.node >= 0 && len(c.inFlight) == 0 })
		if len(c.watches) != 0 {
			t.Errorf("the client was not told of %+v", c.watches)
		}
	})
}
