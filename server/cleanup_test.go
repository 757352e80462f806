package server

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// stay pings until a time has passed, so that the session lives.
func (c *client) stay(d time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), time.Duration(c.timeout)*time.Millisecond/3))
		c.ping()
	}
}

func (c *client) container(path string) {
	c.t.Helper()
	c.ok(jute.OpCreateContainer, create(path, "", jute.ModeContainer))
}

func (c *client) ttl(path string, ttl time.Duration) {
	c.t.Helper()
	c.ok(jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: *create(path, "", jute.ModePersistentTTL), TTL: ttl.Milliseconds()})
}

func TestContainersGoWhenTheirLastChildIsGone(t *testing.T) {
	for _, test := range []struct {
		lines     []string
		neverUsed bool // stays
	}{
		{nil, true},
		{[]string{"znode.container.maxNeverUsedIntervalMs=150000"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t, test.lines...)
			c := s.connect(t)
			c.container("/never")
			c.container("/used")
			c.create("/used/a", "")
			c.create("/used/b", "")
			c.stay(2 * time.Minute)
			c.ok(jute.OpDelete, del("/used/a"))
			c.stay(2 * time.Minute)
			if !c.exists("/used") {
				t.Error("a container with a child was removed")
			}
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/used", Mode: jute.AddPersistent})
			c.ok(jute.OpDelete, del("/used/b"))
			c.stay(61 * time.Second)
			if c.exists("/used") {
				t.Error("a container stays although its last child is gone")
			}
			if n := len(c.events); n != 2 || c.events[1].event().Type != jute.EventDeleted {
				t.Errorf("events %v, want NodeChildrenChanged and NodeDeleted", c.events)
			}
			if got := c.exists("/never"); got != test.neverUsed {
				t.Errorf("%v: never used container is there: %v", test.lines, got)
			}
			s.noErrors(t)
		})
	}
}

func TestTTLNodesGoWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		const ttl = 90 * time.Second
		c.ttl("/short", ttl)
		c.ttl("/renewed", ttl)
		c.ttl("/parent", ttl)
		c.create("/parent/child", "")
		c.stay(ttl - time.Second)
		if !c.exists("/short") {
			t.Error("removed before its time")
		}
		c.set("/renewed", "x")
		c.stay(62 * time.Second)
		if c.exists("/short") || !c.exists("/renewed") || !c.exists("/parent") {
			t.Errorf("short %v, renewed %v, parent %v; want only the last two", c.exists("/short"), c.exists("/renewed"), c.exists("/parent"))
		}
		c.ok(jute.OpDelete, del("/parent/child"))
		c.stay(2 * time.Minute)
		if c.exists("/renewed") || c.exists("/parent") {
			t.Errorf("renewed %v, parent %v; want neither", c.exists("/renewed"), c.exists("/parent"))
		}
		s.noErrors(t)
	})
}

// TestCleanupIsPacedAndSessionsStillExpire checks that the removal of many nodes is
// spread over time, and that sessions expire meanwhile.
func TestCleanupIsPacedAndSessionsStillExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "znode.container.maxPerMinute=60", "znode.container.checkIntervalMs=10000")
		c := s.connect(t)
		for i := range 30 {
			c.ttl("/t"+strconv.Itoa(i), time.Second)
		}
		left := func() int {
			d := jute.NewDecoder(c.ok(jute.OpGetChildren, get("/", false)).body)
			var r jute.GetChildrenResponse
			r.Decode(&d)
			return len(r.Children) - 1 // zookeeper
		}
		c.stay(20*time.Second + 500*time.Millisecond) // ten of them are removed
		if n := left(); n < 18 || n > 22 {
			t.Errorf("%d of 30 nodes are left after 10 s at one a second", n)
		}
		short := s.connectFor(t, 2000)
		begun := time.Now()
		go func() {
			short.nc.Read(make([]byte, 1))
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("session of 2 s expired after %v", took)
			}
		}()
		c.stay(12 * time.Second)
		if n := left(); n < 5 || n > 11 {
			t.Errorf("%d of 30 nodes are left after 22 s at one a second", n)
		}
		c.stay(20 * time.Second)
		if n := left(); n != 0 {
			t.Errorf("%d nodes are left in the end", n)
		}
		if n := s.logged.FilterMessageSnippet("paused").Len(); n != 0 {
			t.Error("cleaning up counts as a pause of the process")
		}
		s.closeWithin(t, time.Second)
	})
}

// TestOnlyTheLeaderRemovesWhatIsDue has a node that is due, and no other check before the one that is made
// here. The removal of a node takes time, since it is paced.
func TestOnlyTheLeaderRemovesWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3, "znode.container.checkIntervalMs=3600000")
		c := e.servers[e.leader()].connect(t)
		c.ttl("/due", time.Second)
		time.Sleep(2 * time.Second)
		e.settled()
		for _, s := range e.servers[1:] {
			begun := time.Now()
			newCleaner(s.Server).removeExpired()
			if removes := time.Since(begun) > 0; removes != s.standing.leads() {
				t.Errorf("server %d, leading %v, removes: %v", s.id, s.standing.leads(), removes)
			}
		}
	})
}
