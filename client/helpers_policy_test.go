package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// Functions that repeat their own operations obey the view's policy: the number of
// attempts, and the budget.
func TestHelpersKeepToThePolicy(t *testing.T) {
	helpers := map[string]func(ctx context.Context, c *client.Client) error{
		"create by GUID": func(ctx context.Context, c *client.Client) error {
			_, err := settle.Create(ctx, c, "/x-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByGUID})
			return err
		},
		"create by data": func(ctx context.Context, c *client.Client) error {
			_, err := settle.Create(ctx, c, "/y", nil, settle.CreateOptions{})
			return err
		},
		"set": func(ctx context.Context, c *client.Client) error {
			_, err := settle.Set(ctx, c, "/x", nil, 1)
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error {
			return settle.Delete(ctx, c, "/x", client.AnyVersion, settle.DeleteOptions{})
		},
		"ensure": func(ctx context.Context, c *client.Client) error {
			return settle.Ensure(ctx, c, "/x", client.CreateOptions{})
		},
		"delete a tree": func(ctx context.Context, c *client.Client) error {
			_, err := tree.Delete(ctx, c, "/x", tree.DeleteOptions{KeepRoot: true})
			return err
		},
		"walk": func(ctx context.Context, c *client.Client) (last error) {
			for _, err := range tree.Walk(ctx, c, "/x", tree.WalkOptions{}) {
				last = err
			}
			return last
		},
		"update": func(ctx context.Context, c *client.Client) error {
			_, _, err := typed.New[int](c, "/x", nil).Update(ctx, func(n int) (int, error) { return n + 1, nil })
			return err
		},
		"idempotent update": func(ctx context.Context, c *client.Client) error {
			_, _, err := typed.New[int](c, "/x", nil).UpdateIdempotent(ctx, func(n int) (int, error) { return 7, nil })
			return err
		},
	}
	policies := map[string]func() *client.RetryPolicy{
		"attempts": func() *client.RetryPolicy { return &client.RetryPolicy{Attempts: 3} },
		"budget": func() *client.RetryPolicy {
			return &client.RetryPolicy{Budget: client.NewRetryBudget(6, 0)} // the third failure leaves half of it
		},
	}
	for name, help := range helpers {
		for which, policy := range policies {
			t.Run(name+"/"+which, func(t *testing.T) {
				ctx := deadline(t)
				srv := newWorld(t, 1)
				b := newBreakage(ctx, t, srv, srv.Client(t), "d")
				for _, path := range []string{"/x", "/x/a"} {
					_, err := b.Look.Create(ctx, path, []byte("1"), client.CreateOptions{})
					must(t, err)
				}
				var broken atomic.Int64
				match := func(op client.OpCode, path string) bool {
					// The multis of a tree's deletion are broken rather than its walk.
					found := zktest.Any()(op, path) && (name != "delete a tree" || op != jute.OpGetChildren2)
					// Ensure also asks for the nodes above, which may be on the next connection, beside no attempt.
					found = found && (name != "ensure" || strings.HasSuffix(path, "/x"))
					if found {
						broken.Add(1)
					}
					return found
				}
				for range 10 {
					defer b.P.CutBefore(match).Cancel()
				}
				err := help(ctx, b.C.WithRetry(policy()))
				failures := broken.Load()
				if !errors.Is(err, client.ErrConnectionLoss) || failures != 3 {
					t.Errorf("%d attempts, want 3, and error %v", failures, err)
				}
			})
		}
	}
}
