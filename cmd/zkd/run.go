package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/buildinfo"
	"github.com/zkd-project/zkd/internal/commands"
	"github.com/zkd-project/zkd/internal/stdio"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/traces/otlp"
)

// Exit codes, the same as Apache's server where it has one.
const (
	exitFailure = 1 // the server could not start, or could not continue
	exitUsage   = 2 // bad arguments or configuration
)

// usageError is an error that the user fixes with other arguments or another file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// loggedError is an error that the log has already.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

func exitCode(err error) int {
	if stdio.Unread(err) {
		return stdio.UnreadCode
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// flags is the command line of the server.
type flags struct {
	config     string
	set        []string
	port       int
	dataDir    string
	myid       int
	acceptLoss string
	setAside   string
	acceptOld  bool
	pprof      string
	join       string
	advertise  string

	// reload reads the configuration again, with further settings.
	reload func(...config.Setting) (*config.Config, []config.Warning, error)
}

// run is the whole program: it parses args and serves until ctx is done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := newRoot(stderr)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return commands.Execute(ctx, root, args, func(err error) error { return usageError{err} })
}

func newRoot(stderr io.Writer) *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "zkd [FILE]",
		Short: "A coordination server that ZooKeeper's clients can use",
		Long: "zkd serves the client protocol of Apache ZooKeeper. FILE is a zoo.cfg; without one,\n" +
			"zkd listens on port 2181 and keeps its data under the user's state directory.",
		Example: "  zkd conf/zoo_sample.cfg\n  zkd --port 2182 --data-dir /tmp/zkd\n" +
			"  zkd --config zoo.cfg --set tickTime=500\n  zkd --myid 2 zoo.cfg\n" +
			"  zkd --join zk1:2181,zk2:2181 --advertise zk4 --data-dir /var/lib/zkd --set zkd.quorumSecretFile=/etc/zkd/secret",
		Args:          usageArgs(atMostAFile),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.join != "" || f.advertise != "" {
				if err := f.prepareJoin(cmd, args); err != nil {
					return err
				}
			}
			cfg, warnings, err := f.load(cmd, args)
			if errors.Is(err, fs.ErrNotExist) && len(args) == 1 && !strings.ContainsAny(args[0], "./") {
				err = noCommand(cmd, args[0])
			}
			if err != nil {
				return usageError{err}
			}
			if cfg.Edge.On {
				return usageError{fmt.Errorf("%s is the configuration of an edge: zkd edge %s", cfg.File, cfg.File)}
			}
			f.reload = func(on ...config.Setting) (*config.Config, []config.Warning, error) { return f.load(cmd, args, on...) }
			return serve(cmd.Context(), cfg, warnings, &f, stderr)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	fl := root.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "configuration file (zoo.cfg syntax)")
	f.addSettings(root)
	fl.StringVar(&f.acceptLoss, "accept-data-loss-after", "",
		"start on a log that can't be read to its end, and give up what it has after this zxid")
	fl.StringVar(&f.setAside, "set-data-aside", "",
		"of a member: set aside the data with this id, which the error message names, and get everything from the leader")
	fl.BoolVar(&f.acceptOld, "accept-old-data", false,
		"let a member vote with a data directory that was restored from a copy, although it may have forgotten what it confirmed")
	fl.StringVar(&f.join, "join", "",
		"join the running ensemble of these servers, host:port[,host:port] of client ports, as an observer; zoo.cfg is written into the data directory")
	fl.StringVar(&f.advertise, "advertise", "",
		"with --join: the address of this server, HOST[:QUORUMPORT:ELECTIONPORT][;CLIENTPORT]; default ports 2888, 3888 and 2181")
	fl.StringVar(&f.pprof, "pprof", "", "serve Go profiles on this address, such as 127.0.0.1:6060")
	root.AddCommand(
		newVersion(),
		newConfig(),
		newContainer(stderr),
		newLog(),
		newVerify(),
		newUpgradeCheck(),
		newImport(),
		newExport(),
		newTakeover(),
		newStandby(),
		newRestore(),
		newShadow(),
		newEdge(),
		newDemo(),
		newTestServer(),
		newHistory(),
		newStatus(),
		newSASLUser(),
		newDigest(),
	)
	root.AddCommand(newProbes()...)
	commands.Strict(root, func(err error) error { return usageError{err} })
	commands.Version(root, versionLine())
	return root
}

