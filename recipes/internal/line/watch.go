package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// DropWatch closes a watch whose event is not needed any more, even if ctx has ended. If it
// has fired, that costs nothing.
func DropWatch(ctx context.Context, w *client.Watch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Leaving)
	defer cancel()
	_ = w.Close(ctx) // otherwise the server would send a useless event
}

// Why returns the error of a recipe's call for its caller: err, wrapped in the cause of ctx's
// end if ctx has ended, and in recipes.ErrLost if the session has.
func Why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return Lost(err)
}

// RemoveUnique deletes a node of settle.ByPath, if need be in the background. It is not an
// error if the node does not exist any more.
func RemoveUnique(ctx context.Context, c *client.Client, path string) error {
	return unlessGone(end(ctx, c, path, settle.DeleteOptions{Insist: true, Unique: true}))
}

// Nudge wakes the contenders that watch a node, by writing its data unchanged. It ignores
// errors.
func Nudge(ctx context.Context, c *client.Client, path string) {
	node, err := c.Get(ctx, path)
	if err == nil {
		_, _ = c.Set(ctx, path, node.Data, node.Stat.Version)
	}
}

// Next waits for the watch's event. If ctx or the session ends before, it closes the watch, so
// that nothing remains at the server.
func Next(ctx context.Context, w *client.Watch) (client.Event, error) {
	e, err := w.Next(ctx)
	if err != nil {
		DropWatch(ctx, w)
		return e, Lost(err)
	}
	return e, nil
}
