package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestRetryDelay(t *testing.T) {
	jitter := 0.0
	p := &RetryPolicy{Backoff: 100 * time.Millisecond, MaxBackoff: time.Second, Jitter: func() float64 { return jitter }}
	tests := []struct {
		attempt int
		jitter  float64
		want    time.Duration
	}{
		{1, 0, 50 * time.Millisecond}, {1, 0.5, 75 * time.Millisecond}, {2, 0, 100 * time.Millisecond},
		{4, 0, 400 * time.Millisecond}, {5, 0, 500 * time.Millisecond}, {5, 0.5, 750 * time.Millisecond},
		{1 << 30, 0, 500 * time.Millisecond},
	}
	for _, test := range tests {
		jitter = test.jitter
		if got := p.delay(test.attempt); got != test.want {
			t.Errorf("delay(%d) with jitter %v is %v, want %v", test.attempt, test.jitter, got, test.want)
		}
	}
	if got := new(RetryPolicy).delay(7); got != 0 {
		t.Errorf("delay of the zero policy is %v", got)
	}
	endless := &RetryPolicy{Backoff: time.Hour, Jitter: func() float64 { return 0 }}
	if got := endless.delay(100); got != 30*time.Minute {
		t.Errorf("delay without MaxBackoff is %v: it does not grow", got)
	}
}

func TestIsRetryable(t *testing.T) {
	tests := []struct {
		err            error
		want, repeated bool // repeated: IsTransient
	}{
		{&Error{Op: jute.OpGetData, Err: ErrConnectionLoss}, true, true},
		{&Error{Op: jute.OpSetData, Err: ErrConnectionLoss}, true, true},
		{&Error{Op: jute.OpSetData, Err: ErrConnectionLoss, Ambiguous: true}, false, true},
		{fmt.Errorf("x: %w", &Error{Op: jute.OpGetData, Err: ErrThrottled}), true, true},
		{&Error{Op: jute.OpGetData, Err: ErrSessionMoved}, true, true},
		{&Error{Op: jute.OpGetData, Err: ErrSessionExpired}, false, false},
		{&Error{Op: jute.OpGetData, Err: ErrClosed}, false, false},
		{&Error{Op: jute.OpGetData, Err: ErrNoNode}, false, false},
		{&Error{Op: jute.OpGetData, Err: context.Canceled, Cause: ErrConnectionLoss}, false, false},
		{&Error{Op: jute.OpSetData, Err: ErrMarshalling, Ambiguous: true}, false, false},
		{&Error{Op: jute.OpRemoveWatches, Err: ErrConnectionLoss}, false, false},
		{errors.New("x"), false, false},
		{nil, false, false},
	}
	for _, test := range tests {
		if got, repeated := IsRetryable(test.err), IsTransient(test.err); got != test.want || repeated != test.repeated {
			t.Errorf("%v: IsRetryable is %v, IsTransient %v", test.err, got, repeated)
		}
	}
}

// During an outage retries stop once half of the budget is used up, and come back
// in proportion to what succeeds.
func TestRetryBudget(t *testing.T) {
	b := NewRetryBudget(10, 0.5)
	granted := 0
	for range 100 {
		if b.failed() {
			granted++
		}
	}
	if granted != 4 {
		t.Errorf("a full budget of 10 grants %d retries", granted)
	}
	for range 12 {
		b.succeeded()
	}
	if b.failed() {
		t.Error("6 tokens, 5 after the failure: no retry")
	}
	for range 1000 {
		b.succeeded()
	}
	if !b.failed() || b.left.Load() != 9000 {
		t.Errorf("%d thousandths are left of a full budget", b.left.Load())
	}
}

func TestRetryEndsAtItsBounds(t *testing.T) {
	lost := &Error{Op: jute.OpGetData, Err: ErrConnectionLoss}
	doubt := &Error{Op: jute.OpSetData, Err: ErrConnectionLoss, Ambiguous: true}
	synctest.Test(t, func(t *testing.T) {
		policy := func() *RetryPolicy {
			return &RetryPolicy{Attempts: 3, Backoff: time.Second, Jitter: func() float64 { return 0 }}
		}
		count := func(ctx context.Context, p *RetryPolicy, worth func(error) bool, err error) (calls int, took time.Duration) {
			began := time.Now()
			got := p.Do(ctx, worth, func(context.Context) error { calls++; return err })
			want := err
			if ctx.Err() != nil {
				want = ctx.Err()
			}
			if !errors.Is(got, want) || !errors.Is(got, ErrConnectionLoss) || IsAmbiguous(got) != IsAmbiguous(err) {
				t.Errorf("error is %v, want %v", got, want)
			}
			return calls, time.Since(began)
		}
		if calls, took := count(t.Context(), policy(), IsRetryable, lost); calls != 3 || took != 1000*time.Millisecond {
			t.Errorf("%d calls in %v", calls, took)
		}
		if calls, _ := count(t.Context(), policy(), IsRetryable, doubt); calls != 1 {
			t.Errorf("an ambiguous error: %d calls", calls)
		}
		if calls, _ := count(t.Context(), policy(), IsTransient, doubt); calls != 3 {
			t.Errorf("an ambiguous error of what is idempotent: %d calls", calls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		if calls, took := count(ctx, policy(), IsRetryable, lost); calls != 2 || took != 700*time.Millisecond {
			t.Errorf("%d calls in %v, the context ended after 700ms", calls, took)
		}
		if calls, _ := count(ctx, policy(), IsRetryable, lost); calls != 1 {
			t.Errorf("%d calls with a context that has ended", calls)
		}
		p := policy()
		p.Attempts, p.Budget = 0, NewRetryBudget(10, 0)
		if calls, _ := count(t.Context(), p, IsRetryable, lost); calls != 5 {
			t.Errorf("%d calls with a budget of 10", calls)
		}
		if calls, _ := count(t.Context(), DefaultRetry(), IsRetryable, lost); calls != 10 {
			t.Errorf("%d calls with the default policy", calls)
		}
	})
}

func TestRetrySucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultRetry()
		calls := 0
		err := p.Do(t.Context(), IsRetryable, func(context.Context) error {
			if calls++; calls < 4 {
				return &Error{Op: jute.OpGetData, Err: ErrConnectionLoss}
			}
			return nil
		})
		if err != nil || calls != 4 {
			t.Errorf("%d calls, %v", calls, err)
		}
		if left, want := p.Budget.left.Load(), p.Budget.most-3*1000+p.Budget.gain; left != want {
			t.Errorf("%d of the budget is left, want %d", left, want)
		}
	})
}
