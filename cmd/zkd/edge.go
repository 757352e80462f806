package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/cmd/internal/login"
	"github.com/zkd-project/zkd/edge"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
)

// edgeFlags are the flags of zkd edge, and the keys of its file that they go before.
var edgeFlags = map[string]string{
	"upstream": "edge.upstream", "listen": "edge.listen", "http": "edge.http", "cached": "edge.cached", "stale": "edge.stale", "stale-for": "edge.staleFor", "handover": "edge.handover", "identities": "edge.identities", "connections": "edge.connections", "max-clients": "edge.maxClients", "max-buffer": "edge.maxBuffer",
	"tls": "edge.tls", "tls-ca": "edge.tls.ca", "tls-cert": "edge.tls.cert", "tls-key": "edge.tls.key",
}

// newEdge returns the command that serves clients of this host, and holds their sessions with an ensemble.
func newEdge() *cobra.Command {
	l := login.New("ZKD_EDGE", os.Getenv)
	verbose := false
	cmd := &cobra.Command{
		Use:   "edge --upstream HOSTS [FILE]",
		Short: "Serve the clients of this host, which then see no lost connections",
		Long: "Serve ZooKeeper's clients on this host, unmodified ones, and hold their sessions with an ensemble.\n" +
			"When a server dies, the edge resumes the sessions at another one, and the clients do not learn of\n" +
			"it: each of their writes has its one outcome. They see the end of their connection only where\n" +
			"that can't be promised, and with servers other than zkd's. FILE has keys that begin with edge.,\n" +
			"which zkd config check explains; flags go before them. See docs/edge.md.",
		Example: "  zkd edge --upstream zk1:2181,zk2:2181,zk3:2181          # clients connect to 127.0.0.1:2181\n" +
			"  zkd edge --upstream zk1:2281,zk2:2281,zk3:2281 --tls-ca ca.pem --listen unix:/run/zkd-edge.sock --http 127.0.0.1:7001\n" +
			"  zkd edge /etc/zkd/edge.cfg",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			cfg, err := edgeConfig(cmd.Flags(), args, log)
			if err != nil {
				return usageError{err}
			}
			names := edgeNames(cmd.Flags(), cfg)
			err = cfg.Edge.EachLogin(func(_, flag, value string) error {
				if value == "" || cmd.Flags().Changed(flag) {
					return nil
				}
				return cmd.Flags().Set(flag, value)
			})
			if err != nil {
				return usageError{err}
			}
			options, err := edgeOptions(cfg, &l, log)
			if err != nil {
				return usageError{errors.New(names.Replace(err.Error()))}
			}
			options.Names = names
			return runEdge(cmd.Context(), cfg, options, log)
		},
	}
	fl := cmd.Flags()
	fl.String("upstream", "", "the servers, as host:port,host:port, or the name of SRV records")
	fl.StringArray("listen", []string{"127.0.0.1:2181"}, "`address` for clients; unix:FILE is a socket in the file system")
	fl.String("handover", "", "`file` of the socket at which another edge takes over from this one, with the connections of its clients")
	fl.String("identities", "", "`file` with the identities of the users of this host, in whose names the edge speaks to the servers")
	fl.StringArray("cached", nil, "a subtree, such as /services, whose reads and watches are answered from memory")
	fl.StringArray("stale", nil, "a subtree that read-only sessions are shown while no server is reached")
	fl.String("stale-for", "10m", "how long they are shown after they were known to be current")
	fl.String("http", "", "serve /metrics and /readyz on this `address`")
	fl.Bool("tls", false, "connect to the servers with TLS; implied by the flags below")
	fl.String("tls-ca", "", "`file` with the authorities that the servers' certificates are checked by")
	fl.String("tls-cert", "", "`file` with the edge's certificate")
	fl.String("tls-key", "", "`file` with the key of the certificate; if it is encrypted, the password is in $ZKD_EDGE_KEY_PASSWORD")
	l.Flags(fl)
	fl.Int("connections", 2, "connections to each server, which carry the sessions; 0: each session has its own")
	fl.Int("max-clients", 10_000, "the most clients at a time")
	fl.Int("max-buffer", 0xfffff, "the largest request in `bytes`: the servers' jute.maxbuffer")
	fl.BoolVarP(&verbose, "verbose", "v", false, "log each client, and each attempt to connect")
	return cmd
}

// edgeConfig returns the configuration of the file, if there is one, and the flags.
func edgeConfig(fl *pflag.FlagSet, args []string, log *slog.Logger) (*config.Config, error) {
	var on []config.Setting
	fl.Visit(func(f *pflag.Flag) {
		key, value := edgeFlags[f.Name], f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if key != "" {
			on = append(on, config.Override(key, value))
		}
	})
	cfg, warnings, err := config.LoadEdge(strings.Join(args, ""), on...)
	for _, w := range warnings {
		log.Warn(w.String())
	}
	return cfg, err
}

