package mux

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	maxOut      = 1 << 20 // bytes that wait to be written, before streams wait; twice as many end the connection
	writePiece  = 64 << 10
	writeWithin = 30 * time.Second // for a piece, before the connection counts as dead
	answerAfter = time.Second / 2  // before a connection on which nothing comes counts as silent
	readBuffer  = 64 << 10
)

var (
	errFull  = errors.New("the connection has as many streams as it may have")
	errQuits = errors.New("the connection takes no more streams")
	errSlow  = errors.New("the other side asks for more than it reads")
)

// Carrier is a connection with its streams.
type Carrier struct {
	nc      net.Conn
	began   time.Time
	in      io.Reader                     // nc, after what was read from it before
	accept  func(s *Stream, whose string) // nil at the side that connects
	wake    chan struct{}                 // capacity 1: the writer has something to do
	done    chan struct{}                 // closed when the connection has failed or ended
	written chan struct{}                 // closed when the writer has ended

	idle time.Duration

	mu      sync.Mutex
	streams map[uint32]*Stream  // that this side has not ended
	ending  map[uint32]struct{} // this side has ended them, and the other one has not
	last    uint32              // number of the last stream that was opened
	came    uint64              // frames
	out     []byte              // waits to be written
	room    sync.Cond           // out was taken, or the connection has failed
	quits   bool                // it takes no more streams, and ends when it has none
	leaves  bool                // it ends also if the other side does not end those that this side has ended
	unused  *time.Timer
	pings   pings
	err     error // why it has failed or ended
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
	c.out = append(c.out, greeting()...)
	return c, nil
}

func newCarrier(nc net.Conn, in io.Reader, idle time.Duration, accept func(*Stream, string)) *Carrier {
	c := &Carrier{nc: nc, began: time.Now(), in: in, accept: accept, wake: make(chan struct{}, 1), done: make(chan struct{}), written: make(chan struct{}),
		streams: map[uint32]*Stream{}, ending: map[uint32]struct{}{}}
	c.room.L = &c.mu
	c.idle, c.unused = idle, time.AfterFunc(idle, c.quitUnused)
	return c
}

// Serve reads until the connection ends, and returns why.
func (c *Carrier) Serve() error {
	go c.write()
	c.wakeWriter()
	c.fail(c.read(bufio.NewReaderSize(c.in, readBuffer)))
	<-c.written
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done returns a channel that is closed when the connection has failed or ended.
func (c *Carrier) Done() <-chan struct{} { return c.done }

// Streams returns how many streams there are that not both sides have ended.
func (c *Carrier) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streamsLocked()
}

func (c *Carrier) streamsLocked() int { return len(c.streams) + len(c.ending) }

// Open opens a stream. whose is told to the other side, up to 256 bytes of it.
func (c *Carrier) Open(whose string) (*Stream, error) {
	whose = whose[:min(len(whose), maxWhose)]
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, c.err
	case c.quits || c.last == ^uint32(0):
		return nil, errQuits
	case c.streamsLocked() >= MaxStreams:
		return nil, errFull
	}
	c.last++
	c.frameLocked(kindOpen, c.last, whose)
	return c.addLocked(c.last), nil
}

func (c *Carrier) addLocked(id uint32) *Stream {
	s := &Stream{c: c, id: id, credit: Window}
	s.changed.L = &c.mu
	c.streams[id] = s
	c.unused.Stop()
	return s
}

// Quit lets the connection take no more streams, and end when it has none.
func (c *Carrier) Quit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quitLocked()
}

func (c *Carrier) quitLocked() {
	if c.quits || c.err != nil {
		return
	}
	c.quits = true
	if c.accept != nil {
		c.frameLocked(kindQuit, 0, "")
	}
	c.wakeWriter()
}

// quitUnused ends a connection that has had no open streams for some time.
func (c *Carrier) quitUnused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) == 0 {
		c.leaves = true
		c.quitLocked()
		c.wakeWriter()
	}
}

