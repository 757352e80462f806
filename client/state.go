package client

import (
	"context"
	"errors"
	"slices"
)

// setStateLocked changes the state and notifies all listeners.
func (s *session) setStateLocked(to State, server string, err error) {
	for _, cb := range s.changeStateLocked(to, server, err) {
		s.later(cb)
	}
}

// changeStateLocked changes the state, and returns the callback to run for it, if there is
// one.
func (s *session) changeStateLocked(to State, server string, err error) (rest []callback) {
	from := s.state
	if from == to {
		return nil
	}
	s.state = to
	s.stateNow.Store(int32(to))
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	change := StateChange{From: from, To: to, Session: s.id, Server: server, Err: err}
	for _, l := range s.listeners {
		l.push(change)
		if to == StateClosed {
			l.end(false)
			if !l.waits() { // otherwise the context still ends the wait for a reader
				l.release()
			}
		}
	}
	if w := s.opts.Watcher; w != nil {
		rest = append(rest, callback{fn: func() { w(Event{Type: EventSession, State: to, Zxid: -1}) }, op: "Options.Watcher"})
	}
	return rest
}

// changedLocked returns a channel that is closed on the next change of state.
func (s *session) changedLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// stateIs must be called without holding mu.
func (s *session) stateIs(f func(State) bool) bool { return f(State(s.stateNow.Load())) }

// listener is a stream of the changes of state.
type listener struct {
	*stream[StateChange]
	// release frees the function registered with its context; guarded by session.mu.
	release func() bool
}

func (s *session) states(ctx context.Context) <-chan StateChange {
	l := &listener{stream: newStream[StateChange](8)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == StateClosed {
		l.end(false)
		return l.ch
	}
	s.listeners = append(s.listeners, l)
	l.release = context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(s.listeners, func(x *listener) bool { return x == l })
		l.end(true)
	})
	return l.ch
}

func (s *session) waitConnected(ctx context.Context) error {
	for {
		s.mu.Lock()
		state, changed, over := s.state, s.changedLocked(), s.overLocked()
		if state.Connected() && over == nil {
			s.mu.Unlock()
			return nil
		}
		if over != nil {
			err := s.connectErrorLocked(over)
			s.mu.Unlock()
			return err
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.connectErrorLocked(context.Cause(ctx))
		}
	}
}

// connectError returns the error of an operation of connecting that has failed with err.
func (s *session) connectError(err error) *ConnectError {
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connectErrorLocked(err)
}

func (s *session) connectErrorLocked(err error) *ConnectError {
	return &ConnectError{Servers: slices.Clone(s.failures), Err: err}
}

// failedLocked records the last failure of a server.
func (s *session) failedLocked(server string, err error) {
	e := &ServerError{Server: server, Err: err}
	for i, f := range s.failures {
		if f.Server == server {
			s.failures[i] = e
			return
		}
	}
	s.failures = append(s.failures, e)
}

// worksLocked removes the failure of a server.
func (s *session) worksLocked(server string) {
	s.failures = slices.DeleteFunc(s.failures, func(f *ServerError) bool { return f.Server == server })
}
