package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// submitter has tasks to be done. All are on their way at once. Only callbacks touch
// his state.
type submitter struct {
	program.Submission
	a    client.Async
	end  ending
	left int            // how many are not done
	wait map[string]int // which are waited for, by the path of the result: index of Tasks
}

// submit queues tasks and waits until they are done.
func submit(ctx context.Context, connect program.Connect, o program.Submission) error {
	s := &submitter{Submission: o, end: newEnding(), left: len(o.Tasks), wait: make(map[string]int)}
	c, err := connect(ctx, client.Options{Watcher: s.event})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	s.a = c.Async()
	bootstrap(s.a, s.end, s.queueAll)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-s.end:
		return err
	}
}

// event is told of all that happens: it is the Watcher.
func (s *submitter) event(e client.Event) {
	if e.Type == client.EventSession {
		s.end.session(e.State)
	} else if i, ok := s.wait[e.Path]; ok && e.Type == client.EventCreated {
		s.fetch(i, e.Path)
	}
}

func (s *submitter) queueAll() {
	for i, task := range s.Tasks {
		switch {
		case strings.Contains(task.ID, "/"):
			s.end.fail(fmt.Errorf("the id %q has a slash", task.ID))
		case task.ID != "":
			s.queueOnce(i)
		default:
			s.queue(i)
		}
	}
	s.finished(0)
}

// queue queues a task. If the connection breaks, it may queue it twice.
func (s *submitter) queue(i int) { s.create(i, s.queue) }

// create makes the node of a task, and if the connection breaks calls inDoubt.
func (s *submitter) create(i int, inDoubt func(i int)) {
	t := s.Tasks[i]
	s.a.Create(layout.NewTask(t.ID), t.Data, client.PersistentSequential, nil, func(made client.Created, err error) {
		switch {
		case err == nil:
			s.queued(i, strings.TrimPrefix(made.Path, layout.Tasks+"/"))
		case passing(err):
			inDoubt(i)
		default:
			s.end.fail(err)
		}
	})
}

// queued has us told when the task is done.
func (s *submitter) queued(i int, task string) {
	if s.Queued != nil {
		s.Queued(i, task)
	}
	s.wait[layout.Done(task)] = i
	s.await(i, layout.Done(task))
}

func (s *submitter) await(i int, path string) {
	s.a.ExistsW(path, func(p client.Presence, err error) {
		switch {
		case passing(err):
			s.await(i, path)
		case err != nil:
			s.end.fail(err)
		case p.Exists:
			if _, waiting := s.wait[path]; waiting {
				s.fetch(i, path)
			}
		}
	})
}

// fetch reads a result.
func (s *submitter) fetch(i int, path string) {
	delete(s.wait, path)
	s.a.Get(path, func(n client.Node, err error) {
		if passing(err) {
			s.fetch(i, path)
			return
		}
		result, bad := layout.ParseResult(n.Data)
		if err := errors.Join(err, bad); err != nil {
			s.end.fail(fmt.Errorf("read the result: %w", err))
			return
		}
		s.Done(i, strings.TrimPrefix(path, layout.Status+"/"), result)
		if s.Keep {
			s.finished(1)
			return
		}
		s.forget(path)
	})
}

// forget removes a result. That it is gone may be our own doing.
func (s *submitter) forget(path string) {
	s.a.Delete(path, client.AnyVersion, func(_ client.None, err error) {
		switch {
		case err == nil, errors.Is(err, client.ErrNoNode):
			s.finished(1)
		case passing(err):
			s.forget(path)
		default:
			s.end.fail(err)
		}
	})
}

// finished ends it when all is done.
func (s *submitter) finished(n int) {
	if s.left -= n; s.left == 0 {
		s.end.fail(nil)
	}
}
