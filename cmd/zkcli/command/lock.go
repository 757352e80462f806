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

// contest is what is needed to acquire a lock or leadership.
type contest struct {
	zk      *client.Client
	path    string
	reserve time.Duration // as in hold.Options
	// waiting is called with the node that it waits for.
	waiting func(node string)
}

// release gives up what is held.
type release func(ctx context.Context) error

// take acquires a lock or leadership.
type take func(ctx context.Context, c *contest) (*hold.Held, release, error)

// takeLock waits for a lock.
func takeLock(ctx context.Context, c *contest) (*hold.Held, release, error) {
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
func lead(ctx context.Context, c *contest, id string) (*hold.Held, release, error) {
	e, err := election.New(c.zk, c.path, election.Options{Options: hold.Options{Data: []byte(id), Reserve: c.reserve}})
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
			return status.Leadership.Held, latch.Close, nil
		}
	}
	return nil, nil, errors.Join(context.Cause(ctx), latch.Close(ctx))
}

// behind reports the candidate before ours.
func (c *contest) behind(ctx context.Context, e *election.Election) error {
	candidates, err := e.Contenders(ctx)
	session := c.zk.Session().ID()
	ours := slices.IndexFunc(candidates, func(x hold.Contender) bool { return x.Session == session })
	if ours > 0 {
		c.waiting(candidates[ours-1].Path)
	}
	return err
}
