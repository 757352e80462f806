package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Users of streams that have nothing to say show by pings that they are there. Those of many streams are gathered, and sent in one frame.

// pings is when those that wait are sent.
type pings struct {
	waiting []*Stream
	by      time.Time
	timer   *time.Timer // nil if none waits
}

func (p *pings) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// Ping tells the other side within some time that the user of the stream is there. answered is called without locks when the other side
// has said whether that was enough. If not, data has to tell it. It is not called if the stream has failed or ended before. Ping reports false, and
// does nothing, if it has, or waits for such an answer.
func (s *Stream) Ping(within time.Duration, answered func(enough bool)) bool {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed || s.err != nil || s.pinged != nil {
		return false
	}
	s.pinged = answered
	if at, p := time.Now().Add(within), &c.pings; p.timer == nil || at.Before(p.by) {
		p.stop()
		p.by, p.timer = at, time.AfterFunc(within, c.sendPings)
	}
	c.pings.waiting = append(c.pings.waiting, s)
	return true
}

// sendPings sends the pings that wait.
func (c *Carrier) sendPings() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []byte
	for _, s := range c.pings.waiting {
		if s.pinged != nil && s.err == nil {
			ids = binary.BigEndian.AppendUint32(ids, s.id)
			s.asksLocked()
		}
	}
	c.pings.stop()
	c.pings.waiting = nil
	if c.err == nil {
		c.idsLocked(kindPings, ids)
	}
}

// OnPing has f called, without locks and by Serve, when the user of the stream at the other side is there. f must not block. It reports whether that
// was enough: if not, data has to tell it.
func (s *Stream) OnPing(f func() (enough bool)) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.ping = f
}

// pinged handles pings.
func (c *Carrier) pinged(ids []byte) error {
	if c.accept == nil {
		return errors.New("the side that accepts streams sends pings of their users")
	}
	of, err := c.pingedStreams(ids)
	if err != nil {
		return err
	}
	var enough, others []byte
	for _, p := range of {
		ok := p.handle != nil && p.handle()
		if ok = ok || pingUnheard.Planted(); ok {
			enough = binary.BigEndian.AppendUint32(enough, p.id)
		} else {
			others = binary.BigEndian.AppendUint32(others, p.id)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > 2*maxOut {
		return errSlow
	}
	c.idsLocked(kindPongs, enough)
	c.idsLocked(kindUnpinged, others)
	return nil
}

// pingedStream is a stream whose user is there.
type pingedStream struct {
	id     uint32
	handle func() bool
}

// pingedStreams returns those that ids has.
func (c *Carrier) pingedStreams(ids []byte) (list []pingedStream, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came++
	for ; len(ids) > 0; ids = ids[idLen:] {
		s, err := c.streamLocked(kindPings, binary.BigEndian.Uint32(ids))
		if err != nil {
			return nil, err
		}
		if s != nil {
			list = append(list, pingedStream{s.id, s.ping})
		}
	}
	return list, nil
}

// ponged handles answers to pings.
func (c *Carrier) ponged(kind byte, ids []byte) error {
	if c.accept != nil {
		return errors.New("the side that connects answers pings")
	}
	var answered []func(enough bool)
	c.mu.Lock()
	c.came++
	for ; len(ids) > 0; ids = ids[idLen:] {
		s, err := c.streamLocked(kind, binary.BigEndian.Uint32(ids))
		if s != nil && s.pinged == nil {
			err = fmt.Errorf("an answer to a ping of the stream %d, which has sent none", s.id)
		}
		if err != nil {
			c.mu.Unlock()
			return err
		}
		if s != nil {
			answered = append(answered, s.pinged)
			s.pinged, s.asked = nil, 0
		}
	}
	c.mu.Unlock()
	for _, f := range answered {
		f(kind == kindPongs)
	}
	return nil
}

// idsLocked adds a frame about many streams, if there are any.
func (c *Carrier) idsLocked(kind byte, ids []byte) {
	if len(ids) > 0 {
		c.frameLocked(kind, 0, string(ids))
	}
}
