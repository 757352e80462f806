package clients

import (
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
)

// Clients are the connections of a server, and what they share.
type Clients struct {
	shared
	ports     Ports
	guests    guests
	tracker   *session.Tracker // of the ensemble's sessions
	viewsLock sync.Mutex       // of lines.Views
}

// New returns Clients without connections.
func New(o Options) *Clients {
	s := &Clients{tracker: o.Sessions}
	s.most = register.Most{Of: [...]int{register.Direct: o.MaxDescriptors, register.Carried: o.MaxCarried}}
	s.cfg, s.log, s.metrics, s.backend, s.state, s.schemes = o.Config, o.Logger, o.Metrics, o.Backend, o.State, o.Schemes
	s.stopping = make(chan struct{})
	s.register = register.New[*line.Line](o.Config.Replicated())
	s.sessions = sessions{state: o.State, ids: o.IDs, locals: session.NewTracker(o.Config.TickTime.Milliseconds())}
	s.refusals.log, s.refusals.now = o.Logger, s.now
	s.complaints.log, s.complaints.now = o.Logger, s.now
	s.complaints.bucket.set(10, time.Second, 1)
	s.proofs = newProofs(&o, &s.live, &s.audit, s.stopping)
	s.rules = rules{live: &s.live, state: o.State, sessions: &s.sessions, now: s.now, log: o.Logger}
	s.throttler = newThrottler(o.Limits.Requests)
	s.mostWatches = o.Limits.Watches
	s.large.metrics = o.Metrics
	s.drain.log, s.drain.metrics, s.drain.now, s.drain.sessions, s.drain.lines = o.Logger, o.Metrics, s.now, &s.sessions, s.guardedLines
	s.drain.order = s.drainOrder
	s.tls = tlsDoor{o.TLS, newHandshakes(runtime.GOMAXPROCS(0))}
	s.tallies.metrics, s.tallies.traces = o.Metrics, o.Traces
	s.configurer = configurer{o.Logger, o.State, o.Schemes, o.Configure}
	s.looks.past, s.looks.authors, s.looks.state, s.looks.schemes, s.looks.running = o.Past, o.Authors, o.State, o.Schemes, &s.running
	s.newOutput(&o)
	s.lines = &line.Lines{
		Server: lineServer{&s.shared}, State: s.state, Schemes: s.schemes, Sessions: s.tracker, Locals: s.sessions.locals, Register: s.register,
		Views: line.Views{Lock: &s.viewsLock}, History: o.Changes, Places: &s.feeder.places, Unread: line.UnreadLimit,
		LocalSessions: o.Config.LocalSessions, Upgrading: o.Config.LocalSessionsUpgrading,
	}
	s.ports.init(&o, s.stopping, s.admit, &s.refusals)
	s.Reload(o.Config)
	s.Audit(o.Audit, o.Config.Audit.Reads)
	return s
}

// newOutput makes the parts that write to the clients.
func (s *Clients) newOutput(o *Options) {
	unread := &unread{limit: o.Limits.Replies, end: s.cutOff, held: make(map[*line.Line]int64)}
	s.writers = writers{metrics: o.Metrics, audit: &s.audit, unread: unread, running: &s.running}
	s.flushers = newFlushers(&s.running)
	s.feeder = newFeeder(o.Changes, s.flushers)
	s.parking.log, s.parking.wake = o.Logger, s.unpark
}

// Audit sets the audit log, nil for none, and of which reads it has entries (zkd.audit.reads).
// It is always the same log if it is not nil.
func (s *Clients) Audit(log *audit.Log, reads string) {
	a := s.audit.Load()
	if a == nil {
		if log == nil {
			return
		}
		a = newAuditor(log, uint64(s.sessions.ids.Next(nil)))
		s.audit.Store(a)
	}
	a.allReads.Store(reads == "all")
	a.someReads.Store(reads != "none")
	a.on.Store(log != nil)
}

