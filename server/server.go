package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/traces"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
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
	// TraceExporter takes the spans of sampled requests; nil means that they are sent to
	// zkd.traces.endpoint, if there is one.
	TraceExporter sdktrace.SpanExporter
	// Listen opens the client port; nil means TCP.
	Listen func(network, address string) (net.Listener, error)
	// ListenPeers and DialPeer are for the links between servers; nil means TCP.
	ListenPeers func(network, address string) (net.Listener, error)
	DialPeer    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Server is a zkd server. New makes it, Start runs it, Close ends it.
type Server struct {
	*lifecycle
	*published
	*storage
	identities
	opts    Options
	id      zab.SID
	ident   datadirs.Identity // of the data directory, at the start
	limits  limits
	ids     *session.IDs // of sessions and of origins
	tracker *session.Tracker

	state   clients.State
	digests *digestLog
	disk    *disk
	missing missingVoters
	words   *words

	// The parts communicate through these queues.
	submissions *queue[replica.Submission] // of clients, to the peer loop
	events      *queue[peerEvent]          // of other servers and goroutines, to the peer loop
	handover    *handover                  // of the peer loop, to the applier
	changes     *feed.History              // of the applier, to feeds
	reloaded    chan struct{}              // has a token for cleanUp when the live configuration has changed

	logWriter *logWriter
	audit     auditing
	traces    *traces.Tracer // nil without traces
	snapshots *snapshotter
	clients   *clients.Clients
	clientTLS *secure.TLS // nil without a port for it
	applier   *applier
	loop      *loop
	transport *transport.Transport // nil without an ensemble

	mu struct {
		sync.Mutex
		started, closed bool
	}

	configured struct {
		sync.Mutex                  // also held while the live configuration changes
		settings   []config.Setting // of clients, since Reload
	}
}

// New checks the options and makes a server. It does no I/O.
func New(opts Options) (*Server, error) {
	if opts.Config == nil {
		return nil, errors.New("server: no configuration")
	}
	cfg := opts.Config
	if opts.FS == nil {
		opts.FS = vfs.OS{}
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	ids, err := newIdentities(cfg, opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	l := newLifecycle(cfg, opts.Logger, monitor.NewMetrics())
	s := &Server{
		lifecycle:   l,
		published:   &published{membersChanged: make(chan struct{}, 1)},
		storage:     newStorage(l, opts.FS),
		identities:  ids,
		opts:        opts,
		digests:     newDigestLog(),
		id:          standaloneID,
		limits:      defaultLimits,
		submissions: newQueue((*replica.Submission).Size),
		events:      newQueue((*peerEvent).size),
		handover:    newHandover(),
		reloaded:    make(chan struct{}, 1),
	}
	s.acceptLossAfter, s.setAside = opts.AcceptLossAfter, opts.SetDataAside
	s.disk = &disk{lifecycle: l}
	if cfg.Replicated() {
		s.id = zab.SID(cfg.MyID)
	}
	s.role.Store(&zab.Status{})
	s.state.Watches = watch.New()
	s.tracker = session.NewTracker(cfg.TickTime.Milliseconds())
	s.words = newWords(s)
	s.registry.MustRegister(monitor.NewCollector(opts.Version, s.read))
	s.registerTokens()
	return s, nil
}

// Start recovers the state from the disk, opens the client port and serves. It returns
// when clients can connect. Canceling ctx afterwards has no effect. After an error the
// server is closed, and another one may be made.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.started {
		return ErrClosed
	}
	if err := s.identities.open(&s.cfg.Identities.JWT, s.log); err != nil {
		s.mu.closed = true
		return err
	}
	s.clock.begin()
	s.boot = random64()
	err := s.openAudit(&s.cfg.Audit)
	if err == nil {
		err = s.startTraces()
	}
	if err == nil {
		err = s.recoverAndServe(ctx)
	}
	started := err == nil
	if err = errors.Join(err, s.auditStart(err)); err != nil {
		if started {
			s.clients.Refuse()
			s.clients.Close(0)
			s.unregister()
		}
		s.identities.close()
		if s.mu.started {
			s.stopLoops()
		}
		s.traces.Close()
		s.closeStorage()
		s.mu.closed = true
	}
	return err
}

