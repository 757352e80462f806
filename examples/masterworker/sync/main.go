// Command sync is the master-worker system written with the calls that wait: each
// does one thing after the other, and looks at each error where it comes.
//
//	master.go   who is the master, and what he does
//	reign.go    his work as long as he is
//	worker.go   who does the tasks
//	client.go   who has tasks to be done
//	admin.go    who wants to know how it goes
//
// What happens at each failure is told in ../README.md; the names of the nodes are in
// ../layout.
//
// # Errors
//
// All that the calls below can throw, and what is done about it:
//
//   - client.ErrConnectionLoss of a read: nothing; the client repeats it (Steady).
//   - client.ErrConnectionLoss of a change: it may have been done, or not
//     (client.IsAmbiguous). Each change here is one that can be repeated, or is
//     looked for first: see settle, and each of its callers.
//   - client.ErrNodeExists, ErrNoNode, ErrBadVersion: somebody was there before us.
//     Each place says who, and what that means.
//   - client.ErrSessionExpired: all is over. It is returned, and whoever started the
//     role begins again with a new session.
//   - The context's: we are told to end, or to hurry.
//   - Anything else, such as client.ErrNoAuth, is a mistake that a human has to see.
package main

import (
	"context"
	"os"

	"github.com/zkd-project/zkd/examples/masterworker/program"
)

func main() {
	os.Exit(program.Main(context.Background(), os.Args, program.Streams{Out: os.Stdout, Err: os.Stderr}, system()))
}

func system() program.System {
	return program.System{Master: runMaster, Worker: runWorker, Submit: submit, Admin: look}
}
