// Command lock is the distributed lock of the blog post, with its executor: tellers in
// different sessions update one account, one at a time. README.md says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/zkd-project/zkd/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: lock [-servers list] [-path path] [-tellers n] [-deposits n]")

// run lets all tellers make their deposits, and prints the account.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("lock", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	servers := flags.String("servers", "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", "")
	path := flags.String("path", "/example/lock", "")
	tellers := flags.Int("tellers", 3, "")
	deposits := flags.Int("deposits", 5, "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	if flags.NArg() > 0 || *tellers < 1 || *deposits < 0 {
		return errUsage
	}
	out := &lines{w: stdout}
	errs := make([]error, *tellers)
	var all sync.WaitGroup
	for i := range *tellers {
		all.Go(func() { errs[i] = teller(ctx, *servers, *path, strconv.Itoa(i+1), *deposits, out) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// teller makes n deposits in a separate session.
func teller(ctx context.Context, servers, path, name string, n int, out *lines) error {
	// A new session follows an expired one: the teller tries again in it.
	c, err := client.Connect(ctx, servers, client.Options{RenewSession: true, Logger: client.NoLog})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	a, err := newAccount(c, path, name, out)
	if err != nil {
		return err
	}
	for range n {
		if err := a.deposit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lines writes whole lines, of several goroutines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}
