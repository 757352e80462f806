package command

import (
	"context"
	"io"
)

// interruptible reads from another reader until a context ends. A signal can't end
// a read of stdin: its goroutine stays behind, until the input has more or ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read reads what there is. It returns the cause of the context's end.
func (i *interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	own := make([]byte, len(p)) // p is the caller's again after the end
	go func() {
		n, err := i.r.Read(own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, own[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}
