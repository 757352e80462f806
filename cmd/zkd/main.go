// Certificates of old authorities have negative serial numbers; Java accepts them.
//
//go:debug x509negativeserial=1

// Command zkd is a ZooKeeper-compatible coordination server.
//
//	zkd                     run with built-in defaults on port 2181
//	zkd FILE                run with a zoo.cfg
//	zkd --config FILE       the same
//	zkd --join HOST:PORT    join a running ensemble
//	zkd config check FILE   show the meaning of a file, and its errors
//	zkd status              ask the server of /etc/zkd/zoo.cfg for its state
//	zkd status HOST:PORT... ask other servers
//	zkd ready, zkd live     the same question for the probes of a platform
//	zkd log dump PATH       print the contents of a log
//	zkd verify PATH         check the data of a server
//	zkd upgrade-check       say what the first start of this version does, and whether it can be undone
//	zkd import              make the data of Apache's servers zkd's
//	zkd export              make the data of zkd's servers Apache's
//	zkd takeover            take over a running ensemble of Apache's
//	zkd restore             make data of a backup
//	zkd demo                show an ensemble on this machine, whose leaders are killed
//	zkd test-server         serve the tests of a program in any language, with faults
//	zkd edge                serve the clients of this host, which then see no lost connections
//	zkd shadow              compare zkd with Apache's servers, under their clients' requests
//	zkd version
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/internal/stdio"
)

func main() {
	stdio.Survive()
	tuneScheduler()
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(os.Interrupt) { // it is ignored in the background of a script
		signals = append(signals, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends a slow stop
	// zkd prints text from other servers, from clients and from files.
	stdout, stderr := console.Writer(os.Stdout), console.Writer(os.Stderr)
	err := run(ctx, os.Args[1:], stdout, stderr)
	stop()
	if err != nil {
		report(stderr, err)
		os.Exit(exitCode(err))
	}
}

// report writes the error that ends the program, unless somebody has it already or has
// stopped reading what the program prints, as head does.
func report(stderr io.Writer, err error) {
	_, logged := errors.AsType[loggedError](err)
	if logged || stdio.Unread(err) {
		return
	}
	lines := stdio.NewLines(stderr, nil) // the end does not wait for a reader
	fmt.Fprintln(lines, "zkd:", err)
	lines.Close()
}