// Reload takes over the values of live keys. Connections that are there stay. Only one
// goroutine at a time may call it.
func (s *Clients) Reload(cfg *config.Config) {
	before := s.live.Swap(cfg)
	words, _ := fourletter.ParseWhitelist(strings.Join(cfg.FourLetterWhitelist, ","))
	s.words.Store(&words)
	s.rules.set(before, cfg)
	s.proofs.schemes.SetEdges(cfg.Edges)
	s.endSpoken()
	s.throttler.setLimits(cfg.GlobalOutstandingLimit, cfg.RequestThrottle.MaxRequests)
	t := &cfg.ConnectionThrottle
	s.newSessions.set(t.Tokens, max(t.FillTime, time.Millisecond), t.FillCount)
	s.proofs.failures.SetRate(cfg.AuthFailuresPerSecond)
	s.tallies.slow.threshold.Store(int64(cfg.SlowRequest))
	s.feeder.places.SetLimits(cfg.MaxFeedsPerConnection, cfg.MaxFeeds)
	s.viewsLock.Lock()
	defer s.viewsLock.Unlock()
	s.lines.Views.Limits = views.Limits{Views: cfg.MaxViews, Life: cfg.ViewLife, Bytes: viewBytes}
}

// endSpoken ends the connections for which an edge has spoken that may not do so any more. Their clients come back by the edge, which has to ask again.
func (s *Clients) endSpoken() {
	for _, c := range s.all() {
		if !s.proofs.schemes.StillSpeaks(c.identity.credentials.Load()) {
			c.kill()
		}
	}
}

// Ports returns the ports for clients.
func (s *Clients) Ports() *Ports { return &s.ports }

// Lines returns the rules of the connections.
func (s *Clients) Lines() *line.Lines { return s.lines }

// Drain returns what moves clients to other servers.
func (s *Clients) Drain() *Drain { return &s.drain }

// Proofs returns what decides who a client is.
func (s *Clients) Proofs() *Proofs { return s.proofs }

// admit starts a connection if the limits allow one more. Otherwise it closes it without
// a reply, which makes a client try another server.
func (s *Clients) admit(nc net.Conn, kind portKind) { s.enter(newConn(&s.shared, nc, kind)) }

// enter is admit for a connection that is made.
func (s *shared) enter(c *conn) {
	nc := c.socket.nc
	if !c.limits.admit() {
		s.metrics.ConnectionRejected.Add(1)
		nc.Close()
		return
	}
	if !s.register.Add(&c.line.Line, c.group, c.takes, s.mostConnections()) && !s.admitOperator(c) {
		c.limits.end()
		s.metrics.ConnectionRejected.Add(1)
		s.refusals.note(zap.WarnLevel, "too many connections: closing a new one; see maxClientCnxns and maxCnxns, and the process's limits of open files and, for clients of an edge, of memory", errNoRoom,
			zap.Stringer("remote", nc.RemoteAddr()))
		nc.Close()
		return
	}
	s.running.Go(c.serve)
}

// operatorPlaces is how many connections may ask four-letter words when there are no places for clients.
const operatorPlaces = 4

// admitOperator lets a connection from this machine in that may only ask a four-letter word: with all places taken,
// operators still need to see which clients have them.
func (s *shared) admitOperator(c *conn) bool {
	ip, err := netip.ParseAddr(c.identity.ip())
	if err != nil || !ip.Unmap().IsLoopback() {
		return false
	}
	c.group, c.wordsOnly = "operators", true
	return s.register.Add(&c.line.Line, c.group, c.takes, register.Most{PerIP: operatorPlaces})
}

// mostConnections returns how many connections there may be.
func (s *shared) mostConnections() register.Most {
	m, cfg := s.most, s.live.Load()
	m.PerIP, m.All = cfg.MaxClientCnxns, cfg.MaxCnxns
	return m
}

