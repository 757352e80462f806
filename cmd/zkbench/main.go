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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Restore the default action after the first signal, so that a second one ends the
	// process.
	context.AfterFunc(ctx, stop)
	stdout, stderr := console.Writer(os.Stdout), console.Writer(os.Stderr)
	if err := run(ctx, os.Args[1:], stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "zkbench:", err)
		os.Exit(1)
	}
}
