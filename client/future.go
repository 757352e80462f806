package client

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// call is an operation under way, as the session sees it.
type call struct {
	op    jute.OpCode
	seq   uint64 // its place in the order of all calls of the session
	path  string // as the caller named it
	frame []byte // the request, while it waits for a connection
	// ctx is that of a caller who waits: nothing is issued once it has ended. Nil
	// for asynchronous calls.
	ctx     context.Context
	watch   *Watch    // that the reply sets, or nil
	removed bool      // of removeWatches: there were watches to close
	bound   SessionID // see Client.InSession; 0 is any
	issued  time.Time
	multi   []jute.MultiOp // of a multi: its operations, by the names of the servers
	// result is the Future that the call belongs to.
	result result
}

// result is the side of a Future that takes the reply.
type result interface {
	// reply takes a successful reply's body, or the error code of the reply.
	reply(d *jute.Decoder, code jute.Code) error
	// finish makes the result known. It is called once, after reply if there was
	// one; err is what reply returned or what went wrong without a reply. It
	// reports whether nobody waits for the result any more.
	finish(err error) (abandoned bool)
	// callback runs the callback; it is called if finish was and there is one.
	callback()
	hasCallback() bool
}

// Future is the result of an asynchronous operation that may still be under way.
type Future[T any] struct {
	call
	c    *Client
	row  *op[T]
	then []func(T, error)

	mu   sync.Mutex
	done bool
	gone bool          // abandoned
	wake chan struct{} // capacity 1: one token when done; nil if asynchronous
	open chan struct{} // what Done returned
	val  T
	err  error
}

// Wait waits for the result and returns it. If ctx ends first, Wait returns ctx's error,
// which IsAmbiguous for a change because the operation is not cancelled, and can be
// called again.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	f.mu.Lock()
	if f.done {
		f.mu.Unlock()
		return f.val, f.err
	}
	if f.open == nil {
		f.open = make(chan struct{})
	}
	open := f.open
	f.mu.Unlock()
	select {
	case <-open:
		return f.val, f.err
	case <-ctx.Done():
		var none T
		return none, f.c.s.leave(&f.call, context.Cause(ctx), false)
	}
}

// Cancel gives the operation up, because of cause. If the request has not been sent, it
// is not sent any more, and there will be no result. Otherwise the result is still to
// come, and if the operation is a change, the returned error IsAmbiguous. Result returns
// it if it is there already.
func (f *Future[T]) Cancel(cause error) error { return f.c.s.leave(&f.call, cause, true) }

// Done returns a channel that is closed once the result is there.
func (f *Future[T]) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(chan struct{})
		if f.done {
			close(f.open)
		}
	}
	return f.open
}

// Result returns the result if it is there; ok reports whether it is.
func (f *Future[T]) Result() (val T, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.done {
		return val, false, nil
	}
	return f.val, true, f.err
}

// await is Wait for a future that nobody else has: it may be used again
// afterwards, unless it was abandoned.
func (f *Future[T]) await(ctx context.Context) (val T, again bool, err error) {
	select {
	case <-f.wake:
		return f.val, true, f.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	if f.done {
		f.mu.Unlock()
		<-f.wake
		return f.val, true, f.err
	}
	f.gone = true
	f.mu.Unlock()
	return val, false, f.c.s.leave(&f.call, context.Cause(ctx), true)
}

func (f *Future[T]) reply(d *jute.Decoder, code jute.Code) error {
	if code != 0 {
		if f.row.refused != nil && f.row.refused(f, code) {
			return nil
		}
		return code
	}
	if f.row.decode != nil {
		f.row.decode(f, d)
	}
	return d.Err()
}

func (f *Future[T]) finish(err error) (abandoned bool) {
	f.mu.Lock()
	f.done, f.err = true, err
	if f.open != nil {
		close(f.open)
	}
	wake, abandoned := f.wake, f.gone
	f.mu.Unlock()
	if wake != nil {
		wake <- struct{}{} // from here on f may be in use for the next operation
	}
	return abandoned
}

func (f *Future[T]) hasCallback() bool { return len(f.then) > 0 }

func (f *Future[T]) callback() {
	for _, then := range f.then {
		then(f.val, f.err)
	}
}

// reset makes f ready for an operation whose caller waits for it.
func (f *Future[T]) reset(ctx context.Context, c *Client, row *op[T]) {
	wake := f.wake
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	*f = Future[T]{c: c, row: row, wake: wake}
	f.ctx, f.result, f.bound = ctx, f, c.bound
}
