package election

import (
	"context"
	"iter"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/feed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// State is the progress of a Latch or a Campaign.
type State int

const (
	// Joining means that it is about to become a candidate.
	Joining State = iota
	// Standing means that it is a candidate, and another one leads.
	Standing
	// Leading means that it leads, or is master.
	Leading
	// Over means that it has ended, of a Campaign. A Latch returns an error then.
	Over
)

// String returns the name in lower case.
func (s State) String() string { return [...]string{"joining", "standing", "leading", "over"}[s] }

// Status is what Follow yields.
type Status struct {
	State      State
	Leadership *Leadership // if Leading
}

// Latch is a candidate until it is closed: whenever it has lost or released leadership,
// it joins again, as the last in the line. Its methods may be called from any goroutine.
//
// It ends if joining again cannot help: if the servers refuse, if there are nodes of
// something else among the candidates, and when the session ends without
// client.Options.RenewSession. Await and Follow then return that error.
type Latch struct {
	e    *Election
	stop context.CancelCauseFunc
	ctx  context.Context // ends with Close
	done chan struct{}   // closed when it has ended after Start

	mu      sync.Mutex // of Start and Close, and last
	started bool
	last    follower
	status  feed.Feed[Status] // ends with the latch
}

// NewLatch returns a candidate that has not joined yet: see Start. The error is that of
// New.
func NewLatch(c *client.Client, path string, o Options) (*Latch, error) {
	e, err := New(c, path, o)
	if err != nil {
		return nil, err
	}
	return e.Latch(), nil
}

// Latch returns a candidate that has not joined yet: see Latch.Start.
func (e *Election) Latch() *Latch {
	l := &Latch{e: e, done: make(chan struct{})}
	l.status.Put(Status{})
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	return l
}

// Election returns the election in which it is a candidate.
func (l *Latch) Election() *Election { return l.e }

// Start joins the candidates, in a goroutine that runs until Close. It does not wait. It
// does nothing if it was called before; after Close it returns recipes.ErrClosed.
func (l *Latch) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch now := l.status.Now(); {
	case now.Over:
		return now.Err
	case l.ctx.Err() != nil:
		return l.e.failed(l.ctx, "stand for", recipes.ErrClosed)
	case !l.started:
		l.started = true
		go l.stand()
	}
	return nil
}

// Close withdraws the candidate and releases its leadership, if it leads. It waits until
// that is done or ctx ends; the rest then happens in the background, as it does if no server
// answers for two seconds. It is idempotent.
func (l *Latch) Close(ctx context.Context) error {
	l.mu.Lock()
	l.stop(recipes.ErrClosed) // no Start can follow
	started := l.started
	l.mu.Unlock()
	if !started {
		l.status.End(l.e.failed(l.ctx, "stand for", recipes.ErrClosed))
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return l.e.failed(ctx, "leave", context.Cause(ctx))
	}
}

// Await waits until the latch leads, and returns its leadership, whose Context also ends with
// ctx. It returns recipes.ErrClosed after Close, and otherwise why the latch has ended.
func (l *Latch) Await(ctx context.Context) (*Leadership, error) {
	for status, err := range l.Follow(ctx) {
		if err != nil {
			return nil, err
		}
		if status.State == Leading && status.Leadership.Err() == nil {
			return status.Leadership, nil
		}
	}
	panic("unreachable: the last status is an error")
}

// Follow yields the status now and after each change, until the loop or ctx ends. If the
// status changes faster than the loop takes it, only the latest is yielded. The last is the
// latch's end, as an error, as with Await. As there, Context of the leadership also ends with ctx.
func (l *Latch) Follow(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for status, err := range l.status.Follow(ctx) {
			if err != nil && !l.status.Now().Over {
				err = l.e.failed(ctx, "wait in", err)
			}
			if err != nil {
				status = Status{}
			}
			if status.Leadership != nil {
				status.Leadership = l.following(ctx, status.Leadership)
			}
			if !yield(status, err) {
				return
			}
		}
	}
}

// follower is a leadership that follows a context.
type follower struct {
	of   *Leadership
	done <-chan struct{} // of the context
	it   *Leadership
}

// following returns the leadership with a Context that also ends with ctx: the same one again
// for the same context, as it may be asked for many times.
func (l *Latch) following(ctx context.Context, of *Leadership) *Leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done := line.Life(ctx).Done(); l.last.of != of || l.last.done != done {
		l.last = follower{of, done, of.following(ctx)}
	}
	return l.last.it
}

// set publishes a status, if it has changed. Only stand calls it.
func (l *Latch) set(s Status) {
	if l.status.Now().Value != s {
		l.status.Put(s)
	}
}

// stand is a candidate until the latch is closed or cannot be one any more.
func (l *Latch) stand() {
	defer close(l.done)
	err := standAgain(l.ctx, l.e.c, l.standOnce)
	if l.ctx.Err() != nil {
		err = l.e.failed(l.ctx, "stand for", err)
	}
	l.status.End(err)
}

// standOnce is a candidate until it has lost or released leadership, or that fails.
func (l *Latch) standOnce() error {
	leadership, err := l.e.elect(l.ctx, func() { l.set(Status{State: Standing}) })
	if err == nil {
		l.set(Status{Leading, leadership})
		<-leadership.Context().Done()
		l.set(Status{})
		_, err = leadership.tenure.end(l.ctx)
	}
	l.set(Status{})
	return err
}