// edgeOptions returns what a configuration says of an edge.
func edgeOptions(cfg *config.Config, l *login.Login, log *slog.Logger) (_ edge.Options, err error) {
	o := &cfg.Edge
	e := edge.Options{Upstream: o.Upstream, Connections: o.Connections, MaxClients: o.MaxClients, Grace: o.GraceAfterClose, Cached: o.Cached, CachedBytes: o.CachedBytes, Stale: o.Stale, StaleFor: o.StaleFor, Version: zooKeeperVersion(), Log: log}
	e.Client.MaxRequest = o.MaxBuffer
	_, e.Descriptors = base.FileDescriptors()
	if o.TLS {
		files := secure.Files{CA: o.CA, Cert: o.Cert, Key: o.Key, Password: os.Getenv("ZKD_EDGE_KEY_PASSWORD"), Logger: log}
		if e.TLS, err = files.Load(); err != nil {
			return e, err
		}
	}
	if e.Client.SASL, err = l.Mechanism(e.TLS != nil, nil); err != nil || o.Identities == "" {
		return e, err
	}
	switch {
	case runtime.GOOS != "linux":
		return e, cfg.Wrong("edge.identities", errors.New("an edge learns who its clients are only on Linux"))
	case e.Client.SASL == nil && o.Cert == "":
		return e, cfg.Wrong("edge.identities", errors.New("the servers have to know the edge before they let it speak for others: it needs edge.tls.cert or edge.sasl"))
	}
	if e.Identities, err = edge.OpenIdentities(o.Identities); err != nil {
		return e, cfg.Wrong("edge.identities", err)
	}
	return e, nil
}

// edgeNames returns what puts the names that a user knows into errors of a login and of TLS: keys, where there is a file, and the flags that
// were given.
func edgeNames(fl *pflag.FlagSet, cfg *config.Config) *strings.Replacer {
	keys := maps.Clone(edgeFlags)
	keys["kerberos-..."] = "edge.kerberos.*"
	cfg.Edge.EachLogin(func(key, flag, _ string) error {
		keys[flag] = key
		return nil
	})
	name := func(flag string) string {
		if cfg.File == "" || fl.Changed(flag) {
			return "--" + flag
		}
		return keys[flag]
	}
	names := []string{"secure.Files.CA or tls.Config.RootCAs", "the file of " + name("tls-ca"),
		"secure.Files.Cert", name("tls-cert"), "secure.Files.Key", name("tls-key"), "secure.Files.Password", "$ZKD_EDGE_KEY_PASSWORD"}
	flags := slices.Sorted(maps.Keys(keys))
	slices.Reverse(flags) // the first that fits is taken: --sasl-user, and not --sasl
	for _, flag := range flags {
		names = append(names, "--"+flag, name(flag))
	}
	return strings.NewReplacer(names...)
}

func runEdge(ctx context.Context, cfg *config.Config, options edge.Options, log *slog.Logger) error {
	e, err := edge.New(options)
	if err != nil {
		return usageError{cfg.Wrong("edge.upstream", err)}
	}
	defer e.Close()
	if cfg.Edge.Handover != "" && runtime.GOOS != "linux" {
		return usageError{cfg.Wrong("edge.handover", errors.New("an edge can hand over only on Linux"))}
	}
	p, err := openEdge(ctx, cfg, e)
	if err != nil {
		return err
	}
	if p.http != nil {
		pages := endpoints{most: edgeHTTPClients}
		pages.serve("metrics", pages.bounded("metrics", p.http, zap.NewNop()), pagesOf(e), zap.NewNop())
		defer pages.close()
		e.Keep(edgeHTTP+cfg.Edge.HTTP, p.http)
	}
	for i, address := range cfg.Edge.Listen {
		log.Info("clients can connect", "address", p.clients[i].Addr().String(), "upstream", cfg.Edge.Upstream)
		e.Serve(address, p.clients[i])
	}
	tell := func(state string) {
		if err := notifySystemd(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
			log.Warn("can't tell systemd that the edge is ready", "err", err)
		}
	}
	tell("READY=1")
	tuned, stop := context.WithCancel(ctx)
	defer stop()
	go tuneMemory(tuned)
	if p.before != nil {
		e.Take(p.before)
	}
	s := successor{log: log, ended: make(chan error, 1)}
	var asked chan os.Signal
	if p.handover != nil {
		e.HandOver(p.handover, func(pid int) { tell(fmt.Sprintf("MAINPID=%d", pid)) })
		asked = make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGHUP)
		defer signal.Stop(asked)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.Replaced():
			log.Info("another edge has taken over")
			return nil
		case <-asked:
			s.start()
		case err := <-s.ended:
			s.runs = false
			log.Error("the successor has ended, and this edge continues", "err", err)
		}
	}
}

// successor is the process of an edge that is to take over from this one.
type successor struct {
	log   *slog.Logger
	runs  bool
	ended chan error
}

