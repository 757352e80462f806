package client

import (
	"errors"
	"testing"
)

// Operations of all views share the session's policy, and so its budget bounds them
// together.
func TestOneBudgetForASession(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Retry: &RetryPolicy{Budget: NewRetryBudget(6, 0)}})
		failures := 0
		for i := range 2 {
			view := c.Namespace("/app").Steady()
			done := goErr(func() error { _, err := view.Get(bg, "/x"); return err })
			failures += breakAll(t, n, done)
			if want := 3 + i; failures != want { // the third failure leaves half of the budget
				t.Errorf("%d failures after %d operations, want %d", failures, i+1, want)
			}
		}
		if c.Steady().retry != c.Options().Retry || c.Steady().retry != c.Namespace("/b").Steady().retry {
			t.Error("views have policies of their own")
		}
	})
}

// breakAll breaks each connection at its first request, until done has an error. It
// returns how many it has broken.
func breakAll(t *testing.T, n *fakeNet, done <-chan error) (broken int) {
	t.Helper()
	for broken < 50 {
		select {
		case err := <-done:
			if !errors.Is(err, ErrConnectionLoss) {
				t.Errorf("error %v", err)
			}
			return broken
		case conn := <-n.accepted:
			conn.greet()
			if _, err := conn.read(); err == nil {
				broken++
			}
			conn.Close()
		}
	}
	t.Fatal("it never gives up")
	return broken
}
