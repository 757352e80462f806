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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
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
		rows := askAll(ctx, o.asker, addrs)
		notes := remarks(rows)
		err := judge(rows)
		if err == nil && o.strict && len(notes) > 0 {
			err = errors.New(notes[0])
			notes = notes[1:]
		}
		if err == nil || !time.Now().Before(deadline) {
			return errors.Join(o.show(w, rows, notes), err)
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
		rows := askAll(ctx, o.asker, addrs)
		notes := remarks(rows)
		if err := judge(rows); err != nil {
			notes = append(notes, err.Error())
		}
		if ctx.Err() != nil {
			return nil
		}
		if !o.output.json {
			fmt.Fprintf(w, "%s\n", time.Now().Format(time.TimeOnly))
		}
		if err := o.show(w, rows, notes); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// askAll asks all servers at once.
func askAll(ctx context.Context, a servers.Asker, addrs []string) []serverStatus {
	rows := make([]serverStatus, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { rows[i] = askOne(ctx, a, addr) })
	}
	wg.Wait()
	return rows
}

// serverStatus is a row of the table.
type serverStatus struct {
	addr    string
	problem string            // the reason why there are no fields
	answers bool              // with a problem: it speaks the protocol nevertheless
	fields  map[string]string // of srvr, by their names

	// Of a leader that reports them: the number of voters, including itself, and how many
	// of them it counts.
	voters, counted int
	// Of a server whose configuration file has another list of members than the ensemble:
	// both lists.
	members, file string
}

func askOne(ctx context.Context, a servers.Asker, addr string) serverStatus {
	s := serverStatus{addr: addr}
	answer, err := askWord(ctx, a, addr, "srvr")
	switch {
	case err != nil:
		s.problem = err.Error()
	case strings.Contains(answer, "not currently serving"):
		s.problem, s.answers = "does not serve: it is starting, or finds no quorum", true
	default:
		var v servers.View
		v.ReadSrvr(answer)
		s.fields = v.Srvr
		if s.fields["Mode"] == "" {
			s.problem = "answers, but not as a server of the protocol"
		}
	}
	if mode := s.fields["Mode"]; mode != "" && mode != "standalone" {
		s.askMembers(ctx, a, mode == "leader")
	}
	return s
}

// askMembers asks a server for its list of members, and a leader how many voters it
// counts. If mntr is not enabled, both stay unknown.
func (s *serverStatus) askMembers(ctx context.Context, a servers.Asker, leads bool) {
	answer, err := askWord(ctx, a, s.addr, "mntr")
	if err != nil {
		return
	}
	var v servers.View
	v.ReadMntr(answer)
	number := func(key string) int {
		n, _ := strconv.Atoi(v.Mntr[key])
		return n
	}
	if number("member_list_differs") > 0 {
		s.members, s.file = v.Mntr["members"], v.Mntr["members_of_file"]
	}
	if s.voters = number("quorum_size"); !leads {
		s.voters = 0
	} else if s.voters > 0 {
		s.counted = 1 + number("synced_followers")
	}
}

// askWord sends a four-letter word and returns the answer. It waits for askTimeout, unless
// ctx has a deadline.
func askWord(ctx context.Context, a servers.Asker, addr, word string) (string, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	answer, err := a.Text(ctx, addr, word)
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

// judge returns an error unless one of the servers serves, and no two say that they lead.
func judge(rows []serverStatus) error {
	serving, leaders := 0, 0
	for _, r := range rows {
		if r.serves() {
			serving++
		}
		if r.fields["Mode"] == "leader" {
			leaders++
		}
	}
	switch {
	case serving == 0:
		return fmt.Errorf("0 of %d servers serve clients", len(rows))
	case leaders > 1:
		return fmt.Errorf("%d servers say that they lead: ask again, and if that stays, they are of different ensembles", leaders)
	}
	return nil
}

// serves reports whether the server takes reads and writes of clients.
func (s *serverStatus) serves() bool { return s.problem == "" && s.fields["Mode"] != "read-only" }

// remarks describes problems of servers that serve nevertheless.
func remarks(rows []serverStatus) (notes []string) {
	var missing []string
	for _, r := range rows {
		if !r.serves() {
			missing = append(missing, r.addr)
		}
		if !r.serves() && r.problem == "" {
			notes = append(notes, r.addr+": finds no quorum, and serves only reads of clients that accept it")
		}
	}
	if n := len(missing); 0 < n && n < len(rows) {
		notes = append(notes, fmt.Sprintf("%s: no service; %d of %d servers serve clients", strings.Join(missing, ", "), len(rows)-n, len(rows)))
	}
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

// show writes the servers and the remarks.
func (o statusOptions) show(w io.Writer, rows []serverStatus, notes []string) error {
	if !o.output.json {
		return showStatus(w, rows, notes)
	}
	type server struct {
		Server  string            `json:"server"`
		Serves  bool              `json:"serves"`
		Mode    string            `json:"mode,omitempty"`
		Problem string            `json:"problem,omitempty"`
		Voters  int               `json:"voters,omitempty"`
		Counted int               `json:"counted,omitempty"`
		Fields  map[string]string `json:"srvr,omitempty"`
	}
	document := struct {
		Serves  bool     `json:"serves"`
		Servers []server `json:"servers"`
		Notes   []string `json:"notes"`
	}{judge(rows) == nil, []server{}, append([]string{}, notes...)}
	for _, r := range rows {
		document.Servers = append(document.Servers, server{r.addr, r.serves(), r.fields["Mode"], r.problem, r.voters, r.counted, r.fields})
	}
	return json.NewEncoder(w).Encode(document)
}

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
