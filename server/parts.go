package server

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/pages"
	"github.com/zkd-project/zkd/server/past"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/words"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// The parts of a server don't know it: each gets the values and functions that it needs. This
// file has the constructors that pick them.

func newClients(s *Server, tls *secure.TLS, ids *session.IDs, b clients.Backend) *clients.Clients {
	changes := s.changes
	if s.memory.feedHistory(s.cfg.FeedHistory) == 0 {
		changes = nil
	}
	most := 0
	if s.opts.Listen == nil { // connections of the system have descriptors
		_, limit := base.FileDescriptors()
		most = base.DivideDescriptors(limit, len(s.cfg.Members.Servers)).Clients
	}
	return clients.New(clients.Options{
		MaxDescriptors: most,
		MaxCarried:     s.memory.carried(most),
		Config:         s.cfg,
		Logger:         s.log,
		Metrics:        s.metrics,
		Limits:         clients.Limits{Requests: s.limits.requests, Replies: s.limits.replies, Watches: s.memory.watches()},
		Backend:        b,
		State:          &s.state,
		Schemes:        s.identities.Schemes,
		IDs:            ids,
		Sessions:       s.tracker,
		Audit:          s.audit.Log(),
		Traces:         s.traces,
		Changes:        changes,
		TLS:            tls,
		Configure:      s.settings.Configure,
		Authors:        s.audit.Authors,
		Past:           func() *past.Past { return &s.past().Past },
		Listen:         s.opts.Listen,
	})
}

// backend is the part of the server that its clients need.
type backend struct {
	serviceView
	now         func() time.Duration
	ending      func() bool
	submissions *base.Queue[replica.Submission]
	words       *words.Words
}

func (b backend) Submit(subs ...replica.Submission) { b.submissions.Put(subs...) }
func (b backend) Now() time.Duration                { return b.now() }
func (b backend) Ending() bool                      { return b.ending() }
func (b backend) Shows(origin uint64) show.Source   { return b.words.Source(origin) }

func newWords(s *Server) *words.Words {
	return words.New(words.Options{
		Config:   s.cfg,
		Live:     s.settings.Live,
		Metrics:  s.metrics,
		Clock:    &s.clock,
		FS:       s.opts.FS,
		State:    &s.state,
		Tracker:  s.tracker,
		Read:     func() *show.View { return s.overview.read() },
		Serving:  s.service.Serving,
		Leads:    s.standing.leads,
		Founders: func() []byte { return s.standing.lists.Load().newest.Text },
		Joiners:  func(v *show.View) []show.Joiner { return s.overview.joiners(v) },
	})
}

func newCore(s *Server, found *data.Recovered, boot uint64) *zab.Core {
	o := zab.Options{ID: s.id, Boot: boot, Seed: random64()}
	if s.ensemble() {
		o.Members = members(&s.cfg.Members)
		o.AdmitLearners = s.cfg.ReconfigEnabled
		o.AcceptOldData = s.opts.AcceptOldData
		o.Init = zab.ClusterInit{Cluster: found.Identity.Cluster, Secret: found.Identity.Secret}
		o.Heartbeat = uint64(s.cfg.Heartbeat.Milliseconds())
		o.ElectionTimeout = uint64(s.cfg.ElectionTimeout.Milliseconds())
		o.QuorumTimeout = o.ElectionTimeout * 8 / 10
		o.CacheBytes, o.WindowBytes, o.BatchBytes = s.limits.cache, s.limits.cache, batchBytes
		o.InitLimit = uint64(s.cfg.InitLimit.Milliseconds())
	}
	return zab.New(o, found.Core)
}

