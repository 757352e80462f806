package command

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/console"
	"github.com/zkd-project/zkd/internal/buildinfo"
)

func consoleCommand() Command {
	return Command{
		Name: "console", Synopsis: "[--port port] [--open] [servers]", Short: "Show the ensemble in a browser on this machine, until Ctrl-C",
		Long: "Serves zkd's console (docs/console.md) on loopback, for the servers of -server or those given\n" +
			"here, Apache's as well. It prints a link that is good for one browser; others can't use the\n" +
			"console. What it shows is what zkcli may read, by --auth, TLS or SASL, and by the four-letter\n" +
			"words srvr, mntr, conf, cons and dump, which the servers have to allow. It changes nothing.",
		Examples: []Example{
			{"console zk1:2181,zk2:2181,zk3:2181", "the link to open"},
			{"-server zk1 --tls-ca ca.pem --auth digest:ann:secret console --open", "with an identity, in the browser"},
		},
		Args: []Arg{{Name: "servers", Kind: Host}},
		Setup: func(flags *cobra.Command) Run {
			port := flags.Flags().Int("port", 0, "the `port`; 0 is one that is free")
			open := boolFlag(flags, "open", "", "open the link in the browser")
			return func(ctx context.Context, c *Call) error {
				if *port < 0 || *port > 65535 {
					return c.Usage("--port is a number from 0 to 65535")
				}
				o := c.Options
				o.renew = true
				if len(c.Args) > 0 {
					o.Server = c.Arg(0)
				}
				return c.console(ctx, &o, *port, *open)
			}
		},
	}
}

// console serves the console until ctx ends.
func (c *Call) console(ctx context.Context, o *Options, port int, open bool) error {
	addrs, _, err := client.ParseServers(o.Server)
	if err != nil {
		return &UsageError{Text: err.Error() + ". A server is written host:port, as in -server localhost:2181"}
	}
	asker, err := o.security.asker()
	if err != nil {
		return err
	}
	conn := connection{auth: c.App.conn.auth}
	defer conn.close()
	zk, err := conn.get(ctx, o, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	var pages *console.Console
	pages = console.New(console.Options{
		Client: zk, Asker: asker, Servers: addrs, Address: listener.Addr().String(), Version: buildinfo.Read().String(),
		Opened: func() { c.App.say("A browser has opened it. For another one: %s", pages.Link()) },
	})
	defer pages.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { s.Close() })
	link := pages.Link()
	if err := c.Emit(Output{Text: link, Data: map[string]string{"link": link}}); err != nil {
		listener.Close()
		return err
	}
	if open {
		if err := browse(ctx, link); err != nil {
			c.App.say("can't open a browser: %v", err)
		}
	}
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return context.Cause(ctx)
}

// browse has the system open a file that leads to a link: others can read the arguments of a program, and not this file.
func browse(ctx context.Context, link string) error {
	f, err := os.CreateTemp("", "zkcli-console-*.html")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { os.Remove(f.Name()) })
	_, err = fmt.Fprintf(f, "<!doctype html><title>zkd console</title><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(link))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	program := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		program = []string{"open"}
	case "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return exec.CommandContext(ctx, program[0], append(program[1:], f.Name())...).Run()
}
