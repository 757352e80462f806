package line

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// Bind returns the view of c for the session at hand, and waits for one if there is
// none. What a session has left under way, nobody knows the outcome of in the next: so
// a change and what tells of it have to be of one.
func Bind(ctx context.Context, c *client.Client) (*client.Client, client.SessionID, error) {
	id, _ := c.Session()
	if id == 0 {
		if err := c.WaitConnected(ctx); err != nil {
			return nil, 0, err
		}
		id, _ = c.Session()
	}
	return c.InSession(id), id, nil
}
