package clients

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
)

// State is what requests are answered from. Its lock orders reads, the registration of
// watches and the applier's changes.
type State struct {
	sync.RWMutex
	Tree    *datatree.Tree
	Watches *watch.Table // has a lock of its own, after that of State
	// Settled is nil while the tree is at a transaction. While one is being applied in
	// slices, it is closed at the end of that: see conn.lockTree.
	Settled chan struct{}

	applied atomic.Int64 // jute.Zxid
}

// Applied returns the zxid of the last entry that is applied. It needs no lock.
func (s *State) Applied() jute.Zxid { return jute.Zxid(s.applied.Load()) }

// SetApplied is called before anything shows what the entry did.
func (s *State) SetApplied(z jute.Zxid) { s.applied.Store(int64(z)) }

// Backend is the server as its clients need it. It may be called from any goroutine, and
// does not block.
type Backend interface {
	// Submit hands requests over to be ordered. Each is answered by Answers.
	Submit(...replica.Submission)
	// Now is the server's clock.
	Now() time.Duration
	// AnswersUntil returns until when this server may answer reads alone, in ms of Now.
	AnswersUntil() int64
	// Serving reports whether a leader is known, or this server is the leader.
	Serving() bool
	// Ending reports whether the server is closing or has failed.
	Ending() bool
	// IdleSince returns when the server served last, if it does not.
	IdleSince() time.Duration
	// Facts returns what the four-letter words show to a connection.
	Facts(origin uint64) fourletter.Source
}

// Limits bound what connections hold in memory, in bytes.
type Limits struct {
	// Requests is for those that wait to be answered. With more, a connection that has
	// one waiting is not read.
	Requests int64
	// Replies is for what is to be written, of connections with more than outFlush.
	Replies int64
}

// Options are what Clients are made of.
type Options struct {
	Config   *config.Config
	Logger   *zap.Logger
	Metrics  *monitor.Metrics
	Limits   Limits
	Backend  Backend
	State    *State
	Schemes  *auth.Schemes
	IDs      *session.IDs                  // of sessions and of connections
	Sessions *session.Tracker              // of the ensemble
	Keys     *atomic.Pointer[session.Keys] // of session passwords
	Words    fourletter.Whitelist          // the enabled four-letter words
	// Listen opens the client port; nil is TCP.
	Listen func(network, address string) (net.Listener, error)
}

// Clients are the connections of a server, and what they share.
type Clients struct {
	cfg        *config.Config
	log        *zap.Logger
	metrics    *monitor.Metrics
	limits     Limits
	backend    Backend
	state      *State
	schemes    *auth.Schemes
	ids        *session.IDs
	tracker    *session.Tracker // of the ensemble's sessions
	keys       *atomic.Pointer[session.Keys]
	words      fourletter.Whitelist
	listenFunc func(network, address string) (net.Listener, error)

	locals      *session.Tracker // of local sessions
	conns       *conns
	throttler   *throttler
	newSessions tokenBucket
	largeBytes  atomic.Int64
	outBytes    atomic.Int64 // see Limits.Replies
	readOnly    atomic.Bool  // serving read-only clients for want of a leader

	listener  net.Listener  // nil with clientPort=-1
	refusing  chan struct{} // closed by Refuse
	accepting sync.WaitGroup
	running   sync.WaitGroup // readers and writers
}

// New returns Clients without any.
func New(o Options) *Clients {
	throttle := &o.Config.ConnectionThrottle
	return &Clients{
		cfg:        o.Config,
		log:        o.Logger,
		metrics:    o.Metrics,
		limits:     o.Limits,
		backend:    o.Backend,
		state:      o.State,
		schemes:    o.Schemes,
		ids:        o.IDs,
		tracker:    o.Sessions,
		keys:       o.Keys,
		words:      o.Words,
		listenFunc: o.Listen,
		locals:     session.NewTracker(o.Config.TickTime.Milliseconds()),
		conns:      newConns(o.Config.Replicated()),
		throttler:  newThrottler(o.Config.GlobalOutstandingLimit, o.Config.RequestThrottle.MaxRequests, o.Limits.Requests),
		newSessions: tokenBucket{
			size:   throttle.Tokens,
			every:  max(throttle.FillTime, time.Millisecond),
			count:  throttle.FillCount,
			tokens: throttle.Tokens,
		},
		refusing: make(chan struct{}),
	}
}

func (s *Clients) now() time.Duration { return s.backend.Now() }

// millis is a time of the server's clock as the session tracker wants it.
func millis(d time.Duration) int64 { return d.Milliseconds() }

// Refuse lets no more connections in.
func (s *Clients) Refuse() {
	close(s.refusing)
	if s.listener != nil {
		s.listener.Close()
	}
	s.accepting.Wait()
}

// Close answers what has been asked for, ends the connections, and waits for that. What
// still waits after timeout, such as a handshake whose outcome a failed log never tells,
// is ended without an answer. Refuse comes before.
func (s *Clients) Close(timeout time.Duration) {
	for _, c := range s.conns.all() {
		c.drain()
	}
	s.throttler.relax()
	late := time.AfterFunc(timeout, func() {
		for _, c := range s.conns.all() {
			c.kill()
		}
	})
	defer late.Stop()
	s.running.Wait()
}

// Kill ends a connection without a word to its client.
func (s *Clients) Kill(origin uint64) {
	if c := s.conns.get(origin); c != nil {
		c.kill()
	}
}

// EndService ends the connections that have asked for anything.
func (s *Clients) EndService() {
	for _, c := range s.conns.all() {
		if c.asked() {
			c.kill()
		}
	}
}

// Tick lets local sessions expire, and read-only clients in if there is no leader.
func (s *Clients) Tick(now time.Duration) {
	s.expireLocals(now)
	s.considerReadOnly(now)
}

// Postpone gives local sessions the time back for which the process was paused.
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

// ReadOnly reports whether read-only clients are served for want of a leader.
func (s *Clients) ReadOnly() bool { return s.readOnly.Load() }

// LocalBuckets returns the local sessions by their deadlines.
func (s *Clients) LocalBuckets() []session.Bucket { return s.locals.Buckets() }

// Show sets what a reading shows of the clients.
func (s *Clients) Show(r *monitor.Reading) {
	r.LocalSessions = s.locals.Len()
	r.Connections = s.conns.len()
	r.WaitingRequests, r.WaitingBytes = s.throttler.waiting.Load(), s.throttler.bytes.Load()
	r.LargeBytes = s.largeBytes.Load()
	r.Stalls = s.throttler.stalls.Load()
}

// Held returns what the connections hold: requests that wait, connections with something
// to be written, and how many have ended since the last call of Touches.
func (s *Clients) Held() (requests, replies, ended monitor.Holding) {
	requests = monitor.Holding{Items: s.throttler.waiting.Load(), Bytes: s.throttler.bytes.Load()}
	replies = monitor.Holding{Bytes: s.outBytes.Load(), Limit: s.limits.Replies}
	for _, c := range s.conns.all() {
		c.mu.Lock()
		if c.mu.out != nil {
			replies.Items++
		}
		c.mu.Unlock()
	}
	ended.Items = int64(s.conns.numEnded())
	return requests, replies, ended
}