// noCommand is the error for a word that is no command, with the commands that it is near to.
func noCommand(root *cobra.Command, word string) error {
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(word); len(near) > 0 {
		return fmt.Errorf("%q is neither a command nor a file: did you mean zkd %s?", word, strings.Join(near, ", or zkd "))
	}
	return fmt.Errorf("%q is neither a command nor a file", word)
}

// atMostAFile allows a configuration file. Of several arguments, the first is taken for a misspelled command.
func atMostAFile(root *cobra.Command, args []string) error {
	if len(args) > 1 && !strings.ContainsAny(args[0], "./") {
		return noCommand(root, args[0])
	}
	return cobra.MaximumNArgs(1)(root, args)
}

// addSettings adds the flags that set keys of the configuration.
func (f *flags) addSettings(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.set, "set", nil, "set a configuration key, as key=value; wins over the file")
	fl.IntVarP(&f.port, "port", "p", 0, "client port; short for --set clientPort=PORT")
	fl.StringVarP(&f.dataDir, "data-dir", "d", "", "data directory; short for --set dataDir=DIR")
	fl.IntVar(&f.myid, "myid", 0, "id of this server in its ensemble, instead of the file myid; short for --set zkd.myid=N")
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with configuration files"}
	var f flags
	var strict, all bool
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what a configuration file means, and what in it is wrong",
		Long: "Say what a configuration file means, and what in it is wrong. Without FILE, it is that of\n" +
			"--config. The exit code is 0 if a server would start with it; with --strict, if there is no\n" +
			"warning either.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !cmd.Flags().Changed("config") {
				f.config = ""
			}
			cfg, warnings, err := f.load(cmd, args)
			if err != nil {
				for _, w := range warnings {
					fmt.Fprintln(cmd.ErrOrStderr(), w)
				}
				return usageError{err}
			}
			err = cfg.Describe(cmd.OutOrStdout(), all)
			var remarks []string
			if !cfg.Edge.On {
				remarks = configRemarks(cfg)
			}
			for _, r := range remarks {
				fmt.Fprintln(cmd.OutOrStdout(), "warning:", r)
			}
			if problem := checkData(cfg); problem != nil {
				return usageError{fmt.Errorf("the server would not start with its directories: %w", problem)}
			}
			if n := len(warnings) + len(remarks); strict && n > 0 && err == nil {
				return usageError{fmt.Errorf("warnings: %d, and --strict allows none", n)}
			}
			return err
		},
	}
	f.addSettings(check)
	check.Flags().StringVarP(&f.config, "config", "c", localConfig(os.Getenv), "configuration to check, if no file is named")
	check.Flags().BoolVar(&strict, "strict", false, "take warnings for errors")
	check.Flags().BoolVarP(&all, "all", "a", false, "show also the keys that have their defaults")
	cmd.AddCommand(check)
	return cmd
}

// checkData says why a server would not start with its directories. An edge has none.
func checkData(cfg *config.Config) error {
	if cfg.Edge.On {
		return nil
	}
	return data.Check(cfg)
}

// usageArgs turns the errors of check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// load returns the configuration of the file, if there is one, the flags, and more settings.
func (f *flags) load(cmd *cobra.Command, args []string, more ...config.Setting) (*config.Config, []config.Warning, error) {
	file := f.config
	if len(args) == 1 {
		if file != "" {
			return nil, nil, errors.New("name the configuration file once: as an argument or with --config")
		}
		file = args[0]
	}
	on, err := f.settings(cmd)
	if err != nil {
		return nil, nil, err
	}
	on = append(on, more...)
	if file == "" {
		return config.Default(os.Getenv, on...)
	}
	return config.Load(file, on...)
}

// settings converts the flags into configuration settings.
func (f *flags) settings(cmd *cobra.Command) ([]config.Setting, error) {
	var on []config.Setting
	for _, kv := range f.set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: write it as key=value", kv)
		}
		on = append(on, config.Override(key, value))
	}
	if cmd.Flags().Changed("port") && f.join == "" {
		on = append(on, config.Override("clientPort", strconv.Itoa(f.port)))
	}
	if f.dataDir != "" {
		on = append(on, config.Override("dataDir", f.dataDir))
	}
	if cmd.Flags().Changed("myid") {
		on = append(on, config.Override("zkd.myid", strconv.Itoa(f.myid)))
	}
	return on, nil
}

