package main

import (
	"errors"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// task is one to be done.
type task struct {
	name string
	data []byte
}

// listTasks looks what we are to do, and has us told when that changes.
func (w *worker) listTasks() {
	w.a.ChildrenW(layout.Assignments(w.name), func(l client.Listing, err error) {
		switch {
		case passing(err):
			w.listTasks()
		case err != nil:
			w.end.fail(err)
		default:
			layout.Oldest(l.Names)
			for _, name := range l.Names {
				if !w.known[name] {
					w.known[name] = true
					w.fetch(name)
				}
			}
		}
	})
}

// fetch reads a task. The reads of many are under way at once.
func (w *worker) fetch(name string) {
	w.a.Get(layout.Assigned(w.name, name), func(n client.Node, err error) {
		switch {
		case err == nil:
			w.todo.put(task{name, n.Data})
		case passing(err):
			w.fetch(name)
		case errors.Is(err, client.ErrNoNode): // it was taken back
			delete(w.known, name)
		default:
			w.end.fail(err)
		}
	})
}

// todo has the tasks from where callbacks put them to where they are done.
type todo struct {
	filled chan struct{} // has a token if there is something to take, or to be idle about

	mu    sync.Mutex
	tasks []task
}

func newTodo() *todo { return &todo{filled: make(chan struct{}, 1)} }

// put does not wait.
func (q *todo) put(t task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, t)
	q.tell()
}

// tell puts the token there.
func (q *todo) tell() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// take returns the next task, if there is one, and then leaves the token for another
// take.
func (q *todo) take() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		return task{}, false
	}
	q.tell()
	t := q.tasks[0]
	q.tasks = q.tasks[1:]
	return t, true
}
