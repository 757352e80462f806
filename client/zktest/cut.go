package zktest

import (
	"github.com/zkd-project/zkd/jute"
)

// Cut is a break of a connection that waits for its request. It breaks one
// connection, once.
type Cut struct {
	hub   *hub
	match Match
	after bool
	done  chan struct{}

	// Guarded by hub.mu.
	armed bool // no request found yet
	code  jute.Code
}

// Done returns a channel that is closed once the connection has been broken.
func (c *Cut) Done() <-chan struct{} { return c.done }

// Err returns, after Done, the error of the reply that a CutAfter has swallowed:
// nil if the operation went well, and ErrConnectionLoss if the server gave no
// reply. Of a CutBefore it is always ErrConnectionLoss.
func (c *Cut) Err() error {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.code == 0 {
		return nil
	}
	return c.code
}

// Cancel takes the cut back, unless it has found its request.
func (c *Cut) Cancel() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.armed = false
}

// hitLocked reports whether the cut is for r. It then looks for no other.
func (c *Cut) hitLocked(r request) bool {
	if !c.armed {
		return false
	}
	for _, path := range r.paths {
		if c.match(r.op, path) {
			c.armed = false
			return true
		}
	}
	return false
}
