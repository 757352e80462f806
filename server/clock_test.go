package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// A follower whose machine was suspended has a lease that looks valid on the monotonic
// clock. It must not answer from an outdated state.
func TestAServerThatWakesUpDoesNotAnswerFromThePast(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, at := e.leader(), e.follower()
		other := 6 - leader - at
		w, c := e.servers[leader].connectFor(t, 20_000), e.servers[at].connectFor(t, 20_000)
		w.create("/a", "old")
		e.settled()
		var release []func()
		for _, id := range []int{leader, other} {
			release = append(release, e.net.hold(id, at), e.net.hold(at, id))
		}
		w.set("/a", "new")
		if v, _ := c.get("/a"); v != "old" {
			t.Fatalf("read %q; within its lease the follower should answer by itself", v)
		}
		e.servers[at].suspend(time.Minute)
		xid := c.send(jute.OpGetData, get("/a", false))
		synctest.Wait()
		c.quiet("a server that has slept for a minute and has not heard of the others since")
		for _, f := range release {
			f()
		}
		if v := dataOf(c.await(xid)); v != "new" {
			t.Errorf("read %q, want what was written while the server slept", v)
		}
	})
}

// A leader that was suspended checks whether it still leads before it proposes anything,
// and extends the sessions by that time.
func TestALeaderThatWakesUpAsksTheOthers(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		s := e.servers[leader]
		c := s.connectFor(t, 4000)
		c.ephemeral("/e")
		s.suspend(time.Hour)
		time.Sleep(100 * time.Millisecond) // some ticks
		c = c.resumeAt(t, e.servers[e.leader()])
		if c.session == 0 || !c.exists("/e") {
			t.Fatal("a session expired for the time in which its server was suspended")
		}
		told := false
		for _, l := range s.logged.All() {
			told = told || strings.HasPrefix(l.Message, "stopped for")
		}
		if !told {
			t.Error("the core was not told of the pause")
		}
	})
}

// A server starts a year after its last change, and another one whose clock is a year ahead begins to lead: nobody knows whether the clocks are
// right, so nodes with a time to live stay for an hour.
func TestAClockThatIsAheadFromTheBeginning(t *testing.T) {
	const year = 365 * 24 * time.Hour
	lines := []string{"znode.container.checkIntervalMs=1000", "extendedTypesEnabled=true", "maxSessionTimeout=3600000"}
	ttl := &jute.CreateTTLRequest{CreateRequest: *create("/ttl", "x", jute.ModePersistentTTL), TTL: 2 * time.Hour.Milliseconds()}
	stays := func(t *testing.T, c *client) {
		t.Helper()
		time.Sleep(5 * time.Second)
		if !c.exists("/ttl") {
			t.Error("a node with a time to live has gone at once")
		}
	}
	t.Run("start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t, lines...)
			s.connect(t).ok(jute.OpCreateTTL, ttl)
			check(t, s.Close())
			time.Sleep(year)
			c := startWith(t, s.opts).connectFor(t, 3_600_000)
			stays(t, c)
			time.Sleep(59 * time.Minute)
			stays(t, c)
			time.Sleep(time.Minute)
			if c.exists("/ttl") {
				t.Error("a node whose time to live has ended is there after an hour")
			}
		})
	})
	t.Run("leader", func(t *testing.T) {
		inBubble(t, 3, append(lines, "skipACL=yes"), func(t *testing.T, e *testEnsemble) {
			c, to := e.servers[e.leader()].connectFor(t, 3_600_000), e.follower()
			e.servers[to].setClock(year)
			for range 70 { // so that it is forgotten
				time.Sleep(time.Second)
				e.servers[to].setClock(time.Second)
			}
			c.ok(jute.OpCreateTTL, ttl)
			c.send(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: int32(to)})
			e.await("it leads", func() bool { return e.leader() == to })
			stays(t, e.servers[to].connectFor(t, 10_000))
		})
	})
}

// The wall clock of one server after the other is set ahead, by a little more, and back by years. No session ends, nobody votes, what was
// written once is there once, and a node with a time to live stays for as long as that; the server says that its clock was set.
func TestAClockThatJumps(t *testing.T) {
	inBubble(t, 3, []string{"znode.container.checkIntervalMs=1000", "extendedTypesEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		began := e.servers[leader].standing.role.Load().Epoch
		c := e.servers[e.follower()].connectFor(t, 10_000)
		c.ephemeral("/e")
		c.ok(jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: *create("/ttl", "x", jute.ModePersistentTTL), TTL: 600_000})
		const year = 365 * 24 * time.Hour
		for id, s := range e.servers {
			if s == nil {
				continue
			}
			for _, by := range []time.Duration{year, time.Second, -2 * year, year} {
				s.setClock(by)
				for range 5 {
					time.Sleep(3 * time.Second)
					c.set("/e", fmt.Sprint(id, by))
				}
				if now := e.servers[leader].standing.role.Load(); now.Epoch != began || !e.servers[leader].standing.leads() {
					t.Fatalf("server %d, set by %v: the ensemble has elected a leader", id, by)
				}
				if got, want := s.mntr(t)["clock_jump_ms"], fmt.Sprint(by.Milliseconds()); got != want {
					t.Errorf("server %d, set by %v: it says %s", id, by, got)
				}
			}
		}
		if !c.exists("/ttl") {
			t.Error("a node with a time to live has gone early")
		}
		if v, _ := c.get("/e"); v == "" {
			t.Error("the ephemeral has gone")
		}
	})
}
