package clients

import (
	"errors"
	"net"
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/clients/readable"
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
// connection: unparkLocked. So there is no other end of a connection than by its reader.
//
// Only plain TCP connections are parked, and only on systems that have such sets.

// errParked ends a reader whose connection continues without it.
var errParked = errors.New("connection is parked")

// parking is the set of the parked connections. It is made for the first one.
type parking struct {
	once sync.Once
	set  *readable.Set // nil if there is none
}

// setOf returns the set, or nil if the system has none.
func (p *parking) setOf(s *Clients) *readable.Set {
	p.once.Do(func() {
		set, err := readable.New(s.unpark)
		switch {
		case err == nil:
			p.set = set
		case !errors.Is(err, errors.ErrUnsupported):
			s.log.Warn("idle connections take more memory than they need", zap.Error(err))
		}
	})
	return p.set
}

// close is called when there are no connections any more.
func (p *parking) close() {
	if p.set != nil {
		p.set.Close()
	}
}

// park parks the connection, and reports whether it did: then the reader has to end, and
// touches nothing of the connection any more. The caller is the reader.
func (c *conn) park() bool {
	tcp, ok := c.stream.(*net.TCPConn)
	if !ok {
		return false
	}
	set := c.clients.parking.setOf(c.clients)
	if set == nil {
		return false
	}
	socket, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line.Ends() || c.mu.draining || c.line.Waiting() > 0 || !c.frames.release() {
		return false
	}
	if err := set.Await(socket, c.line.Origin(), c.watched); err != nil {
		return false // closed, or the system's limit of such sockets is reached
	}
	c.watched = true
	c.batch, c.reads, c.traced = nil, nil, nil
	c.line.Rest()
	c.clients.running.Add(1)
	c.mu.parked = true
	return true
}

// unpark is called when the socket of a connection has become readable. The connection may have
// ended, or have a reader already.
func (s *Clients) unpark(id uint64) {
	if c := connOf(s.conns.Get(id)); c != nil {
		c.mu.Lock()
		c.unparkLocked()
		c.mu.Unlock()
	}
}

// unparkLocked starts the reader if the connection is parked.
func (c *conn) unparkLocked() {
	if c.mu.parked {
		c.mu.parked = false
		c.clients.running.Go(c.resume)
		c.clients.running.Done()
	}
}
