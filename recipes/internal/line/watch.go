package line

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// DropWatch closes a watch whose event nobody waits for any more, also if ctx has
// ended. One that has fired costs nothing.
func DropWatch(ctx context.Context, w *client.Watch) { dropWatch(ctx, w) }

// Lost makes the end of a session a recipes.ErrLost, too. Other errors stay as they are.
func Lost(err error) error { return lost(err) }

// RemoveUnique is Remove of a node that CreateUnique has made.
func RemoveUnique(ctx context.Context, c *client.Client, path string) error {
	return unlessLost(end(ctx, c, path, c.DeleteUnique))
}
