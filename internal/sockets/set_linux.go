package sockets

import (
	"fmt"
	"os"
	"syscall"
)

// Set reports which sockets can be read.
type Set struct {
	epoll *os.File
	raw   syscall.RawConn // of epoll
	done  chan struct{}   // closed when the goroutine has ended
}

// NewSet returns an empty set, and starts its goroutine. The goroutine calls report with the
// number of each connection that is readable, has been closed by its client, or has failed.
// report must not block.
func NewSet(report func(id uint64)) (*Set, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll instance: %w", err)
	}
	// os.NewFile has Go's poller watch a descriptor that does not block.
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("make an epoll instance: %w", err)
	}
	s := &Set{epoll: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{})}
	if s.raw, err = s.epoll.SyscallConn(); err != nil {
		s.epoll.Close()
		return nil, fmt.Errorf("make an epoll instance: %w", err)
	}
	go s.run(report)
	return s, nil
}

// Await has the next readiness of a socket reported, once. again says that an earlier Await
// of this socket succeeded. The error is net.ErrClosed if the socket or the set is closed.
func (s *Set) Await(socket syscall.RawConn, id uint64, again bool) error {
	op := syscall.EPOLL_CTL_ADD
	if again {
		op = syscall.EPOLL_CTL_MOD
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: int32(id), Pad: int32(id >> 32)}
	var errCtl error
	control := func(epoll uintptr) {
		err := socket.Control(func(fd uintptr) {
			errCtl = syscall.EpollCtl(int(epoll), op, int(fd), &event)
		})
		if err != nil {
			errCtl = err
		}
	}
	if err := s.raw.Control(control); err != nil {
		return err
	}
	return errCtl
}

// run reports until the set is closed.
func (s *Set) run(report func(id uint64)) {
	defer close(s.done)
	events := make([]syscall.EpollEvent, 256)
	for {
		n := 0
		err := s.raw.Read(func(fd uintptr) bool {
			err := error(syscall.EINTR)
			for err == syscall.EINTR {
				n, err = syscall.EpollWait(int(fd), events, 0)
			}
			return n > 0
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:n] {
			report(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
		}
	}
}

// Close ends the reports, and waits until none is under way.
func (s *Set) Close() {
	s.epoll.Close()
	<-s.done
}
