package client

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// call is an operation under way, as seen by the session.
type call struct {
	op    jute.OpCode
	seq   uint64 // its place in the order of all calls of the session
	path  string // as the caller passed it
	frame []byte // the request, while it waits for a connection
	// kept is the request, while it is under way in an exactly-once session. again means that it
	// was sent on an earlier connection.
	kept  []byte
	again bool
	// blamed counts the connections that were lost while this call was the oldest one under way.
	blamed int
	// ctx is the context of a caller that waits: nothing is issued after it has ended. It is
	// nil for asynchronous calls.
	ctx     context.Context
	watch   *Watch // set by the reply, or nil
	feed    *subscription
	removed bool      // of removeWatches: it closed watches
	bound   SessionID // see Client.InSession; 0 means any
	issued  time.Time
	multi   []jute.MultiOp // of a multi: its operations, with the servers' paths
	// result is the Future that the call belongs to.
	result result
}

// result is the part of a Future that takes the reply.
type result interface {
	// reply takes the body of a successful reply, or the reply's error code.
	reply(d *jute.Decoder, zxid Zxid, code jute.Code) error
	// finish publishes the result. It is called once, after reply if there was one; err is
	// what reply returned, or the reason why there was no reply. It reports whether the
	// caller has stopped waiting.
	finish(err error) (abandoned bool)
	// callback runs the callback, if there is one, after finish.
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
	gone bool          // the caller has stopped waiting
	wake chan struct{} // capacity 1: one token when done; nil if asynchronous
	open chan struct{} // returned by Done
	val  T
	err  error
}

// Wait waits for the result and returns it. If ctx ends first, Wait returns ctx's error, and
// may be called again. For a change that error IsAmbiguous, since the operation is not
// cancelled.
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

// Cancel abandons the operation because of cause. If the request has not been sent, it will
// not be sent, and there will be no result. Otherwise the result may still arrive, and if the
// operation is a change, the returned error IsAmbiguous. If the result is there already,
// Result returns it.
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

// await is Wait for a future without other users: the future may be used again afterwards,
// unless it was abandoned.
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

func (f *Future[T]) reply(d *jute.Decoder, _ Zxid, code jute.Code) error {
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
		wake <- struct{}{} // from here on f may be used by the next operation
	}
	return abandoned
}

func (f *Future[T]) hasCallback() bool { return len(f.then) > 0 }

func (f *Future[T]) callback() {
	for _, then := range f.then {
		then(f.val, f.err)
	}
}

// reset prepares f for an operation whose caller waits for it.
func (f *Future[T]) reset(ctx context.Context, c *Client, row *op[T]) {
	wake := f.wake
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	kept := f.kept[:0]
	if cap(kept) > 64<<10 {
		kept = nil
	}
	*f = Future[T]{c: c, row: row, wake: wake}
	f.kept = kept
	f.ctx, f.result, f.bound = ctx, f, c.bound
}
