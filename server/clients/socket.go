package clients

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/tlsconn"
)

// socket is a client's TCP connection, or TLS above it, with its deadlines.
type socket struct {
	nc     net.Conn
	stream net.Conn    // what requests and replies pass through: nc, or TLS above it. The handshake sets it.
	secure atomic.Bool // stream is TLS

	stopping <-chan struct{} // closed when the server stops
	done     chan struct{}   // closed by close
	once     sync.Once       // for close

	mu      sync.Mutex
	hurries bool // deadlines are removed no more
}

// lingerTimeout bounds the time in which a client may read its last bytes.
const lingerTimeout = time.Second

func (s *socket) init(nc net.Conn, stopping <-chan struct{}) {
	s.nc, s.stream, s.stopping, s.done = nc, nc, stopping, make(chan struct{})
}

func (s *socket) remote() net.Addr { return s.nc.RemoteAddr() }

// remotePort returns the client's address and port.
func (s *socket) remotePort() netip.AddrPort {
	ap, _ := netip.ParseAddrPort(s.remote().String()) // zero if it is not a TCP connection
	return ap
}

// close closes the socket. It may be called more than once, from any goroutine.
func (s *socket) close() {
	s.once.Do(func() {
		close(s.done)
		s.nc.Close()
	})
}

// interrupt ends a read that waits for the client.
func (s *socket) interrupt() { s.nc.SetReadDeadline(time.Now()) }

// hurry gives what is written its time, from now on. From then on no deadline is removed. A
// client that does not read is not waited for.
func (s *socket) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurries = true
	s.writeWithin(lingerTimeout)
}

// hurryAgain gives what is written while the server stops its time, from now on: answers may
// come later than the stop.
func (s *socket) hurryAgain() {
	select {
	case <-s.stopping:
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hurries {
		s.writeWithin(lingerTimeout)
	}
}

// readWithin sets the deadline of reads, unless the connection is already ending.
func (s *socket) readWithin(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hurries {
		s.nc.SetReadDeadline(time.Now().Add(d))
	}
}

// readWithoutDeadline removes the deadline of reads, unless the connection is already ending.
func (s *socket) readWithoutDeadline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hurries {
		s.nc.SetReadDeadline(time.Time{})
	}
}

func (s *socket) writeWithin(d time.Duration) { s.nc.SetWriteDeadline(time.Now().Add(d)) }

// writeWithoutDeadline removes the deadline of writes, unless the connection is already ending.
func (s *socket) writeWithoutDeadline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hurries {
		s.nc.SetWriteDeadline(time.Time{})
	}
}

// await blocks until happened is closed, or the socket is.
func (s *socket) await(happened <-chan struct{}) error {
	select {
	case <-happened:
		return nil
	case <-s.done:
		return net.ErrClosed
	}
}

// awaitFor is await for some time at most.
func (s *socket) awaitFor(happened <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-happened:
	case <-t.C:
	case <-s.done:
		return net.ErrClosed
	}
	return nil
}

// sleep waits for some time, unless the socket is closed or the server stops meanwhile.
func (s *socket) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.stopping:
		return errHangUp
	case <-s.done:
		return net.ErrClosed
	}
}

// endStream tells the client of a TLS connection that no bytes are missing.
func (s *socket) endStream() {
	if t, ok := s.stream.(*tlsconn.Conn); ok {
		t.CloseWrite()
	}
}

// linger closes the sending side and discards further input from the client: a close with
// unread bytes would reset the connection, and the client would lose the last reply.
func (s *socket) linger() {
	tcp, ok := s.nc.(*net.TCPConn)
	if !ok {
		return
	}
	tcp.CloseWrite()
	tcp.SetReadDeadline(time.Now().Add(lingerTimeout))
	io.Copy(io.Discard, tcp)
}
