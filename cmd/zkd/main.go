// Command zkd is a ZooKeeper-compatible coordination server.
//
//	zkd                     run with built-in defaults on port 2181
//	zkd FILE                run with a zoo.cfg
//	zkd --config FILE       the same
//	zkd config check FILE   say what a file means, and what in it is wrong
//	zkd status              ask the server of /etc/zkd/zoo.cfg for its state
//	zkd status HOST:PORT... ask others
//	zkd log dump PATH       print what is in a log
//	zkd version
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/internal/console"
)

func main() {
	tuneScheduler()
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(os.Interrupt) { // as in the background of a script, which has other plans
		signals = append(signals, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends a stop that takes too long
	// What zkd prints has text of other servers, of clients and of files.
	stdout, stderr := console.Writer(os.Stdout), console.Writer(os.Stderr)
	err := run(ctx, os.Args[1:], stdout, stderr)
	stop()
	if err != nil {
		fmt.Fprintln(stderr, "zkd:", err)
		os.Exit(exitCode(err))
	}
}
