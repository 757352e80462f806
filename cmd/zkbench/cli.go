package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/cmd/internal/login"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/buildinfo"
	"github.com/zkd-project/zkd/internal/commands"
)

// usageError is an error of the command line, for which the exit code is 2.
type usageError struct{ error }

// exitCode is that of the program.
func exitCode(err error) int {
	_, usage := errors.AsType[usageError](err)
	_, config := errors.AsType[*bench.ConfigError](err)
	switch {
	case err == nil:
		return 0
	case usage || config:
		return 2
	}
	return 1
}

// run is the whole program. Its error says what went wrong with the run; wrong replies count,
// too.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return commands.Execute(ctx, newRoot(stdout, stderr), args, func(err error) error { return usageError{err} })
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	version := fmt.Sprintf("zkbench %s, %s\n", buildinfo.Read(), runtime.Version())
	root := &cobra.Command{
		Use:   "zkbench",
		Short: "Load generator for servers of ZooKeeper's client protocol",
		Long: `Zkbench puts load on any server of ZooKeeper's client protocol, checks every
reply, and reports throughput, latency and what the load cost the server.

All that a run writes is below one node, /zb-XXXXXXXX, which it deletes at its
end. The exit code is 1 if a reply was wrong or the run failed, and 2 for an
error on the command line.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, w := range workloads {
		root.AddCommand(workloadCommand(w))
	}
	root.AddCommand(cleanCommand())
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), version)
			return err
		},
	})
	usage := func(err error) error { return usageError{err} }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	commands.Strict(root, usage)
	commands.Version(root, version)
	return root
}

// workload is what a subcommand adds to the common flags.
type workload struct {
	name  bench.Workload
	short string
	flags func(c *cobra.Command, cfg *bench.Config) // nil: none
}

var workloads = []workload{
	{bench.Create, "Create persistent nodes", nil},
	{bench.Set, "Set the data of nodes", keyFlags},
	{bench.Get, "Get the data of nodes", keyFlags},
	{bench.Mixed, "Get and set the data of nodes", func(c *cobra.Command, cfg *bench.Config) {
		keyFlags(c, cfg)
		c.Flags().Float64Var(&cfg.Reads, "reads", cfg.Reads, "share of gets, 0 to 1")
	}},
	{bench.Exists, "Ask whether nodes exist", keyFlags},
	{bench.Children, "List the children of a node", func(c *cobra.Command, cfg *bench.Config) {
		c.Flags().IntVar(&cfg.Children, "children", cfg.Children, "children of the node")
	}},
	{bench.Ephemeral, "Create ephemeral nodes and delete them, each an operation", nil},
	{bench.Multi, "Set several nodes in one transaction", func(c *cobra.Command, cfg *bench.Config) {
		keyFlags(c, cfg)
		c.Flags().IntVar(&cfg.Batch, "batch", cfg.Batch, "sets in each multi")
	}},
	{bench.Watch, "Set a node that every connection watches, until all have the event", nil},
	{bench.Sessions, "Open sessions and close them", func(c *cobra.Command, cfg *bench.Config) {
		c.Flags().IntVar(&cfg.Ephemerals, "ephemerals", cfg.Ephemerals, "ephemeral nodes that each session creates")
	}},
	{bench.Idle, "Hold sessions that do nothing", nil},
	{bench.Outages, "Set nodes while servers come and go, and find the longest times without a write", nil},
	{bench.Load, "Fill the tree with nodes (--count)", func(c *cobra.Command, cfg *bench.Config) {
		c.Flags().IntVar(&cfg.PathLength, "path-length", cfg.PathLength, "bytes of each path, without the chroot")
	}},
}

func keyFlags(c *cobra.Command, cfg *bench.Config) {
	c.Flags().IntVarP(&cfg.Keys, "keys", "k", cfg.Keys, "nodes that are used, shared out among the connections")
}

// options are the flags that are no part of a bench.Config.
type options struct {
	lone    bool
	pids    []int
	compare string
	pidsA   []int
	pidsB   []int
	pairs   int
	output  string
	doors   doors
}

func workloadCommand(w workload) *cobra.Command {
	cfg, o := bench.Defaults(w.name), options{pairs: 5, output: "table"}
	c := &cobra.Command{
		Use:   string(w.name) + " [flags] [SERVER]\n  zkbench " + string(w.name) + " [flags] --compare A B",
		Short: w.short,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.lone {
				cfg.Connections, cfg.Window = 1, 1
			}
			return execute(c, args, cfg, o)
		},
	}
	commonFlags(c, &cfg, &o)
	if w.flags != nil {
		w.flags(c, &cfg)
	}
	return c
}

func commonFlags(c *cobra.Command, cfg *bench.Config, o *options) {
	f := c.Flags()
	f.IntVarP(&cfg.Connections, "connections", "c", cfg.Connections, "sessions, each on a connection of its own")
	f.IntVarP(&cfg.Window, "window", "w", cfg.Window, "outstanding requests per connection")
	f.IntVarP(&cfg.ValueSize, "size", "s", cfg.ValueSize, "bytes of data of a node")
	f.DurationVarP(&cfg.Duration, "duration", "d", cfg.Duration, "how long to measure")
	f.Int64VarP(&cfg.Count, "count", "n", cfg.Count, "operations to measure, instead of a duration")
	f.DurationVar(&cfg.Warmup, "warmup", cfg.Warmup, "same load before the measurement")
	f.Float64Var(&cfg.Rate, "rate", cfg.Rate, "operations per second in total; 0 for as many as possible")
	f.DurationVar(&cfg.SessionTimeout, "timeout", cfg.SessionTimeout, "session timeout")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of the choice of keys and the contents of values")
	f.BoolVar(&cfg.Keep, "keep", cfg.Keep, "leave the nodes on the server")
	f.BoolVar(&o.lone, "lone", o.lone, "one request at a time: -c 1 -w 1")
	f.IntSliceVar(&o.pids, "pid", nil, "processes of the server, to report their CPU time and memory")
	f.StringVar(&o.compare, "compare", "", "run on this server and on the one in the arguments, by turns")
	f.IntSliceVar(&o.pidsA, "pid-a", nil, "processes of the server that --compare names")
	f.IntSliceVar(&o.pidsB, "pid-b", nil, "processes of the server in the arguments, with --compare")
	f.IntVar(&o.pairs, "pairs", o.pairs, "pairs of runs, with --compare")
	f.StringVarP(&o.output, "output", "o", o.output, "table or json")
	o.doors.flags(c)
	c.MarkFlagsMutuallyExclusive("compare", "pid")
	c.MarkFlagsMutuallyExclusive("compare", "keep")
}

// doors are the flags that say how connections are secured.
type doors struct {
	tls   secure.Files
	login login.Login
	auth  []string // scheme:credentials
}

func (d *doors) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&d.tls.CA, "tls-ca", "", "authorities of the servers' certificates, for servers written as tls://HOST:PORT")
	f.StringVar(&d.tls.Cert, "tls-cert", "", "the client's certificate")
	f.StringVar(&d.tls.Key, "tls-key", "", "its key, if that is in another file")
	d.login = login.New("ZKBENCH", os.Getenv)
	d.login.Flags(f)
	if s := os.Getenv(envAuth); s != "" {
		d.auth = []string{s}
	}
	f.StringArrayVar(&d.auth, "auth", d.auth, "identity of each session, such as digest:user:password; better in $"+envAuth)
	f.Lookup("auth").DefValue = "" // help does not show a password
}

// envAuth is the environment variable that is used without --auth.
const envAuth = "ZKBENCH_AUTH"

// target parses a connection string, which begins with tls:// for connections with TLS.
func (d *doors) target(server string) (bench.Target, error) {
	target, err := d.parse(server)
	if err != nil {
		return target, usageError{err}
	}
	return target, nil
}

func (d *doors) parse(server string) (bench.Target, error) {
	server, secure := strings.CutPrefix(server, "tls://")
	addrs, base, err := client.ParseServers(server)
	target := bench.Target{Addrs: addrs, Base: base}
	if err == nil && secure {
		target.TLS, err = d.tls.Load()
	}
	if err != nil {
		return target, err
	}
	for _, s := range d.auth {
		scheme, data, err := login.ParseAuth(s)
		if err != nil {
			return target, err
		}
		target.Auth = append(target.Auth, bench.Auth{Scheme: scheme, Data: data})
	}
	target.SASL, err = d.login.Mechanism(secure, nil)
	return target, err
}

// execute runs what the flags say and prints the outcome.
func execute(c *cobra.Command, args []string, cfg bench.Config, o options) error {
	if o.output != "table" && o.output != "json" {
		return usageError{fmt.Errorf("output %q: want table or json", o.output)}
	}
	if o.compare != "" {
		return compare(c, args, cfg, o)
	}
	server := "127.0.0.1:2181"
	if len(args) == 1 {
		server = args[0]
	}
	target, err := o.doors.target(server)
	if err != nil {
		return err
	}
	target.Pids = o.pids
	p := startProgress(c.ErrOrStderr())
	cfg.OnPhase = p.begin
	r, err := bench.Run(c.Context(), target, cfg)
	p.stop()
	if err != nil && !errors.Is(err, bench.ErrWrong) {
		return err
	}
	return errors.Join(err, write(c.OutOrStdout(), &r, o.output))
}

func compare(c *cobra.Command, args []string, cfg bench.Config, o options) error {
	if len(args) != 1 {
		return usageError{errors.New("compare: want two servers, --compare A B")}
	}
	a, err := o.doors.target(o.compare)
	if err != nil {
		return err
	}
	b, err := o.doors.target(args[0])
	if err != nil {
		return err
	}
	a.Pids, b.Pids = o.pidsA, o.pidsB
	p := startProgress(c.ErrOrStderr())
	cfg.OnPhase = p.begin
	seen := func(which string, r bench.Result) {
		p.say(fmt.Sprintf("%s %s: %.0f/s, %s\n", which, r.Workload, r.Rate, r.Latency))
	}
	cmp, err := bench.Compare(c.Context(), a, b, cfg, o.pairs, seen)
	p.stop()
	if err != nil {
		return err
	}
	return write(c.OutOrStdout(), cmp, o.output)
}

// table is a result that can be printed for people.
type table interface{ WriteTable(io.Writer) error }

func write(w io.Writer, t table, output string) error {
	if output == "json" {
		return bench.WriteJSON(w, t)
	}
	return t.WriteTable(w)
}

func cleanCommand() *cobra.Command {
	var d doors
	cmd := &cobra.Command{
		Use:   "clean [SERVER]",
		Short: "Delete what interrupted or kept runs left; no run may be in progress",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			server := "127.0.0.1:2181"
			if len(args) == 1 {
				server = args[0]
			}
			target, err := d.target(server)
			if err != nil {
				return err
			}
			roots, err := bench.Clean(c.Context(), target)
			for _, root := range roots {
				fmt.Fprintln(c.OutOrStdout(), "deleted", root)
			}
			return err
		},
	}
	d.flags(cmd)
	return cmd
}
