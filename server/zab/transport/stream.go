package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

const (
	streamPiece  = 128 << 10 // maximum data in a frame
	shortPiece   = 16 << 10  // while the window is small
	streamFrame  = streamPiece + frameHead + frameTail
	mostReason   = 1 << 10 // bytes of an error's text
	abortTimeout = 100 * time.Millisecond
)

var errAborted = errors.New("stream aborted")

// Stream is the sending end of a stream. One goroutine uses it; Abort may be called from
// any.
type Stream struct {
	t    *Transport
	p    *peer
	conn *conn
	sum  bool

	result chan struct{} // closed when err is set
	err    error         // the receiver's error, io.EOF for none; or why the connection broke

	unhook func() bool // from the context
	once   sync.Once   // for end
	ended  chan struct{}
	over   bool // Close has been called

	// writing is held while a frame is begun or written, including waits for the network. Only
	// the user waits for it.
	writing sync.Mutex
	buf     []byte // the frame that is being filled
	full    int    // size of a full frame
	idle    bool   // nothing was written since the last pulse

	credited chan struct{} // the receiver has read more
	mu       struct {
		sync.Mutex
		pace pacer
	}
}

// OpenStream opens a stream to a peer, whose Handler.Stream sees header first. The stream
// needs no link, and a broken link does not end it. When ctx ends, the stream is aborted.
// The caller must call Close or Abort.
func (t *Transport) OpenStream(ctx context.Context, to zab.SID, header []byte) (*Stream, error) {
	if len(header) > streamPiece {
		return nil, fmt.Errorf("open stream to server %d: header of %d bytes", to, len(header))
	}
	if !t.enter() {
		return nil, ErrClosed
	}
	defer t.goroutines.Done()
	p := t.active(to)
	if p == nil || len(p.addrs()) == 0 {
		return nil, fmt.Errorf("open stream to server %d: no such peer", to)
	}
	c, hs, err := t.connect(ctx, p, forStream)
	if err != nil {
		return nil, fmt.Errorf("open stream to server %d: %w", to, err)
	}
	c.stall = 0 // a receiver may be slow as long as it shows life
	s := &Stream{t: t, p: p, conn: c, sum: !encrypted(hs.nc), result: make(chan struct{}), ended: make(chan struct{}),
		buf: make([]byte, 0, streamFrame), credited: make(chan struct{}, 1)}
	s.mu.pace = newPacer(t.o.BulkDelay, &p.delay)
	t.goroutines.Go(s.await)
	t.goroutines.Go(s.pulse)
	s.unhook = context.AfterFunc(ctx, func() { s.Abort(context.Cause(ctx)) })
	if _, err := c.Write(appendFrame(nil, kindHeader, header, s.sum)); err != nil {
		s.Abort(err)
		return nil, fmt.Errorf("open stream to server %d: %w", to, err)
	}
	return s, nil
}

// enter delays the return of Close until goroutines.Done. It returns false after Close.
func (t *Transport) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed || !t.mu.started {
		return false
	}
	t.goroutines.Add(1)
	return true
}

// Write sends p, possibly buffering some of it until the next Write or Close. It blocks
// while the receiver does not read.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for len(p) > 0 {
		if len(s.buf) == 0 {
			s.buf = beginFrame(s.buf, kindData)
			s.full = frameHead + s.piece()
		}
		k := min(len(p), s.full-len(s.buf))
		s.buf = append(s.buf, p[:k]...)
		n, p = n+k, p[k:]
		if len(s.buf) == s.full {
			if err := s.flushLocked(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// piece returns how much data the next frame should have: a small part of the allowed bytes
// in flight.
func (s *Stream) piece() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.mu.pace.window/4, shortPiece), streamPiece)
}

// flushLocked writes the current frame, if there is one.
func (s *Stream) flushLocked() error {
	select {
	case <-s.ended:
		return s.failure(nil)
	case <-s.result:
		return s.failure(nil)
	default:
	}
	if len(s.buf) == 0 {
		return nil
	}
	frame := endFrame(s.buf, 0, s.sum)
	if frame[4] == kindData && !s.awaitRoom(len(frame)) {
		return s.failure(nil)
	}
	_, err := s.conn.Write(frame)
	s.buf, s.idle = s.buf[:0], false
	if err != nil {
		return s.failure(err)
	}
	return nil
}

