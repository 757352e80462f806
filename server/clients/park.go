package clients

import (
	"errors"
	"net"
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/internal/sockets"
)

// A connection whose client is idle is parked: it has no reader and no read buffer, and its
// socket is in a set that all parked connections share. When the socket becomes readable, a
// reader is started again.
//
// A ping parks a connection: clients send one when they have sent nothing else for a part of
// their session's timeout. So a connection in use has its reader all the time, and an idle one
// has a reader for the time of a ping.
//
// Whatever wakes or stops a reader that waits for its client starts the reader of a parked
// connection: conn.unparkLocked. So there is no other end of a connection than by its reader.

// errParked ends a reader whose connection continues without it.
var errParked = errors.New("connection is parked")

// parking is the set of the parked connections. It is made for the first one.
type parking struct {
	log  *zap.Logger
	wake func(origin uint64) // called when a socket has become readable

	once sync.Once
	set  *sockets.Set // nil if there is none
}

// awaits returns what has the connection woken when there is something to read, or nil if it can't be parked. Only plain TCP
// connections can, if the system has such sets, and those that the connection of an edge carries. That function reports
// whether the connection will be woken: there may be something to read already, the socket may be closed, or the system's limit of such
// sockets reached. again: it was called for the connection before.
func (p *parking) awaits(s *socket) (await func(origin uint64, again bool) bool) {
	switch stream := s.stream.(type) {
	case *mux.Stream:
		return func(origin uint64, _ bool) bool { return stream.Await(func() { p.wake(origin) }) }
	case *net.TCPConn:
		if !p.exists() {
			return nil
		}
		raw, err := stream.SyscallConn()
		if err != nil {
			return nil
		}
		return func(origin uint64, again bool) bool { return p.set.Await(raw, origin, again) == nil }
	}
	return nil
}

func (p *parking) exists() bool {
	p.once.Do(func() {
		set, err := sockets.NewSet(p.wake)
		switch {
		case err == nil:
			p.set = set
		case !errors.Is(err, errors.ErrUnsupported):
			p.log.Warn("idle connections take more memory than they need", zap.Error(err))
		}
	})
	return p.set != nil
}

// close is called when there are no connections any more.
func (p *parking) close() {
	if p.set != nil {
		p.set.Close()
	}
}
