package server

import (
	"net"
	"sync"
	"syscall"

	"github.com/zkd-project/zkd/internal/testing/mempipe"
)

// memConn is one end of a connection in memory.
type memConn = mempipe.Conn

// memListener is a listener whose connections are in memory. All its operations block
// durably, so it works in a synctest bubble.
type memListener struct {
	mu     sync.Mutex
	change sync.Cond
	queue  []net.Conn
	closed bool
	port   int // of the last client
}

func newMemListener() *memListener {
	l := &memListener{port: 10_000}
	l.change.L = &l.mu
	return l
}

func (l *memListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	nc := l.queue[0]
	l.queue = l.queue[1:]
	return nc, nil
}

func (l *memListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, nc := range l.queue {
		nc.Close()
	}
	l.change.Broadcast()
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2181} }

// dial connects from an address. Each direction holds up to window bytes that
// the other side has not read.
func (l *memListener) dial(ip string, window int) (*memConn, error) {
	near, far := l.pair(ip, window)
	return near, l.accept(far)
}

// pair makes the two ends of a connection from an address.
func (l *memListener) pair(ip string, window int) (near, far *memConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.port++
	here := &net.TCPAddr{IP: net.ParseIP(ip), Port: l.port}
	return mempipe.New(here, l.Addr(), window)
}

// accept queues the far end of a connection.
func (l *memListener) accept(far net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return syscall.ECONNREFUSED
	}
	l.queue = append(l.queue, far)
	l.change.Broadcast()
	return nil
}
