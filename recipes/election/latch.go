package election

import (
	"context"
	"iter"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// State says how far a Latch is.
type State int

const (
	// Joining: it is no candidate yet, or not any more and about to be one again.
	Joining State = iota
	// Standing: it is a candidate, and somebody else leads.
	Standing
	// Leading: it leads.
	Leading
)

// String returns the name in lower case.
func (s State) String() string { return [...]string{"joining", "standing", "leading"}[s] }

// Status is what Follow tells.
type Status struct {
	State      State
	Leadership *Leadership // if Leading
}

// Latch is a candidate until it is closed: whenever it has lost or resigned leadership,
// it joins again, as the last in the line. Its methods may be called from any goroutine.
//
// What can't be mended by joining again ends it: servers that refuse, nodes of somebody
// else among the candidates, the end of a session without client.Options.RenewSession.
// Await and Follow then return that error.
type Latch struct {
	e    *Election
	stop context.CancelCauseFunc
	ctx  context.Context // ends with Close
	run  sync.WaitGroup

	mu      sync.Mutex
	started bool
	status  Status
	err     error         // why it is over
	changed chan struct{} // closed when one of those before changes
}

// NewLatch returns a candidate that has not joined yet: see Start. The error is that of a
// bad argument, as of New.
func NewLatch(c *client.Client, path string, o Options) (*Latch, error) {
	e, err := New(c, path, o)
	if err != nil {
		return nil, err
	}
	return e.Latch(), nil
}

// Latch returns a candidate that has not joined yet: see Latch.Start.
func (e *Election) Latch() *Latch {
	l := &Latch{e: e, changed: make(chan struct{})}
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	return l
}

// Election returns the election that it stands for.
func (l *Latch) Election() *Election { return l.e }

// Start joins the candidates, in a goroutine that goes on until Close. It does not wait.
// It does nothing if it was called before; after Close it returns recipes.ErrClosed.
func (l *Latch) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.ctx.Err() != nil:
		return l.e.failed(l.ctx, "stand for", recipes.ErrClosed)
	case !l.started:
		l.started = true
		l.run.Go(l.stand)
	}
	return nil
}

// Close takes the candidate back and ends its leadership, if it has it. It waits until
// that is done, or ctx ends; then it is seen to in the background, as it is if no server
// answers for two seconds. It is idempotent.
func (l *Latch) Close(ctx context.Context) error {
	l.mu.Lock()
	l.stop(recipes.ErrClosed) // no Start comes behind it
	started := l.started
	l.mu.Unlock()
	if !started {
		l.end(l.e.failed(l.ctx, "stand for", recipes.ErrClosed))
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return l.e.failed(ctx, "leave", context.Cause(ctx))
	}
}

// Await waits until the latch leads, and returns its leadership. It returns
// recipes.ErrClosed after Close, and what has ended the latch if something has.
func (l *Latch) Await(ctx context.Context) (*Leadership, error) {
	for {
		status, changed, err := l.now()
		if err != nil {
			return nil, err
		}
		if status.State == Leading && status.Leadership.Err() == nil {
			return status.Leadership, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, l.e.failed(ctx, "wait to lead", context.Cause(ctx))
		}
	}
}

// Follow returns how far the latch is now, and each change of that, until the loop or ctx
// ends; of changes that come faster than the loop takes them the last. The latch's end
// comes as an error, as with Await, and is the last.
func (l *Latch) Follow(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for {
			status, changed, err := l.now()
			if !yield(status, err) || err != nil {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Status{}, l.e.failed(ctx, "follow", context.Cause(ctx)))
				return
			}
		}
	}
}

// now returns the status, and a channel that is closed when it changes.
func (l *Latch) now() (Status, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status, l.changed, l.err
}

func (l *Latch) set(s Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status != s {
		l.status = s
		l.tellLocked()
	}
}

// end notes why the latch is over.
func (l *Latch) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.status, l.err = Status{}, err
		l.tellLocked()
	}
}

func (l *Latch) tellLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// stand is a candidate until the latch is closed or it can't be one any more.
func (l *Latch) stand() {
	for {
		err := l.standOnce()
		if l.ctx.Err() != nil {
			err = l.e.failed(l.ctx, "stand for", recipes.ErrClosed)
		} else if again(l.ctx, l.e.c, err) {
			continue
		}
		l.end(err)
		return
	}
}

// standOnce is a candidate until it has lost or resigned leadership, or that fails.
func (l *Latch) standOnce() error {
	leadership, err := l.e.elect(l.ctx, func() { l.set(Status{State: Standing}) })
	if err == nil {
		l.set(Status{Leading, leadership})
		<-leadership.Context().Done()
		l.set(Status{})
		_, err = leadership.clear(l.ctx)
	}
	l.set(Status{})
	return err
}