func (s *Server) recoverAndServe(ctx context.Context) error {
	found, err := s.recoverState(ctx)
	if err != nil {
		return err
	}
	s.useState(found)
	if err := s.reserveFirstIDs(); err != nil {
		return err
	}
	if err := s.startLoops(found); err != nil {
		return err
	}
	s.mu.started = true
	return s.open()
}

// open registers the metrics and opens the ports for clients.
func (s *Server) open() error {
	if s.opts.Registerer != nil {
		if err := s.opts.Registerer.Register(s.registry); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	err := s.clients.Listen(s.cfg.ClientPortAddress, s.cfg.ClientPort)
	if t := &s.cfg.ClientTLS; err == nil && t.Port >= 0 {
		err = s.clients.ListenSecure(t.Address, t.Port)
	}
	if err != nil {
		s.unregister()
	}
	return err
}

// unregister removes the metrics, so that the registry releases the server.
func (s *Server) unregister() {
	if s.opts.Registerer != nil {
		s.opts.Registerer.Unregister(s.registry)
	}
}

// startLoops starts the goroutines that live as long as the server: the log writer, the
// peer loop, the applier, the snapshotter, the housekeeper and the cleaner; in an
// ensemble, also the links to the other servers and the service for learners.
func (s *Server) startLoops(found *recovered) error {
	s.state.SetApplied(found.core.Commit)
	if err := s.readClientTLS(); err != nil {
		return err
	}
	s.clients = s.newClients(backend{s.lifecycle, s.published, s.submissions, s.words.facts})
	s.words.clients = s.clients
	s.applier = newApplier(s, found.state.ensemble)
	s.loop = newLoop(s, s.newCore(found), found)
	s.loop.introduce()
	if s.ensemble() {
		t, err := s.newTransport()
		if err != nil {
			return err
		}
		s.transport = t
		s.loop.transport, s.loop.learners.transport = t, t
	}
	if s.ensemble() {
		s.loop.tick() // the core knows the time before any other input
	} else {
		s.loop.replica.UpdateLeases()
		s.answersUntil.Store(s.loop.replica.AnswersUntil())
	}
	s.loop.carryOut() // so that a server without an ensemble serves at once
	s.watchDisk()
	s.loops.Go(s.loop.run)
	s.loops.Go(s.applier.run)
	s.loops.Go(s.snapshots.run)
	s.loops.Go(s.runHousekeeper)
	s.loops.Go(s.cleanUp)
	if s.transport == nil {
		return nil
	}
	s.loops.Go(s.loop.learners.run)
	s.loops.Go(newMembership(s).run)
	return s.transport.Start()
}

// readClientTLS reads the TLS files of the ports for clients.
func (s *Server) readClientTLS() error {
	if !s.cfg.ClientTLS.Used() {
		return nil
	}
	t, err := secure.New(s.cfg.ClientTLS.Settings, "client", s.log)
	if err != nil {
		return fmt.Errorf("TLS for clients: %w", err)
	}
	t.Tick()
	s.clientTLS = t
	s.registry.MustRegister(t)
	return nil
}

func (s *Server) newClients(b clients.Backend) *clients.Clients {
	return clients.New(clients.Options{
		Config:    s.cfg,
		Logger:    s.log,
		Metrics:   s.metrics,
		Limits:    clients.Limits{Requests: s.limits.requests, Replies: s.limits.replies},
		Backend:   b,
		State:     &s.state,
		Schemes:   s.schemes,
		IDs:       s.ids,
		Sessions:  s.tracker,
		Keys:      &s.keys,
		Audit:     s.audit.log(),
		Traces:    s.traces,
		Changes:   s.feeds(),
		TLS:       s.clientTLS,
		Configure: s.configure,
		Listen:    s.opts.Listen,
	})
}

// backend is the part of the server that its clients need.
type backend struct {
	*lifecycle
	*published
	submissions *queue[replica.Submission]
	facts       func(origin uint64) fourletter.Source
}

func (b backend) Submit(subs ...replica.Submission)     { b.submissions.put(subs...) }
func (b backend) Now() time.Duration                    { return b.now() }
func (b backend) AnswersUntil() int64                   { return b.answersUntil.Load() }
func (b backend) Service() uint64                       { return b.service.Load() }
func (b backend) Serving() bool                         { return b.serving.Load() }
func (b backend) Ending() bool                          { return b.ending.Load() }
func (b backend) IdleSince() time.Duration              { return time.Duration(b.idleSince.Load()) }
func (b backend) Facts(origin uint64) fourletter.Source { return b.facts(origin) }

func (s *Server) newCore(found *recovered) *zab.Core {
	o := zab.Options{ID: s.id, Boot: s.boot, Seed: random64()}
	if s.ensemble() {
		o.Members = members(&s.cfg.Members)
		o.AdmitLearners = s.cfg.ReconfigEnabled
		o.AcceptOldData = s.opts.AcceptOldData
		o.Init = zab.ClusterInit{Cluster: s.ident.Cluster, Secret: s.ident.Secret}
		o.Heartbeat = uint64(s.cfg.Heartbeat.Milliseconds())
		o.ElectionTimeout = uint64(s.cfg.ElectionTimeout.Milliseconds())
		o.QuorumTimeout = o.ElectionTimeout * 8 / 10
		o.CacheBytes, o.WindowBytes, o.BatchBytes = s.limits.cache, s.limits.cache, batchBytes
		o.InitLimit = uint64(s.cfg.InitLimit.Milliseconds())
	}
	return zab.New(o, found.core)
}

// Failed returns a channel that gets the error of a server that can no longer keep its
// promises, such as a failed fsync. The process must then end: no write that was not
// durable has been acknowledged, and none will be.
func (s *Server) Failed() <-chan error { return s.failed }

// Close stops the server. It accepts no new clients and no new requests, and finishes and
// answers the accepted ones as far as request_throttler.shutdownTimeout allows. Sessions
// stay in the log. Close returns when every goroutine has ended. It may be called more
// than once and from any goroutine.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || !s.mu.started {
		s.mu.closed = true
		return nil
	}
	s.mu.closed = true
	s.ending.Store(true)
	s.identities.close()
	s.auditStop()
	s.clients.Refuse()
	s.handOver()
	s.clients.Close(s.live.Load().RequestThrottle.ShutdownTimeout)
	s.stopLoops()
	s.traces.Close()
	s.unregister()
	return s.closeStorage()
}

