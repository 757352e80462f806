package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/zab"
)

// ErrClosed is returned by calls after Close, and is the reason for links that Close ended.
var ErrClosed = errors.New("transport closed")

// Transport manages the links of one server. Its methods may be called from any goroutine;
// Close must not be called from the Handler.
type Transport struct {
	o          Options
	log        *zap.Logger
	metrics    *metrics
	complaints complaints
	tls        *secure.TLS      // nil without TLS
	failures   *limits.Failures // of handshakes, for their secret
	began      time.Time        // their clock

	gen        atomic.Uint64
	relinks    atomic.Uint64                      // calls of Relink: a hello from before the last one is out of date
	links      [zab.Zero + 1]atomic.Pointer[link] // by peer; the link that is up
	greeting   atomic.Int64                       // accepted connections in their handshake
	ctx        context.Context                    // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu struct {
		sync.Mutex
		started, closed bool
		peers           map[zab.SID]*peer // the known ones, configured or not
		conns           map[net.Conn]struct{}
		listeners       []net.Listener
		listening       map[string]context.CancelFunc // by address
		deaf            map[string]string             // the addresses of listening at which that fails, and why
		advertised      []string
	}
}

// New checks the options and reads the TLS files. It does nothing else; Start does the
// rest.
func New(o Options) (*Transport, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	t := &Transport{o: o, log: o.Logger, failures: limits.NewFailures(secretFailures), began: time.Now()}
	if o.TLS != nil {
		var err error
		if t.tls, err = newTLS(o.TLS, t.log); err != nil {
			return nil, err
		}
	}
	t.metrics = newMetrics(t)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.mu.peers = make(map[zab.SID]*peer)
	t.mu.conns = make(map[net.Conn]struct{})
	t.mu.listening = make(map[string]context.CancelFunc)
	t.mu.deaf = make(map[string]string)
	return t, nil
}

// Start begins to listen and to dial, without waiting for either.
func (t *Transport) Start() error {
	t.mu.Lock()
	if t.mu.closed || t.mu.started {
		t.mu.Unlock()
		return ErrClosed
	}
	t.mu.started = true
	t.mu.Unlock()
	if err := t.metrics.register(t.o.Registerer); err != nil {
		return err
	}
	if err := t.Listen(t.o.Listen, t.o.Advertise); err != nil {
		return err
	}
	return t.SetPeers(t.o.Peers)
}

// Listen replaces the addresses at which this server listens, and those that it advertises:
// see Options. Links stay, also those that came in at an address that is given up. Start
// must have been called.
func (t *Transport) Listen(addrs, advertise []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed || !t.mu.started {
		return ErrClosed
	}
	t.mu.advertised = slices.Clone(advertise)
	for addr, stop := range t.mu.listening {
		if !slices.Contains(addrs, addr) {
			stop()
			delete(t.mu.listening, addr)
		}
	}
	for _, addr := range addrs {
		if t.mu.listening[addr] == nil {
			ctx, stop := context.WithCancel(t.ctx)
			t.mu.listening[addr] = stop
			t.goroutines.Go(func() { t.listenLoop(ctx, addr) })
		}
	}
	return nil
}

// advertised returns where this server says that it listens.
func (t *Transport) advertised() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.advertised
}

// Close ends all links and streams. It returns when PeerDown has been called for each link
// and every goroutine has ended.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.mu.closed = true
	t.cancel()
	for i := range t.links {
		if l := t.links[i].Load(); l != nil {
			l.cut(ErrClosed)
		}
	}
	for _, l := range t.mu.listeners {
		l.Close()
	}
	for nc := range t.mu.conns {
		nc.Close()
	}
	t.mu.Unlock()
	t.goroutines.Wait()
	t.metrics.unregister(t.o.Registerer)
	return nil
}

// Send queues a message for a peer, in the lane of its kind. It encodes m at once: the
// caller owns m again when Send returns. It never blocks. If gen is not that of the current
// link to the peer, the message is dropped. If more than Options.QueueBytes wait, the link
// is cut.
func (t *Transport) Send(to zab.SID, gen uint64, m *zab.Message) {
	if l := t.link(to, gen); l != nil {
		l.send(m)
		return
	}
	t.metrics.stale.Add(1)
}

// SendApp is like Send for bytes that the core does not know. kind is the caller's, and
// body is copied.
func (t *Transport) SendApp(to zab.SID, gen uint64, lane Lane, kind uint8, body []byte) {
	if l := t.link(to, gen); l != nil {
		l.sendApp(lane, kind, body)
		return
	}
	t.metrics.stale.Add(1)
}

