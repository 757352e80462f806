package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock measures the time since the server's start, including the time for which the
// machine was suspended. Leases and sessions need that: to clients and other servers a
// suspended server is silent, but Linux's monotonic clock stands still meanwhile, so a
// lease would look valid after any length of time.
//
// A suspension moves the wall clock ahead of the monotonic clock by its length, at the
// same moment (see timekeeping_resume in the kernel). So each reading of the wall clock
// shows whether something may have happened, at the cost of a memory access. Only then
// the system is asked whether the cause was a suspension or a change of the clock.
type clock struct {
	// read returns the monotonic and the wall clock, the first since the start.
	read func() (mono time.Duration, wall time.Time)
	// suspendedTotal returns how long the machine has been suspended since boot; it is constant
	// where the system does not report that.
	suspendedTotal func() time.Duration

	start time.Time
	lead  atomic.Int64 // of the wall clock over the monotonic one, at the last call of suspendedTotal
	slept atomic.Int64 // growth of suspendedTotal since the start

	mu     sync.Mutex // guards before, and writes of lead and slept
	before time.Duration
}

// clockTolerance is how far the two clocks may drift unnoticed. They are not read at the
// same instant, so small differences come and go.
const clockTolerance = 10 * time.Millisecond

// begin starts the clock at zero.
func (c *clock) begin() {
	c.start = time.Now()
	if c.read == nil {
		c.read = c.system
	}
	if c.suspendedTotal == nil {
		c.suspendedTotal = suspendedTotal
	}
	c.before = c.suspendedTotal()
}

func (c *clock) system() (time.Duration, time.Time) {
	now := time.Now()
	return now.Sub(c.start), now
}

// now returns the time since begin. It never goes backwards.
func (c *clock) now() time.Duration {
	mono, wall := c.read()
	lead := wall.UnixNano() - c.start.UnixNano() - int64(mono)
	if moved := lead - c.lead.Load(); moved > int64(clockTolerance) || moved < -int64(clockTolerance) {
		c.measureSuspension(lead)
	}
	return mono + time.Duration(c.slept.Load())
}

// measureSuspension determines how long the machine was suspended.
func (c *clock) measureSuspension(lead int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slept := int64(c.suspendedTotal() - c.before); slept > c.slept.Load()+int64(clockTolerance) {
		c.slept.Store(slept)
	}
	c.lead.Store(lead) // after slept: a reader that sees lead needs slept
}

// since tells for how long something has been so.
type since struct{ at atomic.Int64 } // time.Duration plus one; 0 if it is not so

// set records whether it is so now.
func (s *since) set(is bool, now time.Duration) {
	switch {
	case !is:
		s.at.Store(0)
	case s.at.Load() == 0:
		s.at.Store(int64(now) + 1)
	}
}

// lasts returns for how long it has been so, at least a nanosecond, or 0 if it is not so.
func (s *since) lasts(now time.Duration) time.Duration {
	if at := s.at.Load(); at != 0 {
		return max(now-time.Duration(at-1), 1)
	}
	return 0
}

// pulse is a ticker whose interval may change, and be 0 for none.
type pulse struct {
	*time.Ticker
	interval time.Duration
}

func newPulse() *pulse {
	p := &pulse{Ticker: time.NewTicker(time.Hour)}
	p.Stop()
	return p
}

// every sets the interval. The next tick comes after a whole one, unless it was the same.
func (p *pulse) every(d time.Duration) {
	switch {
	case d == p.interval:
		return
	case d == 0:
		p.Stop()
	default:
		p.Reset(d)
	}
	p.interval = d
}
