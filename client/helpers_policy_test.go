package client

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// What repeats its own operations keeps to the view's policy: to the number of
// attempts, and to the budget.
func TestHelpersKeepToThePolicy(t *testing.T) {
	helpers := map[string]func(ctx context.Context, c *Client) error{
		"CreateProtected": func(ctx context.Context, c *Client) error {
			_, err := c.CreateProtected(ctx, "/x-", nil, EphemeralSequential, nil)
			return err
		},
		"CreateIdempotent": func(ctx context.Context, c *Client) error { return c.CreateIdempotent(ctx, "/x", nil, Persistent, nil) },
		"SetIdempotent":    func(ctx context.Context, c *Client) error { _, err := c.SetIdempotent(ctx, "/x", nil, 1); return err },
		"DeleteIdempotent": func(ctx context.Context, c *Client) error { return c.DeleteIdempotent(ctx, "/x", -1) },
		"EnsurePath":       func(ctx context.Context, c *Client) error { return c.EnsurePath(ctx, "/x", nil) },
		"DeleteAll": func(ctx context.Context, c *Client) error {
			_, err := c.DeleteAll(ctx, "/x", DeleteOptions{KeepRoot: true})
			return err
		},
		"Walk": func(ctx context.Context, c *Client) (last error) {
			for _, err := range c.Walk(ctx, "/x", WalkOptions{}) {
				last = err
			}
			return last
		},
		"Update": func(ctx context.Context, c *Client) error {
			_, _, err := NewTyped[int](c, "/x", nil).Update(ctx, func(n int) (int, error) { return n + 1, nil })
			return err
		},
		"UpdateIdempotent": func(ctx context.Context, c *Client) error {
			_, _, err := NewTyped[int](c, "/x", nil).UpdateIdempotent(ctx, func(n int) (int, error) { return 7, nil })
			return err
		},
	}
	policies := map[string]*RetryPolicy{
		"attempts": {Attempts: 3},
		"budget":   {Budget: NewRetryBudget(6, 0)}, // the third failure leaves half of it
	}
	for name, help := range helpers {
		for which, policy := range policies {
			t.Run(name+"/"+which, func(t *testing.T) {
				p := *policy
				if p.Budget != nil {
					p.Budget = NewRetryBudget(6, 0)
				}
				bubble(t, func(t *testing.T, n *fakeNet) {
					c := n.newClient("a", Options{}).WithRetry(&p)
					done := goErr(func() error { return help(bg, c) })
					if failures := breakAll(t, n, name == "DeleteAll", done); failures != 3 {
						t.Errorf("%d attempts, want 3", failures)
					}
				})
			})
		}
	}
}

// breakAll breaks each connection at the first request that is not a list of children,
// or that is one of a Walk, until done has an error. It returns how many it has broken.
func breakAll(t *testing.T, n *fakeNet, list bool, done <-chan error) (broken int) {
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
			for {
				r, err := conn.read()
				if err != nil {
					break
				}
				if list && r.op == jute.OpGetChildren2 {
					names := map[string][]string{"/x": {"a"}}[r.path()]
					conn.reply(r, 1, &jute.GetChildren2Response{Children: names})
					continue
				}
				broken++
				conn.Close()
				break
			}
		}
	}
	t.Fatal("it never gives up")
	return broken
}

// Operations of all views share the session's policy, and so its budget bounds them
// together.
func TestOneBudgetForASession(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Retry: &RetryPolicy{Budget: NewRetryBudget(6, 0)}})
		failures := 0
		for i := range 2 {
			view := c.Namespace("/app").Steady()
			done := goErr(func() error { _, err := view.Get(bg, "/x"); return err })
			failures += breakAll(t, n, false, done)
			if want := 3 + i; failures != want { // the third failure leaves half of the budget
				t.Errorf("%d failures after %d operations, want %d", failures, i+1, want)
			}
		}
		if c.Steady().retry != c.Options().Retry || c.Steady().retry != c.Namespace("/b").Steady().retry {
			t.Error("views have policies of their own")
		}
	})
}
