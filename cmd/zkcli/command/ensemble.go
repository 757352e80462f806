package command

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func ensembleCommand() Command {
	return Command{
		Name: "ensemble", Synopsis: "[-a] [--within time]", Short: "Show all servers in one table",
		Long: "Asks each server of the connect string by the four-letter words srvr and mntr, which\n" +
			"mntr may have to be allowed by 4lw.commands.whitelist. -a finds the servers in the\n" +
			"ensemble's own configuration. LAG is how many transactions a server is behind the\n" +
			"leader. The exit code is 7 if a server could not be reached or does not serve.",
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
				servers, err := c.servers(ctx, *all)
				if err != nil {
					return err
				}
				return c.ensemble(lookAll(ctx, servers, limit, look))
			}
		},
	}
}

// servers returns the addresses to ask.
func (c *Call) servers(ctx context.Context, all bool) ([]string, error) {
	servers, _, err := client.ParseServers(c.Options.Server)
	if err != nil {
		return nil, &UsageError{Text: err.Error() + ". A server is written host:port, as in -server localhost:2181"}
	}
	if !all {
		return servers, nil
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	config, _, err := zk.GetConfig(ctx)
	if err != nil {
		return nil, err
	}
	members := clientAddresses(string(config))
	if len(members) == 0 {
		return nil, fmt.Errorf("the configuration names no client address: it is a single server, or a static configuration without ;clientPort")
	}
	return members, nil
}

// clientAddresses returns where clients reach the servers of a configuration. A
// line is server.1=host:2888:3888[|…]:participant;[address:]port. A server that
// listens at all its addresses is found at its host.
func clientAddresses(config string) []string {
	var list []string
	for line := range strings.Lines(config) {
		_, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		peer, at, found := strings.Cut(value, ";")
		if !ok || !found || !strings.HasPrefix(line, "server.") {
			continue
		}
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			host, port = "", at
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = peerHost(peer)
		}
		list = append(list, net.JoinHostPort(host, port))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// peerHost returns the host of host:port:port or [v6]:port:port.
func peerHost(peer string) string {
	if rest, ok := strings.CutPrefix(peer, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(peer, ":")
	return host
}

var ensembleHeading = []string{"SERVER", "MODE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNS", "SESSIONS", "WATCHES", "NODES", "OUTSTANDING"}

func (c *Call) ensemble(views []serverView) error {
	bad := false
	rows := [][]string{ensembleHeading}
	var notes []string
	for _, v := range views {
		rows = append(rows, v.row())
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

func (v *serverView) row() []string {
	if v.Mode == "" {
		state := "unreachable"
		if v.Reachable {
			state = "no quorum"
		}
		return append([]string{v.Server, state}, slices.Repeat([]string{"-"}, len(ensembleHeading)-2)...)
	}
	version, _, _ := strings.Cut(v.Version, "-")
	return []string{
		v.Server, v.Mode, version, v.Zxid, known(v.Lag), fmt.Sprintf("%g/%g/%g", v.LatencyMin, v.LatencyAvg, v.LatencyMax),
		fmt.Sprint(v.Connections), known(v.Sessions), known(v.Watches), fmt.Sprint(v.Nodes), fmt.Sprint(v.Outstanding),
	}
}

func known(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