// start starts the program again, which may be a later version now, with the same arguments.
func (s *successor) start() {
	if s.runs {
		s.log.Warn("SIGHUP: a successor has been started already")
		return
	}
	program, err := os.Executable()
	if err != nil {
		s.log.Error("SIGHUP: no successor can be started", "err", err)
		return
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		s.log.Error("SIGHUP: no successor can be started", "err", err)
		return
	}
	s.log.Info("SIGHUP: a successor is started", "pid", cmd.Process.Pid)
	s.runs = true
	go func() { s.ended <- cmd.Wait() }() // if this process does not end before
}

// edgePorts are the listeners of an edge.
type edgePorts struct {
	before   *edge.Predecessor // from which they come, or nil
	clients  []net.Listener    // in the order of edge.listen
	http     net.Listener      // or nil
	handover *net.UnixListener // or nil
}

// edgeHTTP begins the name by which a successor asks for the port of edge.http.
const edgeHTTP = "http:"

// openEdge opens the ports, or takes those of the edge that runs. If that fails, it runs on.
func openEdge(ctx context.Context, cfg *config.Config, e *edge.Edge) (p edgePorts, err error) {
	o := &cfg.Edge
	var opened []net.Listener
	open := func(name, address string) (net.Listener, error) {
		if l := p.before.Listener(name); l != nil {
			return l, nil
		}
		l, err := listenEdge(address)
		if err == nil {
			opened = append(opened, l)
		}
		return l, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, l := range opened {
			l.Close()
		}
		if p.before != nil {
			p.before.Close()
			err = fmt.Errorf("the edge that runs is not replaced: %w", err)
		}
	}()
	if o.Handover != "" {
		if p.before, err = edge.Ask(o.Handover); err != nil {
			return p, err
		}
	}
	if p.before != nil {
		ctx, cancel := context.WithTimeout(ctx, sessionWithin)
		defer cancel()
		if err := e.Ready(ctx); err != nil {
			return p, fmt.Errorf("no session within %v: %w", sessionWithin, err)
		}
	}
	for _, address := range o.Listen {
		l, err := open(address, address)
		if file, ok := strings.CutPrefix(address, "unix:"); err == nil && ok && o.Identities != "" {
			err = os.Chmod(file, 0o666) // who connects is known
		}
		if err != nil {
			return p, fmt.Errorf("listen on %s: %w", address, err)
		}
		p.clients = append(p.clients, l)
	}
	if o.HTTP != "" {
		if p.http, err = open(edgeHTTP+o.HTTP, o.HTTP); err != nil {
			return p, fmt.Errorf("listen for metrics on %s: %w", o.HTTP, err)
		}
	}
	if o.Handover != "" {
		if p.handover = p.before.Successors(o.Handover); p.handover == nil {
			l, err := open("", "unix:"+o.Handover)
			if err != nil {
				return p, fmt.Errorf("listen for a successor on %s: %w", o.Handover, err)
			}
			p.handover = l.(*net.UnixListener)
		}
		if err := os.Chmod(o.Handover, 0o600); err != nil {
			return p, err
		}
	}
	if p.before != nil {
		return p, p.before.Ready()
	}
	return p, nil
}

// listenEdge opens a port, or a socket in the file system. That of an edge which has died is replaced.
func listenEdge(address string) (net.Listener, error) {
	file, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return net.Listen("tcp", address)
	}
	l, err := net.Listen("unix", file)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if info, statErr := os.Lstat(file); statErr != nil || info.Mode().Type() != fs.ModeSocket {
		return nil, err
	}
	if nc, dialErr := net.DialTimeout("unix", file, time.Second); !errors.Is(dialErr, syscall.ECONNREFUSED) {
		if dialErr == nil {
			nc.Close()
		}
		return nil, err
	}
	if err := os.Remove(file); err != nil {
		return nil, err
	}
	return net.Listen("unix", file)
}

const (
	edgeHTTPClients = 64               // connections to the edge's port for HTTP at a time
	readyWithin     = 2 * time.Second  // how long a session may take where an edge is ready
	sessionWithin   = 10 * time.Second // how long it may take for an edge that takes over from another one
)

// pagesOf returns the pages of an edge: its figures and its readiness.
func pagesOf(e *edge.Edge) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(edgeFigures{e})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
		defer cancel()
		if err := e.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	return mux
}

// edgeFigures are an edge's figures as metrics.
type edgeFigures struct{ e *edge.Edge }

// Describe describes the metrics.
func (f edgeFigures) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(f, ch) }

// Collect collects them.
func (f edgeFigures) Collect(ch chan<- prometheus.Metric) {
	for _, figure := range f.e.Figures() {
		kind := prometheus.GaugeValue
		if figure.Counter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(figure.Name, figure.Help, nil, nil), kind, float64(figure.Value))
	}
}
