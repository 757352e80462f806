package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// RetryPolicy determines how often, and after which pauses, a failed operation is repeated. A
// session has one, Options.Retry, which is used by every view without its own policy,
// and by packages settle, tree and typed. Many views and goroutines may share a policy, which
// must not be changed while it is in use.
//
// An attempt that begins while the session has no connection waits for one. So attempts count
// how often a connection broke during the operation, not how long an outage took: the context
// and the session's timeout bound that.
type RetryPolicy struct {
	// Attempts is the number of attempts in all, including the first. 0 means as many
	// as the context allows.
	Attempts int
	// Backoff is the pause before the second attempt; each further pause is twice as
	// long, up to MaxBackoff. The actual pause is random, between half of that and
	// the whole. If MaxBackoff is 0, the pauses do not grow.
	Backoff, MaxBackoff time.Duration
	// Budget bounds the retries of all operations together. Nil means no bound.
	Budget *RetryBudget
	// Jitter returns numbers in [0, 1) that vary the pauses; it is called from many
	// goroutines. Nil means rand.Float64.
	Jitter func() float64
}

// DefaultRetry returns a new policy with a full budget: ten attempts, pauses from 50 ms
// to 2 s, and a budget that allows 500 retries at once, and one more for every ten
// operations that succeed.
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

// NewRetryBudget makes a full budget of that many tokens. ratio is the part of a token that a
// success returns: with 0.1, one operation in ten can be repeated while an outage lasts.
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

// WithRetry returns a view of c whose operations are repeated by policy p when the connection
// breaks or the server is throttled, if that is safe. A read is always safe to repeat. A
// change is repeated only if it is known that it was not done, so a change's error that
// IsAmbiguous always reaches the caller. Nothing is repeated after the context or the session
// has ended, and asynchronous operations never are. If p is nil, the view repeats nothing.
//
// An ambiguous change is left to the caller because repeating it blindly can do harm. A
// second create may make a second sequential node, or fail with ErrNodeExists because of the
// caller's own node. A second delete may fail with ErrNoNode, or delete a node that another
// client has created since. A second unconditional set may overwrite a newer value. A caller
// that repeats must look first: package settle does.
func (c *Client) WithRetry(p *RetryPolicy) *Client {
	view := *c
	view.retry = p
	return &view
}

// Steady returns c if WithRetry gave it a policy, and otherwise a view of c with the
// session's policy, Options.Retry.
func (c *Client) Steady() *Client { return c.WithRetry(c.policy()) }

// policy returns the policy of the view, or the session's if the view has none.
func (c *Client) policy() *RetryPolicy {
	if c.retry != nil {
		return c.retry
	}
	return c.s.opts.Retry
}

// Again is for loops that Do does not fit. It pauses between an attempt, counted from 1, that
// has failed with err, and the next one, and returns nil. If there should be no other
// attempt, it returns the error of the whole: err if the policy allows no more, and an error
// that wraps both if ctx has ended.
func (p *RetryPolicy) Again(ctx context.Context, attempt int, err error) error {
	if !p.spend(attempt) {
		return err
	}
	if cause := p.pause(ctx, attempt); cause != nil {
		return interrupted(err, cause)
	}
	return nil
}

// interrupted returns the error of an operation that failed with err and was to be repeated
// when its context ended: the context's, as if the context had ended while there was no
// connection.
func interrupted(err, cause error) error {
	e, ok := err.(*Error) // keep everything that other errors wrap
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

// Succeeded records a successful operation, which returns a part of a token to the budget. Do
// calls it; a loop that uses Again must call it, too.
func (p *RetryPolicy) Succeeded() {
	if p.Budget != nil {
		p.Budget.succeeded()
	}
}

// spend reports whether the policy has an attempt left after that one.
func (p *RetryPolicy) spend(attempt int) bool {
	affordable := p.Budget == nil || p.Budget.failed()
	return affordable && (p.Attempts <= 0 || attempt < p.Attempts)
}

// pause waits before the next attempt. If ctx ends first, it returns ctx's error.
func (p *RetryPolicy) pause(ctx context.Context, attempt int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return pause.For(ctx, p.delay(attempt))
}

// delay returns the pause between an attempt, counted from 1, and the next.
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

// IsRetryable reports whether the operation that failed with err can safely be
// repeated and may then succeed: err IsTransient, and the operation has not been done
// if it is a change.
func IsRetryable(err error) bool { return IsTransient(err) && !IsAmbiguous(err) }

// IsTransient reports whether err depends on the moment rather than on the request:
// the connection is lost, the session has moved to another connection, or the server
// is throttled. An operation that fails with such an error may have been done.
func IsTransient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Op == jute.OpRemoveWatches { // the client removes its watches before it sends this request
		return false
	}
	switch e.Err {
	case ErrConnectionLoss, ErrSessionMoved, ErrThrottled, ErrOperationTimeout, ErrRequestTimeout:
		return true
	}
	return false
}

// Do calls fn until it returns nil, or an error for which worth is false, or the policy
// allows no further attempt. It then returns fn's last error, and also the context's if that
// has ended. fn may do several operations, and must be able to start again after each of
// them. worth is IsRetryable, or IsTransient if repeating the whole of fn does no harm;
// WithRetry has examples of changes that only seem harmless to repeat.
func (p *RetryPolicy) Do(ctx context.Context, worth func(error) bool, fn func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := fn(ctx)
		if err == nil {
			p.Succeeded()
			return nil
		}
		if worth(err) {
			err = p.Again(ctx, attempt, err)
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
