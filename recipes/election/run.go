package election

import (
	"context"
	"errors"
)

// Run stands for election, calls fn when it is won, and releases when fn has returned. The
// context of fn is that of the leadership, which also ends with ctx. Run waits for fn in
// any case.
//
// It returns the error of fn, joined with one that wraps recipes.ErrLost if leadership was
// lost before fn returned.
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) error {
	said, err := e.runOnce(ctx, fn)
	return errors.Join(said, err)
}

// RunAgain repeats Run, each time as the last in the line, whenever fn has returned nil or
// leadership was lost. fn is never called before it has returned. RunAgain ends when ctx
// does, when fn returns an error and leadership was not lost, and for what ends a Latch.
func (e *Election) RunAgain(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) error {
	return serveAgain(ctx, e.c, func() (said, err error) { return e.runOnce(ctx, fn) })
}

func (e *Election) runOnce(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) (said, err error) {
	leadership, err := e.elect(ctx, func() {})
	if err != nil {
		return nil, err
	}
	said, err = leadership.tenure.serve(ctx, func(ctx context.Context) error { return fn(ctx, leadership) })
	return said, e.failed(ctx, "lead", err)
}
