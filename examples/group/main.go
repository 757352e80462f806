// Command group is the group membership example of the ZooKeeper slides: each running program
// is a member, and prints which members join and leave. README.md says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/presence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "group:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: group [-servers list] [-path path] [-timeout duration] name [about]")

// run is the program: a member until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("group", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	servers := flags.String("servers", "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", "")
	path := flags.String("path", "/example/group", "")
	timeout := flags.Duration("timeout", client.DefaultTimeout, "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	if flags.NArg() < 1 || flags.NArg() > 2 {
		return errUsage
	}
	// A new session follows an expired one, and the member joins again in it.
	c, err := client.Connect(ctx, *servers, client.Options{RenewSession: true, Timeout: *timeout, Logger: client.NoLog})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	// Patient: if this program was killed and started again, its old session lives on for a
	// while.
	g, err := presence.NewGroup(c, *path, presence.Options{Patient: true})
	if err != nil {
		return err
	}
	return member(ctx, g, flags.Arg(0), flags.Arg(1), stdout)
}

// member joins, prints the changes until ctx ends, and leaves.
func member(ctx context.Context, g *presence.Group, name, about string, stdout io.Writer) error {
	me, err := g.Join(ctx, name, []byte(about))
	if err != nil {
		return err
	}
	defer leave(ctx, me)
	stale := false
	for view, err := range g.Follow(ctx) {
		if ctx.Err() != nil {
			return nil // asked to stop
		}
		if err != nil {
			return err
		}
		switch {
		case view.Stale && !stale:
			fmt.Fprintln(stdout, "no connection: what follows is as it was")
		case stale && !view.Stale:
			fmt.Fprintln(stdout, "connected again")
		}
		stale = view.Stale
		show(stdout, view)
	}
	return nil
}

// leave leaves the group after ctx has ended. If no server answers, the member disappears
// with its session.
func leave(ctx context.Context, me *presence.Membership) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	me.Release(ctx)
}

// show prints the differences of a view.
func show(w io.Writer, view presence.View) {
	if len(view.Left)+len(view.Joined)+len(view.Changed) == 0 {
		return
	}
	for _, m := range view.Left {
		fmt.Fprintf(w, "- %s\n", describe(m))
	}
	for _, m := range view.Joined {
		fmt.Fprintf(w, "+ %s\n", describe(m))
	}
	for _, m := range view.Changed {
		fmt.Fprintf(w, "* %s\n", describe(m))
	}
	var names []string
	for _, m := range view.Members {
		names = append(names, m.ID)
	}
	fmt.Fprintf(w, "%d members: %s\n", len(names), strings.Join(names, ", "))
}

// describe returns a member's name and data.
func describe(m presence.Member) string {
	if len(m.Data) == 0 {
		return m.ID
	}
	return fmt.Sprintf("%s (%s)", m.ID, m.Data)
}
