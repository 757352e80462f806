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
//
// Its methods are short: the compiler makes them for each T again in each package that has a Client.
type Future[T any] struct {
	p    pending
	row  *op[T]
	then []func(T, error)
	val  T
}

// pending is what a Future has whatever its T is.
type pending struct {
	call
	c *Client

	mu   sync.Mutex
	done bool
	gone bool          // the caller has stopped waiting
	wake chan struct{} // capacity 1: one token when done; nil if asynchronous
	open chan struct{} // returned by Done
	err  error
}

// Wait waits for the result and returns it. If ctx ends first, Wait returns ctx's error, and
// may be called again. For a change that error IsAmbiguous, since the operation is not
// cancelled.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if err := f.p.wait(ctx); err != nil {
		var none T
		return none, err
	}
	return f.val, f.p.err
}

// Cancel abandons the operation because of cause. If the request has not been sent, it will
// not be sent, and there will be no result. Otherwise the result may still arrive, and if the
// operation is a change, the returned error IsAmbiguous. If the result is there already,
// Result returns it.
func (f *Future[T]) Cancel(cause error) error { return f.p.leave(cause, true) }

// Done returns a channel that is closed once the result is there.
func (f *Future[T]) Done() <-chan struct{} { return f.p.ended() }

// Result returns the result if it is there; ok reports whether it is.
func (f *Future[T]) Result() (val T, ok bool, err error) {
	if ok, err = f.p.outcome(); !ok {
		return val, false, nil
	}
	return f.val, true, err
}

func (f *Future[T]) reply(d *jute.Decoder, _ Zxid, code jute.Code) error {
	if code != 0 {
		if f.row.refused != nil && f.row.refused(&f.p, &f.val, code) {
			return nil
		}
		return code
	}
	if f.row.decode != nil {
		f.row.decode(&f.p, &f.val, d)
	}
	return d.Err()
}

func (f *Future[T]) finish(err error) (abandoned bool) { return f.p.finish(err) }

func (f *Future[T]) hasCallback() bool { return len(f.then) > 0 }

func (f *Future[T]) callback() {
	for _, then := range f.then {
		then(f.val, f.p.err)
	}
}

// wait waits until the result is there. The error is leave's, after ctx has ended.
func (p *pending) wait(ctx context.Context) error {
	if done, _ := p.outcome(); done {
		return nil
	}
	select {
	case <-p.ended():
		return nil
	case <-ctx.Done():
		return p.leave(context.Cause(ctx), false)
	}
}

// leave is session.leave.
func (p *pending) leave(cause error, cancel bool) error { return p.c.s.leave(&p.call, cause, cancel) }

func (p *pending) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(chan struct{})
		if p.done {
			close(p.open)
		}
	}
	return p.open
}

func (p *pending) outcome() (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, p.err
}

// await is wait for a future without other users: the future may be used again afterwards,
// unless it was abandoned.
func (p *pending) await(ctx context.Context) (again bool, err error) {
	select {
	case <-p.wake:
		return true, p.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if p.done {
		p.mu.Unlock()
		<-p.wake
		return true, p.err
	}
	p.gone = true
	p.mu.Unlock()
	return false, p.leave(context.Cause(ctx), true)
}

func (p *pending) finish(err error) (abandoned bool) {
	p.mu.Lock()
	p.done, p.err = true, err
	if p.open != nil {
		close(p.open)
	}
	wake, abandoned := p.wake, p.gone
	p.mu.Unlock()
	if wake != nil {
		wake <- struct{}{} // from here on p may be used by the next operation
	}
	return abandoned
}

// reset prepares p for an operation whose caller waits for r.
func (p *pending) reset(ctx context.Context, c *Client, r result) {
	wake := p.wake
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	kept := p.kept[:0]
	if cap(kept) > 64<<10 {
		kept = nil
	}
	*p = pending{c: c, wake: wake}
	p.kept = kept
	p.ctx, p.result, p.bound = ctx, r, c.bound
}
