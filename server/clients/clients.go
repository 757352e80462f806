package clients

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/traces"
)

// Backend is the server as seen by its clients' connections. It may be called from any
// goroutine, and does not block.
type Backend interface {
	// Submit hands over requests to be ordered. Each is answered through Answers.
	Submit(...replica.Submission)
	// Now is the server's clock.
	Now() time.Duration
	// AnswersUntil returns the time, in ms of Now, until which this server may answer
	// reads alone.
	AnswersUntil() int64
	// Service returns the number of the present service, and 0 if there is none: see package
	// replica.
	Service() uint64
	// Serving reports whether a leader is known, or this server is the leader.
	Serving() bool
	// Ending reports whether the server is closing or has failed.
	Ending() bool
	// IdleSince returns when the server last stopped serving, if it does not serve.
	IdleSince() time.Duration
	// Facts returns the data that the four-letter words show to a connection.
	Shows(origin uint64) show.Source
}

// Limits bound the memory held by connections, in bytes.
type Limits struct {
	// Requests is for the requests that wait to be answered. Above it, a connection with
	// a waiting request is not read.
	Requests int64
	// Replies is for unwritten replies of connections with more than outFlush. Above it, the
	// connections that have most of them end.
	Replies int64
}

// Options configure Clients.
type Options struct {
	Config *config.Config
	// MaxDescriptors limits the connections, whatever maxCnxns is; 0 means no limit.
	MaxDescriptors int
	Logger         *zap.Logger
	Metrics        *monitor.Metrics
	Limits         Limits
	Backend        Backend
	State          *state.State
	Schemes        *auth.Schemes
	IDs            *session.IDs                  // of sessions and of connections
	Sessions       *session.Tracker              // of the ensemble
	Keys           *atomic.Pointer[session.Keys] // of session passwords
	Audit          *audit.Log                    // nil for none
	Traces         *traces.Tracer                // nil for none
	Changes        *feed.History                 // for feeds; nil for none
	Places         *feed.Places                  // of the feeds; Reload sets its limits
	// Configure carries out a request about the server's configuration, and returns what to
	// show. It may be called from any goroutine, and may block.
	Configure func(jute.ConfigureRequest) (string, error)
	// TLS is for ClientTLS.Port and, if ClientTLS.Unified, ClientPort; nil if neither uses it.
	TLS *secure.TLS
	// Listen opens the ports; nil means TCP.
	Listen func(network, address string) (net.Listener, error)
}

// Clients are the connections of a server, and their shared state.
type Clients struct {
	cfg        *config.Config
	log        *zap.Logger
	metrics    *monitor.Metrics
	backend    Backend
	state      *state.State
	schemes    *auth.Schemes
	sasl       *sasl.Server // nil if there is none
	ids        *session.IDs
	tracker    *session.Tracker // of the ensemble's sessions
	keys       *atomic.Pointer[session.Keys]
	live       atomic.Pointer[config.Config] // cfg with the values that live keys have by now
	words      atomic.Pointer[fourletter.Whitelist]
	listenFunc func(network, address string) (net.Listener, error)

	audit       atomic.Pointer[auditor] // nil while there has been no audit log
	locals      *session.Tracker        // of local sessions
	lines       *line.Lines
	conns       *register.Register[*line.Line] // of lines
	throttler   *throttler
	limits      atomic.Pointer[limits.Table] // nil without rules
	quotaRates  quotaRates
	newSessions tokenBucket
	slow        slowLog
	traces      *traces.Tracer
	ended       endedUses
	failures    *limits.Failures // of clients to authenticate, by any door
	superUser   string           // "" for none
	largeBytes  atomic.Int64
	unread      unread // see Limits.Replies
	tls         *secure.TLS
	configure   func(jute.ConfigureRequest) (string, error)
	handshakes  *handshakes
	complaints  complaints
	feeder      *feeder
	places      *feed.Places // of feeds
	readOnly    atomic.Bool  // serving read-only clients because there is no leader
	drain       drain
	refusals    refusals
	viewsLock   sync.Mutex // of lines.Views
	parking     parking

	ports struct {
		sync.Mutex
		plain, secure port
		closed        bool
	}
	refusing  chan struct{} // closed by Refuse
	most      int           // connections, as Options.MaxDescriptors
	accepting sync.WaitGroup
	running   sync.WaitGroup // readers, flushers and the feeder, and connections that are parked
	flushers  *flushers
}

