package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// RetryPolicy says how often and at what pace something that failed is tried
// again. It may be shared by many views and goroutines, and must not be changed
// while it is in use.
//
// An attempt made while the session has no connection waits for one. So attempts
// count how often a connection broke under the operation, not how long an outage
// took: that is up to the context, and to the session's timeout.
type RetryPolicy struct {
	// Attempts in all, the first among them. 0 is as many as the context allows.
	Attempts int
	// Backoff is the pause before the second attempt; each further one is twice as
	// long, up to MaxBackoff. The real pause is between half of that and the whole.
	// If MaxBackoff is 0 all pauses are like the first.
	Backoff, MaxBackoff time.Duration
	// Budget bounds the retries of all operations together. Nil is without bounds.
	Budget *RetryBudget
	// Jitter returns numbers in [0, 1) that vary the pauses; it is called from
	// many goroutines. Nil is rand.Float64.
	Jitter func() float64
}

// DefaultRetry returns a policy that is good for most, with a budget of its own:
// ten attempts, pauses from 50 ms to 2 s, and once they are used up one retry for
// ten operations that succeed.
func DefaultRetry() *RetryPolicy {
	return &RetryPolicy{Attempts: 10, Backoff: 50 * time.Millisecond, MaxBackoff: 2 * time.Second, Budget: NewRetryBudget(1000, 0.1)}
}

// RetryBudget keeps retries from multiplying the load in an outage, as the retry
// throttling of gRPC does (proposal A6): each failure takes one token, each
// success gives back a part of one, and nothing is tried again while no more than
// half of the tokens are left.
type RetryBudget struct {
	most, gain int64        // in thousandths of a token
	left       atomic.Int64 // 0 <= left <= most
}

// NewRetryBudget makes a full budget of that many tokens. ratio is how many of
// them a success brings back: 0.1 lets one operation in ten be tried again while
// an outage lasts.
func NewRetryBudget(tokens int, ratio float64) *RetryBudget {
	b := &RetryBudget{most: int64(tokens) * 1000, gain: int64(ratio * 1000)}
	b.left.Store(b.most)
	return b
}

// succeeded returns a part of a token.
func (b *RetryBudget) succeeded() {
	for {
		left := b.left.Load()
		if left >= b.most || b.left.CompareAndSwap(left, min(left+b.gain, b.most)) {
			return
		}
	}
}

// failed takes a token and reports whether a retry can be afforded.
func (b *RetryBudget) failed() bool {
	for {
		left := b.left.Load()
		next := max(left-1000, 0)
		if b.left.CompareAndSwap(left, next) {
			return next > b.most/2
		}
	}
}

// WithRetry returns a view of c whose operations are tried again as p says when
// the connection breaks or the server is throttled, if that is safe: reads always
// are; changes only if it is known that they have not been done, so an error of a
// change that IsAmbiguous is never hidden. Nothing is tried again once the context
// or the session has ended. Asynchronous operations aren't tried again. Nil is for
// no retries.
//
// Why an ambiguous change is left to the caller: repeated, a create that was done
// makes a second sequential node, or fails with ErrNodeExists of the caller's own
// node; a delete fails with ErrNoNode, or deletes what somebody else has created
// since; an unconditional set overwrites what was written since, perhaps by
// another goroutine of the same program, with an older value. A caller that
// repeats must look first. CreateProtected, CreateIdempotent, SetIdempotent and
// DeleteIdempotent do that.
func (c *Client) WithRetry(p *RetryPolicy) *Client {
	view := *c
	view.retry = p
	return &view
}

// Steady returns a view of c with retries: c itself if it has a policy, and else c
// with DefaultRetry. It is for code that is given a client and can't go on without
// its reads.
func (c *Client) Steady() *Client {
	if c.retry != nil {
		return c
	}
	return c.WithRetry(DefaultRetry())
}

// another makes the pause between an attempt, counted from 1, that has failed with err,
// and the next, and returns nil. If there is to be no other it returns what the whole
// fails with: err when the policy has had enough, and interrupted when ctx ends.
func (p *RetryPolicy) another(ctx context.Context, attempt int, err error) error {
	if !p.spend(attempt) {
		return err
	}
	if cause := p.pause(ctx, attempt); cause != nil {
		return interrupted(err, cause)
	}
	return nil
}

