package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// operator connects as the tools of operators do, which are let in when clients are kept away.
func (s *testServer) operator(t *testing.T) *client {
	t.Helper()
	c := s.dial(t, dialOptions{})
	c.establish(&jute.ConnectRequest{ProtocolVersion: jute.ProtocolOperator, TimeoutMs: 30_000, Password: make([]byte, jute.PasswordLen)})
	return c
}

func (e *testEnsemble) retire(t *testing.T) {
	t.Helper()
	e.servers[e.leader()].operator(t).ok(jute.OpCreate, create(jute.RetiredPath, "", 0))
}

// noAnswer sends a request, whose connection ends without an answer.
func (c *client) noAnswer(op jute.OpCode, body record) {
	c.t.Helper()
	c.send(op, body)
	for {
		r, err := c.next()
		if err != nil {
			return
		}
		if r.Xid >= 0 {
			c.t.Fatalf("%v: the answer %v at %v", op, r.Err, r.Zxid)
		}
	}
}

// TestRetired retires an ensemble: at each server clients get no more answers and are not let in, under each leader, and no
// session expires. When it serves again, sessions have their full timeout.
func TestRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		var owners []*client
		for id := 1; id <= 3; id++ {
			c := e.servers[id].connectFor(t, 10_000)
			c.ephemeral(fmt.Sprint("/e", id))
			owners = append(owners, c)
		}
		e.retire(t)
		for _, s := range e.servers[1:] {
			e.await("no connection of a client is left", func() bool { return s.connections() == 0 })
			s.refuses(t)
		}
		ends := e.servers[e.follower()] // which an operator does not notice, or a server that was added just before
		ends.operator(t).ok(jute.OpDrain, &jute.DrainRequest{HasKeepAway: true})
		ends.refuses(t)
		if got := ends.drainLine(t); got != "0 connections left, keeps clients away: the ensemble is retired" {
			t.Errorf("srvr: %q", got)
		}
		e.kill(e.leader())
		s := e.servers[e.leader()]
		time.Sleep(5 * time.Minute)
		for _, c := range owners {
			if s.letsIn(t, &jute.ConnectRequest{SessionID: c.session, Password: c.pass}) {
				t.Error("a session is let in, which finds no other server")
			}
		}
		c := s.operator(t)
		for i := 1; i <= 3; i++ {
			if !c.exists(fmt.Sprint("/e", i)) {
				t.Errorf("session %d has expired", i)
			}
		}
		c.noAnswer(jute.OpCreate, create("/late", "", 0))
		s.operator(t).noAnswer(jute.OpSync, &jute.PathRequest{Path: "/"})
		s.operator(t).noAnswer(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: jute.RetiredPath, Version: -1}}})
		s.operator(t).noAnswer(jute.OpCloseSession, nil)
		s.operator(t).ok(jute.OpDelete, &jute.DeleteRequest{Path: jute.RetiredPath, Version: -1})
		e.await("clients are let in", func() bool { return s.letsIn(t, &jute.ConnectRequest{}) })
		time.Sleep(7 * time.Second)
		owners[0].srv = s
		c = owners[0].resume(t, 10_000)
		for i := 1; i <= 3; i++ {
			if !c.exists(fmt.Sprint("/e", i)) {
				t.Errorf("session %d has expired at once", i)
			}
		}
		for range 4 {
			time.Sleep(3 * time.Second)
			c.ping()
		}
		if !c.exists("/e1") || c.exists("/e2") || c.exists("/e3") {
			t.Error("not just the sessions have expired whose clients are gone")
		}
		c.create("/later", "")
	})
}

// TestRetirementNeedsAllServers refuses to retire a server alone, and an ensemble with a server that would not obey.
func TestRetirementNeedsAllServers(t *testing.T) {
	refuses := func(s *testServer) {
		t.Helper()
		if r := s.connect(t).call(jute.OpCreate, create(jute.RetiredPath, "", 0)); r.Err != jute.ErrUnimplemented {
			t.Errorf("answer %v", r.Err)
		}
	}
	refuses(startServer(t, "skipACL=yes"))
	inTunedBubble(t, 3, func(s *Server) { s.opts.reads = datatree.FormatRetired - 1 }, []string{"skipACL=yes"}, func(t *testing.T, e *testEnsemble) {
		refuses(e.servers[e.leader()])
	})
}
