package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// DropWatch closes a watch whose event nobody waits for any more, also if ctx has
// ended. One that has fired costs nothing.
func DropWatch(ctx context.Context, w *client.Watch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	_ = w.Close(ctx) // else the server sends an event that nobody hears
}

// Why returns err, with which a recipe's call ends, as it is told to the caller: it
// wraps the cause of ctx's end, if that has ended, and recipes.ErrLost, if the session
// has.
func Why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return Lost(err)
}

// RemoveUnique has a node of settle.ByPath deleted, sooner or later. There is no
// error if it is gone, however that came.
func RemoveUnique(ctx context.Context, c *client.Client, path string) error {
	return unlessGone(end(ctx, c, path, settle.DeleteOptions{Insist: true, Unique: true}))
}
