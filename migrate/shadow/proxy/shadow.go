package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// Shadow sends zkd what clients ask of Apache, and compares the answers. It is the Tap of a Relay.
type Shadow struct {
	servers []string // of zkd
	report  func(shadow.Report)
	start   time.Time
	inbox   *inbox
	engine  *shadow.Engine // owned by Run
	links   map[shadow.ConnID]*link
	current atomic.Int64 // the server of zkd that all connections are to
	calls   chan func()
	wg      sync.WaitGroup
}

// NewShadow returns a Shadow that compares with these servers of zkd, each host:port. report is
// called in Run with each difference.
func NewShadow(servers []string, tune func(*shadow.Config), report func(shadow.Report)) *Shadow {
	start := time.Now()
	cfg := shadow.DefaultConfig(start.UnixMilli())
	if tune != nil {
		tune(&cfg)
	}
	return &Shadow{
		servers: servers, report: report, start: start, inbox: newInbox(cfg.Most / 4), engine: shadow.New(cfg),
		links: map[shadow.ConnID]*link{}, calls: make(chan func()),
	}
}

// Open implements Tap.
func (s *Shadow) Open(id shadow.ConnID) { s.inbox.offer(message{kind: opened, conn: id}) }

// FromClient implements Tap.
func (s *Shadow) FromClient(id shadow.ConnID, p []byte) { s.offer(fromClient, id, p) }

// FromServer implements Tap.
func (s *Shadow) FromServer(id shadow.ConnID, p []byte) { s.offer(fromApache, id, p) }

// Closed implements Tap.
func (s *Shadow) Closed(id shadow.ConnID) { s.inbox.offer(message{kind: closed, conn: id}) }

func (s *Shadow) offer(k kind, id shadow.ConnID, p []byte) {
	if !s.inbox.offer(message{kind: k, conn: id, bytes: p}) {
		s.inbox.offer(message{kind: lost, conn: id})
	}
}

// Run compares until ctx ends.
func (s *Shadow) Run(ctx context.Context) {
	defer s.wg.Wait()
	defer func() {
		s.inbox.close()
		for _, l := range s.links {
			l.close()
		}
	}()
	const often, seldom = 10 * time.Millisecond, 200 * time.Millisecond
	timer := time.NewTimer(seldom)
	defer timer.Stop()
	var list []message
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.inbox.wake:
		case <-timer.C:
			s.engine.Tick(s.now())
			if s.engine.Waits() {
				timer.Reset(often)
			} else {
				timer.Reset(seldom)
			}
		case call := <-s.calls:
			list = s.work(ctx, list)
			call()
		}
		list = s.work(ctx, list)
	}
}

// work gives the messages that came in to the Engine. It returns a list for the next call.
func (s *Shadow) work(ctx context.Context, spare []message) []message {
	list := s.inbox.take(spare)
	for _, m := range list {
		s.input(m)
		s.act(ctx)
	}
	s.act(ctx)
	for _, r := range s.engine.Reports() {
		s.report(r)
	}
	return list
}

func (s *Shadow) now() time.Duration { return time.Since(s.start) }

func (s *Shadow) input(m message) {
	switch now := s.now(); m.kind {
	case opened:
		s.engine.Open(now, m.conn)
	case fromClient:
		s.engine.FromClient(now, m.conn, m.bytes)
	case fromApache:
		s.engine.FromApache(now, m.conn, m.bytes)
	case fromZkd:
		s.engine.FromZkd(now, m.conn, m.bytes)
	case closed:
		s.engine.Closed(now, m.conn)
	case lost:
		s.engine.Lost(now, m.conn)
	case zkdLost:
		delete(s.links, m.conn)
		s.engine.ZkdLost(now, m.conn, m.serving, m.reason)
	}
}

