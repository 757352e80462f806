package edge

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/internal/accept"
	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/internal/sockets"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
)

// Options are what an Edge needs.
type Options struct {
	// Upstream are the servers, as host:port,host:port.
	Upstream string
	// Client has how to connect to them: SASL, the resolvers. What belongs to a session is the client's.
	Client client.Options
	// Connections is how many connections to each server carry the sessions of the clients, if the server is one of zkd. 0: each session has
	// its own.
	Connections int
	// MaxClients is how many clients there can be at a time.
	MaxClients int
	// Descriptors is how many files the process may have open, or 0 if that is not known. Clients get what leaves enough for connections to the servers.
	Descriptors int64
	// Grace is how long the session of a client that has gone without closing it waits for the client to resume it, before it is
	// closed. If it is 0, the session lasts for its timeout.
	Grace time.Duration
	// Identities are those of the clients, which the edge tells the servers. If it is nil, the clients have the edge's own.
	Identities *Identities
	// Cached are the subtrees whose reads are answered from memory where that can be, and CachedBytes is the most that they take.
	Cached      []string
	CachedBytes int64
	// Stale are the subtrees that read-only sessions are shown while no server is reached, for StaleFor after they were known to be current. They
	// count in CachedBytes. None is below one of Cached, or above.
	Stale    []string
	StaleFor time.Duration
	// Clock measures that, also while the machine is suspended. Nil means the system's.
	Clock *base.Clock
	// Names puts the names that a user knows into errors of TLS and of logins. It may be nil.
	Names *strings.Replacer
	// Version is what words have for the version of a server.
	Version string
	// TLS returns the configuration for connections to a server. Nil means plain TCP.
	TLS func(server string) (*tls.Config, error)
	// Log is also for what the clients' sessions tell, unless Client has a Logger.
	Log *slog.Logger
}

// helloWithin is how long a client may take to say what it wants.
const helloWithin = 10 * time.Second

// Edge serves clients. Its methods can be called by several goroutines.
type Edge struct {
	o       Options
	figures figures
	spare   int // connections beyond those with sessions
	stop    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	relays  *client.Relays
	pool    *mux.Pool // nil if each session has its own connection
	sockets *sockets.Conns
	memory  *memories    // nil if no subtree is kept
	seen    atomic.Int64 // the newest zxid that clients were shown, if there are stale subtrees

	replaced chan struct{} // closed when a successor has everything
	takes    atomic.Int32  // predecessors that have not tried to pass on each of their clients

	mu         sync.Mutex
	ports      []*port
	identities *table         // what Options.Identities say, or nil
	conns      map[*conn]bool // true for those that may have a session
	admitted   int            // of them
	silent     list.List      // the *conn that have asked for no session yet, oldest first
}

// port is a listener.
type port struct {
	name     string // by which a successor asks for it, or ""
	l        net.Listener
	accepted chan struct{} // closed when nobody accepts clients; nil if it is not for clients
}

// New makes an Edge, which serves nothing yet.
func New(o Options) (*Edge, error) {
	servers, root, err := client.ParseServers(o.Upstream)
	if err != nil {
		return nil, err
	}
	if root != "" {
		return nil, errors.New("an edge passes paths on as they are: clients have the path " + root + " in their own connect string")
	}
	if o.TLS != nil {
		o.Client.Secure = secure.For(o.TLS)
	}
	if o.Clock == nil {
		o.Clock = new(base.Clock)
	}
	o.Clock.Begin()
	o.Log = newCalm(o.Log)
	if o.Client.Logger == nil {
		o.Client.Logger = o.Log
	}
	e := &Edge{o: o, conns: map[*conn]bool{}, replaced: make(chan struct{})}
	if e.o.MaxClients, e.spare = o.divide(len(servers)); e.o.MaxClients < o.MaxClients {
		o.Log.Warn("the process may have too few open files for all clients", "files", o.Descriptors, "clients", e.o.MaxClients, "wanted", o.MaxClients)
	}
	e.stop, e.end = context.WithCancel(context.Background())
	e.figures.began = time.Now()
	e.sockets = sockets.NewConns(func(err error) { o.Log.Warn("idle clients take more memory than they need", "err", err) })
	if e.o.Client.Dial == nil {
		e.o.Client.Dial = new(net.Dialer).DialContext
	}
	dial := e.o.Client.Dial
	e.o.Client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return e.sockets.Of(nc), nil
	}
	if e.relays, err = client.NewRelays(o.Upstream, e.o.Client); err != nil {
		return nil, err
	}
	if o.Connections > 0 {
		e.pool = mux.NewPool(o.Connections, o.Log)
	}
	if len(o.Cached)+len(o.Stale) > 0 {
		e.memory = newMemories(e)
		e.memory.keepOwn()
		e.work.Go(e.memory.tidy)
	}
	if o.Identities != nil {
		e.identities = o.Identities.now
		e.work.Go(e.followIdentities)
	}
	return e, nil
}

