package mux

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

const (
	spread      = 32               // streams of each connection to an address, before there is another one
	unusedFor   = 10 * time.Second // a connection without streams
	greetWithin = 5 * time.Second
	plainFor    = time.Minute // a server that carries no streams is not asked again
	fewerFor    = time.Minute // nor is one that takes no further connection
)

// Pool has the connections of a process to servers, each of which carries many streams. Servers other than zkd's, and those of
// earlier versions, get a connection for each stream. Its methods may be called from any goroutine.
type Pool struct {
	most int // to one address
	log  *slog.Logger
	work sync.WaitGroup

	mu     sync.Mutex
	of     map[string]*trunk // by address
	all    map[*carrying]bool
	closed bool
}

// trunk are the connections to one address.
type trunk struct {
	turn  chan struct{} // capacity 1, full while a stream gets its place: others wait for a connection that is being opened
	plain time.Time     // until when each stream has a connection; owned by the one whose turn it is
	fewer time.Time     // until when the connections that there are have to do; likewise
	open  []*carrying   // that get streams; guarded by Pool.mu
}

// carrying is one of the connections.
type carrying struct {
	*Carrier
	nc net.Conn
}

// NewPool returns a Pool with at most so many connections to one address. Close must be called.
func NewPool(most int, log *slog.Logger) *Pool {
	return &Pool{most: most, log: log, of: map[string]*trunk{}, all: map[*carrying]bool{}}
}

// Close ends all connections.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.all {
		c.nc.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// Len returns how many connections carry streams.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// Dial returns a stream to an address, or a connection if no streams are carried there. open opens a connection to it. whose is told to
// the server.
func (p *Pool) Dial(ctx context.Context, address, whose string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	nc, err := p.carried(ctx, address, whose, open)
	if errors.Is(err, ErrPlain) {
		return open(ctx)
	}
	return nc, err
}

// carried returns a stream, or ErrPlain if the caller is to open a connection.
func (p *Pool) carried(ctx context.Context, address, whose string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	t := p.trunk(address)
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	for time.Now().After(t.plain) {
		c, full := p.choose(t)
		if c == nil || full && time.Now().After(t.fewer) {
			another, err := p.connect(ctx, t, open)
			switch {
			case err == nil:
				c = another
			case c != nil:
				p.log.Debug("a server takes no further connection that carries sessions", "address", address, "err", err)
				t.fewer = time.Now().Add(fewerFor)
			case errors.Is(err, ErrPlain):
				p.log.Info("a server takes one session for each connection", "address", address)
				t.plain = time.Now().Add(plainFor)
				fallthrough
			default:
				return nil, err
			}
		}
		if s, err := c.Open(whose); err == nil {
			return c.stream(s), nil
		}
		p.forget(t, c) // it has ended meanwhile, or takes no more
	}
	return nil, ErrPlain
}

func (p *Pool) trunk(address string) *trunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.of[address]
	if t == nil {
		t = &trunk{turn: make(chan struct{}, 1)}
		p.of[address] = t
	}
	return t
}

// choose returns the connection with the fewest streams, or nil if there is none. full: there should be another one.
func (p *Pool) choose(t *trunk) (least *carrying, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var have []int
	for _, c := range t.open {
		have = append(have, c.Streams())
	}
	i, full := streams.Place(have, spread, p.most)
	if i < 0 {
		return nil, false
	}
	return t.open[i], full
}

// connect opens a connection that carries streams.
func (p *Pool) connect(ctx context.Context, t *trunk, open func(context.Context) (net.Conn, error)) (*carrying, error) {
	nc, err := open(ctx)
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(time.Now().Add(greetWithin))
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	err = Greet(nc)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	nc.SetDeadline(time.Time{})
	c := &carrying{Connect(nc, unusedFor), nc}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		nc.Close()
		return nil, net.ErrClosed
	}
	t.open = append(t.open, c)
	p.all[c] = true
	p.work.Go(func() {
		err := c.Serve()
		p.log.Debug("a connection that carried sessions has ended", "address", nc.RemoteAddr().String(), "err", err)
		p.forget(t, c)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, c)
	})
	return c, nil
}

// forget removes a connection from those that get streams.
func (p *Pool) forget(t *trunk, c *carrying) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(t.open, c); i >= 0 {
		t.open = slices.Delete(t.open, i, i+1)
	}
}

// stream returns a stream as a connection that has TLS, if it has: a password may be sent on it.
func (c *carrying) stream(s *Stream) net.Conn {
	if below, ok := c.nc.(handshaker); ok {
		return secured{s, below}
	}
	return s
}

// handshaker is what package client knows a connection with TLS by.
type handshaker interface {
	HandshakeContext(ctx context.Context) error
}

// secured is a stream of a connection with TLS, whose handshake is done.
type secured struct {
	*Stream
	handshaker
}
