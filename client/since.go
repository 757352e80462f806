package client

import "time"

// ConnectedSince returns when the connection at hand was made, and whether there
// is one. Two calls that return the same time have seen the same connection: so
// one knows that none was lost in between, whether or not the changes of state
// have been received.
func (c *Client) ConnectedSince() (since time.Time, connected bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.conn == nil {
		return time.Time{}, false
	}
	return c.s.conn.began, true
}