// serve runs a server until ctx is done or the server fails.
//
// An error is returned as a loggedError if the log is read by programs.
func serve(ctx context.Context, cfg *config.Config, warnings []config.Warning, f *flags, stderr io.Writer) (err error) {
	level, err := zap.ParseAtomicLevel(cfg.LogLevel)
	if err != nil {
		return usageError{err}
	}
	log, lines := logTo(stderr, cfg.LogFormat, level)
	defer lines.Close()
	if cfg.LogFormat == "json" {
		defer func() {
			if err != nil {
				log.Error("zkd failed", zap.Error(err))
				err = loggedError{err}
			}
		}()
	}
	limit := limitMemory(cfg.MemoryLimit)
	logStart(log, cfg, limit)
	signals := handleSignals(log, lines)
	defer signals.stop()
	for _, w := range warnings {
		log.Warn(w.String())
	}
	for _, r := range configRemarks(cfg) {
		log.Warn(r)
	}
	accept, err := parseZxid(f.acceptLoss)
	if err != nil {
		return usageError{err}
	}
	var exporter sdktrace.SpanExporter
	if endpoint := cfg.Traces.Endpoint; endpoint != "" {
		if exporter, err = otlp.New(endpoint); err != nil {
			return err
		}
	}
	reg := prometheus.NewRegistry()
	registerLog(reg, lines)
	var look func(context.Context) *api.Ensemble
	var operates api.Operator
	members, asker, err := asksMembers(cfg, log)
	if err != nil {
		return usageError{err}
	}
	if members != nil {
		defer members.Close()
		if cfg.Admin.Console {
			members.Start()
		}
		look, operates = members.Look, &operator{asker}
	}
	s, err := server.New(server.Options{
		Config:          cfg,
		MemoryLimit:     limit.bytes,
		Logger:          log,
		Registerer:      reg,
		Version:         zooKeeperVersion(),
		AcceptLossAfter: accept,
		SetDataAside:    f.setAside,
		AcceptOldData:   f.acceptOld,
		Join:            f.joinLine(cfg),
		Load:            f.reload,
		Level:           &level,
		TraceExporter:   exporter,
		Ensemble:        look,
		Operator:        operates,
	})
	if err != nil {
		return usageError{err}
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	warnOfMemory(log, limit)
	warnOfThreads(log)
	go tuneMemory(ctx)
	reload := &reloader{log: log, started: cfg, load: f.reload, server: s}
	signals.serve(reload.run, s.HandOver)
	stopHTTP, err := serveHTTP(cfg, f.pprof, reg, s.AdminPages(cfg.Admin.URL, cfg.FileText()), log)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer stopHTTP()
	tellSystemd := func(state string) {
		if err := notifySystemd(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
			log.Warn("could not tell systemd", zap.String("state", state), zap.Error(err))
		}
	}
	tellSystemd("READY=1")
	select {
	case <-ctx.Done():
		log.Info("stopping")
		tellSystemd("STOPPING=1")
		return s.Close()
	case err := <-s.Failed():
		return err // at once: nothing that was promised may be touched again
	}
}

// logStart writes the first line of a log.
func logStart(log *zap.Logger, cfg *config.Config, limit memoryLimit) {
	b := buildinfo.Read()
	fields := []zap.Field{
		zap.String("revision", b.Revision()), zap.String("built", b.Time.Format(time.DateOnly)), zap.String("speaks", "ZooKeeper "+compatVersion),
		zap.String("go", runtime.Version()), zap.String("config", cfg.File), zap.Int("pid", os.Getpid()), zap.Int("gomaxprocs", runtime.GOMAXPROCS(0)),
	}
	if b.Version != "" {
		fields = append(fields, zap.String("version", b.Version))
	}
	log.Info("zkd starts", append(fields, limit.fields()...)...)
}

func parseZxid(s string) (*jute.Zxid, error) {
	if s == "" {
		return nil, nil
	}
	z, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("--accept-data-loss-after %q: write the zxid as the error message gave it, such as 0x1f", s)
	}
	zxid := jute.Zxid(z)
	return &zxid, nil
}
