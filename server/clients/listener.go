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

// Listen opens the client port, if one is configured, and starts accepting. It returns
// the port's address, or nil.
func (s *Clients) Listen() (net.Addr, error) {
	if s.cfg.ClientPort < 0 {
		s.log.Info("no port for clients (clientPort=-1)", zap.Stringer("zxid", s.state.Applied()))
		return nil, nil
	}
	addr := net.JoinHostPort(s.cfg.ClientPortAddress, strconv.Itoa(s.cfg.ClientPort))
	listen := s.listenFunc
	if listen == nil {
		listen = s.listenTCP
	}
	l, err := listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for clients on %s: %w", addr, err)
	}
	s.listener = l
	if err := setBacklog(l, s.cfg.ClientPortListenBacklog); err != nil {
		return nil, fmt.Errorf("set clientPortListenBacklog: %w", errors.Join(err, l.Close()))
	}
	bound := l.Addr()
	s.log.Info("serving clients", zap.Stringer("address", bound), zap.Stringer("zxid", s.state.Applied()))
	s.accepting.Go(s.acceptLoop)
	return bound, nil
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

func (s *Clients) acceptLoop() {
	for {
		nc, err := s.listener.Accept()
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
	if !s.conns.Add(c, c.ip(), s.cfg.MaxClientCnxns, s.cfg.MaxCnxns) {
		s.metrics.ConnectionRejected.Add(1)
		s.log.Warn("too many connections: closing a new one; see maxClientCnxns and maxCnxns",
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
	s.state.RLock()
	c.mu.Lock()
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
