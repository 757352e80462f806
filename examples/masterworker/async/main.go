// Command async is the master-worker system written with the calls that don't wait:
// each issues its request, and what follows is in the function that gets the reply.
//
//	master.go      who is the master: a small state machine
//	reign.go       what he does as long as he is: many tasks at once
//	move.go        how a task gets from here to there
//	worker.go      who does the tasks
//	assignments.go how he learns of them
//	client.go      who has tasks to be done
//	once.go        and wants them to be queued once
//	admin.go       who wants to know how it goes
//
// What happens at each failure is told in ../README.md; the names of the nodes are in
// ../layout. ../sync does the same with calls that wait, and says of each error what it
// means; here is what is different.
//
// # One goroutine
//
// The client runs all callbacks of a session, and the Watcher, which is told of events, in
// one goroutine: one after the other, in the order in which the servers answered. So
// what only callbacks touch needs no lock. But none may wait: the others would wait
// for it, and the reply that it waits for may be behind it.
//
// # Lost connections
//
// When the connection breaks, all requests under way fail at once, each in its
// callback, with client.ErrConnectionLoss. The callback issues it again, as it is one that
// can be repeated, or begins again with a look. What is issued while there is no
// connection waits for one: there is no pause to be made.
//
// # The end
//
// The first error that can't be dealt with ends the role: see ending. Its callbacks may go
// on until the session is closed, right behind it. What they do then is harmless for the
// same reason for which it is when the process is killed.
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
