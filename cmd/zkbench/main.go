// Zkbench puts load on a server of ZooKeeper's client protocol, checks every
// reply, and reports throughput, latency, and what the load cost the server.
// See docs/zkbench.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/internal/stdio"
)

func main() {
	stdio.Survive() // a run that is not watched any more removes what it has written
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	// Restore the default action after the first signal, so that a second one ends the
	// process.
	context.AfterFunc(ctx, stop)
	stdout, stderr := console.Writer(os.Stdout), console.Writer(os.Stderr)
	err := run(ctx, os.Args[1:], stdout, stderr)
	switch {
	case err == nil:
	case stdio.Unread(err):
		os.Exit(stdio.UnreadCode)
	default:
		fmt.Fprintln(stderr, "zkbench:", err)
		os.Exit(exitCode(err))
	}
}
