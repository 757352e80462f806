package transport

import (
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/zab"
)

// mostStreams bounds the concurrent streams from a peer.
const mostStreams = 8

// peer is the path to another server: its dialer and its counters. It stays when the server
// leaves the configuration, and the server may come back.
type peer struct {
	t  *Transport
	id zab.SID
	// slot is held while a link takes the peer's place in Transport.links. It is a channel
	// because the holder waits for the network.
	slot  chan struct{}
	nudge chan struct{} // tells the dialer to restart: the peer has shown life

	bytesIn, bytesOut, framesIn, framesOut atomic.Uint64
	failures                               atomic.Uint64 // of dialing
	streams                                atomic.Int64  // being received
	bulkIn, bulkOut                        atomic.Uint64 // bytes that arrived, and bytes that the peer has credited
	delay                                  atomic.Int64  // of the idle path: see pacer
	ahead                                  atomic.Int64  // PeerStatus.ClockAhead, when last looked at

	mu struct {
		sync.Mutex
		addrs  []string
		moves  bool            // see Peer
		moved  []string        // where it said that it listens, instead of addrs; may be empty
		ctx    context.Context // of the time in the configuration; nil outside of it
		cancel context.CancelFunc

		up        *link
		hello     Hello
		since     time.Time
		links     uint64
		lastErr   string
		lastErrAt time.Time

		certUntil time.Time // PeerStatus.CertificateUntil
		certError bool      // lastErr is about certificates
	}
}

func newPeer(t *Transport, id zab.SID) *peer {
	return &peer{t: t, id: id, slot: make(chan struct{}, 1), nudge: make(chan struct{}, 1)}
}

// configured returns the addresses that SetPeers has given.
func (p *peer) configured() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.addrs
}

// addrs returns the addresses at which the peer listens.
func (p *peer) addrs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addrsLocked()
}

func (p *peer) addrsLocked() []string {
	if len(p.mu.moved) > 0 {
		return p.mu.moved
	}
	return p.mu.addrs
}

// context returns the context of the peer's time in the configuration, or nil if the peer
// is not in it.
func (p *peer) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.ctx
}

// connected notes the addresses at which the peer says that it listens, and makes the dialer
// restart.
func (p *peer) connected(listen []string) {
	p.mu.Lock()
	if p.mu.moves {
		p.mu.moved = validAddrs(listen)
	}
	p.mu.Unlock()
	p.redialNow()
}

// redialNow makes the dialer restart.
func (p *peer) redialNow() {
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// dialLoop is the dialer. It keeps up the link to a peer with a smaller id. It calls a peer
// with a larger id while there is no link.
func (p *peer) dialLoop(ctx context.Context) {
	pause := p.t.o.RedialMin
	for {
		start := time.Now()
		// A link that broke at once does not reset the back-off.
		if p.linkedFor(ctx) >= p.t.o.RedialMax {
			pause = p.t.o.RedialMin
		}
		nudged := p.awaitRedial(ctx, max(p.t.o.RedialMin, pause-time.Since(start)))
		switch {
		case ctx.Err() != nil:
			return
		case nudged:
			pause = p.t.o.RedialMin
		default:
			pause = min(2*pause, p.t.o.RedialMax)
		}
	}
}

// linkedFor tries to get a link. It returns when an attempt has failed, a call is done, or
// the link is down, with the time that the link was up.
func (p *peer) linkedFor(ctx context.Context) time.Duration {
	l := p.t.links[p.id].Load()
	if l == nil {
		addrs := p.addrs()
		if len(addrs) == 0 {
			return 0
		}
		up, err := p.attempt(ctx)
		if err != nil && ctx.Err() == nil {
			p.failed(addrs, err)
		}
		return up
	}
	start := time.Now()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	return time.Since(start)
}

// awaitRedial waits for about a pause, and reports whether it was cut short because the peer has
// shown life.
func (p *peer) awaitRedial(ctx context.Context, pause time.Duration) (nudged bool) {
	wait := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-p.nudge:
		return true
	case <-ctx.Done():
	}
	return false
}

// attempt dials once, and is the reader of the resulting link. It returns how long the link
// was up, or why there is none.
func (p *peer) attempt(ctx context.Context) (time.Duration, error) {
	why := forLink
	if p.id > p.t.o.Self {
		why = forCall
	}
	c, hs, err := p.t.connect(ctx, p, why)
	if err != nil {
		return 0, err
	}
	defer p.t.drop(c.raw)
	if why == forCall {
		p.reached()
		return 0, nil
	}
	l := newLink(p, hs, c)
	if err := p.admit(ctx, l); err != nil {
		return 0, err
	}
	start := time.Now()
	l.run()
	return time.Since(start), nil
}

// timed returns a connection with this transport's deadlines and this peer's counters.
func (p *peer) timed(nc, raw net.Conn) *conn {
	return &conn{Conn: nc, raw: raw, idle: p.t.o.IdleTimeout, stall: p.t.o.WriteTimeout, in: &p.bytesIn, out: &p.bytesOut}
}

