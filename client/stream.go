package client

import "sync"

// stream is a channel that accepts everything pushed, whether it is read or not. What does
// not fit waits in a list. A goroutine feeds it into the channel while the list is not empty.
type stream[T any] struct {
	ch   chan T
	quit chan struct{} // closed to end the goroutine

	mu      sync.Mutex
	more    []T
	feeding bool
	closed  bool
}

func newStream[T any](capacity int) *stream[T] {
	return &stream[T]{ch: make(chan T, capacity), quit: make(chan struct{})}
}

// push adds v. It has no effect after end.
func (s *stream[T]) push(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if !s.feeding {
		select {
		case s.ch <- v:
			return
		default:
		}
		s.feeding = true
		go s.feed()
	}
	s.more = append(s.more, v)
}

// end closes the channel after everything pushed. With drop, it closes the channel at once,
// and only what is in the channel can still be received. A second call has an effect only if
// it adds drop.
func (s *stream[T]) end(drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if drop && s.feeding && s.more != nil {
		s.more = nil
		close(s.quit)
	}
	if s.closed {
		return
	}
	s.closed = true
	if !s.feeding {
		close(s.ch)
	}
}

// pending reports whether there are pushed values that have not been received.
func (s *stream[T]) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeding || len(s.ch) > 0
}

// waits reports whether more was pushed than the channel holds.
func (s *stream[T]) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeding
}

func (s *stream[T]) feed() {
	for {
		s.mu.Lock()
		if len(s.more) == 0 {
			s.feeding = false
			if s.closed {
				close(s.ch)
			}
			s.mu.Unlock()
			return
		}
		v := s.more[0]
		s.more = s.more[1:]
		s.mu.Unlock()
		select {
		case s.ch <- v:
		case <-s.quit:
		}
	}
}