// fail ends the connection with all streams. The first error counts.
func (c *Carrier) fail(err error) {
	c.mu.Lock()
	var wakes []func()
	if c.err == nil {
		c.err = err
		close(c.done)
		c.room.Broadcast()
		for _, s := range c.streams {
			wakes = append(wakes, s.endLocked(fmt.Errorf("the connection of the stream: %w", err)))
		}
		clear(c.streams)
		c.unused.Stop()
		c.pings.stop()
	}
	c.mu.Unlock()
	c.nc.Close()
	for _, wake := range wakes {
		wake()
	}
}

// --- Writing

// frameLocked adds a frame to what is written.
func (c *Carrier) frameLocked(kind byte, stream uint32, body string) {
	h := header{kind: kind, stream: stream, length: len(body)}
	c.out = append(h.append(c.out), body...)
	c.wakeWriter()
}

func (c *Carrier) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes what waits, until the connection ends. It ends the connection when that takes no more streams and has none.
func (c *Carrier) write() {
	defer close(c.written)
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		b := c.out
		c.out = spare[:0]
		c.room.Broadcast()
		over := c.quits && len(c.streams) == 0 && (c.leaves || len(c.ending) == 0)
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
		if spare = b; cap(spare) > maxOut/4 {
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
		var b [headerLen]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		h, err := decodeHeader(b)
		if err != nil {
			return err
		}
		body, err := r.Peek(h.length)
		if err != nil {
			return err
		}
		if err := c.handle(&h, body); err != nil {
			return err
		}
		r.Discard(h.length)
	}
}

// handle handles a frame.
func (c *Carrier) handle(h *header, body []byte) error {
	switch h.kind {
	case kindOpen:
		return c.opened(h.stream, string(body))
	case kindQuit:
		return c.quit(h.stream)
	case kindPings:
		return c.pinged(body)
	case kindPongs, kindUnpinged:
		return c.ponged(h.kind, body)
	}
	c.mu.Lock()
	c.came++
	s, err := c.streamLocked(h.kind, h.stream)
	wake := func() {}
	switch {
	case err != nil:
	case len(c.out) > 2*maxOut: // of frames that answer: data waits before
		err = errSlow
	case s == nil && h.kind == kindEnd:
		delete(c.ending, h.stream)
		c.wakeWriter()
	case s == nil: // it was sent before the other side knew
	case h.kind == kindData:
		wake, err = s.takeLocked(body)
	case h.kind == kindCredit:
		err = s.creditLocked(int(int32(binary.BigEndian.Uint32(body))))
	default:
		s.ended = true
		wake = s.endLocked(io.EOF)
	}
	c.mu.Unlock()
	wake()
	return err
}

// streamLocked returns the stream that a frame is about, or nil if this side has ended it.
func (c *Carrier) streamLocked(kind byte, id uint32) (*Stream, error) {
	s := c.streams[id]
	if _, ending := c.ending[id]; s == nil && !ending || s != nil && s.ended {
		return nil, fmt.Errorf("a frame of kind %d of the stream %d, which there is not", kind, id)
	}
	return s, nil
}

// opened handles an open.
func (c *Carrier) opened(id uint32, whose string) error {
	c.mu.Lock()
	if n := c.streamsLocked(); c.accept == nil || id <= c.last || n >= MaxStreams {
		defer c.mu.Unlock()
		return fmt.Errorf("the other side opens the stream %d, after %d, with %d streams", id, c.last, n)
	}
	c.last = id
	s := c.addLocked(id)
	quits := c.quits
	c.mu.Unlock()
	if quits {
		s.Close()
	} else {
		c.accept(s, whose)
	}
	return nil
}

// quit handles a quit.
func (c *Carrier) quit(stream uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.accept != nil || stream != 0 {
		return errors.New("the other side can't accept streams, and says that it does no more")
	}
	c.quitLocked()
	return nil
}

// closedLocked is called when this side has ended a stream. Only its number is kept until the other side has ended it.
func (c *Carrier) closedLocked(s *Stream) {
	c.frameLocked(kindEnd, s.id, "")
	delete(c.streams, s.id)
	if !s.ended {
		c.ending[s.id] = struct{}{}
	}
	if len(c.streams) == 0 {
		c.unused.Reset(c.idle)
	}
}
