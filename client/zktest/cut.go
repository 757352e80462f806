package zktest

import (
	"github.com/zkd-project/zkd/jute"
)

// Cut is a planned break of a connection at a request. It breaks one connection, once.
type Cut struct {
	hub   *hub
	match Match
	after bool
	done  chan struct{}

	// Guarded by hub.mu.
	armed bool // its request has not come yet
	code  jute.Code
}

// Done returns a channel that is closed once the connection has been broken.
func (c *Cut) Done() <-chan struct{} { return c.done }

// Err returns, after Done, the error of the reply that a CutAfter has dropped: nil if the
// operation succeeded, and ErrConnectionLoss if the server sent no reply. For a CutBefore it
// is always ErrConnectionLoss.
func (c *Cut) Err() error {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.code == 0 {
		return nil
	}
	return c.code
}

// Cancel cancels the cut, unless its request has come.
func (c *Cut) Cancel() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.armed = false
}

// hitLocked reports whether the cut is for r. It is then for no other request.
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
