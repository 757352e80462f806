package server

import (
	"testing"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// ownerAt returns which connection owns the session, as the server's tree has it.
func (c *client) ownerAt(s *testServer) uint64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.SessionOwner(c.session)
}

// TestOwnersAreReplicated checks that each server knows which connection owns a session, also
// after a change of the leader, after a restart, and from a snapshot. As long as the history
// has owners, it needs servers that can read them.
func TestOwnersAreReplicated(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		same := func(c *client, what string) (owner uint64) {
			t.Helper()
			e.settled()
			owner = c.ownerAt(e.servers[1])
			for _, s := range e.servers[1:] {
				if got := c.ownerAt(s); got == 0 || got != owner {
					t.Errorf("%s: server %d has owner %#x, server 1 %#x", what, s.id, got, owner)
				}
				if s.loop.rules.historyNeeds() != datatree.FormatOwner {
					t.Errorf("%s: server %d needs format %d", what, s.id, s.loop.rules.historyNeeds())
				}
			}
			return owner
		}
		if s := e.servers[1]; s.loop.rules.historyNeeds() != format.History.Writes() {
			t.Errorf("an empty history needs format %d", s.loop.rules.historyNeeds())
		}
		c := e.servers[e.follower()].connectFor(t, 20_000)
		first := same(c, "a new session")
		leader := e.leader()
		moved := c.resumeAt(t, e.servers[leader])
		c.eof("the connection that the session has left")
		if second := same(moved, "a session that has moved"); second == first {
			t.Errorf("the owner is still %#x", first)
		}
		e.stop(leader)
		e.leader()
		again := moved.resumeAt(t, e.servers[e.leader()])
		third := again.ownerAt(e.servers[e.leader()])
		e.start(leader)
		if got := same(again, "a restarted server"); got != third {
			t.Errorf("the owner was %#x, and is %#x", third, got)
		}
		again.ok(jute.OpCloseSession, nil)
		e.settled()
		if s := e.servers[1]; s.loop.rules.historyNeeds() != format.History.Writes() {
			t.Errorf("a history without sessions needs format %d", s.loop.rules.historyNeeds())
		}
	})
}
