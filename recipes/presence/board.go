package presence

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Board is a place where workers show their statuses. The statuses that others see of a
// worker are some of those that it has set, in that order, and the last one.
type Board struct{ group *Group }

// Worker is a worker that is there.
type Worker struct {
	ID     string
	Status string
	// Since is when the status was set, or when the worker came back with it in a new
	// session, by the clock of the servers.
	Since time.Time
	// Session is that of the worker.
	Session client.SessionID
}

// BoardView is the state of all workers at a time.
type BoardView struct {
	// Workers are all workers, sorted by ID, as the others are.
	Workers []Worker
	// Changed are those that are new, or whose status has changed since the last view.
	// Gone are those that have gone, with their last status. A worker that went and came
	// back is in both.
	Changed, Gone []Worker
	// Stale and AsOf are as in View.
	Stale bool
	AsOf  time.Time
}

// NewBoard returns the board at path. It sends no request.
func NewBoard(c *client.Client, path string, o Options) (*Board, error) {
	g, err := NewGroup(c, path, o)
	if err == nil && o.Layout != Named {
		err = fmt.Errorf("Options.Layout is %v: it should be Named", o.Layout)
	}
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &Board{g}, nil
}

// Register makes the program a worker with that ID, and waits until others can see it. If
// ctx ends before, it is none, or will be none soon. The error wraps client.ErrNodeExists if
// the ID is taken.
func (b *Board) Register(ctx context.Context, id, status string) (*Reporter, error) {
	m, err := b.group.Join(ctx, id, []byte(status))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &Reporter{m}, nil
}

// Reporter is the presence of a worker on a Board. It is a Membership whose data is the
// status.
type Reporter struct{ *Membership }

// Set sets the status, and waits until others can see it, or a newer one. If ctx ends
// before, they will see it nevertheless.
func (r *Reporter) Set(ctx context.Context, status string) error {
	return r.SetData(ctx, []byte(status))
}

// Post is Set that does not wait. If Post is called under a lock, the last status is that of
// the last holder.
func (r *Reporter) Post(status string) error { return r.Membership.Post([]byte(status)) }

// Workers returns all workers. It takes one read, and another one for each worker.
func (b *Board) Workers(ctx context.Context) ([]Worker, error) {
	members, err := b.group.Members(ctx)
	return workers(members), err
}

// Follow returns the state of the workers, and again after each change: see Group.Follow.
func (b *Board) Follow(ctx context.Context) iter.Seq2[BoardView, error] {
	return func(yield func(BoardView, error) bool) {
		for g, err := range b.group.Follow(ctx) {
			v := BoardView{
				Workers: workers(g.Members), Changed: workers(g.Joined, g.Changed), Gone: workers(g.Left),
				Stale: g.Stale, AsOf: g.AsOf,
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// workers returns members of a group as workers, sorted.
func workers(lists ...[]Member) []Worker {
	var all []Worker
	for _, m := range slices.Concat(lists...) {
		all = append(all, Worker{
			ID: m.ID, Status: string(m.Data), Session: m.Stat.EphemeralOwner,
			Since: time.UnixMilli(m.Stat.Mtime),
		})
	}
	slices.SortFunc(all, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return all
}