// Serve accepts clients of a listener, in the background, until Close or a handover. A successor asks for it by its name.
func (e *Edge) Serve(name string, l net.Listener) {
	p := &port{name: name, l: l}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports = append(e.ports, p)
	e.acceptLocked(p)
}

// Keep keeps a listener that is not for clients, until Close or a handover.
func (e *Edge) Keep(name string, l net.Listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports = append(e.ports, &port{name: name, l: l})
}

func (e *Edge) acceptLocked(p *port) {
	accepted := make(chan struct{})
	p.accepted = accepted
	e.work.Go(func() {
		defer close(accepted)
		for {
			nc, err := accept.Next(p.l, e.stop.Done(), e.lacks)
			if err != nil {
				return
			}
			e.take(nc)
		}
	})
}

func (e *Edge) portsNow() []*port {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ports)
}

// hasDeadline is a listener of the system's.
type hasDeadline interface{ SetDeadline(time.Time) error }

// refrain stops to accept clients, until accept.
func (e *Edge) refrain() {
	for _, p := range e.portsNow() {
		if l, ok := p.l.(hasDeadline); ok && p.accepted != nil {
			l.SetDeadline(past)
			<-p.accepted
			l.SetDeadline(time.Time{})
		}
	}
}

// accept accepts clients again.
func (e *Edge) accept() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		if _, ok := p.l.(hasDeadline); ok && p.accepted != nil && e.stop.Err() == nil {
			e.acceptLocked(p)
		}
	}
}

// closeListeners closes the listeners that a successor has.
func (e *Edge) closeListeners() {
	for _, p := range e.portsNow() {
		unlinks(p.l, false)
		p.l.Close()
	}
}

func (e *Edge) lacks(err error) {
	if err != nil {
		e.o.Log.Error("no client is accepted", "err", err)
	} else {
		e.o.Log.Info("clients are accepted again")
	}
}

const (
	mostSpare      = 100 // connections beyond those with sessions: they ask for figures, or say hello
	ownDescriptors = 160 // of ports and requests for metrics, of logs, of the memories of identities, and of a handover
)

// divide returns how many clients there can be, and how many connections beyond these. What the process may have besides is for connections to so many
// servers: while one hangs there are some to it and to another one.
func (o *Options) divide(servers int) (clients, others int) {
	if o.Descriptors <= 0 || o.Descriptors > math.MaxInt32 {
		return o.MaxClients, mostSpare
	}
	own := int64(ownDescriptors + 2*o.Connections*servers)
	left := int(o.Descriptors - min(own, o.Descriptors/2))
	if o.Connections == 0 { // each client takes another one, to a server
		left /= 2
	}
	others = max(min(mostSpare, left/4), 1)
	return max(min(o.MaxClients, left-others), 1), others
}

// take serves a client. If there are too many, the oldest one that has asked for nothing yet makes room for it.
func (e *Edge) take(nc net.Conn) {
	c := newConn(e, nc)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop.Err() != nil {
		nc.Close()
		return
	}
	if len(e.conns) >= e.o.MaxClients+e.spare {
		e.figures.refused.Add(1)
		oldest := e.silent.Front()
		if oldest == nil {
			nc.Close()
			return
		}
		e.silent.Remove(oldest).(*conn).nc.Close()
	}
	e.conns[c] = false
	c.silent = e.silent.PushBack(c)
	e.work.Add(1)
	go c.serve()
}

// gone forgets a client.
func (e *Edge) gone(c *conn) {
	e.memory.leave(c.shared)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns[c] {
		e.admitted--
	}
	delete(e.conns, c)
	e.heardLocked(c)
}

