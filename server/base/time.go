package base

import (
	"sync/atomic"
	"time"
)

// Since tells for how long something has been so.
type Since struct{ at atomic.Int64 } // time.Duration plus one; 0 if it is not so

// Set records whether it is so now.
func (s *Since) Set(is bool, now time.Duration) {
	switch {
	case !is:
		s.at.Store(0)
	case s.at.Load() == 0:
		s.at.Store(int64(now) + 1)
	}
}

// Lasts returns for how long it has been so, at least a nanosecond, or 0 if it is not so.
func (s *Since) Lasts(now time.Duration) time.Duration {
	if at := s.at.Load(); at != 0 {
		return max(now-time.Duration(at-1), 1)
	}
	return 0
}

// Pulse is a ticker whose interval may change, and be 0 for none.
type Pulse struct {
	*time.Ticker
	interval time.Duration
}

// NewPulse returns a Pulse that does not tick yet. The caller stops it.
func NewPulse() *Pulse {
	p := &Pulse{Ticker: time.NewTicker(time.Hour)}
	p.Stop()
	return p
}

// Every sets the interval. The next tick comes after a whole one, unless it was the same.
func (p *Pulse) Every(d time.Duration) {
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
