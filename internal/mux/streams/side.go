package streams

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

const (
	// MaxOut is how many bytes may wait to be written, before streams wait. Twice as many end the connection.
	MaxOut = 1 << 20
	// AnswerAfter is after how long a connection counts as silent on which nothing comes.
	AnswerAfter = time.Second / 2
)

// Why a stream is not opened, and why a connection ends.
var (
	ErrFull  = errors.New("the connection has as many streams as it may have")
	ErrQuits = errors.New("the connection takes no more streams")
	ErrSlow  = errors.New("the other side asks for more than it reads")
)

// Config is what a side is.
type Config struct {
	Accept func() *Stream       // makes room for a stream that the other side opens; nil at the side that connects
	Now    func() time.Duration // since the connection began
	Idle   time.Duration        // for how long the connection may have no streams
	Window int                  // of each stream, in both directions
	MaxOut int
}

// Side is one side of a connection.
type Side struct {
	cfg     Config
	streams map[uint32]*Stream  // that this side has not ended
	ending  map[uint32]struct{} // this side has ended them, and the other one has not
	last    uint32              // number of the last stream that was opened
	came    uint64              // frames
	out     []byte              // waits to be written
	quits   bool                // it takes no more streams, and ends when it has none
	leaves  bool                // it ends also if the other side does not end those that this side has ended
	unused  time.Duration       // when it leaves if no stream is opened before; 0 while there are some
	pings   []*Stream           // whose users have shown that they are there
	pingsBy time.Duration       // when these are sent
	err     error               // why it has failed or ended
}

// New returns a side of a connection that begins now.
func New(c Config) *Side {
	return &Side{cfg: c, streams: map[uint32]*Stream{}, ending: map[uint32]struct{}{}, unused: c.Now() + c.Idle}
}

// Len returns how many streams there are that not both sides have ended.
func (c *Side) Len() int { return len(c.streams) + len(c.ending) }

// Came returns how many frames have come.
func (c *Side) Came() uint64 { return c.came }

// Open opens a stream, in the room that s is. whose is told to the other side, up to MaxWhose bytes of it.
func (c *Side) Open(s *Stream, whose string) error {
	switch {
	case c.err != nil:
		return c.err
	case c.quits || c.last == ^uint32(0):
		return ErrQuits
	case c.Len() >= Most:
		return ErrFull
	}
	c.add(s, c.last+1)
	c.frame(KindOpen, s.id, whose[:min(len(whose), MaxWhose)])
	return nil
}

func (c *Side) add(s *Stream, id uint32) {
	s.c, s.id, s.credit = c, id, c.cfg.Window
	c.streams[id] = s
	c.last, c.unused = id, 0
}

// Quit lets the connection take no more streams, and end when it has none.
func (c *Side) Quit() {
	if c.quits || c.err != nil {
		return
	}
	c.quits = true
	if c.cfg.Accept != nil {
		c.frame(KindQuit, 0, "")
	}
}

// Over reports whether the connection ends, when what waits is written: it takes no more streams, and has none.
func (c *Side) Over() bool {
	used := len(c.streams) > 0 || len(c.ending) > 0 && !c.leaves
	used = used && !quitEnds.Planted()
	return c.quits && !used
}

// Fail ends the connection with all streams, which it returns. The first error counts.
func (c *Side) Fail(err error) []*Stream {
	if c.err != nil {
		return nil
	}
	c.err = err
	failed := slices.SortedFunc(maps.Values(c.streams), func(a, b *Stream) int { return cmp.Compare(a.id, b.id) })
	for _, s := range failed {
		s.end(fmt.Errorf("the connection of the stream: %w", err))
	}
	clear(c.streams)
	return failed
}

// Err returns why the connection has failed or ended, or nil.
func (c *Side) Err() error { return c.err }

// Due returns when Tick is to be called, or 0 if nothing depends on the time.
func (c *Side) Due() time.Duration {
	switch {
	case c.err != nil:
		return 0
	case len(c.pings) > 0 && (c.unused == 0 || c.pingsBy < c.unused):
		return c.pingsBy
	}
	return c.unused
}

