package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// letsIn reports whether the server takes a connection with this request.
func (s *testServer) letsIn(t *testing.T, r *jute.ConnectRequest) bool {
	t.Helper()
	c := s.dial(t, dialOptions{})
	defer c.nc.Close()
	r.TimeoutMs, r.HasReadOnly = 30_000, true
	if r.Password == nil {
		r.Password = make([]byte, jute.PasswordLen)
	}
	c.sendFrame(r.Append(nil))
	_, err := c.frame()
	return err == nil
}

// refuses checks that a server takes no new session.
func (s *testServer) refuses(t *testing.T) {
	t.Helper()
	if s.letsIn(t, &jute.ConnectRequest{}) {
		t.Error("a new session is let in")
	}
}

// drainLine returns what srvr says of a drain.
func (s *testServer) drainLine(t *testing.T) string {
	_, line, _ := strings.Cut(s.ask(t, "srvr", false), "\nDrain: ")
	line, _, _ = strings.Cut(line, "\n")
	return line
}

// A server moves its clients bit by bit, and then keeps them away for the time that was asked
// for. A session that still comes after a third of its timeout is let in.
func TestKeepAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		s := e.servers[e.follower()]
		operator := s.connectFor(t, 40_000)
		var clients []*client
		for range 25 {
			clients = append(clients, s.connectFor(t, 30_000))
		}
		for _, bad := range []*jute.DrainRequest{{HasKeepAway: true, KeepAwayMs: -1}, {HasKeepAway: true, Percent: 1, KeepAwayMs: 1}, {HasKeepAway: true, KeepAwayMs: 1 << 50}} {
			if r := operator.call(jute.OpDrain, bad); r.Err != jute.ErrBadArguments {
				t.Errorf("%+v: %v", bad, r.Err)
			}
		}
		r := operator.ok(jute.OpDrain, &jute.DrainRequest{HasKeepAway: true, KeepAwayMs: 120_000})
		d := jute.NewDecoder(r.body)
		if n := d.Int32(); n != 25 {
			t.Errorf("%d connections will end", n)
		}
		s.refuses(t)
		if got := s.drainLine(t); got != "25 connections left, keeps clients away for 120 s" {
			t.Errorf("srvr: %q", got)
		}
		for s.connections() == 26 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(s.cfg.TickTime / 4) // to look between those times when some end
		last := 26
		for range 11 {
			n := s.connections()
			if last-n > 3 {
				t.Errorf("%d connections end at once, of %d", last-n, last)
			}
			last = n
			time.Sleep(s.cfg.TickTime / 2)
		}
		if last != 1 {
			t.Errorf("%d connections are left", last)
		}
		resume := &jute.ConnectRequest{SessionID: clients[0].session, Password: clients[0].pass}
		if s.letsIn(t, resume) {
			t.Error("a session is let in at once")
		}
		if !e.servers[e.leader()].letsIn(t, resume) {
			t.Error("another server does not let the session in")
		}
		time.Sleep(10 * time.Second)
		if !s.letsIn(t, resume) {
			t.Error("a session is not let in though it finds no other server")
		}
		wrong := &jute.ConnectRequest{SessionID: clients[1].session, Password: make([]byte, jute.PasswordLen)}
		if s.letsIn(t, wrong) {
			t.Error("a session is let in with a wrong password")
		}
		s.refuses(t)
		insists := s.dial(t, dialOptions{})
		insists.establish(&jute.ConnectRequest{ProtocolVersion: jute.ProtocolOperator, TimeoutMs: 30_000, Password: make([]byte, 16)})
		time.Sleep(s.cfg.TickTime)
		insists.ok(jute.OpDrain, &jute.DrainRequest{HasKeepAway: true})
		s.connect(t)
		if got := s.drainLine(t); got != "" {
			t.Errorf("srvr: %q", got)
		}
		insists.ok(jute.OpDrain, &jute.DrainRequest{HasKeepAway: true, KeepAwayMs: 5_000})
		s.refuses(t)
		time.Sleep(5*time.Second + s.cfg.TickTime)
		s.connect(t)
	})
}

// A server that is removed moves its clients to the members, and lets nobody in until it is a
// member again. Their sessions and ephemerals live on.
func TestRemovedServerMovesItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		id := e.follower()
		s := e.servers[id]
		c := s.connectFor(t, 30_000)
		c.ephemeral("/a")
		e.change(allBut(3, id), removing(id))
		e.await("no connection is left", func() bool { return s.connections() == 0 })
		s.refuses(t)
		if got := s.drainLine(t); got != "0 connections left, keeps clients away: it is no member" {
			t.Errorf("srvr: %q", got)
		}
		c.srv = e.servers[e.leader()]
		c = c.resume(t, 30_000)
		if r := c.call(jute.OpExists, &jute.PathWatchRequest{Path: "/a"}); r.Err != 0 {
			t.Errorf("the ephemeral is gone: %v", r.Err)
		}
		e.change("1, 2, 3", adding(id))
		e.await("clients are let in", func() bool { return s.letsIn(t, &jute.ConnectRequest{}) })
	})
}

// A server that starts after a change of the members and that nobody has added yet serves clients,
// though its own file lists it: on an empty disk, and on a disk of the time when the server with
// this id was a member.
func TestUnlistedServerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		serves := func() {
			t.Helper()
			s := e.join(4, "1 2 3")
			time.Sleep(3 * membersRetry)
			if remark := s.clients.Drain().Remark(); remark != "" {
				t.Errorf("it is drained: %s", remark)
			}
			s.connect(t)
		}
		id := e.follower()
		e.change(allBut(3, id), removing(id))
		e.change("1, 2, 3", adding(id))
		serves()
		e.change("1, 2, 3, 4", adding(4))
		e.stop(4)
		old := e.disks[4]
		e.change("1, 2, 3", removing(4))
		e.disks[4] = crashfs.New(4)
		serves()
		e.stop(4)
		e.disks[4] = old
		serves()
		e.change("1, 2, 3, 4", adding(4))
		e.change("1, 2, 3", removing(4))
		e.await("a removed server moves its clients", func() bool { return e.servers[4].connections() == 0 })
		e.servers[4].refuses(t)
	})
}
