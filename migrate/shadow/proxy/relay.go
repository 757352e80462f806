package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// A Tap gets copies of what a Relay passes on. Its methods don't wait.
type Tap interface {
	Open(id shadow.ConnID)
	FromClient(id shadow.ConnID, p []byte)
	FromServer(id shadow.ConnID, p []byte)
	Closed(id shadow.ConnID)
}

// Relay passes connections of clients on to servers, byte for byte. Only what a connect request asks for
// beyond ZooKeeper's protocol (docs/extensions.md) is left out: other servers do not know it.
type Relay struct {
	Servers []string // host:port
	Tap     Tap

	last atomic.Uint64 // the last connection's id
	mu   struct {
		sync.Mutex
		conns  map[net.Conn]bool
		closed bool
	}
}

const (
	dialTimeout = 5 * time.Second // for a connection to one server
	acceptPause = 100 * time.Millisecond
)

// Serve accepts connections until ctx ends. Then it closes all of them, and returns nil.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() {
		l.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mu.closed = true
		for c := range r.mu.conns {
			c.Close()
		}
	})()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		client, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				client.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case err != nil: // most likely there are too many open files: other connections continue, and some may end
			_ = pause.For(ctx, acceptPause)
			continue
		}
		wg.Go(func() { r.relay(ctx, client) })
	}
}

// relay passes one connection on.
func (r *Relay) relay(ctx context.Context, client net.Conn) {
	defer client.Close()
	id := shadow.ConnID(r.last.Add(1))
	server, err := r.dial(ctx, int(id))
	if err != nil {
		return // the client tries again, as with a server that is away
	}
	defer server.Close()
	if !r.keep(client, server) {
		return
	}
	defer r.drop(client, server)
	r.Tap.Open(id)
	defer r.Tap.Closed(id)
	var wg sync.WaitGroup
	wg.Go(func() {
		// Copied before it is sent, so that no answer is copied before its request.
		pass(client, withoutExtensions(func(p []byte) error {
			r.Tap.FromClient(id, bytes.Clone(p))
			_, err := server.Write(p)
			return err
		}))
		closeWrite(server)
	})
	pass(server, func(p []byte) error {
		_, err := client.Write(p)
		r.Tap.FromServer(id, bytes.Clone(p))
		return err
	})
	// The client reads what is there, and closes its side; if not, it is cut off. To close at
	// once would take the last answer away if another request has just arrived.
	closeWrite(client)
	const linger = 2 * time.Second
	client.SetReadDeadline(time.Now().Add(linger)) // then it is closed already
	wg.Wait()
}

// pass hands over what it reads, until one of the two fails.
func pass(from net.Conn, to func([]byte) error) {
	const least, most = 4 << 10, 64 << 10
	buf := make([]byte, least)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if failed := to(buf[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < most {
			buf = make([]byte, 2*n)
		}
	}
}

// withoutExtensions returns a function that hands over to to what a client sends, without what follows its
// connect request in the first frame. What is no frame stays as it is.
func withoutExtensions(to func([]byte) error) func([]byte) error {
	var first []byte
	begun := false
	return func(p []byte) error {
		if begun {
			return to(p)
		}
		first = append(first, p...)
		frame, rest, isFrame, err := frames.Cut(first, shadow.MaxFrame, "")
		if begun = isFrame || err != nil; !begun {
			return nil
		}
		if isFrame {
			var connect jute.ConnectRequest
			d := jute.NewAliasDecoder(frame)
			if connect.Decode(&d); d.Err() == nil {
				first = append(jute.AppendBuffer(nil, frame[:len(frame)-len(d.Rest())]), rest...)
			}
		}
		return to(first)
	}
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() // the other side is gone
	}
}

// dial connects to a server, another one for each connection.
func (r *Relay) dial(ctx context.Context, n int) (c net.Conn, err error) {
	d := net.Dialer{Timeout: dialTimeout}
	for i := range r.Servers {
		if c, err = d.DialContext(ctx, "tcp", r.Servers[(n+i)%len(r.Servers)]); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return false
	}
	if r.mu.conns == nil {
		r.mu.conns = map[net.Conn]bool{}
	}
	for _, c := range conns {
		r.mu.conns[c] = true
	}
	return true
}

func (r *Relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.mu.conns, c)
	}
}