// admit gives a link the peer's place, which makes it the one that Send uses. An existing
// link makes room if it is dead or leads to the same process. Otherwise two processes have
// the same id, and the new link is refused.
func (p *peer) admit(ctx context.Context, l *link) error {
	if err := p.lockSlot(ctx); err != nil {
		return err
	}
	defer p.unlockSlot()
	place := &p.t.links[p.id]
	if old := place.Load(); old != nil {
		if !old.ofSameProcess(l.hello) && old.alive() {
			return p.duplicate(old.hello.Addr)
		}
		old.cut(errReplaced)
		<-old.done
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.gen = p.t.gen.Add(1)
	place.Store(l)
	if err := p.outdated(ctx, l); err != nil {
		l.abandon(err)
		return err
	}
	return nil
}

// outdated returns why a link that has the peer's place must not come up, or nil: the peer was
// removed, or what this server said on it is no longer true. What ends links for these reasons
// may have looked before the link had its place.
func (p *peer) outdated(ctx context.Context, l *link) error {
	if !zab.IntroductionStands(l.said, p.t.relinks.Load()) {
		return errIntroduction
	}
	return ctx.Err()
}

// onCall handles a call: the peer has no link. If this server has one, either it is dead
// and that was not noticed yet, or it is new, or another process uses the id.
func (p *peer) onCall(ctx context.Context, h Hello) error {
	if err := p.lockSlot(ctx); err != nil {
		return err
	}
	defer p.unlockSlot()
	l := p.t.links[p.id].Load()
	switch {
	case l == nil:
	case !l.alive():
		l.cut(errReplaced)
	case !l.ofSameProcess(h):
		return p.duplicate(l.hello.Addr)
	}
	return nil
}

func (p *peer) lockSlot(ctx context.Context) error {
	select {
	case p.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *peer) unlockSlot() { <-p.slot }

func (p *peer) duplicate(addr string) error {
	return refuse("duplicate", "another process uses id "+p.name()+", connected from or at "+printable(addr)+
		": two servers have the same myid")
}

// linked records that a link is up.
func (p *peer) linked(l *link) {
	p.mu.Lock()
	p.mu.up, p.mu.hello, p.mu.since = l, l.hello, time.Now()
	p.mu.links++
	p.mu.lastErr = ""
	p.mu.Unlock()
	p.t.complaints.forget(p.topic())
	p.t.log.Info("linked to a peer", zap.Uint8("sid", uint8(p.id)), zap.String("remote", l.hello.Addr), zap.Uint64("gen", l.gen),
		zap.Bool("tls", l.hello.TLS))
}

// unlinked records why a link is down.
func (p *peer) unlinked(l *link, err error) {
	p.mu.Lock()
	p.mu.up, p.mu.since = nil, time.Now()
	p.noteLocked(err)
	p.mu.Unlock()
	p.t.metrics.cut(causeOf(err))
	if p.t.ctx.Err() == nil {
		p.t.log.Info("the link to a peer is down", zap.Uint8("sid", uint8(p.id)), zap.String("remote", l.hello.Addr),
			zap.Uint64("gen", l.gen), zap.String("err", logText(err)))
	}
}

func (p *peer) noteLocked(err error) {
	p.mu.lastErr, p.mu.lastErrAt = logText(err), time.Now()
	p.mu.certError = isOfCertificates(err)
}

// showed notes the certificates that the peer has shown.
func (p *peer) showed(chain []*x509.Certificate) {
	until := chain[0].NotAfter
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.certUntil = until
}

// failed records why the peer could not be reached at addrs. If they are those that it has
// given, the configured ones are tried again. It may have given others meanwhile.
func (p *peer) failed(addrs []string, err error) {
	p.failures.Add(1)
	p.t.metrics.refuse(causeOf(err))
	p.mu.Lock()
	p.noteLocked(err)
	if slices.Equal(p.mu.moved, addrs) {
		p.mu.moved = nil
	}
	p.mu.Unlock()
	if p.t.complaints.shouldLog(p.topic(), logText(err)) {
		p.t.log.Warn("can't reach a peer; trying on", zap.Uint8("sid", uint8(p.id)), zap.Strings("addresses", addrs), zap.String("err", logText(err)))
	}
}

// reached records that the peer has been called and will dial.
func (p *peer) reached() {
	p.mu.Lock()
	p.mu.lastErr = ""
	p.mu.Unlock()
	p.t.complaints.forget(p.topic())
}

func (p *peer) name() string { return fmt.Sprint(p.id) }

func (p *peer) topic() string { return "dial " + p.name() }

// status returns the peer's state for the operator.
func (p *peer) status() PeerStatus {
	p.mu.Lock()
	s := PeerStatus{
		ID: p.id, Addrs: p.addrsLocked(), Up: p.mu.up != nil, Since: p.mu.since, Hello: p.mu.hello,
		Links: p.mu.links, LastError: p.mu.lastErr, LastErrorAt: p.mu.lastErrAt, CertificateUntil: p.mu.certUntil,
	}
	if p.mu.certError {
		s.CertificateError = p.mu.lastErr
	}
	up := p.mu.up
	p.mu.Unlock()
	s.BytesIn, s.BytesOut = p.bytesIn.Load(), p.bytesOut.Load()
	s.FramesIn, s.FramesOut = p.framesIn.Load(), p.framesOut.Load()
	s.DialFailures = p.failures.Load()
	if up != nil {
		s.Gen, s.ClockAhead = up.gen, time.Duration(p.ahead.Load())
		s.ControlBytes, s.BulkBytes, s.UnreadBytes, s.WindowBytes = up.load()
	}
	return s
}
