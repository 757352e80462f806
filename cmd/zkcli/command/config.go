package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func configCommand() Command {
	return Command{
		Name: "config", Synopsis: "[-c] [-w] [-s] | show | set KEY VALUE | unset KEY", Short: "Print the configuration of the ensemble; show and change that of a server",
		Long: "Without an action it prints the members of the ensemble. show prints the configuration of\n" +
			"the server of this connection: each key, its value and where that comes from.\n" +
			"set changes a key of that server while it runs, until it ends or reads its file again\n" +
			"(SIGHUP): the file stays as it is. unset goes back to the value of the file. Which keys\n" +
			"can change is in configuration.md. All need the super user (--auth), and a server of zkd.",
		Examples: []Example{{"config", "a line for each server, and the version"}, {"config -c", "the version and a connect string"}, {"config -o table", "the servers as a table"},
			{"config set maxClientCnxns 200", "on the server of this connection"}},
		Args: []Arg{
			{Name: "show, set or unset", Kind: Word, Words: []string{"show", "set", "unset"}},
			{Name: "key", Kind: Text}, {Name: "value", Kind: Text},
		},
		Setup: func(flags *cobra.Command) Run {
			short := boolFlag(flags, "client", "c", "print the version and the servers' client addresses")
			watch := boolFlag(flags, "watch", "w", "set a watch on the configuration")
			stat := boolFlag(flags, "stat", "s", "print the node's stat, too")
			return func(ctx context.Context, c *Call) error {
				if len(c.Args) > 0 {
					return c.serverConfig(ctx)
				}
				data, st, err := c.config(ctx, *watch)
				if err != nil {
					return err
				}
				cfg := parseConfig(data)
				o := cfg.output(string(data), st)
				if *short {
					o.Text = cfg.Version + " " + cfg.clients()
					o.Raw = []byte(cfg.clients() + "\n")
				}
				if o.Text += "\n"; *stat {
					o.Text += statText(st)
				}
				return c.Emit(o)
			}
		},
	}
}

// serverConfig shows or changes the configuration of a server.
func (c *Call) serverConfig(ctx context.Context) error {
	action := c.Arg(0)
	if want, known := map[string]int{"show": 1, "set": 3, "unset": 2}[action]; !known || len(c.Args) != want {
		return c.Usage("config show, config set KEY VALUE or config unset KEY")
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	text := ""
	switch action {
	case "show":
		text, err = zk.Ensemble().Configuration(ctx)
	case "set":
		text, err = zk.Ensemble().Configure(ctx, c.Arg(1), c.Arg(2))
	case "unset":
		text, err = zk.Ensemble().Unconfigure(ctx, c.Arg(1))
	}
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"this server does not show and change its configuration: only zkd's do", err}
	case errors.Is(err, client.ErrBadArguments):
		return &wordedError{err.Error(), err}
	case err != nil:
		return err
	}
	if text == "" {
		return c.Emit(Output{Note: "Nothing has changed"})
	}
	if action != "show" && c.Options.Format != FormatJSON {
		c.App.say("of the server %s alone", zk.Status().Server)
	}
	return c.Emit(Output{Text: text, Raw: []byte(text), Data: strings.Split(strings.TrimSuffix(text, "\n"), "\n")})
}

func (c *Call) config(ctx context.Context, watch bool) ([]byte, client.Stat, error) {
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, client.Stat{}, err
	}
	if !watch {
		node, err := zk.Unrooted().Get(ctx, client.ConfigPath)
		return node.Data, node.Stat, err
	}
	node, err := zk.Unrooted().GetW(ctx, client.ConfigPath)
	c.App.watching.add(node.Watch, client.DataWatches)
	return node.Data, node.Stat, err
}

// ensembleConfig is the configuration in JSON.
type ensembleConfig struct {
	Version string         `json:"version"` // hex
	Servers []configServer `json:"servers"`
	Stat    *Stat          `json:"stat,omitempty"`
}

type configServer struct {
	ID     string `json:"id"`
	Peers  string `json:"peers"` // host:port:port, of servers among each other
	Role   string `json:"role"`
	Client string `json:"client,omitempty"` // host:port
}

// parseConfig reads lines "server.1=host:port:port:role;host:port" and
// "version=hex". It skips what it does not know.
func parseConfig(data []byte) *ensembleConfig {
	cfg := &ensembleConfig{Servers: []configServer{}}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		id, isServer := strings.CutPrefix(key, "server.")
		switch {
		case key == "version":
			cfg.Version = value
		case isServer:
			cfg.Servers = append(cfg.Servers, parseServer(id, value))
		}
	}
	return cfg
}

