//go:build unix

package clients

import (
	"net"
	"os"
	"syscall"
)

// directWriter writes to TCP connections without waiting. One goroutine at a time may use it.
type directWriter struct {
	call func(fd uintptr) (done bool)

	// Of the call under way.
	bytes []byte
	n     int
	err   error
}

func newDirectWriter() *directWriter {
	w := &directWriter{}
	w.call = func(fd uintptr) bool {
		w.n, w.err = syscall.Write(int(fd), w.bytes)
		return true // whatever came of it: do not wait
	}
	return w
}

// write writes as much of p as the network takes at once.
func (w *directWriter) write(tcp *net.TCPConn, p []byte) (int, error) {
	raw, err := tcp.SyscallConn()
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
