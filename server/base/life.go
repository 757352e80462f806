package base

import (
	"context"
	"sync"
	"sync/atomic"
)

// Life is that of a server: its goroutines run until it stops, and it may fail once.
type Life struct {
	ctx    context.Context // of the server's own goroutines
	stop   context.CancelFunc
	loops  sync.WaitGroup // those goroutines
	ending atomic.Bool
	failed chan error
	once   sync.Once
	last   func(error)
}

// NewLife returns the life of a server. The first failure calls last before Failed has it.
func NewLife(last func(error)) *Life {
	l := &Life{failed: make(chan error, 1), last: last}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Context ends when the server stops.
func (l *Life) Context() context.Context { return l.ctx }

// Stopping is closed when the server stops.
func (l *Life) Stopping() <-chan struct{} { return l.ctx.Done() }

// Go runs a function in a goroutine that ends when the server stops.
func (l *Life) Go(run func()) { l.loops.Go(run) }

// Stop ends Context.
func (l *Life) Stop() { l.stop() }

// Wait returns when every goroutine has ended.
func (l *Life) Wait() { l.loops.Wait() }

// End makes Ending true.
func (l *Life) End() { l.ending.Store(true) }

// Ending reports whether the server is closing or has failed: there are no new sessions.
func (l *Life) Ending() bool { return l.ending.Load() }

// Fail ends the server because it can no longer keep its promises. Only the first error counts.
func (l *Life) Fail(err error) {
	l.once.Do(func() {
		l.End()
		l.last(err)
		l.failed <- err
	})
}

// Failed gets the error of Fail.
func (l *Life) Failed() <-chan error { return l.failed }
