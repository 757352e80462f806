package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// worker does what he is given, one task after the other.
type worker struct {
	name   string
	c      *client.Client
	do     program.Handler
	log    *log.Logger
	status string // as it was last reported
}

// idle is the status of a worker who has nothing to do.
const idle = "idle"

// runWorker is a worker for one session, until ctx ends. He then says what has become
// of the task at hand, if it is done; the others go back with the session.
func runWorker(ctx context.Context, connect program.Connect, name string, do program.Handler, log *log.Logger) error {
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

// run returns why the session or the context has ended.
func (w *worker) run(ctx context.Context) error {
	if err := bootstrap(ctx, w.c); err != nil {
		return err
	}
	if err := w.register(ctx); err != nil {
		return err
	}
	for {
		tasks, _, changed, err := w.c.ChildrenW(ctx, layout.Assignments(w.name))
		if err != nil {
			return err
		}
		layout.Oldest(tasks)
		for _, task := range tasks {
			if err := w.work(ctx, task); err != nil {
				return err
			}
		}
		if err := w.report(ctx, idle); err != nil {
			return err
		}
		if _, err := changed.Next(ctx); err != nil {
			return err
		}
	}
}

// register makes the place for our tasks first, and then shows that we are here: the
// master must find the former when he sees the latter.
func (w *worker) register(ctx context.Context) error {
	err := settle(ctx, func() error {
		_, err := w.c.Create(ctx, layout.Assignments(w.name), nil, client.Persistent, nil)
		return err
	})
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		return err
	}
	for {
		err := settle(ctx, func() error {
			_, err := w.c.Create(ctx, layout.Worker(w.name), []byte(idle), client.Ephemeral, nil)
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

// isOurs reports whether the node with our name is of this session: we have created
// it, and the connection broke. If it is not, it is that of a session of ours before
// this one, or of somebody of the same name, and isOurs returns when it is gone.
func (w *worker) isOurs(ctx context.Context) (bool, error) {
	_, stat, gone, err := w.c.GetW(ctx, layout.Worker(w.name))
	if errors.Is(err, client.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if session, _ := w.c.Session(); stat.EphemeralOwner == session {
		return true, gone.Close(ctx)
	}
	w.log.Printf("%s: waits until the one before is gone", w.name)
	_, err = gone.Next(ctx) // or changed; then we come here again
	return false, err
}

// work does a task and says so.
func (w *worker) work(ctx context.Context, task string) error {
	data, _, err := w.c.Get(ctx, layout.Assigned(w.name, task))
	if errors.Is(err, client.ErrNoNode) {
		return nil // it was taken back
	}
	if err != nil {
		return err
	}
	if err := w.report(ctx, "works on "+task); err != nil {
		return err
	}
	text, err := w.do(ctx, data)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // given up, not failed
	}
	result := layout.Result{Text: text}
	if err != nil {
		result = layout.Result{Failed: true, Text: []byte(err.Error())}
	}
	return w.finish(context.WithoutCancel(ctx), task, result) // done is done, even if we are to end
}

// finish puts the result in the place of the task. If that has been taken back, as
// we were thought to be dead, the result is dropped: somebody else will do the task, or
// has. It is also what a second attempt finds if the first was done.
func (w *worker) finish(ctx context.Context, task string, result layout.Result) error {
	err := settle(ctx, func() error {
		_, err := w.c.Multi(ctx,
			client.DeleteOp(layout.Assigned(w.name, task), client.AnyVersion),
			client.CreateOp(layout.Done(task), result.Encode(), client.Persistent, nil))
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

// report writes our status. It can be repeated without a look, as nobody but this
// goroutine writes it, and there is no newer status before this one is written: with
// several at work, a late attempt of one could undo what another has written since.
// See ../async for what is to be done then.
func (w *worker) report(ctx context.Context, status string) error {
	if status == w.status {
		return nil
	}
	err := settle(ctx, func() error {
		_, err := w.c.Set(ctx, layout.Worker(w.name), []byte(status), client.AnyVersion)
		return err
	})
	if err == nil {
		w.status = status
	}
	return err // ErrNoNode: somebody has taken us out of service
}
