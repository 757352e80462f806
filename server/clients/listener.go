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
)

// Listen opens the client port and starts accepting; port -1 means none. If a port is open
// at another address, Listen closes it: its connections continue. After an error the old
// port is open, if that is possible.
func (s *Clients) Listen(host string, port int) error {
	s.port.Lock()
	defer s.port.Unlock()
	if s.port.closed {
		return net.ErrClosed
	}
	if port < 0 {
		s.log.Info("no port for clients (clientPort=-1)", zap.Stringer("zxid", s.state.Applied()))
		return nil
	}
	old := s.port.listener
	if old != nil && portOf(old) == port {
		old.Close() // both can't be open
	}
	l, err := s.open(net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case err == nil && old != nil:
		old.Close()
	case err != nil && old != nil && portOf(old) == port:
		l, _ = s.open(old.Addr().String())
	}
	if l != nil {
		s.port.listener = l
		s.log.Info("serving clients", zap.Stringer("address", l.Addr()), zap.Stringer("zxid", s.state.Applied()))
		s.accepting.Go(func() { s.acceptLoop(l) })
	}
	return err
}

// Addr returns the address of the client port, or nil.
func (s *Clients) Addr() net.Addr {
	s.port.Lock()
	defer s.port.Unlock()
	if s.port.listener == nil {
		return nil
	}
	return s.port.listener.Addr()
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

func (s *Clients) acceptLoop(l net.Listener) {
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
		s.admit(nc)
	}
}

// admit starts a connection if the limits allow one more. Otherwise it closes it without
// a reply, which makes a client try another server.
func (s *Clients) admit(nc net.Conn) {
	c := newConn(s, nc)
	if !s.limitConnection(c) {
		s.metrics.ConnectionRejected.Add(1)
		nc.Close()
		return
	}
	if !s.conns.Add(c, c.ip(), s.cfg.MaxClientCnxns, s.cfg.MaxCnxns) {
		c.endLimits()
		s.metrics.ConnectionRejected.Add(1)
		s.logEnd(zap.WarnLevel, "too many connections: closing a new one; see maxClientCnxns and maxCnxns", errNoRoom,
			zap.Stringer("remote", nc.RemoteAddr()))
		nc.Close()
		return
	}
	s.running.Go(c.serve)
}

// forget removes an ended connection from all registers. Under the tree lock no watch can
// be added for it meanwhile: its reader has ended, and the applier, which serves its
// queued reads, needs that lock to do so.
func (s *Clients) forget(c *conn) {
	c.endLimits()
	s.state.RLock()
	c.mu.Lock()
	s.audit.keepLocked(c)
	for i := range c.mu.pending.All() {
		req := &c.mu.pending.All()[i]
		s.largeBytes.Add(-req.large)
		s.throttler.leave(req.size())
	}
	c.mu.pending.Clear()
	c.mu.gone = true
	c.dropOutLocked()
	c.mu.Unlock()
	if w := c.watcher.Load(); w != 0 {
		s.state.Watches.Drop(c.watcherID())
		s.metrics.DeadWatchers.Add(1)
	}
	s.conns.Remove(c, c.ip())
	s.state.RUnlock()
	s.throttler.relax()
}

// isReset reports whether the client broke the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
