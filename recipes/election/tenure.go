package election

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// tenure is leadership or mastership. It is the hold.Tenure of a Held, and can also be ended
// by the recipe.
type tenure struct {
	hold *line.Hold
	// clear deletes the nodes. It is called once.
	clear func(ctx context.Context) error

	mu           sync.Mutex
	ended        bool
	acknowledged bool // a leader's acknowledgement may exist
}

func (t *tenure) Context() context.Context { return t.hold.Context() }

func (t *tenure) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.hold.Err()
	if t.ended && !errors.Is(err, recipes.ErrLost) {
		return errEnded
	}
	return err
}

// errEnded is the error of a tenure that was ended.
var errEnded = fmt.Errorf("%w: it was released before", recipes.ErrNotHeld)

// lost returns why the tenure was lost, or nil if it was not, even if it has ended otherwise.
func (t *tenure) lost() error {
	if err := t.hold.Err(); errors.Is(err, recipes.ErrLost) {
		return err
	}
	return nil
}

// End implements hold.Tenure: it is how the user ends the tenure.
func (t *tenure) End(ctx context.Context) error {
	first, err := t.end(ctx)
	if !first {
		return t.Err()
	}
	return err
}

// end ends the tenure, and reports whether it was the first to do so. The error wraps
// recipes.ErrLost if the node did not exist any more.
func (t *tenure) end(ctx context.Context) (first bool, err error) {
	t.mu.Lock()
	before := t.ended
	t.ended = true
	t.mu.Unlock()
	if before {
		return false, nil
	}
	return true, t.clear(ctx)
}

// acknowledge records that an acknowledgement may exist from now on.
func (t *tenure) acknowledge() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return errEnded
	}
	t.acknowledged = true
	return nil
}

func (t *tenure) hasAcknowledged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acknowledged
}

// serve calls fn during the tenure, and ends it. It returns the error of fn, and what else
// went wrong.
func (t *tenure) serve(ctx context.Context, fn func(ctx context.Context) error) (said, err error) {
	defer t.end(ctx) // if fn panics
	said = fn(t.Context())
	lost := t.lost()
	if _, err = t.end(ctx); lost != nil {
		err = lost
	}
	return said, err
}

// serveAgain calls once, which serves one tenure, until ctx ends, or fn returned an error
// although nothing was lost, or until repeating cannot help.
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

// standAgain calls once, which stands for election and serves a tenure, until ctx ends or
// repeating cannot help. It returns the cause in the first case.
func standAgain(ctx context.Context, c *client.Client, once func() error) error {
	for {
		err := once()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !again(ctx, c, err) {
			return err
		}
	}
}

// again reports whether a candidate that has ended with err may become one again. The error
// is nil after a tenure that was not lost.
func again(ctx context.Context, c *client.Client, err error) bool {
	switch {
	case errors.Is(err, client.ErrSessionExpired):
		return renewed(ctx, c, err)
	case errors.Is(err, recipes.ErrLayout), errors.Is(err, client.ErrNoAuth):
		return false
	}
	return err == nil || client.IsRetryable(err) || errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, recipes.ErrLost)
}

// renewed reports whether err is the end of a session that has been replaced by a new one,
// for which it waits.
func renewed(ctx context.Context, c *client.Client, err error) bool {
	return errors.Is(err, client.ErrSessionExpired) && c.WaitConnected(ctx) == nil
}
