package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// TestIDsAreReservedInTime checks that more ids are reserved when half of the reserved
// ids have been used.
func TestIDsAreReservedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		before := s.loop.identity.IDs
		s.loop.ids.Reserved(s.loop.ids.Ahead() - 1<<36 + 1000)
		if !s.loop.ids.Short() {
			t.Fatal("with 1000 left it is not short of ids")
		}
		time.Sleep(2 * s.cfg.TickTime)
		synctest.Wait()
		if s.loop.ids.Short() {
			t.Error("short of ids")
		}
		s.nextOrigin()
		s = s.restart(t)
		if s.loop.identity.IDs <= before {
			t.Errorf("the bound of the ids is %#x after a restart, and was %#x before", s.loop.identity.IDs, before)
		}
	})
}

// TestIDsAreUniqueOverRestarts checks that no session or connection gets a number again,
// even if the clock stands still over a restart.
func TestIDsAreUniqueOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		seen := map[uint64]bool{}
		for range 5 {
			at := time.Now()
			for range 10 {
				c := s.connect(t)
				for _, id := range []uint64{uint64(c.session), s.nextOrigin()} {
					if seen[id] {
						t.Fatalf("number %#x comes again", id)
					}
					seen[id] = true
				}
				c.nc.Close()
			}
			s = s.restart(t)
			if !time.Now().Equal(at) {
				t.Log("the clock has moved on over the restart")
			}
		}
	})
}

// nextOrigin returns a number for a connection that no other connection has, on this or
// another server, now or after a restart.
func (s *Server) nextOrigin() uint64 { return uint64(s.loop.ids.Next(nil)) }

// TestServerZero has an ensemble with a server 0, which Apache's server allows: it follows, leads, serves,
// restarts, is removed and added, and loses its disk as any other.
func TestServerZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, dynamic...)
		e.zero = true
		for id := 1; id <= 3; id++ {
			e.disks[id] = crashfs.New(uint64(id))
			e.start(id)
		}
		e.leader()
		time.Sleep(3 * time.Second) // all are admitted
		e.settled()
		for round := range 3 {
			for id := 1; id <= 3; id++ {
				s := e.servers[id]
				e.await("it serves", s.service.serving.Load)
				c := s.connect(t)
				c.ephemeral(fmt.Sprintf("/e%d-%d", round, id))
				c.create(fmt.Sprintf("/n%d-%d", round, id), "x")
				c.ok(jute.OpSync, &jute.PathRequest{Path: "/"})
				if got := uint8(uint64(c.session) >> 56); int(got) != id%3 {
					t.Errorf("server %d makes session %x", id%3, uint64(c.session))
				}
			}
			e.settled()
			switch leader := e.leader(); round {
			case 0:
				e.kill(leader)
				e.leader()
				e.start(leader)
			case 1: // server 0 is the third one here
				e.stop(3)
				e.disks[3] = crashfs.New(9)
				e.start(3)
				time.Sleep(3 * time.Second)
			}
			e.settled()
		}
		to := e.servers[e.leader()].connect(t)
		to.ok(jute.OpReconfig, &jute.ReconfigRequest{Leaving: "0", ConfigID: -1})
		e.awaitMembers("1, 2")
		e.servers[e.leader()].connect(t).ok(jute.OpReconfig, &jute.ReconfigRequest{Joining: "server.0=10.0.0.3:2888:3888;2181", ConfigID: -1})
		e.awaitMembers("1, 2, 0")
		e.settled()
		for id := 1; id <= 2; id++ { // without server 0 there is no majority, and with it there is
			if id != e.leader() {
				e.stop(id)
				break
			}
		}
		e.servers[e.leader()].connect(t).create("/last", "")
		if word := e.servers[3].ask(t, "conf", false); !strings.Contains(word, "serverId=0\n") {
			t.Errorf("conf: %s", word)
		}
	})
}
