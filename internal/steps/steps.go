// Package steps counts the work that requests cause, so that a test can compare it with their length. A step
// is a name that is looked up, a node that is visited, or a pair that is compared: what has a bounded cost
// alone, and can be repeated very often.
//
// The package is pure.
package steps

import "sync/atomic"

// Counter counts steps. It is safe for concurrent use. A nil Counter, which all but tests have, counts none.
type Counter struct{ n atomic.Int64 }

// Add counts n steps.
func (c *Counter) Add(n int) {
	if c != nil {
		c.n.Add(int64(n))
	}
}

// Total returns the number of steps.
func (c *Counter) Total() int64 { return c.n.Load() }
