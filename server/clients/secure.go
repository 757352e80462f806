package clients

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/internal/tlsconn"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/limits"
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

// ReadTLS reads the TLS files of the ports for clients; nil if no port uses them.
func ReadTLS(settings *config.ClientTLS, log *zap.Logger) (*secure.TLS, error) {
	if !settings.Used() {
		return nil, nil
	}
	t, err := secure.New(settings.Settings, "client", log)
	if err != nil {
		return nil, fmt.Errorf("TLS for clients: %w", err)
	}
	t.Tick()
	return t, nil
}

// tlsDoor makes connections ones with TLS.
type tlsDoor struct {
	*secure.TLS // nil if no port has TLS
	handshakes  *handshakes
}

// accept makes the handshake of a connection whose first bytes have been read. of tells whose it is.
func (d *tlsDoor) accept(s *socket, in *frames.Reader, of crowdKey) (tls.ConnectionState, error) {
	below := &belowTLS{Conn: s.nc, first: in.TakeAll(), shaking: d.handshakes, of: of}
	stream := tlsconn.Server(below, d.Accept(s.remote(), beginFlight))
	s.writeWithin(d.DetectionTimeout)
	err := stream.Handshake()
	below.finish()
	if err != nil && below.crowdedOut {
		err = errCrowdedOut
	}
	d.Observe(err)
	if err != nil {
		return tls.ConnectionState{}, fmt.Errorf("TLS handshake: %w", err)
	}
	s.writeWithoutDeadline()
	s.stream = stream
	in.From(stream)
	s.secure.Store(true)
	return stream.ConnectionState(), nil
}

// belowTLS is the connection below that of TLS. During the handshake, it bounds what many
// clients can do to the server.
type belowTLS struct {
	net.Conn
	first   []byte // bytes that have been read already
	shaking *handshakes
	of      crowdKey
	done    bool // with the handshake

	working    bool // has a place of shaking
	crowdedOut bool // owned by shaking
}

// beginFlight is called when the client's first message has been read: what follows takes
// most of the processor time of a handshake.
func beginFlight(nc net.Conn) {
	b := tlsconn.Under(nc).(*belowTLS)
	b.shaking.takePlace(b.of)
	b.working = true
}

func (b *belowTLS) endFlight() {
	if b.working {
		b.working = false
		b.shaking.leavePlace()
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

// handshakes are the unfinished TLS handshakes. Those that compute need a place. While all are taken, subjects have turns by
// their weights, so a client waits for one handshake of each other address, however many these begin.
type handshakes struct {
	mu      sync.Mutex
	free    int                                         // places
	turns   fifo.Turns[limits.Subject, chan<- struct{}] // handshakes that wait for a place, each in a list of its own
	number  uint64                                      // of the last list
	waiting list.List                                   // of *belowTLS, in the order in which they began to wait for their clients
	most    int
}

func newHandshakes(processors int) *handshakes {
	return &handshakes{free: max(1, processors/2), turns: fifo.Turns[limits.Subject, chan<- struct{}]{Quantum: limits.Even}, most: mostWaiting}
}

// takePlace waits for a place.
func (h *handshakes) takePlace(of crowdKey) {
	h.mu.Lock()
	if h.free > 0 {
		h.free--
		h.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	h.number++
	h.turns.Push(of.subject, int(of.weight), h.number, turn, limits.Even)
	h.mu.Unlock()
	<-turn
}

// leavePlace gives a place to the next handshake that waits.
func (h *handshakes) leavePlace() {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.turns.Front()
	if next == nil {
		h.free++
		return
	}
	close(*next)
	h.turns.Pop()
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
