package mux

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

const (
	writePiece  = 64 << 10
	writeWithin = 30 * time.Second // for a piece, before the connection counts as dead
	readBuffer  = 64 << 10
)

// Carrier is a connection with its streams. What it does with them are the rules of package streams; here are its goroutines.
type Carrier struct {
	nc       net.Conn
	began    time.Time
	in       io.Reader                     // nc, after what was read from it before
	greeting []byte                        // is written first
	accept   func(s *Stream, whose string) // nil at the side that connects
	wake     chan struct{}                 // capacity 1: the writer has something to do
	done     chan struct{}                 // closed when the connection has failed or ended
	written  chan struct{}                 // closed when the writer has ended

	mu    sync.Mutex
	side  *streams.Side // with all streams
	room  sync.Cond     // what waited was taken to be written, or the connection has failed
	timer *time.Timer   // calls tick
	armed time.Duration // when it does, since the connection began; 0 if it does not
}

// Connect makes a Carrier of a connection whose greetings are exchanged. It ends when it has had no streams for idle. The caller then
// calls Serve.
func Connect(nc net.Conn, idle time.Duration) *Carrier { return newCarrier(nc, nc, idle, nil) }

// Accept makes a Carrier of a connection that has begun with the greeting of the other side. in is what to read from: the
// connection with the greeting. accept is called for each stream, by Serve, and must not block. The rest is as for Connect.
func Accept(nc net.Conn, in io.Reader, idle time.Duration, accept func(s *Stream, whose string)) (*Carrier, error) {
	if err := takeGreeting(in); err != nil {
		return nil, err
	}
	c := newCarrier(nc, in, idle, accept)
	c.greeting = greeting()
	return c, nil
}

func newCarrier(nc net.Conn, in io.Reader, idle time.Duration, accept func(*Stream, string)) *Carrier {
	c := &Carrier{nc: nc, began: time.Now(), in: in, accept: accept, wake: make(chan struct{}, 1), done: make(chan struct{}), written: make(chan struct{})}
	c.room.L = &c.mu
	cfg := streams.Config{Now: c.elapsed, Idle: idle, Window: streams.Window, MaxOut: streams.MaxOut}
	if accept != nil {
		cfg.Accept = func() *streams.Stream { return &c.newStream().rules }
	}
	c.side = streams.New(cfg)
	c.armed = idle
	c.timer = time.AfterFunc(idle, c.tick)
	return c
}

func (c *Carrier) elapsed() time.Duration { return time.Since(c.began) }

func (c *Carrier) unlock() {
	c.workLocked()
	c.mu.Unlock()
}

// workLocked has the writer and the timer do what there is to do now.
func (c *Carrier) workLocked() {
	if c.side.Waiting() > 0 || c.side.Over() {
		c.wakeWriter()
	}
	if due := c.side.Due(); due != 0 && (c.armed == 0 || due < c.armed) {
		c.armed = due
		c.timer.Reset(due - c.elapsed())
	}
}

func (c *Carrier) tick() {
	c.mu.Lock()
	defer c.unlock()
	c.armed = 0
	c.side.Tick()
}

// Serve reads until the connection ends, and returns why.
func (c *Carrier) Serve() error {
	go c.write()
	c.wakeWriter()
	c.fail(c.read(bufio.NewReaderSize(c.in, readBuffer)))
	<-c.written
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.side.Err()
}

// Done returns a channel that is closed when the connection has failed or ended.
func (c *Carrier) Done() <-chan struct{} { return c.done }

// Streams returns how many streams there are that not both sides have ended.
func (c *Carrier) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.side.Len()
}

// Open opens a stream. whose is told to the other side, up to 256 bytes of it.
func (c *Carrier) Open(whose string) (*Stream, error) {
	s := c.newStream()
	c.mu.Lock()
	defer c.unlock()
	if err := c.side.Open(&s.rules, whose); err != nil {
		return nil, err
	}
	return s, nil
}

// Quit lets the connection take no more streams, and end when it has none.
func (c *Carrier) Quit() {
	c.mu.Lock()
	defer c.unlock()
	c.side.Quit()
}

// fail ends the connection with all streams. The first error counts.
func (c *Carrier) fail(err error) {
	c.mu.Lock()
	var wakes []func()
	if c.side.Err() == nil {
		for _, s := range c.side.Fail(err) {
			wakes = append(wakes, of(s).wokenLocked())
		}
		close(c.done)
		c.room.Broadcast()
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.nc.Close()
	for _, wake := range wakes {
		wake()
	}
}

// --- Writing

func (c *Carrier) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes what waits, until the connection ends. It ends the connection when that takes no more streams and has none.
func (c *Carrier) write() {
	defer close(c.written)
	if err := c.send(c.greeting); err != nil {
		c.fail(err)
		return
	}
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		b, over := c.side.Take(spare), c.side.Over()
		c.room.Broadcast()
		c.mu.Unlock()
		if len(b) > 0 {
			if err := c.send(b); err != nil {
				c.fail(err)
				return
			}
		}
		if over {
			c.fail(net.ErrClosed)
			return
		}
		if spare = b; cap(spare) > streams.MaxOut/4 {
			spare = nil
		}
	}
}

// send writes to the connection, which may be slow.
func (c *Carrier) send(b []byte) error {
	for len(b) > 0 {
		c.nc.SetWriteDeadline(time.Now().Add(writeWithin))
		n, err := c.nc.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// --- Reading

// read handles the frames of the other side.
func (c *Carrier) read(r *bufio.Reader) error {
	for {
		b, err := r.Peek(streams.HeaderLen)
		if err != nil {
			return err
		}
		h, err := streams.DecodeHeader(b)
		if err != nil {
			return err
		}
		r.Discard(streams.HeaderLen)
		body, err := r.Peek(h.Length)
		if err != nil {
			return err
		}
		if err := c.handle(&h, body); err != nil {
			return err
		}
		r.Discard(h.Length)
	}
}

// handle handles a frame.
func (c *Carrier) handle(h *streams.Header, body []byte) error {
	c.mu.Lock()
	news, err := c.side.Handle(h, body)
	wake := func() {}
	switch {
	case err != nil || news.Stream == nil || news.Opened:
	case h.Kind == streams.KindCredit:
		of(news.Stream).changed.Broadcast()
	default:
		wake = of(news.Stream).wokenLocked()
	}
	answered := answeredLocked(news.Pongs)
	c.unlock()
	switch {
	case err != nil:
		return err
	case news.Opened:
		c.accept(of(news.Stream), news.Whose)
	case len(news.Pings) > 0:
		c.pinged(news.Pings)
	}
	wake()
	for _, f := range answered {
		f(h.Kind == streams.KindPongs)
	}
	return nil
}
