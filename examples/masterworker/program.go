package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// Streams are where a program writes.
type Streams struct{ Out, Err io.Writer }

const usage = `usage:
  %[1]s master [-servers LIST] [-name NAME]           assign tasks, or stand by
  %[1]s worker [-servers LIST] [-name NAME]           do tasks
  %[1]s submit [-servers LIST] [-name ID] TEXT...     queue tasks, and wait for the results
  %[1]s admin  [-servers LIST]                        show what is going on

A task is a TEXT, and to do it is to write it in upper case. With an ID it is queued
once, however often the command is given.
`

// Main runs a program until it is done or is told to end: SIGINT or SIGTERM. It
// returns the exit code.
func Main(ctx context.Context, args []string, out Streams, s System) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills: servers that are down may keep it waiting
	c, err := parse(args, out)
	if err != nil {
		return 2 // parse has reported the error
	}
	if err := c.run(ctx, s); err != nil {
		fmt.Fprintln(out.Err, err)
		return 1
	}
	return 0
}

// command is the parsed arguments.
type command struct {
	role, servers, name string
	rest                []string
	out                 Streams
	log                 *log.Logger
}

var errUsage = errors.New("wrong usage")

func parse(args []string, out Streams) (*command, error) {
	c := &command{out: out, log: log.New(out.Out, "", log.Ltime)}
	if len(args) > 1 {
		c.role = args[1]
	}
	switch c.role {
	case "master", "worker", "submit", "admin":
	default:
		fmt.Fprintf(out.Err, usage, args[0])
		return nil, errUsage
	}
	flags := flag.NewFlagSet(c.role, flag.ContinueOnError)
	flags.SetOutput(out.Err)
	flags.StringVar(&c.servers, "servers", "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", "HOST:PORT,HOST:PORT...")
	flags.StringVar(&c.name, "name", "", "of the master or worker, the process by default; of submit, the task's ID")
	if err := flags.Parse(args[2:]); err != nil {
		return nil, err
	}
	c.rest = flags.Args()
	if (len(c.rest) > 0) != (c.role == "submit") {
		fmt.Fprintf(out.Err, usage, args[0])
		return nil, errUsage
	}
	if c.name == "" && c.role != "submit" {
		c.name = fmt.Sprintf("%s-%d", c.role, os.Getpid())
	}
	return c, nil
}

func (c *command) run(ctx context.Context, s System) error {
	switch c.role {
	case "master":
		return c.again(ctx, func() error { return s.Master(ctx, c.connect, c.name, c.log) })
	case "worker":
		return c.again(ctx, func() error { return s.Worker(ctx, c.connect, c.name, Upper, c.log) })
	case "submit":
		return s.Submit(ctx, c.connect, c.submission())
	default:
		state, err := s.Admin(ctx, c.connect)
		if err == nil {
			state.Print(c.out.Out)
		}
		return err
	}
}

// again runs fn in one session after the other.
func (c *command) again(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if ctx.Err() != nil {
			c.log.Print(c.name, ": told to end, and done")
			return nil
		}
		if !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrConnectionLoss) {
			return err
		}
		c.log.Print(c.name, ": begins again: ", err)
	}
}

// connect waits for the servers as long as it takes.
func (c *command) connect(ctx context.Context, o client.Options) (*client.Client, error) {
	o.Logger = client.NoLog // only to keep the output of an example short
	return client.Connect(ctx, c.servers, o)
}

func (c *command) submission() Submission {
	s := Submission{
		Queued: func(i int, task string) { c.log.Printf("queued %q as %s", c.rest[i], task) },
		Done: func(_ int, task string, r layout.Result) {
			c.log.Printf("%s is %s", task, r.Encode())
		},
	}
	for i, text := range c.rest {
		t := Task{ID: c.name, Data: []byte(text)}
		if c.name != "" && len(c.rest) > 1 {
			t.ID = fmt.Sprintf("%s-%d", c.name, i+1)
		}
		s.Tasks = append(s.Tasks, t)
	}
	return s
}

// Upper is the Handler of the command line.
func Upper(_ context.Context, data []byte) ([]byte, error) {
	return bytes.ToUpper(data), nil
}
