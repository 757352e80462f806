package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

var (
	errDeposed  = errors.New("somebody else is the master, or nobody")
	errNoWorker = errors.New("the worker is gone")
)

// reign is what a master does as long as he is: he gives tasks to workers, and takes
// them back from those who are gone. It begins with whatever the master before has
// left half done; nothing is different then.
type reign struct {
	*master
	epoch   int32
	workers []string // the last list of them
	present []string // those of them who haven't been found to be gone since
	tasks   []string // that nobody has yet
	// What tells of changes; nil before the first look.
	deposed, workersChanged, tasksChanged *client.Watch
}

// run returns errDeposed, or why the session or the context has ended.
func (r *reign) run(ctx context.Context) error {
	defer r.unwatch(ctx)
	if err := r.begin(ctx); err != nil {
		return err
	}
	for {
		if r.workersChanged == nil || r.workersChanged.Fired() {
			if err := r.lookAtWorkers(ctx); err != nil {
				return err
			}
		}
		if r.tasksChanged == nil || r.tasksChanged.Fired() {
			if err := r.lookAtTasks(ctx); err != nil {
				return err
			}
		}
		if err := r.assignAll(ctx); err != nil {
			return err
		}
		select {
		case <-r.workersChanged.Events(): // closed if the session ends; the look then says so
		case <-r.tasksChanged.Events():
		case <-r.deposed.Events():
			return errDeposed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin has us told when we are not the master any more. And it takes all whom
// anything was ever assigned to for workers: so those who have gone while there was
// no master are missed by the first look.
func (r *reign) begin(ctx context.Context) (err error) {
	session, _ := r.c.Session()
	_, stat, watch, err := r.c.GetW(ctx, layout.Master)
	if errors.Is(err, client.ErrNoNode) {
		return errDeposed
	}
	if err != nil {
		return err
	}
	r.deposed = watch
	if stat.EphemeralOwner != session {
		return errDeposed
	}
	r.workers, _, err = r.c.Children(ctx, layout.Assign)
	return err
}

// lookAtWorkers takes back the tasks of those who have gone since the last look.
func (r *reign) lookAtWorkers(ctx context.Context) error {
	now, _, watch, err := r.c.ChildrenW(ctx, layout.Workers)
	if err != nil {
		return err
	}
	r.workersChanged = watch
	for _, name := range r.workers {
		if slices.Contains(now, name) {
			continue
		}
		if err := r.takeBack(ctx, name); err != nil {
			return err
		}
	}
	r.workers, r.present = now, slices.Clone(now)
	return nil
}

func (r *reign) lookAtTasks(ctx context.Context) error {
	tasks, _, watch, err := r.c.ChildrenW(ctx, layout.Tasks)
	if err != nil {
		return err
	}
	layout.Oldest(tasks)
	r.tasks, r.tasksChanged = tasks, watch
	return nil
}

// takeBack queues again what a worker has been given and has not done.
func (r *reign) takeBack(ctx context.Context, worker string) error {
	tasks, _, err := r.c.Children(ctx, layout.Assignments(worker))
	if errors.Is(err, client.ErrNoNode) {
		return nil // somebody has tidied up
	}
	if err != nil {
		return err
	}
	for _, task := range tasks {
		if err := r.move(ctx, layout.Assigned(worker, task), layout.Queued(task)); err != nil {
			return err
		}
		r.log.Printf("%s: takes %s back from %s", r.name, task, worker)
	}
	return nil
}

// assignAll gives away all tasks, as long as there are workers.
func (r *reign) assignAll(ctx context.Context) error {
	for len(r.tasks) > 0 && len(r.present) > 0 {
		task, worker := r.tasks[0], r.present[rand.IntN(len(r.present))]
		err := r.move(ctx, layout.Queued(task), layout.Assigned(worker, task), layout.Worker(worker))
		if errors.Is(err, errNoWorker) {
			r.present = slices.DeleteFunc(r.present, func(name string) bool { return name == worker })
			continue // with another one; the watch has fired, or is about to
		}
		if err != nil {
			return err
		}
		r.log.Printf("%s: gives %s to %s", r.name, task, worker)
		r.tasks = r.tasks[1:]
	}
	return nil
}

// move moves a task, if we are the master, and all that it depends on is there. That
// the task is gone is no error: then it has been moved, maybe by ourselves
// at the first attempt. So the multi can be repeated.
func (r *reign) move(ctx context.Context, from, to string, dependsOn ...string) error {
	data, _, err := r.c.Get(ctx, from)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	ops := []client.Op{client.CheckOp(layout.Master, client.AnyVersion), client.CheckOp(layout.Epoch, r.epoch)}
	for _, path := range dependsOn {
		ops = append(ops, client.CheckOp(path, client.AnyVersion))
	}
	ops = append(ops, client.DeleteOp(from, client.AnyVersion), client.CreateOp(to, data, client.Persistent, nil))
	err = settle(ctx, func() error {
		_, err := r.c.Multi(ctx, ops...)
		return err
	})
	// A multi fails with the error of one of its operations. Here it matters of which.
	failed, ok := errors.AsType[*client.MultiError](err)
	switch {
	case !ok:
		return err
	case failed.Path == layout.Master, failed.Path == layout.Epoch:
		return errDeposed
	case failed.Path == from && errors.Is(err, client.ErrNoNode):
		return nil
	case errors.Is(err, client.ErrNoNode):
		return errNoWorker
	}
	return err
}

// unwatch tells the servers that we don't want to hear any more. If the session is
// over, there is nobody to tell.
func (r *reign) unwatch(ctx context.Context) {
	for _, w := range []*client.Watch{r.deposed, r.workersChanged, r.tasksChanged} {
		if w != nil && ctx.Err() == nil {
			w.Close(ctx)
		}
	}
}
