package queue

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// permit is held by one goroutine at a time.
type permit chan struct{}

func newPermit() permit {
	p := make(permit, 1)
	p.put()
	return p
}

func (p permit) get(ctx context.Context) error {
	select {
	case <-p:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p permit) put() { p <- struct{}{} }

// await pops up to n items as soon as there are some. Only one of the calls that wait looks at a time.
func (p permit) await(ctx context.Context, n int, pop func(context.Context, int) ([]*entry, error), pause func(context.Context) error) ([]*entry, error) {
	if err := p.get(ctx); err != nil {
		return nil, err
	}
	defer p.put()
	for {
		entries, err := pop(ctx, n)
		if err == nil && len(entries) == 0 {
			err = pause(ctx)
		}
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
}

// lifetime counts the calls of a queue, and ends them when it is closed.
type lifetime struct {
	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

func (l *lifetime) init() { l.ctx, l.cancel = context.WithCancel(context.Background()) }

// begin returns the context of a call, which ends with ctx and when the lifetime is closed.
// The caller must call end. What the call acquires follows ctx.
func (l *lifetime) begin(ctx context.Context) (call context.Context, end func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, recipes.ErrClosed
	}
	l.calls.Add(1)
	call, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(recipes.ErrClosed) })
	return line.WaitOnly(call, ctx), func() {
		stop()
		cancel(nil)
		l.calls.Done()
	}, nil
}

// close returns when no call is under way.
func (l *lifetime) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.calls.Wait()
}

// grace returns a context for a change that may be under way when ctx ends. It ends two
// seconds after ctx, or at once if there is no connection. So the outcome is known, and
// nothing that was taken is lost.
func grace(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if c.State().Connected() {
			select {
			case <-time.After(2 * time.Second):
			case <-longer.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
