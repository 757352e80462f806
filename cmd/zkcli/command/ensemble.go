package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

func ensembleCommand() Command {
	return Command{
		Name: "ensemble", Synopsis: "[-a] [--within time]", Short: "Show all servers in one table",
		Long: "Asks each server of the connect string by the four-letter words srvr and mntr, which\n" +
			"mntr may have to be allowed by 4lw.commands.whitelist. -a finds the servers by the\n" +
			"word conf, also without a quorum, or else in the ensemble's own configuration. LAG is\n" +
			"how many transactions a server is behind the leader. The exit code is 7 if a server\n" +
			"could not be reached or does not serve.",
		Examples: []Example{
			{"-server zk1,zk2,zk3 ensemble", "three servers"},
			{"-server zk1 ensemble -a", "all that zk1 knows of"},
			{"ensemble -o json", "a document for each server"},
		},
		Setup: func(flags *cobra.Command) Run {
			all := boolFlag(flags, "all", "a", "the servers of the ensemble's configuration")
			limit := 3 * time.Second
			flags.Flags().Var((*millis)(&limit), "within", "wait so long for the answers")
			return func(ctx context.Context, c *Call) error {
				asker, err := c.Options.security.asker()
				if err != nil {
					return err
				}
				addrs, err := c.servers(ctx, asker, *all, limit)
				if err != nil {
					return err
				}
				return c.ensemble(servers.LookAll(ctx, addrs, limit, asker.Look))
			}
		},
	}
}

// servers returns the addresses to ask.
func (c *Call) servers(ctx context.Context, asker servers.Asker, all bool, limit time.Duration) ([]string, error) {
	addrs, _, err := client.ParseServers(c.Options.Server)
	if err != nil {
		return nil, &UsageError{Text: err.Error() + ". A server is written host:port, as in -server localhost:2181"}
	}
	if !all {
		return addrs, nil
	}
	if members := asker.Members(ctx, addrs, limit); len(members) > 0 {
		return members, nil
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	config, err := zk.Unrooted().Get(ctx, client.ConfigPath)
	if err != nil {
		return nil, err
	}
	members := asker.Addresses(string(config.Data))
	if len(members) == 0 {
		return nil, fmt.Errorf("the configuration names no client address: it is a single server, or a static configuration without ;clientPort")
	}
	return members, nil
}

var ensembleHeading = []string{"SERVER", "MODE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNS", "SESSIONS", "WATCHES", "NODES", "OUTSTANDING"}

func (c *Call) ensemble(views []servers.View) error {
	bad := false
	rows := [][]string{ensembleHeading}
	var notes []string
	for _, v := range views {
		rows = append(rows, row(&v))
		if v.Problem != "" {
			notes = append(notes, v.Server+": "+v.Problem)
		}
		bad = bad || v.Mode == ""
		if c.Options.Format == FormatJSON {
			if err := c.Emit(Output{Data: v}); err != nil {
				return err
			}
		}
	}
	if c.Options.Format != FormatJSON {
		if err := c.App.write(table(rows, false)); err != nil {
			return err
		}
		for _, note := range notes {
			c.App.say("%s", note)
		}
	}
	if bad {
		return &ExitError{Code: exitConnection}
	}
	return nil
}

func row(v *servers.View) []string {
	if v.Mode == "" {
		state := "unreachable"
		if v.Reachable {
			state = "no quorum"
		}
		return append([]string{v.Server, state}, slices.Repeat([]string{"-"}, len(ensembleHeading)-2)...)
	}
	return cells(v, ensembleHeading)
}

// cells returns a server's row of a table with these columns.
func cells(v *servers.View, headings []string) (row []string) {
	for _, heading := range headings {
		row = append(row, v.Cell(heading))
	}
	return row
}

func known(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