func newLoop(s *Server, core *zab.Core, found *data.Recovered, ids *session.IDs, following *following) *loop {
	l := &loop{
		cfg:         s.cfg,
		live:        s.settings.Live,
		log:         s.log,
		metrics:     s.metrics,
		now:         s.now,
		ending:      s.life.Ending,
		fail:        s.life.Fail,
		standing:    &s.standing,
		service:     &s.service,
		handover:    s.handover,
		listsNew:    func() { base.Notify(following.changed) },
		id:          s.id,
		ids:         ids,
		disk:        s.disk,
		clients:     s.clients,
		snapshots:   s.snapshots,
		logWriter:   s.logWriter,
		submissions: s.submissions,
		events:      s.events,
		again:       make(chan struct{}, 1),
		learners:    newLearners(s.log, s.metrics, s.life, s.events, s.logWriter, s.snapshots),
		arrivals:    newArrivals(s.log, s.cfg.InitLimit, s.life.Context(), s.events, s.snapshots, s.memory, s.state.TreeMemory),
		identity:    found.Identity,
		seen:        s.opts.seen,
		passed:      make(map[zab.SID]bulkBytes),
	}
	l.rules = newPeerRules(s, func() []transport.PeerStatus { return l.transport.Peers() })
	o := replica.Options{
		ID:           s.id,
		Ensemble:     s.ensemble(),
		LeaderServes: s.cfg.LeaderServes,
		MaxWait:      s.cfg.ThrottledOpWaitTime,
		Evaluate:     evaluateOptions(s.cfg, s.metrics),
		Schemes:      s.identities.Schemes,
		Limits:       s.limits.replica(),
		State:        applierState{&s.state},
		Disk:         s.disk,
		Room:         s.memory.room,
		Tracker:      s.tracker,
		Backlog:      &s.handover.backlog,
		NewOrigin:    func() uint64 { return uint64(ids.Next(nil)) },
		Now:          s.now,
		Wall:         func() int64 { return s.clock.Wall().UnixMilli() },
		Weights:      s.clients.Weights,
		Callers:      callers,
		Queued:       s.metrics.QueueTime.Observe,
		Evaluated: func(d time.Duration, n int64) {
			s.metrics.Evaluation.Observe(d/time.Duration(n), n)
		},
		Proposed: func(bytes int) {
			s.metrics.Proposals.Add(1)
			s.metrics.ProposalSizes.Observe(bytes)
		},
	}
	if s.ensemble() {
		o.Reads = l.rules.allRead
		o.Reconfigure = func(now *zab.Members, change jute.ReconfigRequest) (zab.Members, []string, error) {
			return reconfigure(s.cfg, now, change)
		}
		o.Autopilot = replica.Autopilot{After: s.cfg.Autopilot,
			Text:     func(list *zab.Members) ([]byte, error) { return textOf(s.cfg, list) },
			Readable: l.rules.marksReadable,
			Changed:  func() { auditAutopilot(s.audit) },
		}
		o.Join = s.opts.Join
	}
	l.replica = replica.New(core, found.Core.Commit, o)
	return l
}

func newPeerRules(s *Server, peers func() []transport.PeerStatus) *peerRules {
	return &peerRules{cfg: s.cfg, log: s.log, reads: s.opts.reads, standing: &s.standing, state: &s.state, events: s.events, peers: peers}
}

func newHousekeeper(s *Server) *housekeeper {
	return &housekeeper{
		cfg:       s.cfg,
		log:       s.log,
		now:       s.now,
		jump:      s.clock.Jump,
		stopping:  s.life.Stopping(),
		id:        s.id,
		standing:  &s.standing,
		serving:   s.service.Serving,
		openRoot:  func() bool { return s.overview.openRoot() },
		state:     &s.state,
		ids:       s.loop.ids,
		tracker:   s.tracker,
		disk:      s.disk,
		memory:    s.memory,
		snapshots: s.snapshots,
		clients:   s.clients,
		transport: s.loop.transport,
		events:    s.events,
		shares:    s.sharesLimits(),
	}
}

// sharesLimits reports whether this server shares limits with others. One of an earlier version, as tests have them, does not.
func (s *Server) sharesLimits() bool { return s.ensemble() && s.opts.reads == 0 }

func newCleaner(s *Server) *cleaner {
	return &cleaner{log: s.log, live: s.settings.Live, clock: &s.clock, leads: s.standing.leads, stopping: s.life.Stopping(), reloaded: s.settings.Changes(),
		state: &s.state, submissions: s.submissions}
}

