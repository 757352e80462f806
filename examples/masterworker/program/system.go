package program

import (
	"context"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// Connect makes a client that has a session, or fails as client.Connect does. Of the
// options it fills in those that are the program's to choose.
type Connect func(ctx context.Context, o client.Options) (*client.Client, error)

// Handler does a task. An error is a result, too: the task has failed, and is not
// tried again; except if ctx has ended, which gives the task back.
//
// A task may be done twice: when a worker dies, or his session ends, after he has done
// it and before he could say so. So a handler must bear that, or look whether it is
// done. ctx doesn't end with the session: what comes out then is dropped.
type Handler func(ctx context.Context, data []byte) ([]byte, error)

// Task is one that is to be queued.
type Task struct {
	// ID, if not empty, is in the name of the task, so that it is queued once however
	// often this is tried, until its result is removed. It must be the caller's own:
	// what two queue with one ID at the same moment may be queued twice.
	// Without an ID it is queued once more if the connection breaks at a bad moment.
	ID   string
	Data []byte
}

// Submission is what Submit is to do.
type Submission struct {
	Tasks []Task
	// Keep leaves the results on the servers.
	Keep bool
	// Queued, if not nil, is called when Tasks[i] is queued and has a name.
	Queued func(i int, task string)
	// Done is called for each task when it is done, in any order, but not at the same
	// time.
	Done func(i int, task string, r layout.Result)
}

// System is a way to write the master-worker system. Each function has a session of
// its own and ends with it, with client.ErrSessionExpired: all that it knew is then
// worth nothing, and to begin again is to call it again. Master and Worker return nil if
// ctx ends, when they have put their things in order; Submit and Admin return why it
// ended.
type System struct {
	Master func(ctx context.Context, connect Connect, name string, log *log.Logger) error
	Worker func(ctx context.Context, connect Connect, name string, do Handler, log *log.Logger) error
	// Submit queues tasks and waits until they are done.
	Submit func(ctx context.Context, connect Connect, s Submission) error
	Admin  func(ctx context.Context, connect Connect) (layout.State, error)
}
