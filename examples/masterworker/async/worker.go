package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// worker does what he is given. Callbacks bring the tasks; they are done in the
// goroutine of runWorker, one after the other, while the results of those before are
// on their way.
type worker struct {
	name string
	c    *client.Client
	a    client.Async
	do   program.Handler
	log  *log.Logger
	end  ending

	here  bool            // registered; only callbacks touch it
	known map[string]bool // tasks that are in work; only callbacks touch it

	todo   *todo
	saying sync.WaitGroup // results that are on their way

	mu     sync.Mutex
	status string // as it is, reported or not
}

// idle is the status of a worker who has nothing to do.
const idle = "idle"

// runWorker is a worker for one session, until ctx ends. He then says what has become
// of the tasks that are done; the others go back with the session.
func runWorker(ctx context.Context, connect program.Connect, name string, do program.Handler, log *log.Logger) error {
	w := &worker{name: name, do: do, log: log, end: newEnding(), known: make(map[string]bool), todo: newTodo(), status: idle}
	c, err := connect(ctx, client.Options{Watcher: w.event})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	w.c, w.a = c, c.Async()
	bootstrap(w.a, w.end, w.makePlace)
	return w.run(ctx)
}

// run does tasks as they come.
func (w *worker) run(ctx context.Context) error {
	for {
		select {
		case <-w.todo.filled:
			if t, ok := w.todo.take(); ok {
				w.work(ctx, t)
			} else {
				w.setStatus(idle)
			}
		case err := <-w.end:
			return fmt.Errorf("worker %s: %w", w.name, err)
		case <-ctx.Done():
			w.saying.Wait()
			return nil
		}
	}
}

// event is told of all that happens: it is the Watcher.
func (w *worker) event(e client.Event) {
	switch {
	case e.Type == client.EventSession:
		w.end.session(e.State)
	case e.Path == layout.Assignments(w.name):
		w.listTasks()
	case e.Path == layout.Worker(w.name) && !w.here:
		w.register()
	}
}

// makePlace makes the place for our tasks, and then shows that we are here: the
// master must find the former when he sees the latter.
func (w *worker) makePlace() {
	createParent(w.a, w.end, layout.Assignments(w.name), w.register)
}

func (w *worker) register() {
	w.a.Create(layout.Worker(w.name), []byte(idle), client.Ephemeral, nil, func(_ client.Created, err error) {
		switch {
		case err == nil:
			w.registered()
		case passing(err):
			w.register()
		case errors.Is(err, client.ErrNodeExists):
			w.checkRegistration()
		default:
			w.end.fail(err)
		}
	})
}

// checkRegistration looks whether the node with our name is of this session: then we
// have created it, and the connection broke. If it is not, it is that of a session of
// ours before this one, or of somebody of the same name: we wait until it is gone.
func (w *worker) checkRegistration() {
	w.a.GetW(layout.Worker(w.name), func(n client.Node, err error) {
		session, _ := w.c.Session()
		switch {
		case passing(err):
			w.checkRegistration()
		case errors.Is(err, client.ErrNoNode):
			w.register()
		case err != nil:
			w.end.fail(err)
		case n.Stat.EphemeralOwner != session:
			w.log.Printf("%s: waits until the one before is gone", w.name) // event goes on
		default:
			w.registered()
		}
	})
}

func (w *worker) registered() {
	w.here = true
	w.log.Printf("%s: is here", w.name)
	w.listTasks()
}

// work does a task, unless we are to end, or the session has ended: then it goes back.
func (w *worker) work(ctx context.Context, t task) {
	if ctx.Err() != nil || w.end.failed() {
		return
	}
	w.setStatus("works on " + t.name)
	text, err := w.do(ctx, t.data)
	if err != nil && ctx.Err() != nil {
		return // given up, not failed
	}
	result := layout.Result{Text: text}
	if err != nil {
		result = layout.Result{Failed: true, Text: []byte(err.Error())}
	}
	w.saying.Add(1)
	w.finish(t.name, result)
}

// finish puts the result in the place of the task. If that has been taken back, as
// we were thought to be dead, the result is dropped: somebody else will do the task, or
// has. It is also what a second attempt finds if the first was done.
func (w *worker) finish(task string, result layout.Result) {
	ops := []client.Op{
		client.DeleteOp(layout.Assigned(w.name, task), client.AnyVersion),
		client.CreateOp(layout.Done(task), result.Encode(), client.Persistent, nil),
	}
	w.a.Multi(ops, func(_ []client.OpResult, err error) {
		if passing(err) {
			w.finish(task, result)
			return
		}
		failed, _ := errors.AsType[*client.MultiError](err)
		switch {
		case err == nil:
			w.log.Printf("%s: %s is %s", w.name, task, result.Encode())
		case failed == nil || failed.Index != 0 || !errors.Is(err, client.ErrNoNode):
			w.end.fail(err)
		}
		delete(w.known, task)
		w.saying.Done()
	})
}

// setStatus reports a status, unless it is the one at hand.
func (w *worker) setStatus(status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status == w.status {
		return
	}
	w.status = status
	w.reportLocked()
}

// reportLocked writes the status, and repeats that after the connection broke only if
// it is still the status: a newer one may have been issued since, and to write the
// older one behind it would leave a lie for good. For the same reason it is issued
// under the lock: nobody's newer one comes between the look and the write. To issue is
// not to wait.
func (w *worker) reportLocked() {
	status := w.status
	w.a.Set(layout.Worker(w.name), []byte(status), client.AnyVersion, func(_ client.Stat, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case passing(err) && status == w.status:
			w.reportLocked()
		case err != nil && !passing(err):
			w.end.fail(err) // client.ErrNoNode: somebody has taken us out of service
		}
	})
}
