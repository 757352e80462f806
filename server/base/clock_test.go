package base

import (
	"testing"
	"time"
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
	c := Clock{
		Read:           func() (time.Duration, time.Time) { return f.mono, f.wall },
		SuspendedTotal: func() time.Duration { f.asked++; return f.asleep },
	}
	c.Begin()
	c.start = f.wall
	f.asked = 0
	var want time.Duration
	check := func(what string, asked int) {
		t.Helper()
		if got := c.Now(); got != want || f.asked != asked {
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
	if lag := want - c.Now(); lag < 0 || lag > 2*clockTolerance {
		t.Errorf("short suspensions of %v in all left the clock %v behind", 100*clockTolerance/10, lag)
	}
}

// TestClockJumps sets the wall clock ahead and back, suspends the machine, and corrects the clock by little: only the
// first two are jumps, and the server's clock knows of none.
func TestClockJumps(t *testing.T) {
	f := &fakeClocks{wall: time.Now()}
	c := Clock{Read: func() (time.Duration, time.Time) { return f.mono, f.wall }, SuspendedTotal: func() time.Duration { return f.asleep }}
	c.Begin()
	c.start = f.wall
	for i, step := range []struct {
		set, suspend time.Duration
		want         Jump
	}{
		{0, 0, Jump{}},
		{400 * time.Millisecond, 0, Jump{}},
		{time.Hour, 0, Jump{1, time.Hour, 3 * time.Second}},
		{0, time.Minute, Jump{1, time.Hour, 3 * time.Second}},
		{-24 * time.Hour, 0, Jump{2, -24 * time.Hour, 65 * time.Second}},
		{-2 * time.Hour, time.Minute, Jump{3, -2 * time.Hour, 126 * time.Second}},
	} {
		f.pass(time.Second)
		f.suspend(step.suspend)
		f.wall = f.wall.Add(step.set)
		now := c.Now()
		if got := c.Jump(); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
		if want := f.mono + f.asleep; now != want {
			t.Errorf("step %d: the clock shows %v, want %v", i, now, want)
		}
	}
}

// The system's own clocks: a test's machine is not suspended.
func TestClockOfTheSystem(t *testing.T) {
	var c Clock
	c.Begin()
	last := c.Now()
	for range 10_000 {
		now := c.Now()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
	if real := time.Since(c.start); last > real {
		t.Errorf("the clock shows %v, and %v have passed", last, real)
	}
}

// TestClockAhead sets the wall clock in several steps: how far it is ahead is their sum.
func TestClockAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	f := &fakeClocks{wall: time.Now().Truncate(time.Millisecond)}
	c := Clock{Read: func() (time.Duration, time.Time) { return f.mono, f.wall }, SuspendedTotal: func() time.Duration { return f.asleep }}
	c.Begin()
	c.start = f.wall
	for i, step := range []struct{ set, want time.Duration }{
		{0, 0}, {year, year}, {time.Second, year + time.Second}, {-time.Hour, year + time.Second - time.Hour}, {-year, 0}, {time.Hour, time.Second},
	} {
		f.pass(10 * time.Minute)
		f.wall = f.wall.Add(step.set)
		if got := f.wall.Sub(c.Cautious()); got != step.want {
			t.Errorf("step %d: %v ahead, want %v", i, got, step.want)
		}
	}
	f.pass(time.Hour)
	if got := f.wall.Sub(c.Cautious()); got != 0 {
		t.Errorf("after an hour: %v ahead", got)
	}
	for i, step := range []struct{ set, last, want time.Duration }{
		{0, 0, 0}, {0, time.Minute, 0}, {year, -year, year}, {0, -time.Hour, year}, {0, -2 * year, 2 * year}, {-2 * year, -time.Second, time.Second},
	} {
		f.wall = f.wall.Add(step.set)
		if c.Now(); step.last != 0 {
			c.Doubt(f.wall.Add(step.last).UnixMilli())
		} else {
			c.Doubt(0)
		}
		if got := f.wall.Sub(c.Cautious()); got != step.want {
			t.Errorf("doubt %d: %v ahead, want %v", i, got, step.want)
		}
	}
	f.pass(time.Hour)
	for range 3 * mostJumps {
		f.pass(time.Second)
		f.wall = f.wall.Add(time.Second)
		c.Now()
	}
	if got := f.wall.Sub(c.Cautious()); got != mostJumps*time.Second || len(c.jumps) != mostJumps {
		t.Errorf("after many jumps: %v ahead, of %d", got, len(c.jumps))
	}
}
