package command

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// tenure is what the program runs under: a lock or a leadership.
type tenure interface {
	Context() context.Context // ends when it is lost
	Path() string             // of its node
	Token() client.Zxid
}

// contest is how a tenure is acquired.
type contest struct {
	zk   *client.Client
	path string
	// reserve is how long before its possible expiry a tenure counts as lost.
	reserve time.Duration
	// waiting is called with the node that is waited for.
	waiting func(node string)
}

// release releases a tenure.
type release func(ctx context.Context) error

// take acquires a tenure.
type take func(ctx context.Context, c *contest) (tenure, release, error)

// takeLock waits for a lock.
func takeLock(ctx context.Context, c *contest) (tenure, release, error) {
	m, err := lock.NewMutex(c.zk, c.path, lock.Options{Options: hold.Options{Reserve: c.reserve}, Waiting: c.waiting})
	if err != nil {
		return nil, nil, err
	}
	held, err := m.Lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	return held, held.Release, nil
}

// lead waits to be elected.
func lead(ctx context.Context, c *contest, id string) (tenure, release, error) {
	e, err := election.New(c.zk, c.path, election.Options{ID: id, Reserve: c.reserve})
	if err != nil {
		return nil, nil, err
	}
	latch := e.Latch()
	if err := latch.Start(); err != nil {
		return nil, nil, err
	}
	for status, err := range latch.Follow(ctx) {
		if err == nil && status.State == election.Standing {
			err = c.behind(ctx, e)
		}
		switch {
		case err != nil:
			return nil, nil, errors.Join(err, latch.Close(ctx))
		case status.State == election.Leading:
			return status.Leadership, latch.Close, nil
		}
	}
	return nil, nil, errors.Join(context.Cause(ctx), latch.Close(ctx))
}

// behind reports the candidate before this one.
func (c *contest) behind(ctx context.Context, e *election.Election) error {
	candidates, err := e.Candidates(ctx)
	session, _ := c.zk.Session()
	ours := slices.IndexFunc(candidates, func(x election.Candidate) bool { return x.Session == session })
	if ours > 0 {
		c.waiting(candidates[ours-1].Path)
	}
	return err
}