// interrupted is the error of what had failed with err and was to be tried again when its
// context ended: the context's, as if it had ended while there was no connection.
func interrupted(err, cause error) error {
	e, ok := err.(*Error) //nolint:errorlint // of others all that they wrap is to stay
	if !ok {
		return fmt.Errorf("%w: %w", cause, err)
	}
	ended := *e
	ended.Err, ended.Cause = cause, e.Err
	if e.Cause != nil {
		ended.Cause = fmt.Errorf("%w: %w", e.Err, e.Cause)
	}
	return &ended
}

// succeeded is told of an operation that was done.
func (p *RetryPolicy) succeeded() {
	if p.Budget != nil {
		p.Budget.succeeded()
	}
}

// spend reports whether the policy has an attempt left after that one.
func (p *RetryPolicy) spend(attempt int) bool {
	affordable := p.Budget == nil || p.Budget.failed()
	return affordable && (p.Attempts <= 0 || attempt < p.Attempts)
}

// pause waits before the attempt that follows that one. It returns why not, if ctx
// ended.
func (p *RetryPolicy) pause(ctx context.Context, attempt int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sleep(ctx, p.delay(attempt))
}

// delay is how long to wait between an attempt, counted from 1, and the next.
func (p *RetryPolicy) delay(attempt int) time.Duration {
	d := p.Backoff
	for i := 1; i < attempt && d < p.MaxBackoff; i++ {
		d *= 2
	}
	if p.MaxBackoff > 0 {
		d = min(d, p.MaxBackoff)
	}
	jitter := p.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	return d/2 + time.Duration(jitter()*float64(d-d/2))
}

// IsRetryable reports whether what failed with err can safely be tried again and
// may succeed then: the connection is lost, the session had moved on to another
// connection, or the server was throttled; and if it was a change, it has not been
// done.
func IsRetryable(err error) bool { return isTransient(err) && !IsAmbiguous(err) }

// isTransient reports whether err is about the moment, not about what was asked
// for. What fails with it may have been done nevertheless.
func isTransient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Op == jute.OpRemoveWatches { // its watches go before it is sent
		return false
	}
	switch e.Err {
	case ErrConnectionLoss, ErrSessionMoved, ErrThrottled, ErrOperationTimeout, ErrRequestTimeout:
		return true
	}
	return false
}

// isAnswer reports whether err is what a server has to say of the operation itself. That
// the session or the context has ended is not: it leaves open what became of an attempt
// before.
func isAnswer(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || isTransient(err) {
		return false
	}
	code, ok := errors.AsType[jute.Code](e.Err)
	return ok && code != ErrSessionExpired && code != ErrClosed && code != ErrAuthFailed
}

// Retry calls fn until it returns nil or an error that is not IsRetryable, or until
// p has had enough; then it returns fn's last error, and the context's with it if that has
// ended. fn may do several operations: it must be able to begin anew after each of them. If
// p is nil DefaultRetry is used.
func Retry(ctx context.Context, p *RetryPolicy, fn func(ctx context.Context) error) error {
	return retry(ctx, p, fn, IsRetryable)
}

// RetryIdempotent is Retry for a function that may be done twice, or once more
// after it was done: it is called again after ambiguous errors, too. See WithRetry
// for what is not idempotent though it looks like it.
func RetryIdempotent(ctx context.Context, p *RetryPolicy, fn func(ctx context.Context) error) error {
	return retry(ctx, p, fn, isTransient)
}

func retry(ctx context.Context, p *RetryPolicy, fn func(ctx context.Context) error, worth func(error) bool) error {
	if p == nil {
		p = DefaultRetry()
	}
	for attempt := 1; ; attempt++ {
		err := fn(ctx)
		if err == nil {
			p.succeeded()
			return nil
		}
		if worth(err) {
			err = p.another(ctx, attempt, err)
		}
		switch {
		case err == nil:
		case attempt > 1:
			return fmt.Errorf("attempt %d: %w", attempt, err)
		default:
			return err
		}
	}
}

// once returns the view of c that tries nothing again, for what does so by itself.
func (c *Client) once() *Client {
	if c.retry == nil {
		return c
	}
	return c.WithRetry(nil)
}

// steady returns the policy of what repeats its own operations: the view's, or the
// default one.
func (c *Client) steady() *RetryPolicy {
	if c.retry != nil {
		return c.retry
	}
	return DefaultRetry()
}
