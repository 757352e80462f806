package zk

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// link follows the connection to the servers: what is reported of it, and which calls have
// waited long enough.
type link struct {
	queue   *queue
	hosts   HostProvider
	servers int
	timeout time.Duration // the session's, as requested

	mu      sync.Mutex
	state   State // the last one reported
	server  string
	conn    *netConn // nil when it is closed
	tried   int      // servers, in this round over all of them
	reached bool     // one has accepted a connection in this round
	rounds  int      // in which none has
	calls   map[*call]struct{}
	outage  *time.Timer // gives up the calls that were sent; nil while there is a session
	stopped bool
}

func (l *link) init(c *Conn, servers int, timeout time.Duration) {
	l.queue, l.hosts, l.servers, l.timeout = &c.queue, c.hosts, servers, timeout
	if l.timeout == 0 {
		l.timeout = client.DefaultTimeout
	}
	l.calls = make(map[*call]struct{})
}

func (l *link) now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *link) set(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(s)
}

func (l *link) setLocked(s State) {
	l.state = s
	l.queue.push(Event{Type: EventSession, State: s, Server: l.server})
}

// --- The connection

// netConn reports its end. The client reads and writes it from its own goroutines.
type netConn struct {
	net.Conn
	l *link
}

// Close closes the connection.
func (c *netConn) Close() error {
	c.l.closed(c)
	return c.Conn.Close()
}

// connecting is called before each attempt to connect to an address.
func (l *link) connecting(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == StateConnected { // another address of the same server, which did not take the session
		l.setLocked(StateDisconnected)
	}
	l.server = server
	l.setLocked(StateConnecting)
}

// connected is called when there is a connection, but no session yet.
func (l *link) connected(nc net.Conn) net.Conn {
	c := &netConn{Conn: nc, l: l}
	l.mu.Lock()
	l.conn, l.reached = c, true
	l.setLocked(StateConnected)
	l.mu.Unlock()
	if secure, ok := nc.(handshaker); ok {
		return struct {
			*netConn
			handshaker
		}{c, secure}
	}
	return c
}

// handshaker is what the client knows a connection with TLS by.
type handshaker interface {
	HandshakeContext(ctx context.Context) error
}

// attempted is called when a server has taken the session, or has failed.
func (l *link) attempted(err error) {
	if err == nil && l.hosts != nil {
		l.hosts.Connected()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failedLocked(err)
		return
	}
	l.setLocked(StateHasSession)
	l.tried, l.reached = 0, false
	if l.outage != nil {
		l.outage.Stop()
		l.outage = nil
	}
	for k := range l.calls {
		k.unsent = false
	}
	if l.conn == nil {
		l.lostLocked()
	}
}

func (l *link) failedLocked(err error) {
	expired := errors.Is(err, client.ErrSessionExpired)
	if l.state == StateConnected {
		if expired {
			l.setLocked(StateExpired)
		}
		l.setLocked(StateDisconnected)
	}
	servers := l.servers
	if l.hosts != nil {
		servers = l.hosts.Len()
	}
	if l.tried++; l.tried < servers || expired {
		return
	}
	if !l.reached {
		l.rounds++
		for k := range l.calls {
			if k.unsent && k.late {
				k.cancel(ErrNoServer)
			}
		}
	}
	l.tried, l.reached = 0, false
}

// closed is called when a connection ends.
func (l *link) closed(c *netConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return
	}
	l.conn = nil
	if l.state == StateHasSession {
		l.lostLocked()
	}
}

// lostLocked begins an outage.
func (l *link) lostLocked() {
	l.setLocked(StateDisconnected)
	if !l.stopped {
		l.outage = time.AfterFunc(l.timeout, l.giveUp)
	}
}

// close is called after everything else.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.outage != nil {
		l.outage.Stop()
	}
	if l.state != StateDisconnected {
		l.setLocked(StateDisconnected)
	}
}

// --- Calls

// patience is how long a call that can't be sent waits at least, so that a server's restart goes
// unnoticed. If it is not known then that no server can be reached, the call waits until that is
// known, or for the session's timeout.
const patience = time.Second

// call is an operation whose outcome a caller waits for.
type call struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// Guarded by link.mu.
	unsent bool // there has been no session since it was issued
	late   bool // it has waited for as long as patience
}

// begin is called before a call is issued.
func (l *link) begin() *call {
	k := &call{}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[k] = struct{}{}
	if k.unsent = l.state != StateHasSession; k.unsent {
		before := l.rounds
		k.timer = time.AfterFunc(patience, func() { l.late(k, before) })
	}
	return k
}

// late is called when a call has waited for as long as patience, and again after the session's
// timeout.
func (l *link) late(k *call, before int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !k.unsent:
	case k.late || l.rounds > before || l.timeout <= patience:
		k.cancel(ErrNoServer)
	default:
		k.late = true
		k.timer.Reset(l.timeout - patience)
	}
}

// giveUp is called when an outage has lasted as long as the session's timeout: the calls that
// were sent before it have no outcome soon.
func (l *link) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.calls {
		if !k.unsent && l.outage != nil {
			k.cancel(ErrConnectionClosed)
		}
	}
}

// end is called after a call. It reports whether the call was never sent.
func (l *link) end(k *call) (unsent bool) {
	k.cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, k)
	if k.timer != nil {
		k.timer.Stop()
	}
	return k.unsent
}

// run does an operation. A call that was never sent survives the end of a session, and that of the
// connection on which it would have been next.
func run[T any](c *Conn, f func(ctx context.Context) (T, error)) (T, error) {
	for {
		k := c.link.begin()
		v, err := f(k.ctx)
		gaveUp := context.Cause(k.ctx)
		unsent := c.link.end(k)
		if err == nil {
			return v, nil
		}
		if e, ok := errors.AsType[*client.Error](err); ok {
			_, answered := e.Err.(jute.Code)
			switch {
			case !answered && gaveUp != nil:
				return v, gaveUp
			case unsent && (e.Err == client.ErrSessionExpired || e.Err == client.ErrConnectionLoss):
				continue
			}
		}
		return v, plain(err)
	}
}
