package streams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Users of streams that have nothing to say show by pings that they are there. Those of many streams are gathered, and sent in one frame.

// Ping tells the other side within some time that the user of the stream is there. Of that side come News with the stream among Pongs, of a frame that
// says whether that was enough. If not, data has to tell it. Ping reports false, and does nothing, if the stream has failed or ended, or waits for such an
// answer.
func (s *Stream) Ping(within time.Duration) bool {
	if s.closed || s.err != nil || s.pinging {
		return false
	}
	c := s.c
	at := c.cfg.Now() + within
	earlier := at < c.pingsBy
	earlier = earlier && !pingLate.Planted()
	if len(c.pings) == 0 || earlier {
		c.pingsBy = at
	}
	s.pinging = true
	c.pings = append(c.pings, s)
	return true
}

// sendPings sends the pings that wait.
func (c *Side) sendPings() {
	var ids []byte
	for _, s := range c.pings {
		if pingForgotten.Planted() && len(ids) > 0 {
			break
		}
		if s.pinging && s.err == nil {
			ids = binary.BigEndian.AppendUint32(ids, s.id)
			s.asks()
		}
	}
	c.pings = nil
	c.ids(KindPings, ids)
}

// pinged handles pings.
func (c *Side) pinged(ids []byte) (list []*Stream, _ error) {
	if c.cfg.Accept == nil {
		return nil, errors.New("the side that accepts streams sends pings of their users")
	}
	for ; len(ids) > 0; ids = ids[idLen:] {
		s, err := c.stream(KindPings, binary.BigEndian.Uint32(ids))
		if err != nil {
			return nil, err
		}
		if s != nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// Answer answers pings: enough says of each whether it was enough. Streams that have ended meanwhile are not named, as the other side may know of their end.
func (c *Side) Answer(pings []*Stream, enough []bool) {
	var pongs, others []byte
	for i, s := range pings {
		over := s.closed
		over = over && !endedAnswered.Planted()
		heard := enough[i]
		heard = heard || pingUnheard.Planted()
		switch {
		case over:
		case heard:
			pongs = binary.BigEndian.AppendUint32(pongs, s.id)
		default:
			others = binary.BigEndian.AppendUint32(others, s.id)
		}
	}
	c.ids(KindPongs, pongs)
	c.ids(KindUnpinged, others)
}

// ponged handles answers to pings.
func (c *Side) ponged(kind byte, ids []byte) (answered []*Stream, _ error) {
	if c.cfg.Accept != nil {
		return nil, errors.New("the side that connects answers pings")
	}
	for ; len(ids) > 0; ids = ids[idLen:] {
		s, err := c.stream(kind, binary.BigEndian.Uint32(ids))
		if s != nil && !s.pinging {
			err = fmt.Errorf("an answer to a ping of the stream %d, which has sent none", s.id)
		}
		if err != nil {
			return nil, err
		}
		if s != nil {
			answered = append(answered, s)
			s.pinging, s.asked = false, 0
		}
	}
	return answered, nil
}

// ids adds a frame about many streams, if there are any.
func (c *Side) ids(kind byte, ids []byte) {
	if len(ids) > 0 {
		c.frame(kind, 0, string(ids))
	}
}
