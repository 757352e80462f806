package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/identities"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/pages"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/settings"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/zab"
)

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
	ids, err := identities.New(cfg, opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	metrics := monitor.NewMetrics()
	s := &Server{
		registry:    prometheus.NewRegistry(),
		cfg:         cfg,
		log:         opts.Logger,
		metrics:     metrics,
		identities:  ids,
		opts:        opts,
		id:          standaloneID,
		limits:      limitsWithin(opts.MemoryLimit),
		submissions: base.NewQueue((*replica.Submission).Size),
		events:      base.NewQueue((*peerEvent).size),
		handover:    newHandover(),
	}
	s.settings = settings.New(settings.Options{
		Config: cfg, Load: opts.Load,
		Prepare: func(cfg *config.Config) error { return s.audit.Switch(&cfg.Audit) },
		Changed: s.tellSettings,
	})
	s.life = base.NewLife(s.failed)
	s.memory = newMemory(opts.MemoryLimit, s.log, s.now)
	s.disk = &disk{cfg: cfg, log: s.log, now: s.now, fail: s.life.Fail}
	if cfg.Replicated() {
		s.id = zab.SIDOf(uint8(cfg.MyID))
	} else {
		s.id = zab.Zero
	}
	s.standing.role.Store(&zab.Status{})
	s.state.Watches = watch.New()
	s.tracker = session.NewTracker(cfg.TickTime.Milliseconds())
	s.words = newWords(s)
	s.past = sync.OnceValue(func() *pages.Past { return newPast(s) })
	s.registry.MustRegister(show.NewCollector(opts.Version, func() *show.View { return s.overview.read() }))
	s.registry.MustRegister(ids.Metrics()...)
	s.audit = audit.NewTrail(opts.FS, opts.Logger, s.registry, s.life.Fail)
	if opts.Config.Admin.API {
		s.audit.KeepTail()
	}
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
	if err := s.identities.Open(); err != nil {
		s.mu.closed = true
		return err
	}
	s.clock.Begin()
	err := s.audit.Open(&s.cfg.Audit)
	if err == nil {
		s.traces, err = newTraces(s)
	}
	if err == nil {
		err = s.recoverAndServe(ctx)
	}
	started := err == nil
	if err = errors.Join(err, s.audit.Start(err)); err != nil {
		if started {
			s.clients.Refuse()
			s.clients.Close(0)
			s.unregister()
		}
		s.identities.Close()
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
	boot := random64()
	s.dirs = data.New(data.Options{Config: s.cfg, FS: s.opts.FS, Logger: s.log, Registerer: s.registry, Boot: boot,
		AcceptLossAfter: s.opts.AcceptLossAfter, SetAside: s.opts.SetDataAside})
	s.changes = feed.New(s.memory.feedHistory(s.cfg.FeedHistory), 0)
	if !s.ensemble() {
		s.changes.Alone()
	}
	found, err := s.dirs.Recover(ctx, s.changes)
	if err != nil {
		return err
	}
	s.useState(found)
	ids, err := reserveFirstIDs(s.logWriter, uint8(s.id), s.clock.Start(), &found.Identity)
	if err != nil {
		return err
	}
	if err := s.startLoops(found, ids, boot); err != nil {
		return err
	}
	return s.open()
}

// open registers the metrics and opens the ports for clients.
func (s *Server) open() error {
	if s.opts.Registerer != nil {
		if err := s.opts.Registerer.Register(s.registry); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	err := s.clients.Ports().Listen(s.cfg.ClientPortAddress, s.cfg.ClientPort)
	if t := &s.cfg.ClientTLS; err == nil && t.Port >= 0 {
		err = s.clients.Ports().ListenSecure(t.Address, t.Port)
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
func (s *Server) startLoops(found *data.Recovered, ids *session.IDs, boot uint64) error {
	s.state.SetApplied(found.Core.Commit)
	clientTLS, err := clients.ReadTLS(&s.cfg.ClientTLS, s.log)
	if err != nil {
		return err
	}
	if clientTLS != nil {
		s.registry.MustRegister(clientTLS)
	}
	following := &following{changed: make(chan struct{}, 1)}
	s.clients = newClients(s, clientTLS, ids, backend{&s.service, s.now, s.life.Ending, s.submissions, s.words})
	s.words.Clients(s.clients)
	applier := newApplier(s)
	s.loop = newLoop(s, newCore(s, found, boot), found, ids, following)
	s.loop.introduce()
	if s.ensemble() {
		t, err := newTransport(s)
		if err != nil {
			return err
		}
		if err := t.CheckPorts(); err != nil {
			return errors.Join(err, t.Close())
		}
		s.loop.transport, s.loop.learners.transport = t, t
	}
	if s.ensemble() {
		s.loop.tick() // the core knows the time before any other input
	} else {
		s.loop.replica.UpdateLeases()
		s.service.answersUntil.Store(s.loop.replica.AnswersUntil())
	}
	s.loop.carryOut() // so that a server without an ensemble serves at once
	keeper, cleaner := newHousekeeper(s), newCleaner(s)
	s.overview = newOverview(s, &keeper.missing, following, clientTLS)
	keeper.watchDisk()
	s.mu.started = true // what begins now has to be stopped, if the rest fails too
	for _, run := range []func(context.Context){s.loop.run, applier.run, s.snapshots.run} {
		s.life.Go(func() { run(s.life.Context()) })
	}
	s.life.Go(keeper.run)
	s.life.Go(cleaner.run)
	if s.loop.transport == nil {
		return nil
	}
	s.life.Go(s.loop.learners.run)
	follow := newMembership(s, following)
	s.life.Go(func() { follow.run(s.life.Context()) })
	return s.loop.transport.Start()
}

// useState makes a recovered state the server's. From here on only the log's writer writes to
// the log.
func (s *Server) useState(found *data.Recovered) {
	s.metrics.Load.Observe(found.Took, 1)
	s.metrics.LoadSnapshot.Observe(found.TookSnapshot, 1)
	s.metrics.LoadLog.Observe(found.TookLog, 1)
	s.metrics.LoadedTxns.Observe(int(found.Replayed))
	s.state.Tree, s.state.Ensemble = found.Tree, found.Ensemble
	s.clock.Doubt(found.Tree.LastTime())
	s.state.Begin(found.Identity.Secret)
	for session, timeoutMs := range found.Tree.Sessions() {
		s.tracker.Add(session, timeoutMs, millis(s.now()))
	}
	s.logWriter = newLogWriter(s.dirs.TakeLog(), s.ensemble(), s.metrics, s.life.Fail)
	s.disk.logWriter = s.logWriter
	s.snapshots = newSnapshotter(s, found)
}

// reserveFirstIDs makes a bound of the ids of sessions and connections durable, so that
// none is used again after a restart, whatever the clock says then. The peer loop
// reserves more when they run short. The bound is in ident then.
func reserveFirstIDs(w *logWriter, id uint8, start time.Time, ident *datadirs.Identity) (*session.IDs, error) {
	ids := session.NewIDs(id, start.UnixMilli(), ident.IDs)
	ident.IDs = ids.Ahead()
	if err := w.SubmitWait(data.IdentityRecord(ident)); err != nil {
		return nil, fmt.Errorf("reserve ids of sessions: %w", err)
	}
	ids.Reserved(ident.IDs)
	return ids, nil
}

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
	s.life.End()
	s.identities.Close()
	s.audit.Stop()
	s.clients.Refuse()
	s.handOver()
	s.clients.Close(s.settings.Live().RequestThrottle.ShutdownTimeout)
	s.stopLoops()
	s.traces.Close()
	s.unregister()
	return s.closeStorage()
}

// handOver makes another server the leader before this one stops, if possible: then
// writes pause only for a moment.
func (s *Server) handOver() {
	if s.standing.role.Load().Role != zab.Leading || !s.ensemble() {
		return
	}
	done := make(chan struct{})
	s.events.Put(peerEvent{kind: evTransfer, done: done})
	select {
	case <-done:
	case <-time.After(s.cfg.ElectionTimeout):
		s.log.Warn("no other server could take over in time")
	}
}

// HandOver makes another server the leader, if this one leads and another one can. It
// reports whether this one has ended to lead.
func (s *Server) HandOver() bool {
	if !s.ensemble() || !s.standing.leads() {
		return false
	}
	s.handOver()
	return !s.standing.leads()
}

func (s *Server) stopLoops() {
	s.life.Stop()
	if t := s.loop.transport; t != nil {
		t.Close()
	}
	s.life.Wait()
}

// closeStorage closes the log and unlocks the data directories.
func (s *Server) closeStorage() error {
	var err error
	if s.logWriter != nil {
		err = s.logWriter.Close()
	}
	err = errors.Join(err, s.audit.Close())
	if s.dirs != nil {
		err = errors.Join(err, s.dirs.Close())
	}
	return err
}
