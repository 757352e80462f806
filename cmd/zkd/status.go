package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/edge"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/secure"
)

// askTimeout bounds the time for the answer of one server.
const askTimeout = 2 * time.Second

// installedConfig is the configuration with which conf/zkd.service runs a server.
const installedConfig = "/etc/zkd/zoo.cfg"

// newStatus returns the command that asks servers for their state. It needs only the
// four-letter word srvr, which every ZooKeeper-compatible server answers.
func newStatus() *cobra.Command {
	var file string
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [HOST:PORT...]",
		Short: "Ask servers for their state, and show it in a table",
		Long: "Ask servers for their state by the four-letter word srvr, and show it in a table.\n" +
			"HOST:PORT is a client port; a client's list with commas works, too. Without one, the\n" +
			"server of a configuration is asked: that of --config, or else " + installedConfig + ".\n" +
			"If the word mntr is enabled, the leader tells how many of the voters count at the moment,\n" +
			"and each server whether its configuration file has the ensemble's members.\n\n" +
			"Exit code 0 means that the ensemble serves: one of those asked does, and none of them\n" +
			"says something else. What is wrong or missing nevertheless is told below the table;\n" +
			"with --strict the exit code is then 1.",
		Example: "  zkd status zk1:2181 zk2:2181 zk3:2181\n  zkd status --wait 30s localhost:2181\n  zkd status --watch zk1,zk2,zk3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				addr, secure, err := localServer(file)
				if err != nil {
					return usageError{err}
				}
				args, o.asker = []string{addr}, askerOver(secure)
			}
			addrs, err := clientPorts(args)
			if err != nil {
				return usageError{err}
			}
			if o.watch > 0 {
				return watchStatus(cmd.Context(), cmd.OutOrStdout(), addrs, o)
			}
			return status(cmd.Context(), cmd.OutOrStdout(), addrs, o)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", localConfig(os.Getenv), "configuration of the server to ask, if none is named")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "ask until the exit code would be 0, for so long at most")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with 1 also for what is wrong although the ensemble serves: a server that does not, a missing voter, a full disk")
	o.output.add(cmd.Flags())
	cmd.Flags().DurationVar(&o.watch, "watch", 0, "ask again and again, at this interval, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	return cmd
}

// statusOptions set how long to wait, and for what, and how to show the answers.
type statusOptions struct {
	wait   time.Duration
	strict bool
	output outputFlag
	watch  time.Duration // interval; 0 for once
	asker  servers.Asker
}

// askerOver returns an asker with this TLS for each server; nil means none.
func askerOver(c *tls.Config) servers.Asker {
	if c == nil {
		return servers.Asker{}
	}
	return servers.Asker{TLS: func(string) (*tls.Config, error) { return c, nil }}
}

// localServer returns the client address of the server with this configuration on this machine, and
// the TLS for it if there is only a port with TLS.
func localServer(file string) (string, *tls.Config, error) {
	cfg, _, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("name servers as HOST:PORT, or a configuration by --config: there is no %s", file)
	}
	if err != nil {
		return "", nil, err
	}
	if cfg.ClientPort > 0 {
		return net.JoinHostPort(reachable(cfg.ClientPortAddress), strconv.Itoa(cfg.ClientPort)), nil, nil
	}
	if cfg.ClientTLS.Port <= 0 {
		return "", nil, fmt.Errorf("%s does not say which port is for clients: name the server as HOST:PORT", file)
	}
	s, err := secure.New(cfg.ClientTLS.Settings, "client", zap.NewNop())
	if err != nil {
		return "", nil, err
	}
	return net.JoinHostPort(reachable(cfg.ClientTLS.Address), strconv.Itoa(cfg.ClientTLS.Port)), s.Self(), nil
}

// clientPorts splits lists of addresses and adds the default port where there is none.
func clientPorts(args []string) (addrs []string, err error) {
	for addr := range strings.SplitSeq(strings.Join(args, ","), ",") {
		addr, _, _ = strings.Cut(strings.TrimSpace(addr), "/") // a client's root directory
		if addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), "2181"
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("%q: write HOST:PORT, with the port for clients", addr)
		}
		addrs = append(addrs, net.JoinHostPort(host, port))
	}
	if len(addrs) == 0 {
		return nil, errors.New("no HOST:PORT to ask")
	}
	return addrs, nil
}

