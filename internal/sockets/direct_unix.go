//go:build unix

package sockets

import (
	"os"
	"syscall"
)

// Direct writes to sockets without waiting. One goroutine at a time may use it.
type Direct struct {
	call func(fd uintptr) (done bool)

	// Of the call under way.
	bytes []byte
	n     int
	err   error
}

// NewDirect makes a Direct. Systems other than Unix have none, and it returns nil.
func NewDirect() *Direct {
	w := &Direct{}
	w.call = func(fd uintptr) bool {
		w.n, w.err = syscall.Write(int(fd), w.bytes)
		return true // whatever came of it: do not wait
	}
	return w
}

// Write writes as much of p as the network takes at once.
func (w *Direct) Write(socket syscall.Conn, p []byte) (int, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	w.bytes, w.n, w.err = p, 0, nil
	err = raw.Write(w.call)
	w.bytes = nil
	switch {
	case err != nil:
		return 0, err
	case w.err == syscall.EAGAIN || w.err == syscall.EINTR:
		return 0, nil
	case w.err != nil:
		return 0, os.NewSyscallError("write", w.err)
	}
	return w.n, nil
}