// Tick does what is due. Earlier calls do nothing.
func (c *Side) Tick() {
	now := c.cfg.Now()
	if c.unused != 0 && now >= c.unused {
		c.unused, c.leaves = 0, true
		c.Quit()
	}
	if len(c.pings) > 0 && now >= c.pingsBy {
		c.sendPings()
	}
}

// --- Writing

// frame adds a frame to what is written.
func (c *Side) frame(kind byte, stream uint32, body string) {
	h := Header{Kind: kind, Stream: stream, Length: len(body)}
	c.out = append(h.Append(c.out), body...)
}

// Waiting returns how many bytes wait to be written.
func (c *Side) Waiting() int { return len(c.out) }

// Full reports whether so many bytes wait that streams wait.
func (c *Side) Full() bool { return len(c.out) >= c.cfg.MaxOut }

// Take returns what waits to be written. spare is memory for what will wait.
func (c *Side) Take(spare []byte) []byte {
	b := c.out
	c.out = spare[:0]
	return b
}

// --- Reading

// News is what a frame means for the user of the connection.
type News struct {
	Stream *Stream   // that the frame is about, if it is one that this side has not ended
	Opened bool      // it is new
	Whose  string    // what the other side has told of it
	Pings  []*Stream // whose users are there: Answer is to be called
	Pongs  []*Stream // whose pings are answered
}

// Handle handles a frame. An error means that the connection is to end.
func (c *Side) Handle(h *Header, body []byte) (news News, err error) {
	c.came++
	if len(c.out) > 2*c.cfg.MaxOut { // of frames that answer: data waits before
		return news, ErrSlow
	}
	switch h.Kind {
	case KindOpen:
		return c.opened(h.Stream, body)
	case KindQuit:
		if c.cfg.Accept != nil || h.Stream != 0 {
			return news, errors.New("the other side can't accept streams, and says that it does no more")
		}
		if !quitUnheard.Planted() {
			c.Quit()
		}
		return news, nil
	case KindPings:
		news.Pings, err = c.pinged(body)
		return news, err
	case KindPongs, KindUnpinged:
		news.Pongs, err = c.ponged(h.Kind, body)
		return news, err
	}
	s, err := c.stream(h.Kind, h.Stream)
	switch {
	case err != nil:
	case numberKept.Planted() && s == nil:
	case s == nil && h.Kind == KindEnd:
		delete(c.ending, h.Stream)
	case lateRefused.Planted() && s == nil:
		err = io.ErrUnexpectedEOF
	case s == nil: // it was sent before the other side knew
	case h.Kind == KindData:
		err = s.take(body)
	case h.Kind == KindCredit:
		err = s.grant(int(int32(binary.BigEndian.Uint32(body))))
	default:
		s.ended = true
		s.end(io.EOF)
	}
	return News{Stream: s}, err
}

// stream returns the stream that a frame is about, or nil if this side has ended it.
func (c *Side) stream(kind byte, id uint32) (*Stream, error) {
	s := c.streams[id]
	if _, ending := c.ending[id]; s == nil && !ending || s != nil && s.ended {
		return nil, fmt.Errorf("a frame of kind %d of the stream %d, which there is not", kind, id)
	}
	return s, nil
}

// opened handles an open.
func (c *Side) opened(id uint32, whose []byte) (news News, err error) {
	if n := c.Len(); c.cfg.Accept == nil || id <= c.last || n >= Most {
		return news, fmt.Errorf("the other side opens the stream %d, after %d, with %d streams", id, c.last, n)
	}
	s := c.cfg.Accept()
	c.add(s, id)
	if c.quits { // the other side does not know yet
		if !refusedKept.Planted() {
			s.Close()
		}
		return news, nil
	}
	return News{Stream: s, Opened: true, Whose: string(whose)}, nil
}
