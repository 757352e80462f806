package bench

import (
	"net"
	"syscall"
)

// rawWriter writes to a socket without waiting for room.
type rawWriter struct {
	conn syscall.RawConn
	try  func(fd uintptr) bool // one attempt; made once, so that writing allocates nothing
	b    []byte
}

// newRawWriter returns a writer to nc, or nil if nc is not a socket.
func newRawWriter(nc net.Conn) *rawWriter {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &rawWriter{conn: rc}
	w.try = func(fd uintptr) bool {
		if n, err := syscall.Write(int(fd), w.b); err == nil {
			w.b = w.b[:copy(w.b, w.b[n:])]
		}
		return true
	}
	return w
}

// write writes what the socket takes of b and returns the rest, moved to the
// front of b. Errors leave all of b: the next write that may block meets them
// again.
func (w *rawWriter) write(b []byte) []byte {
	w.b = b
	if w.conn.Write(w.try) != nil {
		return b
	}
	return w.b
}