func (s *Shadow) act(ctx context.Context) {
	for _, a := range s.engine.Actions() {
		switch l := s.links[a.Conn]; {
		case a.Kind == shadow.Dial:
			l = &link{wake: make(chan struct{}, 1), end: make(chan struct{})}
			l.send(a.Frame)
			s.links[a.Conn] = l
			s.wg.Go(func() { s.carry(ctx, a.Conn, l) })
		case l == nil: // it has just been lost
		case a.Kind == shadow.Send:
			l.send(a.Frame)
		case a.Kind == shadow.Close:
			l.close()
			delete(s.links, a.Conn)
		}
	}
}

// Summary returns what was counted so far. Run must be running.
func (s *Shadow) Summary(ctx context.Context) (sum shadow.Summary, err error) {
	err = s.call(ctx, func() { sum = s.engine.Summary() })
	return sum, err
}

// Settle waits until all is compared that Apache has answered, as long as ctx lasts.
func (s *Shadow) Settle(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	poll := time.NewTicker(pause)
	defer poll.Stop()
	for {
		quiet := false
		if err := s.call(ctx, func() { quiet = s.engine.Quiet() }); err != nil || quiet {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// call calls f in Run, after all that has come in, and waits for its end.
func (s *Shadow) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case s.calls <- func() { f(); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// link is a connection to zkd.
type link struct {
	wake chan struct{}
	end  chan struct{}
	mu   struct {
		sync.Mutex
		out   []byte
		conn  net.Conn
		ended bool
	}
}

// send hands a frame to the writer. The Engine bounds how much there is.
func (l *link) send(frame []byte) {
	l.mu.Lock()
	l.mu.out = jute.AppendBuffer(l.mu.out, frame)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		return
	}
	l.mu.ended = true
	close(l.end)
	if l.mu.conn != nil {
		l.mu.conn.Close()
	}
}

// use makes conn the one that close closes.
func (l *link) use(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.conn = conn
	return !l.mu.ended
}

// carry runs a connection to zkd.
func (s *Shadow) carry(ctx context.Context, id shadow.ConnID, l *link) {
	conn, err := s.dial(ctx)
	if err != nil {
		s.inbox.put(message{kind: zkdLost, conn: id, reason: "zkd can't be reached"})
		return
	}
	defer conn.Close()
	if !l.use(conn) {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.close()
	wg.Go(func() { l.write(conn) })
	r := bufio.NewReaderSize(conn, 64<<10)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.inbox.put(message{kind: fromZkd, conn: id, bytes: append([]byte(nil), buf[:n]...)})
		}
		if err != nil {
			s.ended(ctx, id, err)
			return
		}
	}
}

// ended reports the end of a connection to zkd.
func (s *Shadow) ended(ctx context.Context, id shadow.ConnID, err error) {
	if errors.Is(err, net.ErrClosed) {
		return // the Engine has closed it
	}
	serving := false
	if conn, err := s.dial(ctx); err == nil {
		serving = true
		conn.Close()
	}
	reason := "zkd ended"
	if serving && errors.Is(err, io.EOF) {
		reason = "closed"
	}
	s.inbox.put(message{kind: zkdLost, conn: id, serving: serving, reason: reason})
}

func (l *link) write(conn net.Conn) {
	var spare []byte
	for {
		select {
		case <-l.end:
			return
		case <-l.wake:
		}
		l.mu.Lock()
		out := l.mu.out
		l.mu.out = spare[:0]
		l.mu.Unlock()
		if _, err := conn.Write(out); err != nil {
			return // the reader notices it, too
		}
		if spare = out; cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// dial connects to the server of zkd that all connections are to, or else to the next one.
func (s *Shadow) dial(ctx context.Context) (conn net.Conn, err error) {
	d := net.Dialer{Timeout: dialTimeout}
	first := s.current.Load()
	for i := range int64(len(s.servers)) {
		at := (first + i) % int64(len(s.servers))
		if conn, err = d.DialContext(ctx, "tcp", s.servers[at]); err == nil {
			s.current.CompareAndSwap(first, at)
			return conn, nil
		}
	}
	return nil, err
}
