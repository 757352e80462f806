package main

import (
	"context"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// Connect returns a client that has a session, or fails as client.Connect does. It sets
// the options that belong to the program rather than to the role.
type Connect func(ctx context.Context, o client.Options) (*client.Client, error)

// Handler does a task. An error is a result, too: the task has failed and is not tried
// again, unless ctx has ended, which returns the task to the queue.
//
// A task may be done twice, if a worker dies or loses its session after it has done the
// task and before it has stored the result. A handler must tolerate that, or check
// whether the task is done. ctx does not end with the session; a result that arrives
// after the end of the session is dropped.
type Handler func(ctx context.Context, data []byte) ([]byte, error)

// Task is a task to be queued.
type Task struct {
	// ID, if not empty, becomes part of the task's name, so that the task is queued
	// once, however often that is tried, until its result is removed. No other client
	// may use the same ID: two that queue it at the same moment may queue it twice.
	// A task without an ID may be queued twice if the connection breaks.
	ID   string
	Data []byte
}

// Submission says what Submit does.
type Submission struct {
	Tasks []Task
	// Keep leaves the results on the servers.
	Keep bool
	// Queued, if not nil, is called when Tasks[i] has been queued, with its name.
	Queued func(i int, task string)
	// Done is called for each task when it is done, in any order. Calls do not overlap.
	Done func(i int, task string, r layout.Result)
}

// System has the four roles; tests of the command line replace them. Each function has
// its own session and returns client.ErrSessionExpired when that ends. What the role
// knew is then worthless, so the caller starts it again by calling it again. Master and
// Worker return nil when ctx ends, after they have cleaned up; Submit and Admin return
// the cause.
type System struct {
	Master func(ctx context.Context, connect Connect, name string, log *log.Logger) error
	Worker func(ctx context.Context, connect Connect, name string, do Handler, log *log.Logger) error
	// Submit queues tasks and waits until they are done.
	Submit func(ctx context.Context, connect Connect, s Submission) error
	Admin  func(ctx context.Context, connect Connect) (layout.State, error)
}