// handOver makes another server the leader before this one stops, if possible: then
// writes pause only for a moment.
func (s *Server) handOver() {
	if s.role.Load().Role != zab.Leading || !s.ensemble() {
		return
	}
	done := make(chan struct{})
	s.events.put(peerEvent{kind: evTransfer, done: done})
	select {
	case <-done:
	case <-time.After(s.cfg.ElectionTimeout):
		s.log.Warn("no other server could take over in time")
	}
}

func (s *Server) stopLoops() {
	s.stop()
	if s.transport != nil {
		s.transport.Close()
	}
	s.loops.Wait()
}

// closeStorage closes the log and unlocks the data directories.
func (s *Server) closeStorage() error {
	var err error
	if s.logWriter != nil {
		err = s.logWriter.Close()
	}
	if log := s.audit.opened.Load(); log != nil {
		err = errors.Join(err, log.Close())
	}
	return errors.Join(err, s.storage.close())
}

// Addr returns the address of the client port, or nil before Start and without one. It
// waits for a Start or Close under way.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		return nil
	}
	return s.clients.Addr()
}

// SecureAddr is Addr for secureClientPort.
func (s *Server) SecureAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		return nil
	}
	return s.clients.SecureAddr()
}

// reserveFirstIDs makes a bound of the ids of sessions and connections durable, so that
// none is used again after a restart, whatever the clock says then. The peer loop
// reserves more when they run short.
func (s *Server) reserveFirstIDs() error {
	s.ids = session.NewIDs(uint8(s.id), s.clock.start.UnixMilli(), s.ident.IDs)
	s.ident.IDs = s.ids.Ahead()
	if err := s.logWriter.SubmitWait(identRecord(&s.ident)); err != nil {
		return fmt.Errorf("reserve ids of sessions: %w", err)
	}
	s.ids.Reserved(s.ident.IDs)
	return nil
}

// nextOrigin returns a number for a connection that no other connection has, on this or
// another server, now or after a restart.
func (s *Server) nextOrigin() uint64 { return uint64(s.ids.Next(nil)) }
