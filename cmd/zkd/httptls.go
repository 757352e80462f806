package main

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/secure"
)

// tlsListener is a listener of an HTTP server whose connections begin with TLS, or with or
// without it.
type tlsListener struct {
	net.Listener
	tls   *secure.TLS
	plain bool // accept connections without TLS, too

	ctx   context.Context // ended by Close
	end   context.CancelFunc
	ready chan net.Conn
}

const (
	// detectionTimeout is the time in which a client has to send its first byte.
	detectionTimeout = 5 * time.Second
	// tlsRecord is the first byte of a connection with TLS. No HTTP request begins with it.
	tlsRecord = 0x16
)

func newTLSListener(l net.Listener, t *secure.TLS, plain bool) *tlsListener {
	tl := &tlsListener{Listener: l, tls: t, plain: plain, ready: make(chan net.Conn)}
	tl.ctx, tl.end = context.WithCancel(context.Background())
	return tl
}

// run accepts connections until the listener is closed. It returns when its goroutines have
// ended.
func (l *tlsListener) run() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			l.Close()
			return
		}
		wg.Go(func() { l.begin(nc) })
	}
}

// begin looks how a connection begins, and hands it over.
func (l *tlsListener) begin(nc net.Conn) {
	nc.SetReadDeadline(time.Now().Add(detectionTimeout))
	defer context.AfterFunc(l.ctx, func() { nc.SetReadDeadline(time.Unix(1, 0)) })()
	first := make([]byte, 1)
	if _, err := nc.Read(first); err != nil || l.ctx.Err() != nil {
		nc.Close()
		return
	}
	nc.SetReadDeadline(time.Time{})
	var c net.Conn = &begunConn{Conn: nc, first: first}
	switch {
	case first[0] == tlsRecord:
		l.tls.Tick()
		c = tls.Server(c, l.tls.Accept(nc.RemoteAddr(), nil))
	case !l.plain:
		nc.Close()
		return
	}
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		nc.Close()
	}
}

// Accept returns the next connection of which the beginning is known.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener.
func (l *tlsListener) Close() error {
	l.end()
	return l.Listener.Close()
}

// begunConn is a connection of which the first byte has been read.
type begunConn struct {
	net.Conn
	first []byte
}

// Read reads the first byte again, and then the rest.
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
