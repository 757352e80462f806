package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/accept"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/state"
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

// Ports are the ports for clients. They may be used from any goroutine.
type Ports struct {
	cfg        *config.Config
	log        *zap.Logger
	backend    Backend
	state      *state.State
	listenFunc func(network, address string) (net.Listener, error)
	admit      func(nc net.Conn, kind portKind) // gets each connection
	refusals   *refusals
	lacks      atomic.Pointer[error] // why no connection can be accepted; nil if they can
	accepting  sync.WaitGroup
	stopping   <-chan struct{} // closed when the server stops

	mu            sync.Mutex
	plain, secure port
	closed        bool
}

// init sets what New is given.
func (p *Ports) init(o *Options, stopping <-chan struct{}, admit func(net.Conn, portKind), refusals *refusals) {
	p.cfg, p.log, p.backend, p.state, p.listenFunc = o.Config, o.Logger, o.Backend, o.State, o.Listen
	p.stopping, p.admit, p.refusals = stopping, admit, refusals
	p.plain.key, p.secure.key, p.secure.kind = "clientPort", "secureClientPort", tlsPort
	if o.Config.ClientTLS.Unified {
		p.plain.kind = bothPort
	}
}

// close closes the ports, and waits until no connection is accepted any more.
func (p *Ports) close() {
	p.mu.Lock()
	p.closed = true
	for _, of := range []*port{&p.plain, &p.secure} {
		if of.listener != nil {
			of.listener.Close()
		}
	}
	p.mu.Unlock()
	p.accepting.Wait()
}

// noteEnd notes that the server no longer serves clients: see LogServing.
func (p *Ports) noteEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain.serving, p.secure.serving = false, false
}

// Listen opens clientPort and starts accepting; port -1 means none. If a port is open at
// another address, Listen closes it: its connections continue. After an error the old port
// is open, if that is possible.
func (p *Ports) Listen(host string, port int) error { return p.listen(&p.plain, host, port) }

// ListenSecure is Listen for secureClientPort.
func (p *Ports) ListenSecure(host string, port int) error {
	return p.listen(&p.secure, host, port)
}

func (p *Ports) listen(of *port, host string, number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if number < 0 {
		if of.listener != nil {
			of.listener.Close()
			of.listener = nil
		}
		p.log.Info("no port for clients ("+of.key+"=-1)", zap.Stringer("zxid", p.state.Applied()))
		return nil
	}
	old := of.listener
	if old != nil && portOf(old) == number {
		old.Close() // both can't be open
	}
	l, err := p.open(net.JoinHostPort(host, strconv.Itoa(number)))
	switch {
	case err == nil && old != nil:
		old.Close()
	case err != nil && old != nil && portOf(old) == number:
		l, _ = p.open(old.Addr().String())
	}
	if l != nil {
		of.listener, of.serving = l, false
		if p.backend.Serving() {
			p.logServingLocked(of)
		} else {
			p.log.Info("clients can connect once there is a leader", zap.Stringer("address", l.Addr()), zap.String("port", of.key))
		}
		p.accepting.Go(func() { p.acceptLoop(l, of.kind) })
	}
	return err
}

// LogServing logs the ports on which the server serves clients, after it has begun to do so.
// A port that opens later is logged then.
func (p *Ports) LogServing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range []*port{&p.plain, &p.secure} {
		if of.listener != nil {
			p.logServingLocked(of)
		}
	}
}

func (p *Ports) logServingLocked(of *port) {
	if !of.serving {
		of.serving = true
		p.log.Info("serving clients", zap.Stringer("address", of.listener.Addr()), zap.String("port", of.key), zap.Stringer("zxid", p.state.Applied()))
	}
}

// Addr returns the address of clientPort, or nil.
func (p *Ports) Addr() net.Addr { return p.addr(&p.plain) }

// SecureAddr returns the address of secureClientPort, or nil.
func (p *Ports) SecureAddr() net.Addr { return p.addr(&p.secure) }

func (p *Ports) addr(of *port) net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.listener == nil {
		return nil
	}
	return of.listener.Addr()
}

func portOf(l net.Listener) int {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		return tcp.Port
	}
	return -1
}

func (p *Ports) open(addr string) (net.Listener, error) {
	listen := p.listenFunc
	if listen == nil {
		listen = p.listenTCP
	}
	l, err := listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for clients on %s: %w", addr, err)
	}
	if err := setBacklog(l, p.cfg.ClientPortListenBacklog); err != nil {
		return nil, fmt.Errorf("set clientPortListenBacklog: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// listenTCP opens a port whose connections have keep-alives only if clientTcpKeepAlive is
// set: Go's default costs four system calls for each new connection.
func (p *Ports) listenTCP(network, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	if p.cfg.ClientTCPKeepAlive {
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

func (p *Ports) acceptLoop(l net.Listener, kind portKind) {
	for {
		nc, err := accept.Next(l, p.stopping, p.noteLack)
		if err != nil {
			return // it is closed
		}
		p.admit(nc, kind)
	}
}

// noteLack notes why no connection can be accepted, nil if they can.
func (p *Ports) noteLack(err error) {
	if err == nil {
		p.lacks.Store(nil)
		return
	}
	p.lacks.Store(&err)
	p.refusals.note(zap.ErrorLevel, "can't accept connections of clients; trying on", fmt.Errorf("%w: %w", errNoDescriptor, err))
}

// Lacks returns why no connection can be accepted, or nil if they can.
func (p *Ports) Lacks() error {
	if err := p.lacks.Load(); err != nil {
		return *err
	}
	return nil
}
