package clients

import (
	"errors"
	"strings"

	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
)

// The connection of an edge may carry the connections of its clients: see package mux. Each of these is served as one that comes
// by a port, from the edge's address and with its certificate. That of the edge itself has no session, and does not count in maxClientCnxns and maxCnxns.

// errCarries ends a handshake: the connection carries others.
var errCarries = errors.New("the connection carries others")

// carry serves the connections that c carries, until it ends.
func (c *conn) carry() error {
	idle := c.shared.live.Load().SessionlessCnxnTimeout
	c.socket.readWithin(idle) // for the rest of the greeting
	carrier, err := mux.Accept(c.socket.stream, c.frames.Rest(), idle, func(s *mux.Stream, whose string) { c.shared.enterCarried(c, s, whose) })
	if err != nil {
		return c.shared.sessionless(err)
	}
	c.socket.readWithoutDeadline()
	c.shared.register.Carries(c.group)
	c.takes = register.Carrying
	c.line.Lock()
	c.carrier = carrier
	if c.line.endsLocked() {
		carrier.Quit()
	}
	c.line.Unlock()
	return carrier.Serve()
}

// enterCarried is enter for the connection of a client that an edge's connection carries.
func (s *shared) enterCarried(by *conn, stream *mux.Stream, whose string) {
	now := s.now()
	if by.identity.dropEnded(now) {
		by.carrier.Quit() // the edge has another certificate by now, or none
		stream.Close()
		return
	}
	client := newConn(s, stream, plainPort)
	client.takes, client.carriedFor = register.Carried, strings.Map(plainText, whose)
	client.identity.set(by.identity.credentials.Load(), now)
	client.socket.secure.Store(by.socket.secure.Load())
	stream.OnPing(client.pinged)
	s.enter(client)
}

// pinged does what a ping does, for a client that is idle. It reports false if it is not, or if the ping may have other consequences, such as the end of
// the connection: then it has to come as a request. Any goroutine may call it.
func (c *conn) pinged() bool {
	c.line.Lock()
	defer c.line.Unlock()
	now, creds := c.shared.now(), c.identity.credentials.Load()
	switch { // while it is parked, what the reader owns is the lock's
	case !c.parked, c.line.endsLocked(), c.identity.dropEnded(now), c.shared.proofs.Admits(creds.IDs()) != nil,
		c.weighed != weighed{creds, c.shared.rules.weights.Load()}, !c.limits.pingsFree(creds),
		!c.line.Pinged(now, c.shared.backend.AnswersUntil()):
		return false
	}
	c.stats.received++
	c.stats.answered(&line.Request{Op: jute.OpPing, Xid: jute.XidPing}, c.stats.lastZxid)
	c.shared.metrics.PacketsReceived.Add(1)
	return true
}

// plainText replaces characters that an address does not have, as an edge can tell anything.
func plainText(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(".:[]%/@_-", r):
		return r
	}
	return '_'
}
