package api

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// idle is how long the link of callers without a session stays without a request.
	idle = 5 * time.Second
	// mostLinks bounds the links. With one more, an idle one of a caller without a session is closed.
	mostLinks = 4096
)

// Connection is one on which the caller speaks ZooKeeper's protocol.
type Connection struct {
	net.Conn
	Until time.Time // when an identity of the caller ends; zero for never
}

// links are those of all callers.
type links struct {
	connect  func(ctx context.Context, c *Caller, visits bool) (Connection, error)
	readOnly bool // of Options

	mu sync.Mutex
	of map[key]*shared
}

// shared is a link with those who use it.
type shared struct {
	key    key
	from   netip.Addr
	visits bool          // its callers have no session
	opened chan struct{} // closed when link or err is set
	link   *link
	err    error

	// Guarded by links.mu.
	users int
	timer *time.Timer // closes it; set while there are no users, if it visits
	since time.Time   // when the last user has left
}

// use returns the link of a caller, which it opens if need be. leave has to be called afterwards. t is nil for callers
// without a session.
func (s *links) use(ctx context.Context, c *Caller, t *token) (l *link, leave func(), err error) {
	k := keyOf(c, t)
	for {
		e, mine, err := s.enter(k, c.From.Addr(), t == nil)
		if err != nil {
			return nil, nil, err
		}
		if mine {
			s.open(ctx, e, c, t)
		}
		select {
		case <-e.opened:
		case <-ctx.Done():
			s.leave(e)
			return nil, nil, context.Cause(ctx)
		}
		switch {
		case e.err == nil && !e.link.over():
			return e.link, func() { s.leave(e) }, nil
		case e.err == nil || !mine && (errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded)):
			s.retire(e)
			s.leave(e)
		default:
			s.leave(e)
			return nil, nil, e.err
		}
	}
}

// enter returns the link of a key. mine: the caller has to open it.
func (s *links) enter(k key, from netip.Addr, visits bool) (e *shared, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.of[k]; e == nil {
		if len(s.of) >= mostLinks {
			old := s.takeIdleLocked(netip.Addr{})
			if old == nil {
				return nil, false, ErrRefused
			}
			go old.link.close()
		}
		e, mine = &shared{key: k, from: from, visits: visits, opened: make(chan struct{})}, true
		s.of[k] = e
	}
	e.users++
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	return e, mine, nil
}

// takeIdleLocked takes out the link that has been idle the longest, of those from an address if it is valid. It returns nil if
// there is none.
func (s *links) takeIdleLocked(from netip.Addr) (oldest *shared) {
	for _, e := range s.of {
		if e.timer != nil && (!from.IsValid() || e.from == from) && (oldest == nil || e.since.Before(oldest.since)) {
			oldest = e
		}
	}
	if oldest != nil {
		oldest.timer.Stop()
		delete(s.of, oldest.key)
	}
	return oldest
}

// makeRoom closes an idle link from an address, and reports whether there was one: the server takes so many connections
// from an address.
func (s *links) makeRoom(from netip.Addr) bool {
	s.mu.Lock()
	old := s.takeIdleLocked(from)
	s.mu.Unlock()
	if old != nil {
		old.link.close()
		<-old.link.ended
	}
	return old != nil
}

// open opens the link of an entry.
func (s *links) open(ctx context.Context, e *shared, c *Caller, t *token) {
	defer close(e.opened)
	if e.link, e.err = s.dial(ctx, c, t); e.err != nil {
		s.forget(e)
		return
	}
	s.follow(e)
}

// follow forgets a link when it has ended.
func (s *links) follow(e *shared) {
	go func() {
		<-e.link.ended
		s.forget(e)
	}()
}

// dial connects a caller, and opens its session. If that is refused, it may be for want of a place that an idle link has.
func (s *links) dial(ctx context.Context, c *Caller, t *token) (*link, error) {
	l, err := s.tryDial(ctx, c, t)
	if err == ErrRefused && s.makeRoom(c.From.Addr()) {
		return s.tryDial(ctx, c, t)
	}
	return l, err
}

func (s *links) tryDial(ctx context.Context, c *Caller, t *token) (*link, error) {
	conn, err := s.connect(ctx, c, t == nil)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	if t == nil {
		t = &token{timeoutMs: math.MaxInt32} // the longest, as the link is closed before
	}
	l, err := open(conn.Conn, conn.Until, t, c.Operates, s.readOnly)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// begin opens a session, whose link is found by its token.
func (s *links) begin(ctx context.Context, c *Caller, timeoutMs int32, exact bool) (*token, error) {
	l, err := s.dial(ctx, c, &token{timeoutMs: timeoutMs, exact: exact})
	if err != nil {
		return nil, err
	}
	e := &shared{key: keyOf(c, &l.session), opened: make(chan struct{}), link: l}
	close(e.opened)
	s.mu.Lock()
	s.of[e.key] = e
	s.mu.Unlock()
	s.follow(e)
	return &l.session, nil
}

// leave ends a use of a link.
func (s *links) leave(e *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 || !e.visits || s.of[e.key] != e {
		return
	}
	e.since = time.Now()
	e.timer = time.AfterFunc(min(idle, e.link.session.timeout()/2), func() {
		if s.abandon(e) {
			e.link.close()
		}
	})
}

// abandon forgets a link that has no users, and reports whether it is so.
func (s *links) abandon(e *shared) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users > 0 || s.of[e.key] != e {
		return false
	}
	delete(s.of, e.key)
	return true
}

// retire forgets a link that has ended, whose identities have, or whose opener gave up.
func (s *links) retire(e *shared) {
	s.forget(e)
	switch {
	case e.link == nil:
	case e.visits:
		go e.link.close()
	default:
		e.link.conn.Close() // the session stays, and is resumed with another proof
	}
}

// forget removes a link that has ended.
func (s *links) forget(e *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[e.key] == e {
		delete(s.of, e.key)
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
	}
}