func newOverview(s *Server, missing *missingVoters, following *following, clientTLS *secure.TLS) *overview {
	return &overview{
		cfg:         s.cfg,
		live:        s.settings.Live,
		version:     s.opts.Version,
		id:          s.id,
		now:         s.now,
		clock:       &s.clock,
		metrics:     s.metrics,
		limits:      &s.limits,
		standing:    &s.standing,
		service:     &s.service,
		following:   following,
		missing:     missing,
		state:       &s.state,
		tracker:     s.tracker,
		schemes:     s.identities.Schemes,
		disk:        s.disk,
		audit:       s.audit,
		memory:      s.memory,
		logWriter:   s.logWriter,
		snapshots:   s.snapshots,
		submissions: s.submissions,
		events:      s.events,
		handover:    s.handover,
		learners:    s.loop.learners,
		arrivals:    s.loop.arrivals,
		clients:     s.clients,
		clientTLS:   clientTLS,
		transport:   s.loop.transport,
	}
}

// AdminPages returns the pages of the AdminServer. url is the path of the commands, and
// text the configuration file that they show. With zkd.api the HTTP API is among them, and with zkd.console the console. It may be called before Start.
func (s *Server) AdminPages(url, text string) http.Handler {
	return pages.Handler(pages.Options{
		Asked: func() pages.Asked { return s.pages() }, Config: s.cfg, Live: s.settings.Live, URL: url, Text: text, Version: s.opts.Version, Logger: s.log, Audit: s.audit,
		Ensemble: s.opts.Ensemble, Operator: s.opts.Operator, Provider: s.identities.SignIn,
	})
}

// pages returns what the pages need of the server.
func (s *Server) pages() *pages.Server {
	return &pages.Server{
		Source:      s.words.Source(0),
		Config:      s.cfg,
		FS:          s.opts.FS,
		Now:         s.now,
		State:       &s.state,
		Configured:  s.settings,
		Clients:     s.clients,
		Schemes:     s.identities.Schemes,
		Changes:     s.changes,
		Log:         s.logWriter.Writer,
		Snapshots:   s.snapshots,
		Store:       s.snapshots.store,
		Former:      s.past(),
		Transport:   s.loop.transport,
		ID:          s.id,
		Incarnation: s.snapshots.ident.Incarnation,
		Role:        s.standing.role.Load,
		Peers:       s.standing.peers.Load,
		Requests:    s.standing.forwarded,
		IdleSince:   s.service.IdleSince,
		InService:   s.service.Serving,
		Remarks:     s.overview.remarks,
		Ping:        func(done chan<- struct{}) { s.events.Put(peerEvent{kind: evPing, done: done}) },
		Working:     func() time.Duration { return time.Duration(s.handover.working.Load()) },
		Stopping:    s.life.Stopping(),
		Ending:      s.life.Ending,
	}
}

// newPast makes what looks at the past of the server.
func newPast(s *Server) *pages.Past {
	return &pages.Past{Past: past.Past{Store: s.snapshots.store, Log: s.logWriter.Writer, Applied: s.state.Applied, Now: s.clock.Wall, History: func() history.ID { return s.pages().HistoryID() }, Archive: s.cfg.Archive, Room: s.memory.spare}}
}

// applierState is a replica's view of the applier's work.
type applierState struct {
	state *state.State
}

func (o applierState) RLock() *datatree.Tree {
	o.state.RLock()
	return o.state.Tree
}

func (o applierState) RUnlock()           { o.state.RUnlock() }
func (o applierState) Applied() jute.Zxid { return o.state.Applied() }

func (o applierState) DigestAt(zxid jute.Zxid) (datatree.Digest, bool) {
	return o.state.Digests.At(zxid)
}

func newApplier(s *Server) *applier {
	a := &applier{
		log:        s.log,
		metrics:    s.metrics,
		now:        s.now,
		doubt:      s.clock.Doubt,
		fail:       s.life.Fail,
		leads:      s.standing.leads,
		handover:   s.handover,
		replicated: s.cfg.Replicated(),
		id:         s.id,
		state:      &s.state,
		snapshots:  s.snapshots,
		logWriter:  s.logWriter,
		audit:      s.audit,
		traces:     s.traces,
		events:     s.events,
		changes:    s.changes,
	}
	a.answers = s.clients.NewAnswers(func() {
		a.work++
		a.yield()
	}, a.telling, a.fired)
	return a
}

