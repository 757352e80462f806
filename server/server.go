package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/identities"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/pages"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/settings"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/traces"
	"github.com/zkd-project/zkd/server/words"
	"github.com/zkd-project/zkd/server/zab"
)

// ErrClosed is returned by Start on a server that was started or closed before.
var ErrClosed = errors.New("server closed")

// standaloneID is the server id of a server without an ensemble, as shown in the top byte
// of session ids. Apache uses 1 there too.
const standaloneID = 1

// Options configures a server.
type Options struct {
	Config *config.Config
	// Logger may be nil for none.
	Logger *zap.Logger
	// Registerer has the metrics from Start to Close; nil means none. Servers that share
	// one need labels to tell them apart: see prometheus.WrapRegistererWith.
	Registerer prometheus.Registerer
	// MemoryLimit is how much memory the process may use, in bytes; 0 means that it has no bound. The tree
	// grows to a part of it.
	MemoryLimit int64
	// FS holds the log and the snapshots; nil means the operating system's.
	FS vfs.FS
	// Version is the text that srvr and envi show after "Zookeeper version: ".
	Version string
	// AcceptLossAfter gives up the part of a damaged log after this zxid. Nil means that
	// the server does not start on a damaged log.
	AcceptLossAfter *jute.Zxid
	// SetDataAside names data of a member to be set aside, by the id that error messages
	// show at a start. The server then gets everything from the leader, and has no vote
	// before that. "" names none.
	SetDataAside string
	// AcceptOldData means that the operator vouches for the data directory of a member,
	// although other servers have seen a later state of it.
	AcceptOldData bool
	// Join is the line, without "server.<id>=", with which a server that is no member asks the
	// leader to add it as an observer. "" means that it does not ask.
	Join string
	// Load reads the configuration again, with further settings. Nil means that clients can't
	// change it.
	Load func(...config.Setting) (*config.Config, []config.Warning, error)
	// Level is that of Logger, which then follows zkd.logLevel; nil for one that does not change.
	Level *zap.AtomicLevel
	// TraceExporter takes the spans of sampled requests: package otlp has one for
	// zkd.traces.endpoint. Nil means that there are none, and that this key is refused.
	TraceExporter sdktrace.SpanExporter
	// Ensemble asks all members how they are, for the HTTP API; nil if they can't be asked.
	Ensemble func(context.Context) *api.Ensemble
	// Operator changes the members for the HTTP API; nil if nobody can.
	Operator api.Operator
	// Listen opens the client port; nil means TCP.
	Listen func(network, address string) (net.Listener, error)
	// ListenPeers and DialPeer are for the links between servers; nil means TCP.
	ListenPeers func(network, address string) (net.Listener, error)
	DialPeer    func(ctx context.Context, network, address string) (net.Conn, error)

	reads uint32                // the highest version of format.History that it says it reads; 0 means all that there are. Tests lower it.
	seen  func(*replica.Output) // called by the peer loop with what is being written, before anything is sent. Tests set it.
}

// Server is a zkd server. New makes it, Start runs it, Close ends it.
type Server struct {
	dirs       *data.Dirs           // of the start
	registry   *prometheus.Registry // of all metrics, the log's too
	cfg        *config.Config       // as it was at the start
	settings   *settings.Settings   // cfg with the values that live keys have by now
	log        *zap.Logger
	metrics    *monitor.Metrics
	clock      base.Clock
	life       *base.Life
	identities *identities.Identities
	opts       Options
	id         zab.SID
	limits     limits
	tracker    *session.Tracker

	standing standing
	service  service

	state    state.State
	disk     *disk
	memory   *memory
	words    *words.Words
	overview *overview // set by the start

	// The parts communicate through these queues.
	submissions *base.Queue[replica.Submission] // of clients, to the peer loop
	events      *base.Queue[peerEvent]          // of other servers and goroutines, to the peer loop
	handover    *handover                       // of the peer loop, to the applier
	changes     *feed.History                   // of the applier, to feeds

	logWriter *logWriter
	audit     *audit.Trail
	traces    *traces.Tracer // nil without traces
	snapshots *snapshotter
	clients   *clients.Clients
	loop      *loop
	past      func() *pages.Past

	mu struct {
		sync.Mutex
		started, closed bool
	}
}

// Failed returns a channel that gets the error of a server that can no longer keep its
// promises, such as a failed fsync. The process must then end: no write that was not
// durable has been acknowledged, and none will be.
func (s *Server) Failed() <-chan error { return s.life.Failed() }

// Addr returns the address of the client port, or nil before Start and without one. It
// waits for a Start or Close under way.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		return nil
	}
	return s.clients.Ports().Addr()
}

// SecureAddr is Addr for secureClientPort.
func (s *Server) SecureAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		return nil
	}
	return s.clients.Ports().SecureAddr()
}

// now is the server's clock, for leases, sessions and the core. It does not go backwards,
// and does not stand still while the machine is suspended.
func (s *Server) now() time.Duration { return s.clock.Now() }

// ensemble reports whether there are other servers.
func (s *Server) ensemble() bool { return s.cfg.Replicated() }

// failed is called once, when the server can no longer keep its promises.
func (s *Server) failed(err error) {
	s.metrics.Unrecoverable.Add(1)
	s.service.serving.Store(false)
	s.log.Error("stopping: the server can't keep its promises", zap.Error(err))
}