// Room returns how many bytes should now be sent in the bulk lane of a link. More would
// only wait in its queue and delay what is sent after it. If Room returns little,
// Handler.Drained is called when there is more.
func (t *Transport) Room(to zab.SID, gen uint64) int {
	if l := t.link(to, gen); l != nil {
		return l.room()
	}
	return 0
}

// Progress returns how many bulk bytes have arrived from a peer, and how many it has read,
// over all links and streams since Start.
func (t *Transport) Progress(peer zab.SID) (in, out uint64) {
	if l := t.links[peer].Load(); l != nil {
		return l.p.bulkIn.Load(), l.p.bulkOut.Load()
	}
	return 0, 0
}

// link returns the link to a peer with the given gen, or nil.
func (t *Transport) link(to zab.SID, gen uint64) *link {
	if l := t.links[to].Load(); l != nil && l.gen == gen {
		return l
	}
	return nil
}

// SetPeers replaces the peers. Links to peers that stay are not touched, links to removed
// peers are cut. New addresses are used from the next dial on. Start must have been called.
func (t *Transport) SetPeers(peers []Peer) error {
	if err := checkPeers(peers); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed || !t.mu.started {
		return ErrClosed
	}
	stay := make(map[zab.SID]bool)
	for _, want := range peers {
		if want.ID != t.o.Self {
			stay[want.ID] = true
			t.configureLocked(want)
		}
	}
	for id, p := range t.mu.peers {
		if !stay[id] {
			p.leave()
		}
	}
	return nil
}

// addPeer adds a peer that SetPeers did not name. Invalid addresses are left out.
func (t *Transport) addPeer(p Peer) {
	p.Addrs = validAddrs(p.Addrs)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.closed {
		t.configureLocked(p)
	}
}

// validAddrs returns those of the addresses that have a host and a port.
func validAddrs(addrs []string) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(addr string) bool {
		_, _, err := net.SplitHostPort(addr)
		return err != nil
	})
}

// Relink cuts all links, and ends the handshakes in which this server has said hello already.
// They are made again, with the current result of Introduce.
func (t *Transport) Relink() {
	t.relinks.Add(1)
	for i := range t.links {
		if l := t.links[i].Load(); l != nil {
			l.cut(errIntroduction)
		}
	}
}

// Cut ends the link to a peer with the given gen. It is made again if both sides agree.
func (t *Transport) Cut(peer zab.SID, gen uint64) {
	if l := t.link(peer, gen); l != nil {
		l.cut(errUseless)
	}
}

// configureLocked adds a peer, or changes its addresses.
func (t *Transport) configureLocked(want Peer) {
	p := t.mu.peers[want.ID]
	if p == nil {
		p = newPeer(t, want.ID)
		t.mu.peers[want.ID] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.addrs, p.mu.moves = slices.Clone(want.Addrs), want.Moves; p.mu.ctx != nil {
		return
	}
	ctx, cancel := context.WithCancel(t.ctx)
	p.mu.ctx, p.mu.cancel = ctx, cancel
	t.goroutines.Go(func() { p.dialLoop(ctx) })
}

// leave removes a peer from the configuration.
func (p *peer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ctx == nil {
		return
	}
	p.mu.cancel()
	p.mu.ctx, p.mu.cancel, p.mu.addrs, p.mu.moved = nil, nil, nil, nil
	if l := p.t.links[p.id].Load(); l != nil {
		l.cut(errRemoved)
	}
}

// active returns the peer with the given id if it is in the configuration, or nil.
func (t *Transport) active(id zab.SID) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.mu.peers[id]; p != nil && p.context() != nil {
		return p
	}
	return nil
}

// configured returns the peers in the configuration, sorted by id.
func (t *Transport) configured() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*peer
	for _, p := range t.mu.peers {
		if p.context() != nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *peer) int { return int(a.id) - int(b.id) })
	return list
}

// Peers returns the state of each peer, sorted by id.
func (t *Transport) Peers() []PeerStatus {
	var list []PeerStatus
	for _, p := range t.configured() {
		list = append(list, p.status())
	}
	return list
}

// Addrs returns the addresses of the current listeners.
func (t *Transport) Addrs() []net.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []net.Addr
	for _, l := range t.mu.listeners {
		list = append(list, l.Addr())
	}
	return list
}

// hold records a connection that Close has to close. After Close it closes the connection
// and returns false.
func (t *Transport) hold(nc net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		nc.Close()
		return false
	}
	t.mu.conns[nc] = struct{}{}
	return true
}

// drop closes a connection and forgets it.
func (t *Transport) drop(nc net.Conn) {
	nc.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.conns, nc)
}
