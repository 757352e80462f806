package transport

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/zkd-project/zkd/server/zab"
)

// ErrClosed is returned by what is called after Close.
var ErrClosed = errors.New("transport closed")

// Transport has the links of one server. Its methods may be called from any
// goroutine; Close must not be called from the Handler.
type Transport struct {
	o Options

	mu struct {
		sync.Mutex
		peers []Peer
	}
}

// New checks the options. Nothing happens before Start.
func New(o Options) (*Transport, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	t := &Transport{o: o}
	t.mu.peers = o.Peers
	return t, nil
}

// Start begins to listen and to dial. It does not wait for either.
func (t *Transport) Start() error { return nil }

// Close ends all links and streams and returns when PeerDown has been called for
// each of them and every goroutine is gone.
func (t *Transport) Close() error { return nil }

// Send queues m for a peer, encoding it at once: m is the caller's again when
// Send returns. It never blocks. If gen is not that of the link to the peer, the
// message is dropped. If more than Options.QueueBytes wait, the link is cut.
func (t *Transport) Send(to zab.SID, gen uint64, m *zab.Message) {}

// SendApp is Send for bytes that the core knows nothing of. kind is the caller's,
// and body is copied.
func (t *Transport) SendApp(to zab.SID, gen uint64, kind uint8, body []byte) {}

// SetPeers replaces the peers. Links to those that stay are not touched, links to
// those that go are cut. New addresses count from the next dial on.
func (t *Transport) SetPeers(peers []Peer) error { return checkPeers(peers) }

// Peers returns the state of each peer, sorted by id.
func (t *Transport) Peers() []PeerStatus { return nil }

// Addrs returns the addresses that are listened at now.
func (t *Transport) Addrs() []net.Addr { return nil }

// OpenStream opens a stream to a peer, which sees header first. It needs no link.
// When ctx ends the stream is aborted.
func (t *Transport) OpenStream(ctx context.Context, to zab.SID, header []byte) (*Stream, error) {
	return nil, ErrClosed
}

// Stream is the sending end of a stream. One goroutine uses it.
type Stream struct{}

// Write sends p. It blocks while the receiver does not read.
func (s *Stream) Write(p []byte) (int, error) { return 0, ErrClosed }

// Close ends the stream, waits until the receiver's Handler.Stream has returned,
// and returns nil only if that was its result. The wait is as long as the
// receiver needs and shows life.
func (s *Stream) Close() error { return ErrClosed }

// Abort ends the stream so that the receiver gets an error: reason. It returns at
// once, and does nothing after Close.
func (s *Stream) Abort(reason error) {}
