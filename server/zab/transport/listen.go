package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/accept"
	"github.com/zkd-project/zkd/internal/misdial"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/zab"
)

// mostGreeting bounds the accepted connections whose handshake is not done.
const mostGreeting = 256

// secretFailures is how many handshakes per second of one address may fail for their secret, ten seconds'
// worth at once, so that nobody can try many. A server with the wrong secret dials less often.
const secretFailures = 10

// listenLoop keeps listening at an address until ctx ends.
func (t *Transport) listenLoop(ctx context.Context, addr string) {
	topic := "listen " + addr
	delay := t.o.RedialMin
	for ctx.Err() == nil {
		start := time.Now()
		err := t.listenOnce(ctx, addr, topic)
		if ctx.Err() != nil {
			t.setDeaf(addr, nil)
			return
		}
		t.setDeaf(addr, err)
		if t.complaints.shouldLog(topic, err.Error()) {
			t.log.Error("can't listen for peers; trying on", zap.String("address", addr), zap.Error(err))
		}
		if time.Since(start) > t.o.RedialMax {
			delay = t.o.RedialMin
		}
		_ = pause.For(ctx, delay)
		delay = min(2*delay, t.o.RedialMax)
	}
}

// listenOnce binds, and accepts until that fails.
func (t *Transport) listenOnce(ctx context.Context, addr, topic string) error {
	listen := t.o.ListenFunc
	if listen == nil {
		listen = t.listenTCP
	}
	l, err := listen("tcp", addr)
	if err != nil {
		return err
	}
	if !t.addListener(l) {
		return ErrClosed
	}
	defer t.removeListener(l)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	t.complaints.forget(topic)
	t.setDeaf(addr, nil)
	t.log.Info("listening for peers", zap.Stringer("address", l.Addr()))
	for {
		nc, err := accept.Next(l, ctx.Done(), func(err error) {
			t.setDeaf(addr, err)
			if err != nil && t.complaints.shouldLog(topic, err.Error()) {
				t.log.Error("can't accept connections of peers; trying on", zap.Error(err))
			}
		})
		if err != nil {
			return err
		}
		if t.greeting.Add(1) > mostGreeting {
			t.greeting.Add(-1)
			t.metrics.refuse("busy")
			nc.Close()
			continue
		}
		if t.hold(nc) {
			t.goroutines.Go(func() { t.serve(nc) })
		}
	}
}

// setDeaf notes why this server does not listen at an address; nil if it does.
func (t *Transport) setDeaf(addr string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.mu.deaf, addr)
	} else {
		t.mu.deaf[addr] = logText(err)
	}
}

// Deaf says at which addresses this server can't listen for others, and why; "" if it listens at all.
func (t *Transport) Deaf() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, addr := range slices.Sorted(maps.Keys(t.mu.deaf)) {
		list = append(list, addr+": "+t.mu.deaf[addr])
	}
	return strings.Join(list, "; ")
}

const (
	bindAttempts = 5
	bindPause    = 500 * time.Millisecond
)

// CheckPorts returns an error if another program has one of the ports at which Start would listen, for
// longer than it takes to give it up.
func (t *Transport) CheckPorts() error {
	if t.o.ListenFunc != nil {
		return nil
	}
	// A name server that does not answer must not pause the start for long.
	ctx, cancel := context.WithTimeout(t.ctx, 2*bindAttempts*bindPause)
	defer cancel()
	listen := func(network, addr string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, network, addr)
	}
	for _, addr := range t.o.Listen {
		if err := t.checkPort(listen, addr); err != nil {
			return err
		}
	}
	return nil
}

// checkPort returns an error if another program has a port, or this one may not have it. A name or an
// address that is not there yet may come: listenLoop waits for it.
func (t *Transport) checkPort(listen func(network, addr string) (net.Listener, error), addr string) error {
	for attempt := 1; ; attempt++ {
		l, err := listen("tcp", addr)
		switch {
		case err == nil:
			return l.Close()
		case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES):
			return nil
		case attempt == bindAttempts:
			return fmt.Errorf("can't listen for the other servers of the ensemble: %w", err)
		}
		if pause.For(t.ctx, bindPause) != nil {
			return ErrClosed
		}
	}
}

// addListener records a listener, unless Close has been called.
func (t *Transport) addListener(l net.Listener) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		l.Close()
		return false
	}
	t.mu.listeners = append(t.mu.listeners, l)
	return true
}

func (t *Transport) removeListener(l net.Listener) {
	l.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.listeners = slices.DeleteFunc(t.mu.listeners, func(m net.Listener) bool { return m == l })
}

