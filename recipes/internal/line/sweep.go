package line

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Sweep deletes those children of a directory that have reached an age by the leader's clock, which old lists by a time in milliseconds. It
// returns the number of those that it has deleted, and the first error. It leaves those that have another version by now.
func Sweep(ctx context.Context, c *client.Client, dir string, age time.Duration, version int32,
	old func(ctx context.Context, before int64) ([]string, error)) (removed int, err error) {
	now, err := c.Set(ctx, dir, nil, client.AnyVersion) // its Mtime is the leader's current time
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	if err != nil {
		return 0, Settled(err, nil)
	}
	paths, err := old(ctx, now.Mtime-age.Milliseconds())
	if err != nil {
		return 0, err
	}
	var deletes []*client.Future[client.None]
	for _, path := range paths {
		deletes = append(deletes, c.Async().Delete(path, version))
	}
	for _, f := range deletes {
		switch _, failure := f.Wait(ctx); {
		case failure == nil:
			removed++
		case errors.Is(failure, client.ErrNoNode), errors.Is(failure, client.ErrBadVersion):
		case err == nil:
			err = failure
		}
	}
	return removed, err
}
