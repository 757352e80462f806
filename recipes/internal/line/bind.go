package line

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// Bind returns the view of c for the current session, and waits for one if there is none. The
// outcome of a session's unanswered requests is not known in the next one, so a change and
// the node that records it must belong to one session.
func Bind(ctx context.Context, c *client.Client) (*client.Client, client.SessionID, error) {
	id := c.Session().ID()
	if id == 0 {
		if err := c.WaitConnected(ctx); err != nil {
			return nil, 0, err
		}
		id = c.Session().ID()
	}
	return c.InSession(id), id, nil
}
