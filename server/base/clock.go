package base

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Clock measures the time since the server's start, including the time for which the
// machine was suspended. Leases and sessions need that: to clients and other servers a
// suspended server is silent, but Linux's monotonic clock stands still meanwhile, so a
// lease would look valid after any length of time.
//
// A suspension moves the wall clock ahead of the monotonic clock by its length, at the
// same moment (see timekeeping_resume in the kernel). So each reading of the wall clock
// shows whether something may have happened, at the cost of a memory access. Only then
// the system is asked whether the cause was a suspension or a change of the clock.
type Clock struct {
	// Read returns the monotonic and the wall clock, the first since the start. Nil means the
	// system's.
	Read func() (mono time.Duration, wall time.Time)
	// SuspendedTotal returns how long the machine has been suspended since boot; it is constant
	// where the system does not report that. Nil means the system's.
	SuspendedTotal func() time.Duration

	start time.Time
	lead  atomic.Int64 // of the wall clock over the monotonic one, at the last call of SuspendedTotal
	slept atomic.Int64 // growth of SuspendedTotal since the start
	jump  atomic.Pointer[Jump]

	mu     sync.Mutex // guards before and jumps, and writes of lead and slept
	before time.Duration
	jumps  []Jump // the last ones
}

// clockTolerance is how far the two clocks may drift unnoticed. They are not read at the
// same instant, so small differences come and go.
const clockTolerance = 10 * time.Millisecond

// Begin starts the clock at zero. Nothing else may be called before.
func (c *Clock) Begin() {
	c.start = time.Now()
	if c.Read == nil {
		c.Read = c.System
	}
	if c.SuspendedTotal == nil {
		c.SuspendedTotal = suspendedTotal
	}
	c.before = c.SuspendedTotal()
}

// System is Read of the system's clocks.
func (c *Clock) System() (time.Duration, time.Time) {
	now := time.Now()
	return now.Sub(c.start), now
}

// Wall returns the wall clock.
func (c *Clock) Wall() time.Time {
	_, wall := c.Read()
	return wall
}

// Start returns the wall clock at the start.
func (c *Clock) Start() time.Time { return c.start }

// Now returns the time since Begin. It never goes backwards.
func (c *Clock) Now() time.Duration {
	mono, wall := c.Read()
	lead := wall.UnixNano() - c.start.UnixNano() - int64(mono)
	if moved := lead - c.lead.Load(); moved > int64(clockTolerance) || moved < -int64(clockTolerance) {
		c.measureSuspension()
	}
	return mono + time.Duration(c.slept.Load())
}

// Suspended returns for how much of that time the machine was suspended.
func (c *Clock) Suspended() time.Duration {
	c.Now() // which notices
	return time.Duration(c.slept.Load())
}

// Jump is a change of the wall clock at once, which was no suspension: somebody has set it.
type Jump struct {
	Count int           // of all since the start
	By    time.Duration // negative if it was set back
	At    time.Duration // when, as Now
}

// leastJump is the least change of the wall clock that counts as a jump. Time servers correct less without one.
const leastJump = 500 * time.Millisecond

// mostJumps is how many jumps are kept.
const mostJumps = 64

// Jump returns the last jump of the wall clock; a zero Count means that there was none. It is noticed by Now.
func (c *Clock) Jump() Jump {
	if j := c.jump.Load(); j != nil {
		return *j
	}
	return Jump{}
}

// measureSuspension determines how long the machine was suspended.
func (c *Clock) measureSuspension() {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := c.Read() // others may have read before the last change
	lead := wall.UnixNano() - c.start.UnixNano() - int64(mono)
	asleep := c.slept.Load()
	if slept := int64(c.SuspendedTotal() - c.before); slept > asleep+int64(clockTolerance) {
		c.slept.Store(slept)
	}
	by := time.Duration(lead - c.lead.Load() - (c.slept.Load() - asleep))
	c.lead.Store(lead) // after slept: a reader that sees lead needs slept
	if by.Abs() >= leastJump {
		j := Jump{Count: c.Jump().Count + 1, By: by, At: mono + time.Duration(c.slept.Load())}
		c.jump.Store(&j)
		c.keep(j)
	}
}

func (c *Clock) keep(j Jump) {
	c.jumps = append(c.jumps, j)
	c.jumps = slices.Delete(c.jumps, 0, max(0, len(c.jumps)-mostJumps))
}

// Doubt is called at a start and when a server begins to lead. lastMs is when the last change before that was made, by the clocks of leaders, or 0.
// Nobody knows whether nothing has changed since then or this clock is ahead, so Cautious takes it for a jump.
func (c *Clock) Doubt(lastMs int64) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.Wall().Sub(time.UnixMilli(lastMs))
	if more := by - c.jumped(now-patience); lastMs > 0 && by > 0 && more > 0 {
		c.keep(Jump{By: more, At: now})
	}
}

// patience is for how long what is deleted at a time stays after the wall clock was set ahead, so that somebody can set it right.
const patience = time.Hour

// Cautious returns the wall clock, or what it would show if it had not been set ahead within the last hour, as far as is known: it is for what is deleted at
// a time, and does not come back.
func (c *Clock) Cautious() time.Time {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Wall().Add(-max(0, c.jumped(now-patience)))
}

// jumped returns by how much the wall clock has jumped since a time, as Now.
func (c *Clock) jumped(since time.Duration) (by time.Duration) {
	for _, j := range c.jumps {
		if j.At > since {
			by += j.By
		}
	}
	return by
}
