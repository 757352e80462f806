package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/limits"
)

// portKind says which connections a port takes.
type portKind uint8

const (
	plainPort portKind = iota
	tlsPort
	bothPort // the first byte of a connection tells which it is
)

// port is a port for clients.
type port struct {
	key      string // of the configuration
	kind     portKind
	listener net.Listener // nil while it is not open
	serving  bool         // as the log says
}

// Listen opens clientPort and starts accepting; port -1 means none. If a port is open at
// another address, Listen closes it: its connections continue. After an error the old port
// is open, if that is possible.
func (s *Clients) Listen(host string, port int) error { return s.listen(&s.ports.plain, host, port) }

// ListenSecure is Listen for secureClientPort.
func (s *Clients) ListenSecure(host string, port int) error {
	return s.listen(&s.ports.secure, host, port)
}

func (s *Clients) listen(p *port, host string, number int) error {
	s.ports.Lock()
	defer s.ports.Unlock()
	if s.ports.closed {
		return net.ErrClosed
	}
	if number < 0 {
		if p.listener != nil {
			p.listener.Close()
			p.listener = nil
		}
		s.log.Info("no port for clients ("+p.key+"=-1)", zap.Stringer("zxid", s.state.Applied()))
		return nil
	}
	old := p.listener
	if old != nil && portOf(old) == number {
		old.Close() // both can't be open
	}
	l, err := s.open(net.JoinHostPort(host, strconv.Itoa(number)))
	switch {
	case err == nil && old != nil:
		old.Close()
	case err != nil && old != nil && portOf(old) == number:
		l, _ = s.open(old.Addr().String())
	}
	if l != nil {
		p.listener, p.serving = l, false
		if s.backend.Serving() {
			s.logServingLocked(p)
		} else {
			s.log.Info("clients can connect once there is a leader", zap.Stringer("address", l.Addr()), zap.String("port", p.key))
		}
		s.accepting.Go(func() { s.acceptLoop(l, p.kind) })
	}
	return err
}

// LogServing logs the ports on which the server serves clients, after it has begun to do so.
// A port that opens later is logged then.
func (s *Clients) LogServing() {
	s.ports.Lock()
	defer s.ports.Unlock()
	for _, p := range []*port{&s.ports.plain, &s.ports.secure} {
		if p.listener != nil {
			s.logServingLocked(p)
		}
	}
}

func (s *Clients) logServingLocked(p *port) {
	if !p.serving {
		p.serving = true
		s.log.Info("serving clients", zap.Stringer("address", p.listener.Addr()), zap.String("port", p.key), zap.Stringer("zxid", s.state.Applied()))
	}
}

// Addr returns the address of clientPort, or nil.
func (s *Clients) Addr() net.Addr { return s.addr(&s.ports.plain) }

// SecureAddr returns the address of secureClientPort, or nil.
func (s *Clients) SecureAddr() net.Addr { return s.addr(&s.ports.secure) }

func (s *Clients) addr(p *port) net.Addr {
	s.ports.Lock()
	defer s.ports.Unlock()
	if p.listener == nil {
		return nil
	}
	return p.listener.Addr()
}

func portOf(l net.Listener) int {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		return tcp.Port
	}
	return -1
}

func (s *Clients) open(addr string) (net.Listener, error) {
	listen := s.listenFunc
	if listen == nil {
		listen = s.listenTCP
	}
	l, err := listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for clients on %s: %w", addr, err)
	}
	if err := setBacklog(l, s.cfg.ClientPortListenBacklog); err != nil {
		return nil, fmt.Errorf("set clientPortListenBacklog: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// listenTCP opens a port whose connections have keep-alives only if clientTcpKeepAlive is
// set: Go's default costs four system calls for each new connection.
func (s *Clients) listenTCP(network, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	if s.cfg.ClientTCPKeepAlive {
		lc.KeepAlive = 0
	}
	return lc.Listen(context.Background(), network, addr)
}

// setBacklog sets the maximum number of connections that wait to be accepted. A negative
// number means the system's default, which the listener already has.
func setBacklog(l net.Listener, n int) error {
	tcp, ok := l.(*net.TCPListener)
	if !ok || n < 0 {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var errListen error
	err = raw.Control(func(fd uintptr) { errListen = syscall.Listen(int(fd), n) })
	return errors.Join(err, errListen)
}

func (s *Clients) acceptLoop(l net.Listener, kind portKind) {
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), err != nil && s.backend.Ending():
			return // whatever error a listener of Options.Listen returns when it is closed
		case err != nil:
			// Most likely the process is out of file descriptors: existing clients
			// continue, and some may leave.
			s.log.Warn("can't accept a connection", zap.Error(err))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.refusing:
				return
			}
			continue
		}
		s.admit(nc, kind)
	}
}

// admit starts a connection if the limits allow one more. Otherwise it closes it without
// a reply, which makes a client try another server.
func (s *Clients) admit(nc net.Conn, kind portKind) {
	c := newConn(s, nc, kind)
	if !s.limitConnection(c) {
		s.metrics.ConnectionRejected.Add(1)
		nc.Close()
		return
	}
	if !s.conns.Add(&c.line, limits.Network(c.ip()), s.live.Load().MaxClientCnxns, s.mostConnections()) {
		c.endLimits()
		s.metrics.ConnectionRejected.Add(1)
		s.logEnd(zap.WarnLevel, "too many connections: closing a new one; see maxClientCnxns and maxCnxns, and the process's limit of open files", errNoRoom,
			zap.Stringer("remote", nc.RemoteAddr()))
		nc.Close()
		return
	}
	s.running.Go(c.serve)
}

// mostConnections returns the limit of all connections, 0 for none: maxCnxns, or what the
// process's limit of open files leaves to clients.
func (s *Clients) mostConnections() int {
	configured := s.live.Load().MaxCnxns
	if s.most > 0 && (configured == 0 || configured > s.most) {
		return s.most
	}
	return configured
}

// forget removes an ended connection from all registers. After this hold of the tree's
// lock no watch is added for it: its reader has ended, and the applier, which needs that lock
// to serve its queued reads, finds none. So its watches, which may be very many, are removed
// without the lock. Its handle is free only when they are gone.
func (s *Clients) forget(c *conn) {
	c.endLimits()
	use := c.use()
	s.ended.add(&use)
	s.state.RLock()
	c.mu.Lock()
	s.audit.Load().keepLocked(c)
	queued := c.line.Queued()
	for i := range queued {
		s.largeBytes.Add(-queued[i].Large)
		s.throttler.leave(queued[i].Size(), i == len(queued)-1)
	}
	c.releaseOut(c.line.Forget())
	c.mu.Unlock()
	s.lines.Views.DropLine(&c.line)
	s.feeder.remove(c)
	s.state.RUnlock()
	if w, ok := c.line.WatchHandle(); ok {
		s.state.Watches.Drop(w)
		s.metrics.DeadWatchers.Add(1)
	}
	s.conns.Remove(&c.line, limits.Network(c.ip()))
	s.throttler.relax()
}

// isReset reports whether the client broke the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
