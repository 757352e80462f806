package queue

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often nodes are made again that are deleted again at once, as empty
// containers may be.
const rounds = 10

// ensure makes a node that others may make, too, and keeps it: what is above is
// containers, but the node is not, for the numbers of its children must not begin
// anew while somebody has a list of them.
func ensure(ctx context.Context, c *client.Client, path string, acl []client.ACL) error {
	for round := 1; ; round++ {
		_, err := settle.Create(ctx, c, path, nil, settle.CreateOptions{ACL: acl})
		if err == nil || errors.Is(err, client.ErrNodeExists) {
			return nil
		}
		if !errors.Is(err, client.ErrNoNode) || round == rounds {
			return err
		}
		if err := settle.Ensure(ctx, c, line.Parent(path), client.CreateOptions{Mode: client.Container, ACL: acl}); err != nil {
			return err
		}
	}
}

// leaving is how long to wait for servers when ctx has ended.
const leaving = 2 * time.Second

// grace returns a context for a change that is under way when ctx ends: it ends two
// seconds later, or at once if there is no connection. So it is known what was done,
// and nothing that was taken is lost.
func grace(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if c.State().Connected() {
			select {
			case <-time.After(leaving):
			case <-longer.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}

// dropWatch closes a watch whose event nobody waits for any more.
func dropWatch(ctx context.Context, w *client.Watch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	_ = w.Close(ctx) // else the server sends an event that nobody hears
}
