// Package accept waits for connections at ports of servers, which may be short of what a connection needs.
package accept

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

// pause is the time before another attempt.
const pause = 100 * time.Millisecond

// Next returns the next connection of a listener. While the process or the system has no descriptor or memory for
// one, it tries again after a pause: what is connected continues, and some of it may end. lacks is called with the
// first error of these, and with nil when it is over. An error means that the listener has no connections any more,
// or that stop is closed.
func Next(l net.Listener, stop <-chan struct{}, lacks func(error)) (net.Conn, error) {
	for waits := false; ; waits = true {
		nc, err := l.Accept()
		if !passes(err) {
			if waits {
				lacks(nil)
			}
			return nc, err
		}
		if !waits {
			lacks(err)
		}
		select {
		case <-time.After(pause):
		case <-stop:
			lacks(nil)
			return nil, net.ErrClosed
		}
	}
}

// passes reports whether an error leaves the listener intact. A system call may also have failed with what the network
// or a filter has said about one connection.
func passes(err error) bool {
	no, ok := errors.AsType[syscall.Errno](err)
	return ok && !slices.Contains([]syscall.Errno{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK}, no)
}