// awaitRoom waits until n more bytes may be in flight to the receiver. It returns false if
// the stream ends before.
func (s *Stream) awaitRoom(n int) bool {
	for !s.takeRoom(n) {
		select {
		case <-s.credited:
		case <-s.ended:
			return false
		case <-s.result:
			return false
		}
	}
	return true
}

func (s *Stream) takeRoom(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.mu.pace.room(n, now) == 0 {
		return false
	}
	s.mu.pace.write(0, n, now)
	return true
}

// credit records how many bytes the receiver has read.
func (s *Stream) credit(body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mu.pace.read
	if len(body) != 8 || !s.mu.pace.credit(binary.BigEndian.Uint64(body), time.Now()) {
		return errFrameKind
	}
	s.p.bulkOut.Add(s.mu.pace.read - before)
	select {
	case s.credited <- struct{}{}:
	default:
	}
	return nil
}

// failure returns why the stream failed: the receiver's error, the local abort, what else
// is known about the connection, or err.
func (s *Stream) failure(err error) error {
	select {
	case <-s.result:
		err = s.err
	default:
	}
	var said *remoteError
	switch {
	case errors.As(err, &said):
		return err
	case err == io.EOF:
		return errors.New("the receiver ended the stream before its end")
	}
	select {
	case <-s.ended:
		return errAborted
	default:
		return err
	}
}

// Close ends the stream, waits until the receiver's Handler.Stream has returned, and
// returns nil only if that returned nil. It waits as long as the receiver shows life.
func (s *Stream) Close() error {
	if s.over {
		return ErrClosed
	}
	s.over = true
	defer s.end()
	if err := s.finish(); err != nil {
		return err
	}
	<-s.result // always closed: at the latest when the receiver is silent, or the stream aborted
	if s.err == io.EOF {
		return nil
	}
	return s.failure(nil)
}

func (s *Stream) finish() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.flushLocked(); err != nil {
		return err
	}
	s.buf = beginFrame(s.buf, kindEnd)
	return s.flushLocked()
}

// Abort ends the stream with an error for the receiver: reason, if the network accepts it
// at once. It does nothing after Close.
func (s *Stream) Abort(reason error) {
	if s.writing.TryLock() {
		defer s.writing.Unlock()
		select {
		case <-s.ended:
		case <-s.result:
		default:
			s.conn.stall = abortTimeout
			s.conn.Write(appendFrame(nil, kindAbort, text(reason), s.sum))
		}
	}
	s.end()
}

// end closes the connection; the goroutines notice.
func (s *Stream) end() {
	s.once.Do(func() {
		close(s.ended)
		if s.unhook != nil {
			s.unhook()
		}
		s.t.drop(s.conn.raw)
	})
}

// await waits for the receiver's result.
func (s *Stream) await() {
	defer close(s.result)
	frames := newFrameReader(s.conn, s.sum, streamFrame, 4<<10)
	for {
		kind, body, err := frames.next()
		switch {
		case err != nil:
			s.err = midFrame(err)
		case kind == kindKeepAlive:
			continue
		case kind == kindCredit:
			if s.err = s.credit(body); s.err == nil {
				continue
			}
		case kind != kindResult:
			s.err = errFrameKind
		case len(body) == 0:
			s.err = io.EOF
		default:
			s.err = &remoteError{string(body)}
		}
		s.conn.Close() // unblocks a Write
		return
	}
}

// remoteError is the error that the receiver's Handler.Stream returned.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "receiver: " + printable(e.text) }

// pulse shows the receiver that the sender is alive while it has nothing to send.
func (s *Stream) pulse() {
	tick := time.NewTicker(s.t.o.keepAlive())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ended:
			return
		case <-s.result:
			return
		}
		if !s.writing.TryLock() {
			continue // the user is writing
		}
		if s.idle {
			if len(s.buf) == 0 {
				s.buf = beginFrame(s.buf, kindKeepAlive)
			}
			_ = s.flushLocked() // the user will see it too
		}
		s.idle = true
		s.writing.Unlock()
	}
}

