package command

import (
	"context"
	"io"
)

// interruptible reads from another reader until a context ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read reads what there is. It returns the cause of the context's end.
func (i *interruptible) Read(p []byte) (int, error) {
	own := make([]byte, len(p)) // after the end p belongs to the caller again
	n, err := unlessDone(i.ctx, func() (int, error) { return i.r.Read(own) })
	return copy(p, own[:n]), err
}

// unlessDone calls a function that a signal can't interrupt: reading stdin, or opening a
// pipe. If ctx ends first, it returns the cause, and the function's goroutine continues until
// the other side acts or the program ends.
func unlessDone[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := do()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