func newSnapshotter(s *Server, found *data.Recovered) *snapshotter {
	sn := &snapshotter{
		live:      s.settings.Live,
		log:       s.log,
		metrics:   s.metrics,
		now:       s.now,
		wall:      s.clock.Cautious,
		ident:     found.Identity,
		state:     &s.state,
		disk:      s.disk,
		logWriter: s.logWriter,
		events:    s.events,
		askFor:    func() { s.handover.orders.Put(replica.Order{Kind: replica.OrderFreeze}) },
		store:     found.Store,
		views:     make(chan frozen, 1),
		most:      s.memory.retained(),
		idle:      make(chan struct{}, 1),
		ended:     make(chan struct{}, 1),
		tight:     make(chan struct{}, 1),
		measured:  make(chan struct{}, 1),
		reloaded:  s.settings.Changes(),
		bytes:     s.logWriter.Stats().SinceSnapRef,
	}
	if found.Used != nil {
		sn.size.Store(found.Used.Size)
		sn.taken.Store(int64(found.Used.Zxid))
	}
	sn.mu.refs = found.Snapshots
	sn.needed.Store(math.MaxInt64)
	sn.mu.received = make(map[string]jute.Zxid)
	sn.idle <- struct{}{}
	sn.schedule()
	return sn
}

// newTransport creates the links to the other servers of the ensemble.
func newTransport(s *Server) (*transport.Transport, error) {
	o := transport.Options{
		Self:       s.id,
		Introduce:  func() zab.Introduction { return *s.standing.intro.Load() },
		Peers:      s.loop.peersOf(s.standing.lists.Load()),
		Stranger:   s.loop.rules.checkUnlisted,
		Reads:      s.loop.rules.reads,
		Needs:      s.loop.rules.historyNeeds,
		Refused:    s.loop.rules.refused,
		Shares:     s.sharesLimits(),
		ListenFunc: s.opts.ListenPeers,
		DialFunc:   s.opts.DialPeer,
		Secret:     []byte(s.cfg.QuorumSecret.Reveal()),
		TLS:        peerTLS(&s.cfg.QuorumTLS),
		MaxFrame:   maxPeerFrame,
		QueueBytes: maxPeerQueue,
		Wall:       s.clock.Wall,
		Handler:    links{s.loop, s.life.Context()},
		// The frames queued before a heartbeat must not take longer than the heartbeat
		// interval.
		BulkDelay:  s.cfg.Heartbeat,
		Logger:     s.log.Named("peers"),
		Registerer: s.registry,
	}
	self := s.cfg.Self()
	o.Listen, o.Advertise = peerAddrs(s.cfg, &self)
	return transport.New(o)
}

// peerTLS returns the TLS configuration between servers; nil for none.
func peerTLS(c *config.QuorumTLS) *transport.TLS {
	if !c.Dial && !c.Accept {
		return nil
	}
	t := &transport.TLS{
		Mode:     transport.TLSOnly,
		Settings: c.Settings,
	}
	switch {
	case !c.Dial:
		t.Mode = transport.AcceptTLS
	case c.AcceptPlain:
		t.Mode = transport.PlainAndTLS
	}
	return t
}

func newMembership(s *Server, following *following) *membership {
	return &membership{cfg: s.cfg, log: s.log, fail: s.life.Fail, lists: s.standing.lists.Load, following: following, id: s.id, fs: s.opts.FS, clients: s.clients, transport: s.loop.transport, joins: s.opts.Join != "",
		client:       config.Endpoint{Host: s.cfg.ClientPortAddress, Port: s.cfg.ClientPort},
		secure:       config.Endpoint{Host: s.cfg.ClientTLS.Address, Port: s.cfg.ClientTLS.Port},
		secureByLine: s.cfg.Self().SecureClient.Port != 0}
}

// random64 never fails.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
