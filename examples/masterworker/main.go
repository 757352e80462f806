// Command masterworker is the master-worker system of the O'Reilly book "ZooKeeper":
// clients queue tasks, a master assigns them to workers, and workers do them. It uses
// the calls that wait for their replies, so each error is handled where it occurs.
//
//	program.go  arguments, signals, and what happens when a session ends
//	roles.go    the types that the roles share
//	master.go   the election of the master
//	reign.go    what the elected master does
//	worker.go   a worker
//	submit.go   a client that queues tasks
//	admin.go    a client that reports what is going on
//
// README.md lists what happens at each failure; package layout has the names of the
// nodes. ASYNC.md shows the same roles with calls that do not wait.
//
// # Errors
//
// The calls below return these errors:
//
//   - client.ErrConnectionLoss of a read: the client repeats the read (Steady).
//   - client.ErrConnectionLoss of a change: the change may have been made or not
//     (client.IsAmbiguous). Each change here can be repeated, or is looked up first:
//     see untilKnown and its callers.
//   - client.ErrNodeExists, ErrNoNode, ErrBadVersion: another program, or an earlier
//     attempt of this one, was faster. Each caller says which, and what that means.
//   - client.ErrSessionExpired: the role ends with it, and command.again starts the
//     role in a new session.
//   - The context's error: the program is to end.
//   - Anything else, such as client.ErrNoAuth, is a mistake that a person has to see.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(Main(context.Background(), os.Args, Streams{Out: os.Stdout, Err: os.Stderr},
		System{Master: runMaster, Worker: runWorker, Submit: submit, Admin: look}))
}
