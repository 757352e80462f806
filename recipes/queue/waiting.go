package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// waiting is the line of those that wait for something which only one of them can have.
// Only the first watches for it, so that only one is woken.
type waiting struct{ line line.Line }

func newWaiting(c *client.Client, path string, acl []client.ACL) waiting {
	layout := &line.Layout{Labels: []string{"waiting-"}}
	return waiting{line.Line{Client: c, Path: path, Layout: layout, ACL: acl}}
}

// until calls try until it is done: at once, and then, when it is first in line, whenever
// something has changed that watch has set a watch on. If watch returns no watches, try is
// called again.
func (w *waiting) until(ctx context.Context, try func(context.Context) (done bool, err error), watch func(context.Context) ([]*client.Watch, error)) (err error) {
	if done, err := try(ctx); done || err != nil {
		return err
	}
	place, err := w.line.Join(ctx, 0, nil)
	if err != nil {
		return err
	}
	defer func() {
		if leaveErr := place.Leave(ctx); err != nil { // else the caller has a result
			err = errors.Join(err, leaveErr)
		}
	}()
	if err := place.Await(ctx, line.First); err != nil {
		return err
	}
	for {
		watches, err := watch(ctx)
		if err != nil {
			return err
		}
		done, err := try(ctx)
		if !done && err == nil {
			err = anyOf(ctx, watches)
		}
		for _, w := range watches {
			if !w.Fired() {
				line.DropWatch(ctx, w)
			}
		}
		if done || err != nil {
			return err
		}
	}
}

// anyOf waits for an event of one of the watches. There are two at most.
func anyOf(ctx context.Context, watches []*client.Watch) error {
	var events [2]<-chan client.Event
	for i, w := range watches {
		events[i] = w.Events()
	}
	if len(watches) == 0 {
		return nil
	}
	select {
	case _, ok := <-events[0]:
		if !ok {
			return watches[0].Err()
		}
	case _, ok := <-events[1]:
		if !ok {
			return watches[1].Err()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
