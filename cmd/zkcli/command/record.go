package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/migrate/shadow/proxy"
)

func recordCommand() Command {
	return Command{
		Name: "record", Synopsis: "--listen address --to file [--with-secrets]", Short: "Record what clients ask of servers",
		Long: "Passes connections of clients on to the servers that zkcli is told of, and writes what\n" +
			"they ask to a file, until Ctrl-C. zkd shadow --replay asks it again. The file has the\n" +
			"paths and the data that clients send, so only its owner can read it. Passwords of\n" +
			"sessions and the data of logins are left out; then a replay leaves out the logins.",
		Examples: []Example{
			{"record --listen :2180 --to clients.rec", "clients connect to port 2180"},
		},
		Setup: func(flags *cobra.Command) Run {
			listen := stringFlag(flags, "listen", "", "address", "where clients connect, such as :2180", Text)
			to := stringFlag(flags, "to", "", "file", "the file to write; it must not exist", File)
			secrets := boolFlag(flags, "with-secrets", "", "record passwords of sessions and the data of logins, too")
			return func(ctx context.Context, c *Call) error { return c.record(ctx, *listen, *to, *secrets) }
		},
	}
}

func (c *Call) record(ctx context.Context, listen, to string, secrets bool) error {
	if listen == "" || to == "" {
		return c.Usage("record needs --listen and --to")
	}
	servers, root, err := client.ParseServers(c.Options.Server)
	if err != nil {
		return &UsageError{Text: err.Error()}
	}
	if root != "" {
		return c.Usage("record is about whole trees, not about %s: leave that out of -server", root)
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	recorder := proxy.NewRecorder(f, secrets)
	relay := proxy.Relay{Servers: servers, Tap: recorder}
	c.App.say("listening on %v", l.Addr())
	if err := errors.Join(relay.Serve(ctx, l), recorder.Close(), f.Sync()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}
