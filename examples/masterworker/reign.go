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
	errDeposed  = errors.New("this program is not the master any more")
	errNoWorker = errors.New("the worker is gone")
)

// reign is the work of the elected master: it assigns tasks to workers, and takes back
// the tasks of workers that are gone. Work that the master before has left half done
// needs no special treatment.
type reign struct {
	*master
	epoch   int32
	workers []string // the last list of them
	present []string // those of them that have not been found gone since
	tasks   []string // not assigned yet
	// The watches that report changes; nil before the first look.
	deposed, workersChanged, tasksChanged *client.Watch
}

// run returns errDeposed, the error that ended the session, or the cause of ctx.
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
		case <-r.workersChanged.Events(): // closed if the session ends; then the next look fails
		case <-r.tasksChanged.Events():
		case <-r.deposed.Events():
			return errDeposed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin sets the watch that reports the loss of /master. It also counts every name that
// has a node below /assign as a worker, so the first look finds those gone that left
// while there was no master.
func (r *reign) begin(ctx context.Context) (err error) {
	session := r.c.Session().ID()
	node, err := r.c.GetW(ctx, layout.Master)
	if errors.Is(err, client.ErrNoNode) {
		return errDeposed
	}
	if err != nil {
		return err
	}
	r.deposed = node.Watch
	if node.Stat.EphemeralOwner != session {
		return errDeposed
	}
	list, err := r.c.Children(ctx, layout.Assign)
	r.workers = list.Names
	return err
}

// lookAtWorkers takes back the tasks of the workers that have gone since the last look.
func (r *reign) lookAtWorkers(ctx context.Context) error {
	list, err := r.c.ChildrenW(ctx, layout.Workers)
	if err != nil {
		return err
	}
	r.workersChanged = list.Watch
	for _, name := range r.workers {
		if slices.Contains(list.Names, name) {
			continue
		}
		if err := r.takeBack(ctx, name); err != nil {
			return err
		}
	}
	r.workers, r.present = list.Names, slices.Clone(list.Names)
	return nil
}

func (r *reign) lookAtTasks(ctx context.Context) error {
	list, err := r.c.ChildrenW(ctx, layout.Tasks)
	if err != nil {
		return err
	}
	layout.Oldest(list.Names)
	r.tasks, r.tasksChanged = list.Names, list.Watch
	return nil
}

// takeBack queues the tasks of a worker again that it has not done.
func (r *reign) takeBack(ctx context.Context, worker string) error {
	tasks, err := r.c.Children(ctx, layout.Assignments(worker))
	if errors.Is(err, client.ErrNoNode) {
		return nil // the directory has been removed
	}
	if err != nil {
		return err
	}
	for _, task := range tasks.Names {
		if err := r.move(ctx, layout.Assigned(worker, task), layout.Queued(task)); err != nil {
			return err
		}
		r.log.Printf("%s: takes %s back from %s", r.name, task, worker)
	}
	return nil
}

// assignAll assigns all tasks, as long as there are workers.
func (r *reign) assignAll(ctx context.Context) error {
	for len(r.tasks) > 0 && len(r.present) > 0 {
		task, worker := r.tasks[0], r.present[rand.IntN(len(r.present))]
		err := r.move(ctx, layout.Queued(task), layout.Assigned(worker, task), layout.Worker(worker))
		if errors.Is(err, errNoWorker) {
			r.present = slices.DeleteFunc(r.present, func(name string) bool { return name == worker })
			continue // with another worker; the watch has fired or will
		}
		if err != nil {
			return err
		}
		r.log.Printf("%s: gives %s to %s", r.name, task, worker)
		r.tasks = r.tasks[1:]
	}
	return nil
}

// move moves a task, if this program is the master and the nodes of dependsOn exist.
// It is no error if the task is gone: then it has been moved, maybe by an earlier
// attempt of this call whose reply was lost. So the multi can be repeated.
func (r *reign) move(ctx context.Context, from, to string, dependsOn ...string) error {
	node, err := r.c.Get(ctx, from)
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
	ops = append(ops, client.DeleteOp(from, client.AnyVersion), client.CreateOp(to, node.Data, client.CreateOptions{}))
	err = untilKnown(ctx, func() error {
		_, err := r.c.Multi(ctx, ops...)
		return err
	})
	// A multi fails with the error of one of its operations; the path says which.
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

// unwatch removes the watches, unless the session has ended.
func (r *reign) unwatch(ctx context.Context) {
	for _, w := range []*client.Watch{r.deposed, r.workersChanged, r.tasksChanged} {
		if w != nil && ctx.Err() == nil {
			w.Close(ctx)
		}
	}
}
