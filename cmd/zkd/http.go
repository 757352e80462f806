package main

import (
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/secure"
)

// serveHTTP opens the endpoints that the configuration and the flags ask for: the
// Prometheus endpoint (metricsProvider.httpPort), the AdminServer's pages and Go's profiles. stop closes them and
// returns when their goroutines have ended.
func serveHTTP(cfg *config.Config, pprofAddr string, reg *prometheus.Registry, admin http.Handler, log *zap.Logger) (stop func(), err error) {
	_, limit := base.FileDescriptors()
	e := endpoints{most: base.DivideDescriptors(limit, len(cfg.Members.Servers)).HTTP}
	if cfg.Metrics {
		if cfg.MetricsRuntime {
			reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
		at := func(port int) string { return net.JoinHostPort(cfg.MetricsHost, strconv.Itoa(port)) }
		if cfg.MetricsPort >= 0 {
			if err := e.open("metrics", at(cfg.MetricsPort), mux, log); err != nil {
				return nil, fmt.Errorf("%w (metricsProvider.httpPort)", err)
			}
		}
		if t := &cfg.MetricsTLS; t.Port >= 0 {
			if err := e.openTLS("metrics", t.Settings, "metrics", at(t.Port), false, mux, reg, log); err != nil {
				e.close()
				return nil, fmt.Errorf("%w (metricsProvider.httpsPort)", err)
			}
		}
	}
	if cfg.Admin.Enabled {
		addr := net.JoinHostPort(cfg.Admin.Host, strconv.Itoa(cfg.Admin.Port))
		var err error
		if cfg.Admin.Accept {
			err = e.openTLS("admin pages", cfg.Admin.TLS, "admin", addr, cfg.Admin.AcceptPlain, admin, reg, log)
		} else {
			err = e.open("admin pages", addr, admin, log)
		}
		if err != nil {
			e.close()
			return nil, fmt.Errorf("%w (admin.serverPort)", err)
		}
	}
	if pprofAddr != "" {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		if err := e.open("profiles", pprofAddr, mux, log); err != nil {
			e.close()
			return nil, fmt.Errorf("%w (--pprof)", err)
		}
	}
	return e.close, nil
}

// endpoints are the HTTP servers of the process.
type endpoints struct {
	most    int // connections of each
	servers []*http.Server
	wg      sync.WaitGroup
}

func (e *endpoints) open(what, addr string, h http.Handler, log *zap.Logger) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s on %s: %w", what, addr, err)
	}
	e.serve(what, e.bounded(what, l, log), h, log)
	return nil
}

// openTLS opens a port with TLS, or with and without it. The metrics call the port by name.
func (e *endpoints) openTLS(what string, s secure.Settings, name, addr string, plainToo bool, h http.Handler, reg *prometheus.Registry, log *zap.Logger) error {
	t, err := secure.New(s, name, log)
	if err != nil {
		return fmt.Errorf("TLS for %s: %w", what, err)
	}
	reg.MustRegister(t)
	plain, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s on %s: %w", what, addr, err)
	}
	l := newTLSListener(e.bounded(what, plain, log), t, plainToo)
	e.wg.Go(l.run)
	e.serve(what, l, h, log.With(zap.Bool("tls", true)))
	return nil
}

// bounded returns a listener with the limits of the ports for HTTP.
func (e *endpoints) bounded(what string, l net.Listener, log *zap.Logger) net.Listener {
	return &boundedListener{Listener: l, most: e.most, lacks: func(err error) {
		if err != nil {
			log.Error("can't accept connections for "+what+"; trying on", zap.Error(err))
		}
	}}
}

func (e *endpoints) serve(what string, l net.Listener, h http.Handler, log *zap.Logger) {
	s := newHTTPServer(h)
	s.ErrorLog = debugLog(log)
	e.servers = append(e.servers, s)
	e.wg.Go(func() { s.Serve(l) }) // returns when it is closed
	log.Info("serving "+what, zap.Stringer("address", l.Addr()))
}

// newHTTPServer returns a server for connections of a boundedListener.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{Handler: hurried(h), ConnState: follow, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

func (e *endpoints) close() {
	for _, s := range e.servers {
		s.Close()
	}
	e.wg.Wait()
}

// debugLog takes what an HTTP server says of connections that failed.
func debugLog(log *zap.Logger) *stdlog.Logger {
	l, err := zap.NewStdLogAt(log, zap.DebugLevel)
	if err != nil {
		panic(err) // only for an unknown level
	}
	return l
}
