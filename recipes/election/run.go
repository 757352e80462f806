package election

import (
	"context"
	"errors"
)

// Run stands for election, calls fn when it is won, and resigns when fn has returned. fn's
// context is the leadership's: it ends when that is lost, and with ctx. Run waits for fn
// in any case.
//
// It returns what fn does; and an error that wraps recipes.ErrLost as well if leadership was
// lost before fn had returned: then what fn did may have been done beside somebody else.
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) error {
	said, err := e.runOnce(ctx, fn)
	return errors.Join(said, err)
}

// RunAgain is Run again and again, each time as the last in the line, whenever fn has
// returned nil or leadership is lost. fn is never called before it has returned. It goes
// on until ctx ends, or fn returns an error and leadership is not lost, or for what ends a
// Latch, too.
func (e *Election) RunAgain(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) error {
	return serveAgain(ctx, e.c, func() (said, err error) { return e.runOnce(ctx, fn) })
}

func (e *Election) runOnce(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) (said, err error) {
	leadership, err := e.elect(ctx, func() {})
	if err != nil {
		return nil, err
	}
	said, err = serve(ctx, leadership, fn)
	return said, e.unless(ctx, "lead", err)
}
