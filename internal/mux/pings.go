package mux

import (
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

// Ping tells the other side within some time that the user of the stream is there, in one frame with the pings of others. answered is called without
// locks when the other side has said whether that was enough. If not, data has to tell it. It is not called if the stream has failed or ended before. Ping
// reports false, and does nothing, if it has, or waits for such an answer.
func (s *Stream) Ping(within time.Duration, answered func(enough bool)) bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	if !s.rules.Ping(within) {
		return false
	}
	s.answered = answered
	return true
}

// OnPing has f called, without locks and by Serve, when the user of the stream at the other side is there. f must not block. It reports whether that
// was enough: if not, data has to tell it.
func (s *Stream) OnPing(f func() (enough bool)) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.ping = f
}

// pinged handles pings.
func (c *Carrier) pinged(pings []*streams.Stream) {
	enough := make([]bool, len(pings))
	c.mu.Lock()
	handlers := make([]func() bool, len(pings))
	for i, s := range pings {
		handlers[i] = of(s).ping
	}
	c.mu.Unlock()
	for i, f := range handlers {
		enough[i] = f != nil && f()
	}
	c.mu.Lock()
	defer c.unlock()
	c.side.Answer(pings, enough)
}

// answeredLocked returns what is to be called, without the lock, as pings of streams are answered.
func answeredLocked(pongs []*streams.Stream) (answered []func(enough bool)) {
	for _, s := range pongs {
		answered = append(answered, of(s).answered)
	}
	return answered
}
