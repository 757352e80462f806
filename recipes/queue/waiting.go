package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// waiting is where those stand in line that wait for something which only one of
// them can have: the first alone watches for it, so that only one is woken.
type waiting struct {
	line line.Line
}

func newWaiting(c *client.Client, path string, acl []client.ACL) waiting {
	layout := &line.Layout{Labels: []string{"waiting-"}}
	return waiting{line.Line{Client: c, Path: path, Layout: layout, ACL: acl}}
}

// until calls try until it is done, at first at once and then whenever it is the own
// turn and something that watch sets a watch on has changed. watch may return none, to
// have try called again.
func (w *waiting) until(ctx context.Context, try func(context.Context) (done bool, err error), watch func(context.Context) ([]*client.Watch, error)) (err error) {
	if done, err := try(ctx); done || err != nil {
		return err
	}
	place, err := w.line.Join(ctx, 0, nil)
	if err != nil {
		return err
	}
	defer func() {
		if leaveErr := place.Leave(ctx); err != nil { // else there is something to return
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
				dropWatch(ctx, w)
			}
		}
		if done || err != nil {
			return err
		}
	}
}

// anyOf waits until one of the watches is told something. There are one or two.
func anyOf(ctx context.Context, watches []*client.Watch) error {
	var second <-chan client.Event
	switch len(watches) {
	case 0:
		return nil
	case 2:
		second = watches[1].Events()
	}
	w := watches[0]
	select {
	case _, ok := <-w.Events():
		if !ok {
			return w.Err()
		}
	case _, ok := <-second:
		if !ok {
			return watches[1].Err()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
