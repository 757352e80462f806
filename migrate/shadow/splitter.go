package shadow

import (
	"errors"

	"github.com/zkd-project/zkd/internal/frames"
)

// MaxFrame is the length of the longest frame that a Splitter takes. Apache's default for
// jute.maxbuffer is 1 MiB; answers may be longer.
const MaxFrame = 64 << 20

// ErrFrame means that bytes are not of ZooKeeper's client protocol.
var ErrFrame = errors.New("not the client protocol: impossible length of a frame")

// Splitter cuts a stream of bytes into frames. The zero Splitter is at the begin of a stream.
type Splitter struct {
	rest []byte // received, and not returned by Next yet
	own  bool   // rest may be appended to
}

// Write adds bytes of the stream. The Splitter, and the frames that Next returns, share the
// memory of p: it must not change.
func (s *Splitter) Write(p []byte) {
	switch {
	case len(s.rest) == 0:
		s.rest, s.own = p, false
	case s.own:
		s.rest = append(s.rest, p...)
	default:
		s.rest = append(append(make([]byte, 0, 2*(len(s.rest)+len(p))), s.rest...), p...)
		s.own = true
	}
}

// Next returns the payload of the next frame, or false if it is not complete. The payload
// does not change. After ErrFrame the stream can't be read any further.
func (s *Splitter) Next() (payload []byte, ok bool, err error) {
	if payload, s.rest, ok, err = frames.Cut(s.rest, MaxFrame, ""); err != nil {
		err = ErrFrame
	}
	return payload, ok, err
}

// Held returns the number of bytes that wait for the rest of their frame.
func (s *Splitter) Held() int { return len(s.rest) }
