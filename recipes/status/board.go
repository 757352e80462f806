package status

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/group"
)

// Options are what a Board can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes. Nil is client.OpenACL. It must let the workers read.
	ACL []client.ACL
	// Patient makes Register wait while there is a worker of the ID, such as this
	// program before it was restarted, whose session has yet to end.
	Patient bool
}

// Board is where workers show their statuses.
type Board struct{ group *group.Group }

// Worker is one who is there, and how it fares.
type Worker struct {
	ID     string
	Status string
	// Since is when the status was set, or the worker came back with it in a new
	// session, by the clock of the servers.
	Since time.Time
	// Session is that of the worker.
	Session client.SessionID
}

// View is how all workers fare at a time.
type View struct {
	// Workers are all that are there, sorted by ID. So are the others.
	Workers []Worker
	// Changed are those that are new, or whose status has been set since the View
	// before. Gone are those that are not there any more, with their last status. Who
	// was away and is back is in both.
	Changed, Gone []Worker
	// Stale is whether the connection is lost. What there has been since AsOf is not
	// known then; it is zero otherwise. See group.View.
	Stale bool
	AsOf  time.Time
}

// New returns the board at path. It doesn't talk to the servers.
func New(c *client.Client, path string, o Options) (*Board, error) {
	g, err := group.New(c, path, group.Options{ACL: o.ACL, Patient: o.Patient})
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &Board{g}, nil
}

// Register makes the program a worker of that ID, and waits until others can see it. If
// ctx ends before, it is none, or is none soon. client.ErrNodeExists says that there is
// another one of the ID.
func (b *Board) Register(ctx context.Context, id, status string) (*Reporter, error) {
	m, err := b.group.Join(ctx, id, []byte(status))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &Reporter{m}, nil
}

// Workers returns who is there. It takes one read, and another one for each worker.
func (b *Board) Workers(ctx context.Context) ([]Worker, error) {
	members, err := b.group.Members(ctx)
	return workers(members), err
}

// Follow returns how the workers fare, and then each change, until the loop or ctx
// ends. Changes that come faster than the loop takes them are put together in one View.
// It goes on through lost connections, and with client.Options.RenewSession through the
// end of the session. An error is the last.
func (b *Board) Follow(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for g, err := range b.group.Follow(ctx) {
			v := View{
				Workers: workers(g.Members), Changed: workers(g.Joined, g.Changed), Gone: workers(g.Left),
				Stale: g.Stale, AsOf: g.AsOf,
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
