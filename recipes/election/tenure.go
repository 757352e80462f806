package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// tenure is what was won, by whatever rule.
type tenure interface {
	Context() context.Context
	// lost returns why it is lost, and nil if it is not, also if it has ended otherwise.
	lost() error
	// clear deletes what stands for it on the servers, the first time that it is called.
	// The error wraps recipes.ErrLost if that was gone before.
	clear(ctx context.Context) (first bool, err error)
}

// serve calls fn while t lasts, and ends it. It returns what fn says, and what went wrong
// beside that.
func serve[T tenure](ctx context.Context, t T, fn func(context.Context, T) error) (said, err error) {
	defer t.clear(ctx) // if fn panics
	said = fn(t.Context(), t)
	lost := t.lost()
	if _, err = t.clear(ctx); lost != nil {
		err = lost
	}
	return said, err
}

// serveAgain calls once, which serves once, until ctx ends, or fn returned an error though
// nothing was lost, or what went wrong is not mended by once more.
func serveAgain(ctx context.Context, c *client.Client, once func() (said, err error)) error {
	for {
		said, err := once()
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("stand for election: %w", context.Cause(ctx)), said)
		case err == nil && said != nil:
			return said
		case !again(ctx, c, err), said != nil && !errors.Is(err, recipes.ErrLost):
			return errors.Join(said, err)
		}
	}
}

// again reports, of an error with which a candidate has ended, whether it may become one
// again. Nil is one of those that have led.
func again(ctx context.Context, c *client.Client, err error) bool {
	switch {
	case errors.Is(err, client.ErrSessionExpired):
		return renewed(ctx, c, err)
	case errors.Is(err, recipes.ErrLayout), errors.Is(err, client.ErrNoAuth):
		return false
	}
	return err == nil || client.IsRetryable(err) || errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, recipes.ErrLost)
}

// renewed reports, of an error with which something went wrong, whether a new session
// makes up for it. It waits for that.
func renewed(ctx context.Context, c *client.Client, err error) bool {
	return errors.Is(err, client.ErrSessionExpired) && c.WaitConnected(ctx) == nil
}