// serve is the acceptor: it does the handshake, and then serves the purpose of the
// connection.
func (t *Transport) serve(nc net.Conn) {
	defer t.drop(nc)
	host := hostOfConn(nc)
	if t.failures.Blocked(host, time.Since(t.began)) {
		t.greeting.Add(-1)
		t.metrics.refuse("secret")
		return
	}
	p, hs, err := t.greet(nc)
	t.greeting.Add(-1)
	if err == nil {
		err = t.serveAs(p, hs)
	}
	if err == nil || t.ctx.Err() != nil {
		return
	}
	if why, ok := errors.AsType[*reason](err); ok && why.text == aClient {
		misdial.Tell(nc, "zkd: this port is for other servers: clients belong to the client port")
	}
	t.metrics.refuse(causeOf(err))
	if causeOf(err) == "secret" {
		t.failures.Failed(host, time.Since(t.began))
	}
	id := uint8(0)
	if hs != nil {
		id = hs.theirs.From
	}
	if errors.Is(err, io.EOF) && id == 0 {
		return // a probe of the port, by a load balancer or a person
	}
	if t.complaints.shouldLog("accept "+host+string(rune(id)), logText(err)) {
		t.log.Warn("refused a connection to the quorum port", zap.String("remote", host), zap.Uint8("sid", id), zap.String("err", logText(err)))
	}
}

// hostOfConn returns the address of the peer without its port.
func hostOfConn(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	return host
}

// greet does the acceptor's part of the handshake except the verdict.
func (t *Transport) greet(nc net.Conn) (*peer, *handshake, error) {
	if err := nc.SetDeadline(time.Now().Add(t.o.HandshakeTimeout)); err != nil {
		return nil, nil, err
	}
	setUserTimeout(nc, t.o.WriteTimeout+t.o.IdleTimeout)
	secured, err := t.secureAccepted(nc)
	if err != nil {
		return nil, nil, err
	}
	hs, err := t.acceptHello(secured)
	hs.raw = nc
	if err != nil {
		return nil, hs, err
	}
	p := t.active(zab.SIDOf(hs.theirs.From))
	if p == nil {
		return nil, hs, errRemoved
	}
	p.connected(hs.theirs.Listen)
	return p, hs, nil
}

// secureAccepted does the TLS handshake, if configured.
func (t *Transport) secureAccepted(nc net.Conn) (net.Conn, error) {
	if t.tls == nil {
		return nc, nil
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(nc, first); err != nil {
		return nil, err
	}
	peeked := &sniffed{nc, first}
	if first[0] != 0x16 {
		if t.o.TLS.Mode != TLSOnly {
			return peeked, nil
		}
		t.tls.Observe(secure.ErrPlain)
		return nil, &reason{"certificate", "it does not speak TLS, and this server takes nothing else: sslQuorum must be the same on all servers"}
	}
	secured := tls.Server(peeked, t.tls.Peer(""))
	err := secured.HandshakeContext(t.ctx)
	t.tls.Observe(err)
	if err != nil {
		return nil, &reason{"certificate", "TLS: " + logText(err)}
	}
	return secured, nil
}

// serveAs sends the verdict and serves the purpose of the connection.
func (t *Transport) serveAs(p *peer, hs *handshake) error {
	ctx := p.context()
	if ctx == nil {
		return hs.sendVerdict(errRemoved)
	}
	switch hs.purpose {
	case forLink:
		return t.serveLink(ctx, p, hs)
	case forStream:
		return t.serveStream(ctx, p, hs)
	default:
		return hs.sendVerdict(p.onCall(ctx, hs.hello()))
	}
}

func (t *Transport) serveLink(ctx context.Context, p *peer, hs *handshake) error {
	l := newLink(p, hs, p.timed(hs.nc, hs.raw))
	if err := hs.nc.SetDeadline(time.Now().Add(t.o.ProbeTimeout + t.o.HandshakeTimeout)); err != nil {
		return err
	}
	if err := p.admit(ctx, l); err != nil {
		return hs.sendVerdict(err)
	}
	// The peer's frames may arrive before the verdict has been written; they wait in the socket.
	// The handler's frames wait for the writer.
	err := hs.sendVerdict(nil)
	if err == nil {
		err = hs.nc.SetDeadline(time.Time{})
	}
	if err != nil {
		l.abandon(err)
		return err
	}
	l.run()
	return nil
}

// listenTCP opens a port.
func (t *Transport) listenTCP(network, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: t.keepAlive()}
	return lc.Listen(t.ctx, network, addr)
}

// keepAlive makes the kernel detect a dead connection about as fast as the transport does,
// also while the process is stopped.
func (t *Transport) keepAlive() net.KeepAliveConfig {
	every := max(t.o.IdleTimeout/4, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: 4}
}