func parseServer(id, value string) configServer {
	s := configServer{ID: id, Role: "participant"}
	s.Peers, s.Client, _ = strings.Cut(value, ";")
	for _, role := range []string{"participant", "observer"} {
		if peers, ok := strings.CutSuffix(s.Peers, ":"+role); ok {
			s.Peers, s.Role = peers, role
		}
	}
	if s.Client != "" && !strings.Contains(s.Client, ":") {
		host := s.Peers
		for range 2 {
			host = host[:max(0, strings.LastIndexByte(host, ':'))]
		}
		s.Client = host + ":" + s.Client
	}
	return s
}

// clients is the connect string.
func (e *ensembleConfig) clients() string {
	var list []string
	for _, s := range e.Servers {
		if s.Client != "" {
			list = append(list, s.Client)
		}
	}
	return strings.Join(list, ",")
}

func (e *ensembleConfig) output(text string, st client.Stat) Output {
	e.Stat = NewStat(st)
	rows := [][]string{{"ID", "ROLE", "PEERS", "CLIENT"}}
	for _, s := range e.Servers {
		rows = append(rows, []string{s.ID, s.Role, s.Peers, s.Client})
	}
	return Output{Text: text, Data: e, Table: rows, Raw: []byte(text + "\n")}
}

func reconfigCommand() Command {
	return Command{
		Name: "reconfig",
		Synopsis: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | " +
			"[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
		Short: "Change the members of the ensemble",
		Long: "Either the whole list of members, or servers to add and ids to remove. A server is\n" +
			"written server.4=host:2888:3888:participant;2181. With -v it fails if the\n" +
			"configuration's version, in hex as config prints it, is another one.",
		Examples: []Example{
			{`reconfig -add "server.4=zk4:2888:3888;2181"`, "a new server, or a change of server 4"},
			{"reconfig -remove 2,3", "without servers 2 and 3"},
			{"reconfig -file members.cfg", "exactly the servers of a file"},
		},
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the stat of the configuration's node, too")
			var r reconfig
			flags.Flags().StringVarP(&r.version, "version", "v", "", "the configuration must have this version, in hex")
			flags.Flags().StringVar(&r.file, "file", "", "a file with the new members, a line server.N=... for each")
			annotate(flags, "file", File, nil)
			flags.Flags().StringVar(&r.members, "members", "", "the new members")
			flags.Flags().StringArrayVar(&r.add, "add", nil, "servers to add or to change")
			flags.Flags().StringArrayVar(&r.remove, "remove", nil, "ids of servers to remove")
			return func(ctx context.Context, c *Call) error {
				data, st, err := r.run(ctx, c)
				if err != nil {
					return err
				}
				o := parseConfig(data).output(string(data), st)
				o.Text = "Committed new configuration:\n" + o.Text + "\n"
				if *stat {
					o.Text += statText(st)
				}
				return c.Emit(o)
			}
		},
	}
}

// reconfig is what the flags of reconfig say.
type reconfig struct {
	version, file, members string
	add, remove            []string
}

func (r *reconfig) run(ctx context.Context, c *Call) ([]byte, client.Stat, error) {
	whole := r.file != "" || r.members != ""
	version := int64(-1)
	switch {
	case whole && (len(r.add) > 0 || len(r.remove) > 0):
		return nil, client.Stat{}, c.Usage("Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)")
	case r.file != "" && r.members != "":
		return nil, client.Stat{}, c.Usage("Can't use -file and -members together")
	case !whole && len(r.add) == 0 && len(r.remove) == 0:
		return nil, client.Stat{}, c.Usage("-add, -remove, -members or -file is missing")
	case r.version != "":
		if _, err := fmt.Sscanf(r.version, "%x", &version); err != nil {
			return nil, client.Stat{}, c.Usage("-v %q is not a version in hex", r.version)
		}
	}
	if r.file != "" {
		members, err := readMembers(r.file)
		if err != nil {
			return nil, client.Stat{}, err
		}
		r.members = members
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, client.Stat{}, err
	}
	members := client.Members{All: r.members}
	if !whole {
		members = client.Members{Joining: strings.Join(r.add, ","), Leaving: strings.Join(r.remove, ",")}
	}
	node, err := zk.Ensemble().Reconfig(ctx, members, version)
	return node.Data, node.Stat, err
}

// readMembers returns the servers of a dynamic configuration file.
func readMembers(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read the members: %w", err)
	}
	var members []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, "server.") {
			members = append(members, line)
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read the members: %s: %w", name, err)
	}
	if len(members) == 0 {
		return "", &UsageError{Command: "reconfig", Text: fmt.Sprintf("%s has no line server.N=host:port:port;port", name)}
	}
	slices.Sort(members)
	return strings.Join(members, ","), nil
}
