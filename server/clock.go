package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock tells the time since the server's start, and counts the time for which the
// machine was suspended. Leases and sessions need that: to the clients and to the
// other servers a suspended server is silent, while the monotonic clock of Linux
// stands still, so that a lease would look valid after any time.
//
// A suspension moves the wall clock ahead of the monotonic clock, by its length and at
// the same moment (see timekeeping_resume in the kernel). So the wall clock shows at
// each reading that something may have happened, at the cost of a memory access; only
// then the system is asked whether it was a suspension or somebody has set the clock.
type clock struct {
	// read returns the monotonic and the wall clock, the first since the start.
	read func() (mono time.Duration, wall time.Time)
	// asleep returns for how long the machine has been suspended since it was booted;
	// always the same where the system does not tell.
	asleep func() time.Duration

	start time.Time
	lead  atomic.Int64 // of the wall clock, over the monotonic, when asleep was asked last
	slept atomic.Int64 // of asleep, since the start

	mu     sync.Mutex // of what follows, and of writing lead and slept
	before time.Duration
}

// clockTolerance is how far the clocks may move against each other unnoticed. They are
// not read at the same instant, so small differences come and go.
const clockTolerance = 10 * time.Millisecond

// begin starts the clock at zero.
func (c *clock) begin() {
	c.start = time.Now()
	if c.read == nil {
		c.read = c.system
	}
	if c.asleep == nil {
		c.asleep = asleep
	}
	c.before = c.asleep()
}

func (c *clock) system() (time.Duration, time.Time) {
	now := time.Now()
	return now.Sub(c.start), now
}

// now returns the time since begin. It never goes back.
func (c *clock) now() time.Duration {
	mono, wall := c.read()
	lead := wall.UnixNano() - c.start.UnixNano() - int64(mono)
	if moved := lead - c.lead.Load(); moved > int64(clockTolerance) || moved < -int64(clockTolerance) {
		c.look(lead)
	}
	return mono + time.Duration(c.slept.Load())
}

// look finds out for how long the machine was suspended.
func (c *clock) look(lead int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slept := int64(c.asleep() - c.before); slept > c.slept.Load()+int64(clockTolerance) {
		c.slept.Store(slept)
	}
	c.lead.Store(lead) // not before slept: who sees the one needs the other
}
