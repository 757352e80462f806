package zktest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/config"
)

// Option configures the servers of Start and StartEnsemble.
type Option func(*setup)

type setup struct {
	lines     []string
	spares    int
	exporters func() (sdktrace.SpanExporter, error)
}

// Config adds lines to the servers' configuration, in the format of zoo.cfg. They override
// zktest's own settings.
func Config(lines ...string) Option {
	return func(s *setup) { s.lines = append(s.lines, lines...) }
}

// Spares adds n servers to an ensemble that are not members, and are down until Restart. The
// configuration of each has the lines of the first members and its own. To let them join, set
// reconfigEnabled=true with Config.
func Spares(n int) Option { return func(s *setup) { s.spares = n } }

// Traces has each server send the spans of the requests that zkd.traces.ratio samples to the
// exporter that open returns for it.
func Traces(open func() (sdktrace.SpanExporter, error)) Option {
	return func(s *setup) { s.exporters = open }
}

// CleanUp makes the servers look for empty containers and expired TTL nodes every 50 ms. Without
// it they never delete them, so that no node vanishes in the middle of a test that runs slowly.
func CleanUp() Option { return Config("znode.container.checkIntervalMs=50") }

// settings are the settings of all servers: short times, and no limits that tests could meet.
var settings = []string{
	"tickTime=100",
	"minSessionTimeout=100",
	"maxSessionTimeout=3600000",
	"maxClientCnxns=0",
	"preAllocSize=4096", // KiB: the minimum
	"4lw.commands.whitelist=*",
	"znode.container.checkIntervalMs=2147483647", // 24 days: see CleanUp
	"request_throttler.shutdownTimeout=1000",
	"snapCount=2147483647", // the log, in memory too, is sufficient; see dataDir
}

// dataDir is the directory of the servers' files. It exists only in their memory.
const dataDir = "/nonexistent/zktest"

// Server is a single server, with a Proxy in front of it.
type Server struct {
	*Proxy
	node *node
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{Proxy: NewProxy(t, "")}
	s.node = newNode(t, "server", s.doors[0], opts, nil, "clientPort=0", "clientPortAddress=127.0.0.1")
	s.node.start()
	if t.Failed() {
		t.FailNow()
	}
	return s
}

// Stop stops the server in order, like an operator. Restart finds its sessions and data. It
// does nothing if the server is down.
func (s *Server) Stop() { s.t().Helper(); s.node.stop() }

// Kill ends the server like kill -9: its connections break at once, and Restart finds what it
// had written by then.
func (s *Server) Kill() { s.t().Helper(); s.node.kill() }

// Restart starts the server again on the same data, at the same address. If it is up, Restart
// stops it first.
func (s *Server) Restart() { s.t().Helper(); s.node.stop(); s.node.start() }

// FillDisk fills the disk of the server, or makes room on it again. It returns when the server
// has noticed: with a full disk it refuses writes other than deletes, with client.ErrNoRoom.
func (s *Server) FillDisk(full bool) { s.t().Helper(); s.node.fillDisk(full) }

func (s *Server) t() testing.TB { return s.hub.t }

// node plays one server process, with a disk in memory.
type node struct {
	t    testing.TB
	door *door
	boot func(*crashfs.FS) (running, error)

	mu   sync.Mutex
	disk *crashfs.FS
	srv  running // nil while it is down
}

// running is a server as a node sees it. With server.Server in its place, the compiler would instantiate
// the generic types inside of a server again for each package that has a *Server or an *Ensemble.
type running interface {
	Addr() net.Addr
	Close() error
	Failed() <-chan error
}

// newNode makes a server that is down, with the lines of configuration. change makes further changes; nil
// for none.
func newNode(t testing.TB, name string, d *door, opts []Option, change func(*server.Options), lines ...string) *node {
	t.Helper()
	var set setup
	for _, opt := range opts {
		opt(&set)
	}
	n := &node{t: t, door: d, disk: crashfs.New(1)}
	lines = append(append([]string{"dataDir=" + dataDir}, settings...), lines...)
	text := strings.Join(append(lines, set.lines...), "\n")
	cfg, _, err := config.Parse(strings.NewReader(text), "zktest.Config")
	if err != nil {
		t.Fatalf("zktest: configuration: %v", err)
	}
	options := server.Options{Config: cfg, Listen: listenLocal, Logger: serverLog(t, name)}
	if change != nil {
		change(&options)
	}
	n.boot = func(disk *crashfs.FS) (running, error) {
		options := options
		options.FS = disk
		if set.exporters != nil {
			exporter, err := set.exporters()
			if err != nil {
				return nil, err
			}
			options.TraceExporter = exporter
		}
		srv, err := server.New(options)
		if err != nil {
			return nil, err
		}
		return srv, srv.Start(context.Background())
	}
	t.Cleanup(n.stop)
	return n
}

// listenLocal opens a free port of the loopback interface. Clients only know the proxy's
// address.
func listenLocal(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }

func (n *node) start() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	srv, err := n.boot(n.disk)
	if err != nil {
		n.t.Errorf("zktest: start server: %v", err)
		return
	}
	n.srv = srv
	n.door.point(srv.Addr().String())
}

// stop ends the server; its last replies are delivered.
func (n *node) stop() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return
	}
	srv := n.srv
	n.srv = nil
	err := srv.Close()
	n.door.point("")
	if err != nil {
		n.t.Errorf("zktest: stop server: %v", err)
	}
	select {
	case err := <-srv.Failed():
		n.t.Errorf("zktest: the server broke down: %v", err)
	default:
	}
}

// kill ends the server: nothing is delivered any more, and what it still writes goes to a
// disk that is not used again.
func (n *node) kill() {
	n.t.Helper()
	n.door.point("")
	n.mu.Lock()
	n.disk = n.disk.Kill()
	n.mu.Unlock()
	n.stop()
}

// fillDisk fills the disk, and waits until the server says so.
func (n *node) fillDisk(full bool) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.SetCapacity(0)
	if full {
		space, err := n.disk.Space("")
		if err != nil {
			n.t.Errorf("zktest: fill the disk: %v", err)
			return
		}
		// Writes stop below two segments of 4 MiB, and what a restart and a snapshot need: 1 MiB and a little. Deletes
		// need one, and as much beside it, if the log's next segment does not exist yet.
		n.disk.SetCapacity(max(space.Total-space.Free, 1) + 6<<20)
	}
	for n.srv != nil && n.t.Context().Err() == nil {
		text, err := word(n.srv.Addr().String(), "srvr")
		if err == nil && strings.Contains(text, "\nDisk: full") == full {
			return
		}
	}
}
