// Command config is the configuration example of the ZooKeeper slides: workers watch a node,
// an administrator sets it, and the workers get an event and read it again. README.md says
// how to run it.
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
	"syscall"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "config:", err)
		os.Exit(1)
	}
}

// settings is the configuration.
type settings struct {
	Rate    int    // of the workers, per second
	Message string // printed by the workers
}

func (s settings) check() error {
	if s.Rate < 1 {
		return fmt.Errorf("rate is %d: it should be 1 or more", s.Rate)
	}
	return nil
}

// options are the same for all programs: the workers understand what the administrator can
// set.
func options() config.Options[settings] {
	return config.Options[settings]{Validate: settings.check, Default: &settings{Rate: 1, Message: "hello"}}
}

var errUsage = errors.New("usage: config [-servers list] [-path path] worker name | set rate message")

// run is the program. It ends with ctx, or when its work is done.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	servers := flags.String("servers", "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", "")
	path := flags.String("path", "/example/config", "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	c, err := client.Connect(ctx, *servers, client.Options{RenewSession: true, Logger: client.NoLog})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	switch args := flags.Args(); {
	case len(args) == 2 && args[0] == "worker":
		return worker(ctx, c, *path, args[1], stdout)
	case len(args) == 3 && args[0] == "set":
		return set(ctx, c, *path, args[1], args[2], stdout)
	}
	return errUsage
}

// worker works until ctx ends, with the newest valid settings.
func worker(ctx context.Context, c *client.Client, path, name string, stdout io.Writer) error {
	cfg, err := config.Open(ctx, c, path, options())
	if err != nil {
		return err
	}
	defer cfg.Close(ctx)
	var last error
	for now, err := range cfg.Follow(ctx) {
		last = err
		switch {
		case ctx.Err() != nil: // asked to stop
			return nil
		case err != nil:
			fmt.Fprintf(stdout, "%s stays at %d per second: %v\n", name, now.Value.Rate, err)
		default:
			fmt.Fprintf(stdout, "%s says %q %d times per second\n", name, now.Value.Message, now.Value.Rate)
		}
	}
	return last
}

// set is the administrator's part.
func set(ctx context.Context, c *client.Client, path, rate, message string, stdout io.Writer) error {
	n, err := strconv.Atoi(rate)
	if err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	version, err := config.Set(ctx, c, path, options(), settings{n, message}, client.AnyVersion)
	if client.IsAmbiguous(err) {
		return fmt.Errorf("it may be set or not; look, or set it again: %w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is set, version %d\n", path, version)
	return nil
}
