package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// fakeClocks are the clocks of a machine, controlled by the test.
type fakeClocks struct {
	mono, asleep time.Duration
	wall         time.Time
	asked        int // how often the system was asked whether it was suspended
}

func (f *fakeClocks) pass(d time.Duration) {
	f.mono += d
	f.wall = f.wall.Add(d)
}

func (f *fakeClocks) suspend(d time.Duration) {
	f.asleep += d
	f.wall = f.wall.Add(d)
}

func TestClockCountsSuspensions(t *testing.T) {
	f := &fakeClocks{wall: time.Now(), asleep: time.Hour}
	c := clock{
		read:           func() (time.Duration, time.Time) { return f.mono, f.wall },
		suspendedTotal: func() time.Duration { f.asked++; return f.asleep },
	}
	c.begin()
	c.start = f.wall
	f.asked = 0
	var want time.Duration
	check := func(what string, asked int) {
		t.Helper()
		if got := c.now(); got != want || f.asked != asked {
			t.Errorf("%s: the clock shows %v and the system was asked %d times, want %v and %d", what, got, f.asked, want, asked)
		}
		f.asked = 0
	}
	check("at the start", 0)
	f.pass(time.Second)
	want += time.Second
	check("after a second", 0)
	f.suspend(time.Hour)
	want += time.Hour
	check("after a suspension", 1)
	check("a moment later", 0)
	f.pass(time.Minute)
	want += time.Minute
	check("a minute later", 0)
	f.wall = f.wall.Add(-3 * time.Hour)
	check("after somebody has set the wall clock back", 1)
	f.suspend(3 * time.Hour)
	want += 3 * time.Hour
	check("after a suspension as long as that", 1)
	f.wall = f.wall.Add(24 * time.Hour)
	check("after somebody has set the wall clock ahead", 1)
	for range 100 { // too short to be noticed alone
		f.suspend(clockTolerance / 10)
		want += clockTolerance / 10
	}
	if lag := want - c.now(); lag < 0 || lag > 2*clockTolerance {
		t.Errorf("short suspensions of %v in all left the clock %v behind", 100*clockTolerance/10, lag)
	}
}

// The system's own clocks: a test's machine is not suspended.
func TestClockOfTheSystem(t *testing.T) {
	var c clock
	c.begin()
	last := c.now()
	for range 10_000 {
		now := c.now()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
	if real := time.Since(c.start); last > real {
		t.Errorf("the clock shows %v, and %v have passed", last, real)
	}
}

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
