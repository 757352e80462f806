package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/server/config"
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
			"Exit code 0 means that all of those asked serve clients. What is wrong or missing\n" +
			"elsewhere is told below the table; with --strict the exit code is then 1.",
		Example: "  zkd status zk1:2181 zk2:2181 zk3:2181\n  zkd status --wait 30s localhost:2181",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				addr, err := localServer(file)
				if err != nil {
					return usageError{err}
				}
				args = []string{addr}
			}
			addrs, err := clientPorts(args)
			if err != nil {
				return usageError{err}
			}
			return status(cmd.Context(), cmd.OutOrStdout(), addrs, o)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", installedConfig, "configuration of the server to ask, if none is named")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "ask until the exit code would be 0, for so long at most")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with 1 also for what is wrong elsewhere: a missing voter, a full disk")
	return cmd
}

// statusOptions set how long to wait, and for what.
type statusOptions struct {
	wait   time.Duration
	strict bool
}

// localServer returns the client address of the server with this configuration on this
// machine.
func localServer(file string) (string, error) {
	cfg, _, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("name servers as HOST:PORT, or a configuration by --config: there is no %s", file)
	}
	if err != nil {
		return "", err
	}
	if cfg.ClientPort <= 0 {
		return "", fmt.Errorf("%s does not say which port is for clients: name the server as HOST:PORT", file)
	}
	host := cfg.ClientPortAddress
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(cfg.ClientPort)), nil
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

// status shows a table of the servers, and remarks on them. It asks until all is well,
// ctx is done, or the time in o has passed.
func status(ctx context.Context, w io.Writer, addrs []string, o statusOptions) error {
	deadline := time.Now().Add(o.wait)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		rows := make([]serverStatus, len(addrs))
		for i, addr := range addrs {
			rows[i] = askServer(ctx, addr)
		}
		notes := remarks(rows)
		err := judge(rows)
		if err == nil && o.strict && len(notes) > 0 {
			err = errors.New(notes[0])
			notes = notes[1:]
		}
		if err == nil || !time.Now().Before(deadline) {
			return errors.Join(showStatus(w, rows, notes), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// serverStatus is a row of the table.
type serverStatus struct {
	addr    string
	problem string            // the reason why there are no fields
	fields  map[string]string // of srvr, by their names

	// Of a leader that reports them: the number of voters, including itself, and how many
	// of them it counts.
	voters, counted int
	// Of a server whose configuration file has another list of members than the ensemble:
	// both lists.
	members, file string
}

func askServer(ctx context.Context, addr string) serverStatus {
	s := serverStatus{addr: addr}
	answer, err := askWord(ctx, addr, "srvr")
	switch {
	case err != nil:
		s.problem = err.Error()
	case strings.Contains(answer, "not currently serving"):
		s.problem = "does not serve: it is starting, or finds no quorum"
	default:
		s.fields = ask.Fields(answer, ": ")
		if s.fields["Mode"] == "" {
			s.problem = "answers, but not as a server of the protocol"
		}
	}
	if mode := s.fields["Mode"]; mode != "" && mode != "standalone" {
		s.askMembers(ctx, mode == "leader")
	}
	return s
}

// askMembers asks a server for its list of members, and a leader how many voters it
// counts. If mntr is not enabled, both stay unknown.
func (s *serverStatus) askMembers(ctx context.Context, leads bool) {
	answer, err := askWord(ctx, s.addr, "mntr")
	if err != nil {
		return
	}
	fields := ask.Fields(answer, "\t")
	text := func(key string) string { return fields["zk_"+key] }
	number := func(key string) int {
		n, _ := strconv.Atoi(text(key))
		return n
	}
	if number("member_list_differs") > 0 {
		s.members, s.file = text("members"), text("members_of_file")
	}
	if s.voters = number("quorum_size"); !leads {
		s.voters = 0
	} else if s.voters > 0 {
		s.counted = 1 + number("synced_followers")
	}
}

// askWord sends a four-letter word and returns the answer.
func askWord(ctx context.Context, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask.Word(ctx, addr, word)
	if err != nil && answer == "" {
		return "", reason(err)
	}
	return answer, nil
}

// reason removes the addresses, which the table shows, from an error of a socket.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// judge returns an error unless all servers serve and agree on a leader.
func judge(rows []serverStatus) error {
	serving, leaders := 0, 0
	for _, r := range rows {
		if r.problem == "" {
			serving++
		}
		if r.fields["Mode"] == "leader" {
			leaders++
		}
	}
	switch {
	case serving < len(rows):
		return fmt.Errorf("%d of %d servers serve clients", serving, len(rows))
	case leaders > 1:
		return fmt.Errorf("%d servers say that they lead: ask again, and if that stays, they are of different ensembles", leaders)
	}
	return nil
}

// remarks describes problems of servers that serve nevertheless.
func remarks(rows []serverStatus) (notes []string) {
	for _, r := range rows {
		if r.counted < r.voters {
			notes = append(notes, fmt.Sprintf("%s: %d of %d voters count: another failure may cost more than one server", r.addr, r.counted, r.voters))
		}
		if r.file != r.members {
			notes = append(notes, fmt.Sprintf("%s: its configuration file has the members %s; those of the ensemble are %s", r.addr, r.file, r.members))
		}
		if disk := r.fields["Disk"]; disk != "" {
			notes = append(notes, fmt.Sprintf("%s: the disk is %s", r.addr, disk))
		}
	}
	return notes
}

var avgMax = regexp.MustCompile(`^[^/]*/([^/]*)/([^/]*)$`)

func showStatus(w io.Writer, rows []serverStatus, notes []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tMODE\tVOTERS\tZXID\tCLIENTS\tNODES\tAVG/MAX ms\tVERSION")
	for _, r := range rows {
		if r.problem != "" {
			fmt.Fprintf(t, "%s\t-\t\t-\t-\t-\t-\t%s\n", r.addr, r.problem)
			continue
		}
		f := r.fields
		clients, _ := strconv.Atoi(f["Connections"])
		version, _, _ := strings.Cut(f["Zookeeper version"], ",")
		voters := ""
		if r.voters > 0 {
			voters = fmt.Sprintf("%d/%d", r.counted, r.voters)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.addr, f["Mode"], voters, f["Zxid"], max(clients-1, 0), // without this command's
			f["Node count"], avgMax.ReplaceAllString(f["Latency min/avg/max"], "$1/$2"), version)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}
