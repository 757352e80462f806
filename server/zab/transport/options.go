package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/zab"
)

// Peer is another server of the ensemble, with the addresses at which it listens.
type Peer struct {
	ID zab.SID
	// Addrs are host:port. They are resolved at each dial, and all are tried.
	Addrs []string
	// Moves means that the server may listen elsewhere by now: when it calls, it is dialed at
	// the addresses in its hello, until that fails. Its certificate must be for Addrs.
	Moves bool
}

// Hello is what a peer said about itself when it connected. With a secret, or with TLS and
// IDName, ID is proven; the rest is unverified.
type Hello struct {
	ID zab.SID
	zab.Introduction
	Listen  []string // where it listens, from its own configuration: host:port
	Version uint32   // negotiated version of the protocol
	Reads   uint32   // Options.Reads of the other server
	Shares  bool     // Options.Shares of the other server
	TLS     bool
	Addr    string // the remote address
}

// Handler handles the events of the links. Calls for a link come from one goroutine, in
// order; calls for different links may be concurrent. While a call runs, the link reads
// nothing.
type Handler interface {
	// PeerUp reports a new link. Send with gen works from now on, even within the call.
	PeerUp(peer zab.SID, gen uint64, h Hello)
	// PeerDown reports that the link is gone; err is the reason, never nil.
	PeerDown(peer zab.SID, gen uint64, err error)
	// Receive delivers a message. m is reused after the return; the handler owns the memory that
	// its entries alias.
	Receive(peer zab.SID, gen uint64, m *zab.Message)
	// ReceiveApp delivers a frame of SendApp. The handler owns body.
	ReceiveApp(peer zab.SID, gen uint64, kind uint8, body []byte)
	// Drained reports that a link for which Room returned little has room again.
	Drained(peer zab.SID, gen uint64)
	// Stream reads a stream that the peer opened; it may take its time. r ends with io.EOF only
	// if the sender closed the stream properly. The sender's Close returns an error with the text
	// of this one's error. Streams are not bound to a link and its gen.
	Stream(peer zab.SID, header []byte, r io.Reader) error
}

// Options are the settings of a Transport. Zero values mean the defaults.
type Options struct {
	Self zab.SID
	// Introduce returns this server's introduction. It is called for each hello. The boot must
	// always be the same. nil means an empty introduction.
	Introduce func() zab.Introduction
	// Advertise lists where this server listens, from its own configuration: host:port.
	Advertise []string

	// Reads is the highest version of format.History that this server reads, and Needs returns
	// the version that a server must read to share this server's history. A link is refused if
	// one server needs more than the other reads. Zero values mean what this version reads and
	// writes.
	Reads uint32
	Needs func() uint32

	// Shares says that this server shares limits with the others.
	Shares bool

	Peers []Peer // other servers; an entry for Self is ignored
	// Stranger decides about a server that connects and is not among the peers. It returns nil to
	// make the server a peer until SetPeers, or the reason to refuse it. nil refuses all.
	Stranger func(Hello) error
	// Refused is called for a server to which there is no link because one of the two does not
	// list the other.
	Refused func(Hello)
	// Listen are the addresses to listen at. A bind that fails is logged and tried again until
	// Close (ZOOKEEPER-3320).
	Listen     []string
	ListenFunc func(network, addr string) (net.Listener, error)                  // nil: TCP
	DialFunc   func(ctx context.Context, network, addr string) (net.Conn, error) // nil: TCP

	TLS    *TLS   // nil: plain
	Secret []byte // shared by all servers; empty: none

	// IdleTimeout is how long a peer may be silent. Keep-alives are sent at a quarter of it and
	// at least every second, so servers may have different values. 0 means 5 s.
	IdleTimeout time.Duration
	// WriteTimeout is how long the network may accept no bytes. 0 means 5 s.
	WriteTimeout time.Duration
	// DialTimeout bounds resolving a name and connecting. It does not delay the reconnection to a
	// peer that comes back: an attempt that hangs is joined by another every RedialMax. 0 means 6
	// s, since the first of several name servers may be down, which takes 5 s to notice.
	DialTimeout time.Duration
	// HandshakeTimeout bounds the handshake. 0 means 3 s.
	HandshakeTimeout time.Duration
	// ProbeTimeout is how long a peer's link has to answer when another process connects with the
	// same id. 0 means 500 ms.
	ProbeTimeout time.Duration
	// RedialMin and RedialMax bound the pause between two attempts; it doubles, with jitter. 0
	// means 20 ms and 1 s.
	RedialMin, RedialMax time.Duration

	// MaxFrame bounds a frame, in bytes. Sending a longer message cuts the link. 0 means 64 MiB.
	MaxFrame int
	// QueueBytes is how much may wait in the bulk lane of a link before the link is cut. It must
	// hold more than one message, and all requests that a follower may have to pass on. 0 means
	// 256 MiB.
	QueueBytes int
	// BulkDelay is about how long bulk bytes may be in flight beyond the delay of an idle
	// network: control frames wait that long for bytes written before them. It should be small
	// compared with the time after which heartbeats count as missed. 0 means 100 ms.
	BulkDelay time.Duration

	Wall       func() time.Time // the time of day; nil: the system's
	Handler    Handler
	Logger     *zap.Logger           // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

var errUnlisted = errors.New("it is not listed there")

// keepAlive returns the interval of the check that sends a keep-alive if nothing was sent
// since the last check. So silence lasts at most twice as long.
func (o *Options) keepAlive() time.Duration { return min(o.IdleTimeout/8, time.Second/2) }

// complete fills in defaults and checks the other values.
func (o *Options) complete() error {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Self == 0 {
		return errors.New("transport: the server's own id is missing")
	}
	if o.Handler == nil {
		return errors.New("transport: no handler")
	}
	if o.Introduce == nil {
		o.Introduce = func() zab.Introduction { return zab.Introduction{} }
	}
	if o.Stranger == nil {
		o.Stranger = func(Hello) error { return errUnlisted }
	}
	if o.Refused == nil {
		o.Refused = func(Hello) {}
	}
	if o.Reads == 0 {
		o.Reads = format.History.Range().Most
	}
	if o.Needs == nil {
		o.Needs = format.History.Writes
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.IdleTimeout, 5 * time.Second}, {&o.WriteTimeout, 5 * time.Second}, {&o.DialTimeout, 6 * time.Second},
		{&o.HandshakeTimeout, 3 * time.Second}, {&o.ProbeTimeout, 500 * time.Millisecond},
		{&o.BulkDelay, 100 * time.Millisecond}, {&o.RedialMin, 20 * time.Millisecond}, {&o.RedialMax, time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	o.RedialMax = max(o.RedialMax, o.RedialMin)
	if o.MaxFrame <= 0 {
		o.MaxFrame = 64 << 20
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 256 << 20
	}
	for _, addr := range o.Listen {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("transport: listen address %q: %w", addr, err)
		}
	}
	return checkPeers(o.Peers)
}

func checkPeers(peers []Peer) error {
	for i, p := range peers {
		if p.ID == 0 {
			return errors.New("transport: a peer has no id")
		}
		if slices.ContainsFunc(peers[:i], func(q Peer) bool { return q.ID == p.ID }) {
			return fmt.Errorf("transport: server %d is listed twice", p.ID)
		}
		for _, addr := range p.Addrs {
			if _, _, err := net.SplitHostPort(addr); err != nil {
				return fmt.Errorf("transport: address %q of server %d: %w", addr, p.ID, err)
			}
		}
	}
	return nil
}
