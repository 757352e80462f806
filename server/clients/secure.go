package clients

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/tlsconn"
	"github.com/zkd-project/zkd/server/secure"
)

var (
	errTLSOnPlain = errors.New("the client speaks TLS, and this port does not: is the client's port the secureClientPort?")
	errPlainOnTLS = fmt.Errorf("%w, and this port takes nothing else: is the client's port the clientPort?", secure.ErrPlain)
	errCrowdedOut = errors.New("more unfinished TLS handshakes than the server keeps")
)

// tlsRecord is the first byte of a connection with TLS. No connect request and no
// four-letter word begins with it.
const tlsRecord = 0x16

// secureIfTLS makes the connection one with TLS if that is what its port is for or, on a
// port for both, if the client begins with TLS.
func (c *conn) secureIfTLS() error {
	if c.kind == plainPort {
		return nil
	}
	timeout := c.clients.tls.DetectionTimeout
	c.readWithin(timeout)
	for c.frames.w == 0 {
		if _, err := c.frames.fill(); err != nil {
			return c.sessionless(err)
		}
	}
	switch isTLS := c.frames.buf[0] == tlsRecord; {
	case isTLS:
	case c.kind == bothPort:
		return nil
	default:
		c.clients.tls.Observe(secure.ErrPlain)
		return c.refused(errPlainOnTLS)
	}
	first := append([]byte(nil), c.frames.buf[:c.frames.w]...)
	c.frames.r, c.frames.w = 0, 0
	below := &belowTLS{Conn: c.nc, first: first, shaking: c.clients.handshakes}
	stream := tlsconn.Server(below, c.clients.tls.Accept(c.nc.RemoteAddr(), beginFlight))
	c.nc.SetWriteDeadline(time.Now().Add(timeout))
	err := stream.Handshake()
	below.finish()
	if err != nil && below.crowdedOut {
		err = errCrowdedOut
	}
	c.clients.tls.Observe(err)
	if err != nil {
		return c.refused(fmt.Errorf("TLS handshake: %w", err))
	}
	c.writeWithoutDeadline()
	c.stream, c.frames.src = stream, stream
	c.secure.Store(true)
	return c.takeCertificate(stream.ConnectionState())
}

// takeCertificate gives the connection the identities of its client's certificate.
func (c *conn) takeCertificate(s tls.ConnectionState) error {
	scheme := c.clients.cfg.ClientTLS.AuthScheme
	if len(s.PeerCertificates) == 0 || !c.clients.schemes.Has(scheme) {
		return nil
	}
	more, err := c.clients.proveCertificate(scheme, s.PeerCertificates, c.credentials.Load(), c.ip(), c.awaitTurn)
	if err != nil {
		c.clients.metrics.AuthFailed.Add(1)
		return c.refused(fmt.Errorf("the certificate of %s gives no identity of scheme %s: %w", s.PeerCertificates[0].Subject, scheme, err))
	}
	c.setCredentials(more)
	return nil
}

// refused logs the end of a connection that did not get past its first bytes, and returns
// the error that ends it. A flood of such connections does not flood the log.
func (c *conn) refused(err error) error {
	if more, ok := c.clients.complaints.allow(c.clients.now()); ok {
		c.clients.log.Warn("closing a connection of a client", zap.Stringer("remote", c.nc.RemoteAddr()), zap.Error(err), zap.Int("unlogged", more))
	}
	return errHangUp
}

// belowTLS is the connection below that of TLS. During the handshake, it bounds what many
// clients can do to the server.
type belowTLS struct {
	net.Conn
	first   []byte // bytes that have been read already
	shaking *handshakes
	done    bool // with the handshake

	working    bool // has a place in shaking.places
	crowdedOut bool // owned by shaking
}

// beginFlight is called when the client's first message has been read: what follows takes
// most of the processor time of a handshake.
func beginFlight(nc net.Conn) {
	b := tlsconn.Under(nc).(*belowTLS)
	b.shaking.places <- struct{}{}
	b.working = true
}

func (b *belowTLS) endFlight() {
	if b.working {
		b.working = false
		<-b.shaking.places
	}
}

// finish ends the handshake.
func (b *belowTLS) finish() {
	b.endFlight()
	b.done = true
}

func (b *belowTLS) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	if b.done {
		return b.Conn.Read(p)
	}
	b.endFlight()
	e := b.shaking.wait(b)
	defer b.shaking.resume(e)
	return b.Conn.Read(p)
}

func (b *belowTLS) Write(p []byte) (int, error) {
	if !b.done {
		b.endFlight()
	}
	return b.Conn.Write(p)
}

// mostWaiting bounds the handshakes that wait for their clients. A handshake takes some
// 20 KiB.
const mostWaiting = 1024

// handshakes are the unfinished TLS handshakes.
type handshakes struct {
	places chan struct{} // for handshakes that compute

	mu      sync.Mutex
	waiting list.List // of *belowTLS, in the order in which they began to wait for their clients
	most    int
}

func newHandshakes(processors int) *handshakes {
	return &handshakes{places: make(chan struct{}, max(1, processors/2)), most: mostWaiting}
}

// wait adds a handshake that waits for its client. Beyond the limit, it ends the one that
// has waited longest: a client that is alive answers soon, so that is most likely none.
func (h *handshakes) wait(b *belowTLS) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting.Len() >= h.most {
		oldest := h.waiting.Remove(h.waiting.Front()).(*belowTLS)
		oldest.crowdedOut = true
		oldest.Conn.Close()
	}
	return h.waiting.PushBack(b)
}

func (h *handshakes) resume(e *list.Element) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting.Remove(e)
}

// complaints bounds the rate of log lines that clients can cause.
type complaints struct {
	sync.Mutex
	bucket   tokenBucket
	unlogged int
}

// allow reports whether a line may be logged, and how many were not since the last one.
func (c *complaints) allow(now time.Duration) (unlogged int, ok bool) {
	c.Lock()
	defer c.Unlock()
	if !c.bucket.take(now) {
		c.unlogged++
		return 0, false
	}
	unlogged, c.unlogged = c.unlogged, 0
	return unlogged, true
}