// heardLocked says that a connection is not silent any more, or has ended.
func (e *Edge) heardLocked(c *conn) {
	if c.silent != nil {
		e.silent.Remove(c.silent) // does nothing if it has made room
		c.silent = nil
	}
}

// overrun is how many bytes wait for clients that read slowly, before no more clients are taken.
const overrun = 256 << 20

// admit reports whether a client may have a session.
func (e *Edge) admit(c *conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heardLocked(c)
	if e.admitted >= e.o.MaxClients || e.figures.queued.Load() > overrun {
		e.figures.refused.Add(1)
		return false
	}
	e.conns[c] = true
	e.admitted++
	return true
}

// Close ends all connections. The clients' sessions remain at the servers for their timeouts, and clients can
// resume them elsewhere.
func (e *Edge) Close() {
	e.mu.Lock()
	e.end()
	for _, p := range e.ports {
		p.l.Close()
	}
	for c := range e.conns {
		c.nc.Close()
	}
	e.mu.Unlock()
	if e.pool != nil {
		e.pool.Close()
	}
	e.work.Wait()
	e.sockets.Close()
}

// text returns an error in the words of a user.
func (e *Edge) text(err error) string {
	if e.o.Names == nil {
		return err.Error()
	}
	return e.o.Names.Replace(err.Error())
}

// Ready reports why a client would not get a session now: no server has a quorum, or they don't let the edge speak for clients.
func (e *Edge) Ready(ctx context.Context) error {
	o := e.o.Client
	o.Logger = client.NoLog
	if e.o.Identities != nil {
		o.User = new(string)
	}
	c, err := client.Connect(ctx, e.o.Upstream, o)
	if err != nil {
		if away, _ := e.memory.away(); away { // read-only sessions are served
			return nil
		}
		return errors.New(e.text(err))
	}
	return c.Close(ctx)
}

// outlive has the session of a client that has gone closed after Options.Grace, unless it ends or moves before, or the edge ends. The
// client still counts as one of MaxClients.
func (e *Edge) outlive(r *client.Relay) {
	t := time.NewTimer(e.o.Grace)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Done():
		return
	case <-e.stop.Done():
		return
	}
	if r.Client().Status().Features&jute.FeatureMoved == 0 { // such servers could close it for a client that has resumed it elsewhere
		return
	}
	ctx, cancel := context.WithTimeout(e.stop, helloWithin)
	defer cancel()
	if err := r.Client().Close(ctx); err != nil {
		e.o.Log.Info("the session of a client that has gone could not be closed", "session", r.Client().Session().ID(), "err", err)
		return
	}
	e.figures.closed.Add(1)
}

// each calls f for each client that has a session.
func (e *Edge) each(f func(*conn)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		if c.relay.Load() != nil {
			f(c)
		}
	}
}

// figures are counted since the start.
type figures struct {
	began      time.Time
	requests   atomic.Int64 // of clients
	replies    atomic.Int64
	events     atomic.Int64
	sessions   atomic.Int64 // that were begun or resumed by clients
	resumed    atomic.Int64 // connections upstream that were lost and replaced, unknown to the client
	lost       atomic.Int64 // clients whose connection ended because theirs upstream did
	closed     atomic.Int64 // sessions of clients that have gone without closing them
	moved      atomic.Int64 // those whose session was resumed elsewhere
	taken      atomic.Int64 // from an edge that this one replaces
	handedOver atomic.Int64 // to one that replaces this one
	refused    atomic.Int64 // connections beyond MaxClients
	failed     atomic.Int64 // attempts to reach a server
	denied     atomic.Int64 // clients that the servers have refused

	cachedReads  atomic.Int64 // that were answered from memory
	cachedEvents atomic.Int64 // that were told from it

	readOnly     atomic.Int64 // read-only sessions now
	staleReads   atomic.Int64 // that these were answered
	staleRefused atomic.Int64 // their requests that were refused

	queued   atomic.Int64 // bytes that wait for clients
	denial   text         // why they have refused the last one
	deniedAt atomic.Int64 // when, in ns since 1970
	failure  text         // of the last attempt to reach a server, "" if it succeeded
	lastLost text         // when and why a client's connection ended
}