// Refuse stops accepting connections.
func (s *Clients) Refuse() {
	close(s.stopping)
	s.ports.close()
	s.guests.close()
}

// StopServing notes that no clients are served: their connections wait for the next service (see package line).
func (s *Clients) StopServing() { s.ports.noteEnd() }

// Close answers the pending requests, ends the connections, and waits for their end.
// After timeout it ends the remaining ones without an answer, such as a handshake whose
// outcome a failed log never reports. Refuse must be called before.
func (s *Clients) Close(timeout time.Duration) {
	for _, c := range s.all() {
		c.line.drain()
	}
	s.throttler.relax()
	late := time.AfterFunc(timeout, func() {
		for _, c := range s.all() {
			c.kill()
		}
	})
	defer late.Stop()
	s.running.Wait()
	s.parking.close()
}

// Kill ends a connection without a reply to its client.
func (s *Clients) Kill(origin uint64) {
	if c := connOf(s.register.Get(origin)); c != nil {
		c.kill()
	}
}

// Tick expires local sessions, lets read-only clients in if there is no leader, looks for
// changed TLS files, moves clients to other servers if that was asked for, closes the views that
// are over and a look at the past that lasts too long, and reports the limits that are exceeded and the slow requests.
func (s *Clients) Tick(now time.Duration) {
	if s.tls.TLS != nil {
		s.tls.Tick()
	}
	s.expireLocals(now)
	s.drain.tick(now)
	s.looks.tick()
	s.considerReadOnly(now)
	s.rules.tick(now)
	s.state.RLock()
	s.lines.TickViews(now)
	s.state.RUnlock()
	s.tallies.slow.report(s.log, now)
}

// drainOrder returns the order that this server keeps clients away.
func (s *Clients) drainOrder() drainOrder {
	if !s.cfg.Replicated() {
		return drainOrder{}
	}
	s.state.RLock()
	defer s.state.RUnlock()
	if since := s.state.Tree.RetiredSince(); since != 0 {
		return drainOrder{since, retired}
	}
	if n, ok := s.state.Tree.Get(jute.DrainPath(s.cfg.MyID)); ok {
		return drainOrder{n.Czxid, ordered}
	}
	return drainOrder{}
}

// Postpone extends local sessions by the time for which the process was paused.
func (s *Clients) Postpone(gap time.Duration) { s.sessions.locals.Postpone(millis(gap)) }

// expireLocals closes the local sessions whose clients have not been heard of in time.
func (s *Clients) expireLocals(now time.Duration) {
	s.lines.ExpireLocals(millis(now), func(id jute.SessionID) {
		s.metrics.SessionsExpired.Add(1)
		s.log.Info("local session expired", zap.Stringer("session", id))
	})
}

// considerReadOnly lets read-only clients in when there has been no leader for a while
// (readonlymode.enabled, semantics.md section 15). They see the last committed state, and
// are disconnected when there is a leader again.
func (s *Clients) considerReadOnly(now time.Duration) {
	if !s.cfg.ReadOnlyMode || !s.cfg.Replicated() || s.backend.Serving() || s.backend.Ending() || s.readOnly.Load() {
		return
	}
	if now-s.backend.IdleSince() < max(2*time.Second, s.cfg.TickTime) {
		return
	}
	s.log.Warn("no leader: serving read-only clients from the last committed state", zap.Stringer("zxid", s.state.Applied()))
	s.BeginReadOnly()
}

// BeginReadOnly lets read-only clients in.
func (s *Clients) BeginReadOnly() { s.readOnly.Store(true) }

// EndReadOnly disconnects read-only clients, and lets none in: there is a leader, or the state is wrong.
func (s *Clients) EndReadOnly() {
	if !s.readOnly.Swap(false) {
		return
	}
	s.lines.EndLocals()
}

// ReadOnly reports whether read-only clients are served because there is no leader.
func (s *Clients) ReadOnly() bool { return s.readOnly.Load() }

