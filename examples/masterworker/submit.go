package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// submitter is a client that queues tasks.
type submitter struct{ c *client.Client }

// submit queues tasks and waits until they are done.
func submit(ctx context.Context, connect Connect, s Submission) error {
	c, err := connect(ctx, client.Options{})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	return (&submitter{c.Steady()}).run(ctx, s)
}

func (s *submitter) run(ctx context.Context, o Submission) error {
	if err := bootstrap(ctx, s.c); err != nil {
		return err
	}
	names := make([]string, len(o.Tasks))
	for i, task := range o.Tasks {
		name, err := s.queue(ctx, task)
		if err != nil {
			return fmt.Errorf("queue task %d of %d: %w", i+1, len(o.Tasks), err)
		}
		names[i] = name
		if o.Queued != nil {
			o.Queued(i, name)
		}
	}
	for i, name := range names {
		result, err := s.await(ctx, name)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
		o.Done(i, name, result)
		if o.Keep {
			continue
		}
		if err := s.forget(ctx, name); err != nil {
			return fmt.Errorf("remove the result of %s: %w", name, err)
		}
	}
	return nil
}

// queue queues a task and returns its name, to which the servers have added a number.
func (s *submitter) queue(ctx context.Context, task Task) (name string, err error) {
	if strings.Contains(task.ID, "/") {
		return "", fmt.Errorf("the id %q has a slash", task.ID)
	}
	if task.ID != "" {
		return s.queueOnce(ctx, task)
	}
	err = untilKnown(ctx, func() error { // this may queue the task twice
		name, err = s.create(ctx, task)
		return err
	})
	return name, err
}

// queueOnce looks for the task before each attempt to create it.
//
// settle.Create would look below /tasks only, and create a second task if the
// master has moved the first one meanwhile.
func (s *submitter) queueOnce(ctx context.Context, task Task) (name string, err error) {
	err = untilKnown(ctx, func() error {
		name, err = s.find(ctx, task.ID)
		if name == "" && err == nil {
			name, err = s.create(ctx, task)
		}
		return err
	})
	return name, err
}

func (s *submitter) create(ctx context.Context, task Task) (name string, err error) {
	made, err := s.c.Create(ctx, layout.NewTask(task.ID), task.Data, client.CreateOptions{Mode: client.PersistentSequential})
	return strings.TrimPrefix(made.Path, layout.Tasks+"/"), err
}

// find returns the name of the task with an id, or "" if there is none. It reads all
// places at one moment, because tasks move between them in both directions.
func (s *submitter) find(ctx context.Context, id string) (string, error) {
	// This server may not have applied yet what another one has acknowledged.
	if err := s.c.Sync(ctx, layout.Tasks); err != nil {
		return "", err
	}
	for {
		workers, err := s.c.Children(ctx, layout.Assign)
		if err != nil {
			return "", err
		}
		ops := []client.Op{client.ChildrenOp(layout.Assign), client.ChildrenOp(layout.Tasks), client.ChildrenOp(layout.Status)}
		for _, worker := range workers.Names {
			ops = append(ops, client.ChildrenOp(layout.Assignments(worker)))
		}
		places, err := s.c.MultiRead(ctx, ops...)
		if err != nil {
			return "", err
		}
		if !containsAll(workers.Names, places[0].Children) {
			continue // there is a new worker, which may have the task
		}
		for _, place := range places[1:] {
			if place.Err != nil && !errors.Is(place.Err, client.ErrNoNode) {
				return "", place.Err
			}
			for _, task := range place.Children {
				if layout.IsTask(task, id) {
					return task, nil
				}
			}
		}
		return "", nil
	}
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// await returns when a task is done.
func (s *submitter) await(ctx context.Context, task string) (layout.Result, error) {
	found, err := s.c.ExistsW(ctx, layout.Done(task))
	if err != nil {
		return layout.Result{}, err
	}
	if !found.Exists {
		_, err = found.Watch.Next(ctx)
	}
	if err := errors.Join(err, found.Watch.Close(context.WithoutCancel(ctx))); err != nil {
		return layout.Result{}, err
	}
	node, err := s.c.Get(ctx, layout.Done(task))
	if err != nil {
		return layout.Result{}, err
	}
	return layout.ParseResult(node.Data)
}

// forget removes a result. An earlier attempt may have removed it already.
func (s *submitter) forget(ctx context.Context, task string) error {
	err := untilKnown(ctx, func() error { return s.c.Delete(ctx, layout.Done(task), client.AnyVersion) })
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}
