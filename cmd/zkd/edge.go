package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/internal/login"
	"github.com/zkd-project/zkd/edge"
)

// edgeFlags are the flags of zkd edge.
type edgeFlags struct {
	upstream        string
	listen          []string
	http            string
	tls             bool
	ca, cert, key   string
	login           login.Login
	clients, buffer int
	verbose         bool
}

// newEdge returns the command that serves clients of this host, and holds their sessions with an ensemble.
func newEdge() *cobra.Command {
	o := edgeFlags{login: login.New("ZKD_EDGE", os.Getenv)}
	cmd := &cobra.Command{
		Use:   "edge --upstream HOSTS",
		Short: "Serve the clients of this host, which then see no lost connections",
		Long: "Serve ZooKeeper's clients on this host, unmodified ones, and hold their sessions with an ensemble.\n" +
			"When a server dies, the edge resumes the sessions at another one, and the clients do not learn of\n" +
			"it: each of their writes has its one outcome. They see the end of their connection only where\n" +
			"that can't be promised, and with servers other than zkd's. See docs/edge.md.",
		Example: "  zkd edge --upstream zk1:2181,zk2:2181,zk3:2181          # clients connect to 127.0.0.1:2181\n" +
			"  zkd edge --upstream zk1:2281,zk2:2281,zk3:2281 --tls-ca ca.pem --listen unix:/run/zkd-edge.sock --http 127.0.0.1:7001",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.upstream == "" {
				return usageError{errors.New("edge needs --upstream HOSTS: the servers, as host:port,host:port")}
			}
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.upstream, "upstream", "", "the servers, as host:port,host:port, or the name of SRV records")
	fl.StringArrayVar(&o.listen, "listen", []string{"127.0.0.1:2181"}, "`address` for clients; unix:FILE is a socket in the file system")
	fl.StringVar(&o.http, "http", "", "serve /metrics and /readyz on this `address`")
	fl.BoolVar(&o.tls, "tls", false, "connect to the servers with TLS; implied by the flags below")
	fl.StringVar(&o.ca, "tls-ca", "", "`file` with the authorities that the servers' certificates are checked by")
	fl.StringVar(&o.cert, "tls-cert", "", "`file` with the edge's certificate")
	fl.StringVar(&o.key, "tls-key", "", "`file` with the key of the certificate; if it is encrypted, the password is in $ZKD_EDGE_KEY_PASSWORD")
	o.login.Flags(fl)
	fl.IntVar(&o.clients, "max-clients", 10_000, "the most clients at a time")
	fl.IntVar(&o.buffer, "max-buffer", 0, "the largest request in `bytes`, if the servers' jute.maxbuffer is not 1 MiB")
	fl.BoolVarP(&o.verbose, "verbose", "v", false, "log each client, and each attempt to connect")
	return cmd
}

// options returns what the flags say of an edge.
func (o *edgeFlags) options(log *slog.Logger) (_ edge.Options, err error) {
	e := edge.Options{Upstream: o.upstream, MaxClients: o.clients, Log: log}
	e.Client.Logger, e.Client.MaxRequest = log, o.buffer
	if o.clients < 1 || o.buffer < 0 {
		return e, errors.New("--max-clients and --max-buffer must be positive")
	}
	if o.tls || o.ca+o.cert+o.key != "" {
		files := client.TLSFiles{CA: o.ca, Cert: o.cert, Key: o.key, Password: os.Getenv("ZKD_EDGE_KEY_PASSWORD"), Logger: log}
		if e.Client.TLSFor, err = files.Load(); err != nil {
			return e, edgeFlagNames.Replace(err)
		}
	}
	e.Client.SASL, err = o.login.Mechanism(e.Client.TLSFor != nil, nil)
	return e, err
}

// edgeFlagNames puts flags in the place of the options of package client, in its errors.
var edgeFlagNames = flagNames{strings.NewReplacer("TLSFiles.CA or tls.Config.RootCAs", "the file of --tls-ca",
	"TLSFiles.Cert", "--tls-cert", "TLSFiles.Key", "--tls-key", "TLSFiles.Password", "$ZKD_EDGE_KEY_PASSWORD")}

type flagNames struct{ *strings.Replacer }

// Replace returns an error with the names of flags.
func (n flagNames) Replace(err error) error { return errors.New(n.Replacer.Replace(err.Error())) }

func (o *edgeFlags) run(ctx context.Context, stderr io.Writer) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	options, err := o.options(log)
	if err != nil {
		return usageError{err}
	}
	e, err := edge.New(options)
	if err != nil {
		return usageError{err}
	}
	defer e.Close()
	if o.http != "" {
		pages := endpoints{most: edgeHTTPClients}
		if err := pages.open("metrics", o.http, pagesOf(e), zap.NewNop()); err != nil {
			return err
		}
		defer pages.close()
	}
	for _, address := range o.listen {
		l, err := listenEdge(address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", address, err)
		}
		log.Info("clients can connect", "address", l.Addr().String(), "upstream", o.upstream)
		e.Serve(l)
	}
	<-ctx.Done()
	return nil
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
	edgeHTTPClients = 64              // connections to the edge's port for HTTP at a time
	readyWithin     = 2 * time.Second // how long a session may take where an edge is ready
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
		io.WriteString(w, "ok\n") // the client is gone
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
