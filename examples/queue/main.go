// Command queue shows package queue: the queue of the blog post, three items in and three
// out, and workers that lease their items. README.md says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		os.Exit(1)
	}
}

const usage = `usage: queue [-servers host:port,...] command
  demo            three items in, three items out
  offer item...   offer work
  work [-n max]   lease items and work on them, until interrupted or max are done
`

// run is the program. An interrupted worker has not failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("queue", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	servers := flags.String("servers", "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", "where to connect to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := client.Connect(ctx, *servers, client.Options{
		RenewSession: true,
		Logger:       slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	switch flags.Arg(0) {
	case "demo":
		return demo(ctx, c, stdout)
	case "offer":
		return offer(ctx, c, flags.Args()[1:])
	case "work":
		return runWorker(ctx, c, flags.Args()[1:], stdout, stderr)
	}
	flags.Usage()
	return fmt.Errorf("%q is no command", flags.Arg(0))
}

func runWorker(ctx context.Context, c *client.Client, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("queue work", flag.ContinueOnError)
	flags.SetOutput(stderr)
	most := flags.Int("n", 0, "how many items to work on; 0 is no end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := worker{out: stdout, most: *most, do: show(stdout)}
	if err := w.work(ctx, c); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