// LocalBuckets returns the local sessions by their deadlines.
func (s *Clients) LocalBuckets() []session.Bucket { return s.sessions.locals.Buckets() }

// Places returns the places of feeds, which connections and other doors share.
func (s *Clients) Places() *feed.Places { return &s.feeder.places }

// LimitUsers is that of show.Lists.
func (s *Clients) LimitUsers() []limits.Use {
	if t := s.rules.table.Load(); t != nil {
		return t.Users(s.rules.now(), mostUses)
	}
	return nil
}

// mostUses is how many subjects LimitUsers returns.
const mostUses = 100

// Show sets the fields of a view that concern the clients.
func (s *Clients) Show(v *show.View) {
	v.LocalSessions = s.sessions.locals.Len()
	v.Connections = s.register.Len()
	v.WaitingRequests, v.WaitingBytes = s.throttler.waiting.Load(), s.throttler.bytes.Load()
	v.LargeBytes = s.large.bytes.Load()
	v.Stalls = s.throttler.stalls.Load()
	if t := s.rules.table.Load(); t != nil {
		v.Limits = t.Figures()
	}
	feeds := s.feeder.places.Usage()
	v.Feeds, v.FeedsRefused, v.FeedsDisplaced, v.FeedsCompacted = feeds.Open, feeds.Refused, feeds.Displaced, feeds.Compacted
	if h := s.feeder.history; h != nil {
		v.FeedHistoryBytes = h.Bytes()
	}
	s.viewsLock.Lock()
	open := s.lines.Views.Usage()
	s.viewsLock.Unlock()
	v.Views, v.ViewsRefused, v.ViewsLost = open.Open, open.Refused, open.Lost
	left, until := s.drain.state()
	v.ToMove, v.KeepsAway = left, until != 0
}

// Held returns what the connections hold: waiting requests, connections with unwritten
// replies, and how many connections have ended since the last call of Touches.
func (s *Clients) Held() (requests, replies, ended show.Holding) {
	requests = show.Holding{Items: s.throttler.waiting.Load(), Bytes: s.throttler.bytes.Load()}
	replies = show.Holding{Bytes: s.writers.unread.bytes(), Limit: s.writers.unread.limit}
	for _, c := range s.all() {
		c.line.Lock()
		if c.line.Outbox.Unsent() != nil {
			replies.Items++
		}
		c.line.Unlock()
	}
	ended.Items = int64(s.register.NumEnded())
	return requests, replies, ended
}

// all returns the live connections in no particular order.
func (s *Clients) all() []*conn {
	lines := s.register.All()
	list := make([]*conn, len(lines))
	for i, l := range lines {
		list[i] = connOf(l)
	}
	return list
}

// guardedLines returns those of the live connections, in no particular order.
func (s *Clients) guardedLines() []*guardedLine {
	lines := s.register.All()
	list := make([]*guardedLine, len(lines))
	for i, l := range lines {
		list[i] = &connOf(l).line
	}
	return list
}

// unpark is called when the socket of a connection has become readable. The connection may have
// ended, or have a reader already.
func (s *Clients) unpark(origin uint64) {
	if c := connOf(s.register.Get(origin)); c != nil {
		c.line.Lock()
		c.unparkLocked()
		c.line.Unlock()
	}
}

// cutOff ends a connection that holds most of what clients have not read. Another connection may be
// locked.
func (s *Clients) cutOff(l *line.Line) {
	s.metrics.UnreadClosed.Add(1)
	c := connOf(l)
	s.log.Warn("closing connection: clients do not read, and this one has the most to read",
		zap.Stringer("remote", c.socket.remote()), zap.Stringer("session", l.SessionID()), zap.Int64("limit_of_all_bytes", s.writers.unread.limit))
	s.running.Go(c.kill)
}

// viewBytes is for what a view keeps of changed nodes. Until then it may be read for as long as the client needs.
const viewBytes = 64 << 20