// status shows the servers, and remarks on them. It asks until the ensemble serves, ctx is
// done, or the time in o has passed.
func status(ctx context.Context, w io.Writer, addrs []string, o statusOptions) error {
	deadline := time.Now().Add(o.wait)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		views := servers.LookAll(ctx, addrs, askTimeout, o.asker.Look)
		notes := remarks(views)
		err := judge(views)
		if err == nil && o.strict && len(notes) > 0 {
			err = errors.New(notes[0])
			notes = notes[1:]
		}
		if err == nil || !time.Now().Before(deadline) {
			return errors.Join(o.show(w, views, notes), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// watchStatus shows the servers again and again until ctx is done.
func watchStatus(ctx context.Context, w io.Writer, addrs []string, o statusOptions) error {
	tick := time.NewTicker(o.watch)
	defer tick.Stop()
	for {
		views := servers.LookAll(ctx, addrs, askTimeout, o.asker.Look)
		notes := remarks(views)
		if err := judge(views); err != nil {
			notes = append(notes, err.Error())
		}
		if ctx.Err() != nil {
			return nil
		}
		if !o.output.json {
			fmt.Fprintf(w, "%s\n", time.Now().Format(time.TimeOnly))
		}
		if err := o.show(w, views, notes); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// problem returns why there is no state of a server to show, "" if there is.
func problem(v *servers.View) string {
	switch {
	case v.Err == nil:
		return ""
	case errors.Is(v.Err, servers.ErrNotServing):
		return "does not serve: it is starting, or finds no quorum"
	case errors.Is(v.Err, servers.ErrNoAnswer):
		return servers.ErrNoServer.Error()
	}
	return servers.Reason(v.Err)
}

// judge returns an error unless one of the servers serves, and no two say that they lead.
func judge(views []servers.View) error {
	serving, leaders, standbys := 0, 0, 0
	for i := range views {
		if views[i].Serves() {
			serving++
		}
		if follows(&views[i]) {
			standbys++
		}
		if views[i].Mode == "leader" {
			leaders++
		}
	}
	switch {
	case standbys == len(views):
		return nil
	case serving == 0:
		return fmt.Errorf("0 of %d servers serve clients", len(views))
	case leaders > 1:
		return fmt.Errorf("%d servers say that they lead: ask again, and if that stays, they are of different ensembles", leaders)
	}
	return nil
}

// follows reports whether a server is a standby that follows its ensemble.
func follows(v *servers.View) bool { return strings.HasPrefix(v.Standby, "follows http") }

// remarks describes problems of servers that serve nevertheless.
func remarks(views []servers.View) (notes []string) {
	var missing []string
	for i := range views {
		v := &views[i]
		if !v.Serves() && v.Mode != servers.StandbyMode {
			missing = append(missing, v.Server)
		}
		if v.Mode == "read-only" {
			notes = append(notes, v.Server+": finds no quorum, and serves only reads of clients that accept it")
		}
		if v.Mode == servers.StandbyMode && !follows(v) {
			notes = append(notes, v.Server+": this standby does not follow its ensemble")
		}
	}
	if n := len(missing); 0 < n && n < len(views) {
		notes = append(notes, fmt.Sprintf("%s: no service; %d of %d servers serve clients", strings.Join(missing, ", "), len(views)-n, len(views)))
	}
	for i := range views {
		v := &views[i]
		if counted, voters := v.Counted(); counted < voters {
			notes = append(notes, fmt.Sprintf("%s: %d of %d voters count: another failure may cost more than one server", v.Server, counted, voters))
		}
		if v.ListDiffers > 0 && v.FileMembers != v.Members {
			notes = append(notes, fmt.Sprintf("%s: its configuration file has the members %s; those of the ensemble are %s", v.Server, v.FileMembers, v.Members))
		}
		if v.Disk != "" {
			notes = append(notes, fmt.Sprintf("%s: the disk is %s", v.Server, v.Disk))
		}
		if v.Memory != "" {
			notes = append(notes, fmt.Sprintf("%s: the memory is %s", v.Server, v.Memory))
		}
		if v.Trouble != "" {
			notes = append(notes, v.Server+": "+v.Trouble)
		}
	}
	return notes
}

// show writes the servers and the remarks.
func (o statusOptions) show(w io.Writer, views []servers.View, notes []string) error {
	if !o.output.json {
		return showStatus(w, views, notes)
	}
	type server struct {
		Server  string            `json:"server"`
		Serves  bool              `json:"serves"`
		Mode    string            `json:"mode,omitempty"`
		Problem string            `json:"problem,omitempty"`
		Voters  int64             `json:"voters,omitempty"`
		Counted int64             `json:"counted,omitempty"`
		Fields  map[string]string `json:"srvr,omitempty"`
	}
	document := struct {
		Serves  bool     `json:"serves"`
		Servers []server `json:"servers"`
		Notes   []string `json:"notes"`
	}{judge(views) == nil, []server{}, append([]string{}, notes...)}
	for i := range views {
		v := &views[i]
		counted, voters := v.Counted()
		document.Servers = append(document.Servers, server{v.Server, v.Serves(), v.Mode, problem(v), voters, counted, v.Srvr})
	}
	return json.NewEncoder(w).Encode(document)
}

func showStatus(w io.Writer, views []servers.View, notes []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tMODE\tVOTERS\tZXID\tCLIENTS\tNODES\tAVG/MAX ms\tVERSION")
	for i := range views {
		v := &views[i]
		if problem := problem(v); problem != "" {
			fmt.Fprintf(t, "%s\t-\t\t-\t-\t-\t-\t%s\n", v.Server, problem)
			continue
		}
		text := ""
		if counted, voters := v.Counted(); voters > 0 {
			text = fmt.Sprintf("%d/%d", counted, voters)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%g/%g\t%s\n", v.Server, v.Mode, text, v.Zxid, max(v.Connections-1, 0), // without this command's
			v.Nodes, v.LatencyAvg, v.LatencyMax, v.Version)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range views {
		v := &views[i]
		if v.Standby != "" {
			fmt.Fprintf(w, "%s: a standby: %s\n", v.Server, v.Standby)
		}
		if v.Mode == edge.Mode {
			if cached := v.Srvr["Cached"]; cached != "" {
				fmt.Fprintf(w, "%s: cached: %s\n", v.Server, cached)
			}
			fmt.Fprintf(w, "%s: sessions upstream: %s; resumed: %s; lost: %s\n", v.Server, v.Srvr["Upstream"], v.Srvr["Resumed"], v.Srvr["Lost"])
		}
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}