// New returns Clients without connections.
func New(o Options) *Clients {
	s := &Clients{
		cfg:        o.Config,
		log:        o.Logger,
		metrics:    o.Metrics,
		backend:    o.Backend,
		state:      o.State,
		schemes:    o.Schemes,
		ids:        o.IDs,
		tracker:    o.Sessions,
		keys:       o.Keys,
		listenFunc: o.Listen,
		locals:     session.NewTracker(o.Config.TickTime.Milliseconds()),
		conns:      register.New[*line.Line](o.Config.Replicated()),
		throttler:  newThrottler(o.Limits.Requests),
		failures:   limits.NewFailures(o.Config.AuthFailuresPerSecond),
		traces:     o.Traces,
		tls:        o.TLS,
		configure:  o.Configure,
		handshakes: newHandshakes(runtime.GOMAXPROCS(0)),
		feeder:     newFeeder(o.Changes),
		places:     o.Places,
		refusing:   make(chan struct{}),
		most:       o.MaxDescriptors,
	}
	s.places.Displaced = s.feeder.wake
	s.lines = &line.Lines{
		Server: lineServer{s}, State: s.state, Schemes: s.schemes, Sessions: s.tracker, Locals: s.locals, Keys: s.keys, Register: s.conns,
		Views: line.Views{Lock: &s.viewsLock}, History: o.Changes, Places: o.Places,
		LocalSessions: o.Config.LocalSessions, Upgrading: o.Config.LocalSessionsUpgrading,
	}
	s.flushers = newFlushers(&s.running)
	s.unread.limit, s.unread.held = o.Limits.Replies, make(map[*conn]int64)
	s.complaints.bucket.set(10, time.Second, 1)
	s.Reload(o.Config)
	s.ports.plain.key, s.ports.secure.key, s.ports.secure.kind = "clientPort", "secureClientPort", tlsPort
	if o.Config.ClientTLS.Unified {
		s.ports.plain.kind = bothPort
	}
	if o.Config.SASL.On {
		s.sasl = sasl.NewServer(o.Config.SASL.Config)
		if f := o.Config.SASL.UsersFile; f != nil {
			f.OnError(func(err error) { s.log.Warn("the users of before may still log in", zap.Error(err)) })
		}
		if k := o.Config.SASL.Kerberos; k != nil {
			k.OnError(func(err error) {
				s.log.Warn("the changed keytab can't be used: staying with what it was", zap.Error(err))
			})
		}
	}
	s.superUser, _, _ = strings.Cut(o.Config.SuperDigest.Reveal(), ":")
	s.Audit(o.Audit, o.Config.Audit.Reads)
	return s
}

// Reload takes over the values of live keys. Connections that are there stay. Only one
// goroutine at a time may call it.
func (s *Clients) Reload(cfg *config.Config) {
	before := s.live.Swap(cfg)
	words, _ := fourletter.ParseWhitelist(strings.Join(cfg.FourLetterWhitelist, ","))
	s.words.Store(&words)
	s.setLimits(before, cfg)
	s.throttler.setLimits(cfg.GlobalOutstandingLimit, cfg.RequestThrottle.MaxRequests)
	t := &cfg.ConnectionThrottle
	s.newSessions.set(t.Tokens, max(t.FillTime, time.Millisecond), t.FillCount)
	s.failures.SetRate(cfg.AuthFailuresPerSecond)
	s.slow.threshold.Store(int64(cfg.SlowRequest))
	s.places.SetLimits(cfg.MaxFeedsPerConnection, cfg.MaxFeeds)
	s.viewsLock.Lock()
	defer s.viewsLock.Unlock()
	s.lines.Views.Limits = views.Limits{Views: cfg.MaxViews, Life: cfg.ViewLife, Bytes: viewBytes}
}

func (s *Clients) now() time.Duration { return s.backend.Now() }

// millis converts a time of the server's clock for the session tracker.
func millis(d time.Duration) int64 { return d.Milliseconds() }

// Refuse stops accepting connections.
func (s *Clients) Refuse() {
	close(s.refusing)
	s.ports.Lock()
	s.ports.closed = true
	for _, p := range []*port{&s.ports.plain, &s.ports.secure} {
		if p.listener != nil {
			p.listener.Close()
		}
	}
	s.ports.Unlock()
	s.accepting.Wait()
}

