package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// worker does the tasks that are assigned to it, one after the other.
type worker struct {
	name   string
	c      *client.Client
	do     Handler
	log    *log.Logger
	status string // as it was last reported
}

// idle is the status of a worker without a task.
const idle = "idle"

// runWorker runs a worker for one session, until ctx ends. It then finishes the current
// task; the others return to the queue when the session ends.
func runWorker(ctx context.Context, connect Connect, name string, do Handler, log *log.Logger) error {
	c, err := connect(ctx, client.Options{})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	w := &worker{name: name, c: c.Steady(), do: do, log: log}
	if err := w.run(ctx); ctx.Err() == nil {
		return fmt.Errorf("worker %s: %w", name, err)
	}
	return nil
}

// run returns the error that ended the session, or the cause of ctx.
func (w *worker) run(ctx context.Context) error {
	if err := bootstrap(ctx, w.c); err != nil {
		return err
	}
	if err := w.register(ctx); err != nil {
		return err
	}
	for {
		list, err := w.c.ChildrenW(ctx, layout.Assignments(w.name))
		if err != nil {
			return err
		}
		layout.Oldest(list.Names)
		for _, task := range list.Names {
			if err := w.work(ctx, task); err != nil {
				return err
			}
		}
		if err := w.report(ctx, idle); err != nil {
			return err
		}
		if _, err := list.Watch.Next(ctx); err != nil {
			return err
		}
	}
}

// register creates the directory of the worker's tasks first, and then the node that
// shows the worker: the master must find the directory once it sees the worker.
func (w *worker) register(ctx context.Context) error {
	err := untilKnown(ctx, func() error {
		_, err := w.c.Create(ctx, layout.Assignments(w.name), nil, client.CreateOptions{})
		return err
	})
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		return err
	}
	for {
		err := untilKnown(ctx, func() error {
			_, err := w.c.Create(ctx, layout.Worker(w.name), []byte(idle), client.CreateOptions{Mode: client.Ephemeral})
			return err
		})
		if errors.Is(err, client.ErrNodeExists) {
			var ours bool
			if ours, err = w.isOurs(ctx); err == nil && !ours {
				continue
			}
		}
		if err == nil {
			w.log.Printf("%s: is here", w.name)
			w.status = idle
		}
		return err
	}
}

// isOurs reports whether this session has created the node with the worker's name, which
// is the case if the connection broke under the create. Otherwise the node belongs to an
// earlier session or to another worker of that name, and isOurs returns when it is gone.
func (w *worker) isOurs(ctx context.Context) (bool, error) {
	node, err := w.c.GetW(ctx, layout.Worker(w.name))
	if errors.Is(err, client.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if session := w.c.Session().ID(); node.Stat.EphemeralOwner == session {
		return true, node.Watch.Close(ctx)
	}
	w.log.Printf("%s: waits until the one before is gone", w.name)
	_, err = node.Watch.Next(ctx) // or changed; then register asks again
	return false, err
}

// work does a task and stores the result.
func (w *worker) work(ctx context.Context, task string) error {
	node, err := w.c.Get(ctx, layout.Assigned(w.name, task))
	if errors.Is(err, client.ErrNoNode) {
		return nil // the master has taken it back
	}
	if err != nil {
		return err
	}
	if err := w.report(ctx, "works on "+task); err != nil {
		return err
	}
	text, err := w.do(ctx, node.Data)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the handler gave up; that is no failure
	}
	result := layout.Result{Text: text}
	if err != nil {
		result = layout.Result{Failed: true, Text: []byte(err.Error())}
	}
	return w.finish(context.WithoutCancel(ctx), task, result) // the task is done, even if the worker is to end
}

// finish replaces the task by its result. If the master has taken the task back because
// it took this worker for dead, the result is dropped: another worker does the task. A
// repeated attempt finds the same if the first attempt was done.
func (w *worker) finish(ctx context.Context, task string, result layout.Result) error {
	err := untilKnown(ctx, func() error {
		_, err := w.c.Multi(ctx,
			client.DeleteOp(layout.Assigned(w.name, task), client.AnyVersion),
			client.CreateOp(layout.Done(task), result.Encode(), client.CreateOptions{}))
		return err
	})
	failed, _ := errors.AsType[*client.MultiError](err)
	if failed != nil && failed.Index == 0 && errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err == nil {
		w.log.Printf("%s: %s is %s", w.name, task, result.Encode())
	}
	return err
}

// report writes the worker's status. It can be repeated without a look, because only
// this goroutine writes the status, and it writes no newer one before this one is
// written. With several writers, a late attempt of one could replace what another has
// written since; recipes/presence solves that.
func (w *worker) report(ctx context.Context, status string) error {
	if status == w.status {
		return nil
	}
	err := untilKnown(ctx, func() error {
		_, err := w.c.Set(ctx, layout.Worker(w.name), []byte(status), client.AnyVersion)
		return err
	})
	if err == nil {
		w.status = status
	}
	return err // ErrNoNode: the node was deleted to take the worker out of service
}