// text returns an error's text, short enough for a frame and never empty.
func text(err error) []byte {
	if err == nil || err.Error() == "" {
		return []byte("no reason given")
	}
	b := []byte(err.Error())
	return b[:min(len(b), mostReason)]
}

// serveStream serves the receiving end of a stream.
func (t *Transport) serveStream(ctx context.Context, p *peer, hs *handshake) error {
	defer p.streams.Add(-1)
	if p.streams.Add(1) > mostStreams {
		return hs.sendVerdict(refuse("busy", "too many streams at a time"))
	}
	if l := t.links[p.id].Load(); l != nil && l.hello.Boot != hs.theirs.Boot {
		return hs.sendVerdict(p.duplicate(l.hello.Addr))
	}
	if err := hs.sendVerdict(nil); err != nil {
		return err
	}
	if err := hs.nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c := p.timed(hs.nc, hs.raw)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := &streamReader{p: p, conn: c, frames: newFrameReader(c, !encrypted(hs.nc), streamFrame, streamFrame)}
	header, err := in.header()
	if err != nil {
		return err
	}
	return t.answer(c, in, t.runStream(p, c, header, in))
}

// runStream calls the handler, and sends keep-alives meanwhile.
func (t *Transport) runStream(p *peer, c *conn, header []byte, in *streamReader) error {
	var pulse sync.WaitGroup
	done := make(chan struct{})
	defer pulse.Wait()
	defer close(done)
	beat := appendFrame(nil, kindKeepAlive, nil, in.frames.sum)
	pulse.Go(func() {
		tick := time.NewTicker(t.o.keepAlive())
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			if _, err := c.Write(beat); err != nil {
				c.Close()
				return
			}
		}
	})
	if err := t.o.Handler.Stream(p.id, header, in); err != nil {
		return err
	}
	return in.complete() // even if the handler ignored an error
}

// answer sends the handler's result, and waits until the sender has it.
func (t *Transport) answer(c *conn, in *streamReader, result error) error {
	var body []byte
	if result != nil {
		body = text(result)
	}
	if _, err := c.Write(appendFrame(nil, kindResult, body, in.frames.sum)); err != nil {
		return nil // the sender is gone, so it needs no result
	}
	// Closing with unread input could destroy the bytes written.
	for {
		if _, _, err := in.frames.next(); err != nil {
			return nil
		}
	}
}

// streamReader is the reader passed to Handler.Stream.
type streamReader struct {
	p      *peer
	conn   *conn
	frames *frameReader
	rest   []byte // of a data frame
	err    error  // final

	read, credited uint64 // bytes of data frames; the part of these that was credited
	frame          []byte // of the last credit
}

func (r *streamReader) header() ([]byte, error) {
	kind, body, err := r.frames.next()
	if err == nil && kind != kindHeader {
		err = errFrameKind
	}
	return append([]byte(nil), body...), err
}

// Read returns io.EOF only after the frame that ends the stream.
func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// complete returns nil if everything up to the end has been read. It waits for the end.
func (r *streamReader) complete() error {
	if n, err := r.Read(make([]byte, 1)); n > 0 {
		return errors.New("the stream was not read to its end")
	} else if err != io.EOF {
		return err
	}
	return nil
}

// credit tells the sender from time to time how many bytes have been read. If that fails,
// the sender is gone, and its last frame says why.
func (r *streamReader) credit() {
	r.read += uint64(r.frames.size())
	r.p.bulkIn.Add(uint64(r.frames.size()))
	if n := r.read - r.credited; n >= creditStep && (r.frames.drained() || n >= readBuffer) {
		r.credited = r.read
		r.frame = binary.BigEndian.AppendUint64(beginFrame(r.frame[:0], kindCredit), r.read)
		r.frame = endFrame(r.frame, 0, r.frames.sum)
		_, _ = r.conn.Write(r.frame)
	}
}

func (r *streamReader) next() {
	kind, body, err := r.frames.next()
	switch {
	case err != nil:
		r.err = midFrame(err)
	case kind == kindData:
		r.rest = body
		r.credit()
	case kind == kindKeepAlive:
	case kind == kindEnd:
		r.err = io.EOF
	case kind == kindAbort:
		r.err = fmt.Errorf("the sender aborted the stream: %s", printable(string(body)))
	default:
		r.err = errFrameKind
	}
}
