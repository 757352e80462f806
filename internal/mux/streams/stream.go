package streams

import (
	"encoding/binary"
	"errors"
	"time"
)

// idleBuffer is the largest buffer that a stream keeps while nothing is in it.
const idleBuffer = 1 << 10

// Stream is one of the streams of a Side.
type Stream struct {
	User any // what its user has to do with it

	c       *Side
	id      uint32
	in      []byte // has come; of this the bytes from read on are not read
	read    int    // of in
	credit  int    // bytes that may be sent
	owed    int    // bytes that were read, and for which the other side has no credit yet
	err     error  // io.EOF after the end by the other side, or why the connection has failed
	ended   bool   // by the other side
	closed  bool   // by this side
	pinging bool   // its user was there, and that is not answered

	// The first data that was sent after all that has come: when, and how many frames had come. 0: there is none.
	asked time.Duration
	heard uint64
}

// ID returns the number of the stream.
func (s *Stream) ID() uint32 { return s.id }

// Err returns io.EOF after the end by the other side, why the connection has failed, or nil.
func (s *Stream) Err() error { return s.err }

// Closed reports whether this side has ended the stream.
func (s *Stream) Closed() bool { return s.closed }

// Credit returns how many bytes may be sent.
func (s *Stream) Credit() int { return s.credit }

// Unread returns how many bytes have come and are not read.
func (s *Stream) Unread() int { return len(s.in) - s.read }

// Held returns the memory of what has come.
func (s *Stream) Held() int { return cap(s.in) }

// Read reads what has come.
func (s *Stream) Read(b []byte) int {
	n := copy(b, s.in[s.read:])
	s.read += n
	switch {
	case s.Unread() > 0:
	case cap(s.in) > idleBuffer:
		s.in, s.read = nil, 0
	default:
		s.in, s.read = s.in[:0], 0
	}
	s.owed += n
	gives := s.owed >= s.c.cfg.Window/2 && s.err == nil
	gives = gives && !noCredit.Planted()
	if gives {
		var credit [4]byte
		binary.BigEndian.PutUint32(credit[:], uint32(s.owed))
		s.c.frame(KindCredit, s.id, string(credit[:]))
		if !creditTwice.Planted() {
			s.owed = 0
		}
	}
	return n
}

// take takes data of the other side.
func (s *Stream) take(b []byte) error {
	if s.Unread()+s.owed+len(b) > s.c.cfg.Window {
		return errors.New("more of a stream than there was credit for")
	}
	moves := s.read >= s.c.cfg.Window
	moves = moves && !neverMoved.Planted()
	if moves {
		s.in, s.read = s.in[:copy(s.in, s.in[s.read:])], 0
	}
	if unreadMoved.Planted() && moves {
		s.in = s.in[:0]
	}
	s.in, s.asked = append(s.in, b...), 0
	return nil
}

// grant takes credit of the other side.
func (s *Stream) grant(n int) error {
	if n <= 0 || n > s.c.cfg.Window-s.credit {
		return errors.New("more credit than was used")
	}
	s.credit += n
	return nil
}

// end ends a stream: by the other side, or as its connection has failed.
func (s *Stream) end(err error) {
	if s.err == nil {
		s.err = err
	}
	if endOvertakes.Planted() {
		s.in, s.read = nil, 0
	}
}

// Send sends as much of b as can be sent now, which is nothing if one of the sides has ended the stream.
func (s *Stream) Send(b []byte) int {
	if s.closed || s.err != nil {
		return 0
	}
	n := min(len(b), s.credit)
	if beyondCredit.Planted() {
		n = min(len(b), s.c.cfg.Window)
	}
	if heldUp.Planted() && s.c.anyWithoutCredit() {
		n = 0
	}
	if n == 0 || s.c.Full() {
		return 0
	}
	s.asks()
	h := Header{Kind: KindData, Stream: s.id, Length: n}
	s.c.out = append(h.Append(s.c.out), b[:n]...)
	s.credit -= n
	return n
}

// asks is called when the other side has something to answer.
func (s *Stream) asks() {
	if c := s.c; s.asked == 0 && c.cfg.Accept == nil {
		s.asked, s.heard = max(1, c.cfg.Now()), c.came
	}
}

// Close ends the stream. What was sent before is written. Only its number is kept until the other side has ended it.
func (s *Stream) Close() {
	c := s.c
	if s.closed {
		return
	}
	s.closed, s.in, s.read, s.pinging = true, nil, 0, false
	if c.err != nil {
		return
	}
	if s.unanswered() {
		c.Quit()
	}
	c.frame(KindEnd, s.id, "")
	delete(c.streams, s.id)
	if !s.ended {
		c.ending[s.id] = struct{}{}
	}
	if len(c.streams) == 0 {
		c.unused = c.cfg.Now() + c.cfg.Idle
	}
}

// unanswered reports whether the connection seems to be lost, although nobody says so: since the stream has asked for something, nothing has
// come of any stream.
func (s *Stream) unanswered() bool {
	silent := s.asked != 0 && s.heard == s.c.came && s.c.cfg.Now()-s.asked >= AnswerAfter
	return silent && !silentKept.Planted()
}