// Close answers the pending requests, ends the connections, and waits for their end.
// After timeout it ends the remaining ones without an answer, such as a handshake whose
// outcome a failed log never reports. Refuse must be called before.
func (s *Clients) Close(timeout time.Duration) {
	for _, c := range s.all() {
		c.drain()
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
	if c := connOf(s.conns.Get(origin)); c != nil {
		c.kill()
	}
}

// Tick expires local sessions, lets read-only clients in if there is no leader, looks for
// changed TLS files, moves clients to other servers if that was asked for, closes the views that
// are over, and reports the limits that are exceeded and the slow requests.
func (s *Clients) Tick(now time.Duration) {
	if s.tls != nil {
		s.tls.Tick()
	}
	s.expireLocals(now)
	s.stepDrain(now)
	s.considerReadOnly(now)
	s.tickLimits(now)
	s.state.RLock()
	s.lines.TickViews(now)
	s.state.RUnlock()
	s.slow.report(s.log, now)
}

// Postpone extends local sessions by the time for which the process was paused.
func (s *Clients) Postpone(gap time.Duration) { s.locals.Postpone(millis(gap)) }

// nextSession returns a fresh session id.
func (s *Clients) nextSession() jute.SessionID {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.nextSessionLocked()
}

func (s *Clients) nextSessionLocked() jute.SessionID {
	return s.ids.Next(func(id jute.SessionID) bool {
		_, taken := s.state.Tree.Session(id)
		return taken
	})
}

// ReadOnly reports whether read-only clients are served because there is no leader.
func (s *Clients) ReadOnly() bool { return s.readOnly.Load() }

// LocalBuckets returns the local sessions by their deadlines.
func (s *Clients) LocalBuckets() []session.Bucket { return s.locals.Buckets() }

// Show sets the fields of a view that concern the clients.
func (s *Clients) Show(v *show.View) {
	v.LocalSessions = s.locals.Len()
	v.Connections = s.conns.Len()
	v.WaitingRequests, v.WaitingBytes = s.throttler.waiting.Load(), s.throttler.bytes.Load()
	v.LargeBytes = s.largeBytes.Load()
	v.Stalls = s.throttler.stalls.Load()
	if t := s.limits.Load(); t != nil {
		v.Limits = t.Figures()
	}
	feeds := s.places.Usage()
	v.Feeds, v.FeedsRefused, v.FeedsDisplaced, v.FeedsCompacted = feeds.Open, feeds.Refused, feeds.Displaced, feeds.Compacted
	if h := s.feeder.history; h != nil {
		v.FeedHistoryBytes = h.Bytes()
	}
	s.viewsLock.Lock()
	open := s.lines.Views.Usage()
	s.viewsLock.Unlock()
	v.Views, v.ViewsRefused, v.ViewsLost = open.Open, open.Refused, open.Lost
	left, until := s.draining()
	v.ToMove, v.KeepsAway = left, until != 0
}

// Held returns what the connections hold: waiting requests, connections with unwritten
// replies, and how many connections have ended since the last call of Touches.
func (s *Clients) Held() (requests, replies, ended show.Holding) {
	requests = show.Holding{Items: s.throttler.waiting.Load(), Bytes: s.throttler.bytes.Load()}
	replies = show.Holding{Bytes: s.unread.bytes(), Limit: s.unread.limit}
	for _, c := range s.all() {
		c.mu.Lock()
		if c.line.Out() != nil {
			replies.Items++
		}
		c.mu.Unlock()
	}
	ended.Items = int64(s.conns.NumEnded())
	return requests, replies, ended
}

// all returns the live connections in no particular order.
func (s *Clients) all() []*conn {
	lines := s.conns.All()
	list := make([]*conn, len(lines))
	for i, l := range lines {
		list[i] = connOf(l)
	}
	return list
}

// EndEarlier ends the connections that have sent any request, except those of the given service.
func (s *Clients) EndEarlier(service uint64) { s.lines.EndEarlier(service) }

// Fenced returns the last service whose fence has passed.
func (s *Clients) Fenced() uint64 { return s.lines.Fenced() }

// Touches appends to list the sessions that were heard of since the last call, including
// those on connections that have ended since.
func (s *Clients) Touches(list []replica.Touch, now int64) []replica.Touch {
	return s.lines.Touches(list, now)
}

// KeepTouches replaces a call of Touches while this server follows nobody.
func (s *Clients) KeepTouches(now int64) { s.lines.KeepTouches(now) }

// ForgetTouches replaces a call of Touches while this server leads.
func (s *Clients) ForgetTouches() { s.lines.ForgetTouches() }

// viewBytes is for what a view keeps of changed nodes. Until then it may be read for as long as the client needs.
const viewBytes = 64 << 20
