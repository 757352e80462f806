package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	zk "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// movingSession is a session that moves from edge to edge, while the client's connections to those that it has left
// remain, and are not silent.
type movingSession struct {
	t     *testing.T
	e     *testEnsemble
	edges []*movingEdge
	key   zk.SessionKey
}

// movingEdge is what an edge has for the client.
type movingEdge struct {
	*zk.Relay
	dials    relayDials
	severed  atomic.Bool // it reaches no server
	deaf     atomic.Bool // its connections end before it hears of a server
	attempts atomic.Int64
	had      atomic.Int64 // connections with the session
}

// unheard is a connection on which nothing comes.
type unheard struct{ net.Conn }

func (c unheard) Read(b []byte) (int, error) {
	for {
		if _, err := c.Conn.Read(b); err != nil {
			return 0, err
		}
	}
}

// move moves the session, or begins it, at another edge.
func (m *movingSession) move() {
	m.t.Helper()
	g, i := &movingEdge{dials: relayDials{e: m.e}}, len(m.edges)
	c := &relayHooks{reply: func(zk.Forwarded) {}, event: func(zk.Zxid, jute.WatcherEvent) {}}
	o := zk.Options{Rand: rand.New(rand.NewPCG(uint64(i), 1))}
	o.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
		if g.severed.Load() {
			return nil, syscall.EHOSTUNREACH
		}
		nc, err := g.dials.dial(fmt.Sprintf("10.0.1.%d", i+1), address)
		if err == nil && g.deaf.Load() {
			time.AfterFunc(500*time.Millisecond, func() { nc.Close() }) // the session is given to it by then
			return unheard{nc}, nil
		}
		return nc, err
	}
	c.attempted = func(err error) {
		g.attempts.Add(1)
		if err == nil {
			g.had.Add(1)
		}
	}
	g.Relay = startRelay(o, c, zk.RelayOptions{Timeout: 40 * time.Second, Session: m.key})
	m.t.Cleanup(g.Abort)
	m.edges = append(m.edges, g)
	hello, err := g.WaitConnected(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	m.key = zk.SessionKey{ID: hello.SessionID, Password: hello.Password}
}

// cut ends the first edge's connections to servers. Afterwards it reaches none.
func (m *movingSession) cut() {
	m.edges[0].severed.Store(true)
	m.cutOnce()
}

func (m *movingSession) cutOnce() {
	d := &m.edges[0].dials
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, nc := range d.conns {
		nc.Close()
	}
}

// pass lets seconds pass, in which pings come from the client.
func (m *movingSession) pass(seconds int) {
	for range seconds {
		for _, g := range m.edges {
			g.Ping()
		}
		time.Sleep(time.Second)
	}
}

// left checks that the edges which the session has left have ended, and why.
func (m *movingSession) left(edges ...*movingEdge) {
	m.t.Helper()
	synctest.Wait()
	for i, g := range edges {
		select {
		case <-g.Done():
		default:
			m.t.Fatalf("edge %d has the session, on %d connections", i, g.had.Load())
		}
		if err := g.Client().Status().Err; !errors.Is(err, zk.ErrSessionMoved) || g.Expired() {
			m.t.Errorf("edge %d has ended with %v, expired %v", i, err, g.Expired())
		}
	}
}

// stays checks that the last edge has the session, and which connections it had.
func (m *movingSession) stays(connections int64) {
	m.t.Helper()
	g := m.edges[len(m.edges)-1]
	select {
	case <-g.Done():
		m.t.Errorf("the session was taken away: %v", g.Client().Status().Err)
	default:
		if g.had.Load() != connections {
			m.t.Errorf("%d connections, not %d", g.had.Load(), connections)
		}
	}
}

// TestSessionStaysWhereItMoved: a session that a client has moved to another edge, or to a server, stays there. The edge
// that it has left ends its client's connection, and does not take the session back, whether a server could tell it or
// not. Two edges took a session from each other without end.
func TestSessionStaysWhereItMoved(t *testing.T) {
	for name, run := range map[string]func(m *movingSession){
		"to another edge": func(m *movingSession) {
			m.move()
			m.pass(60)
			m.left(m.edges[:len(m.edges)-1]...)
			m.stays(1)
		},
		"untold": func(m *movingSession) {
			m.cut()
			m.move()
			m.edges[0].severed.Store(false)
			m.pass(60)
			m.left(m.edges[:len(m.edges)-1]...)
			m.stays(1)
		},
		"untold, before there is another leader": func(m *movingSession) {
			m.cut()
			m.move()
			m.e.kill(m.e.leader())
			m.e.leader()
			m.pass(10)
			had := m.edges[1].had.Load()
			m.edges[0].severed.Store(false)
			m.pass(10)
			m.left(m.edges[:len(m.edges)-1]...)
			m.stays(had)
		},
		"to a server": func(m *movingSession) {
			m.toServer()
			m.pass(10)
			m.left(m.edges...)
		},
		"to a server, untold": func(m *movingSession) {
			m.cut()
			c := m.toServer()
			m.edges[0].severed.Store(false)
			m.pass(10)
			m.left(m.edges...)
			c.ping()
		},
		"and back": func(m *movingSession) {
			m.move()
			m.pass(1)
			m.move()
			m.pass(60)
			m.left(m.edges[:len(m.edges)-1]...)
			m.stays(1)
		},
		"nowhere": func(m *movingSession) { // its own attempts, whose answers are lost, have moved nothing
			for range 5 {
				m.edges[0].deaf.Store(true)
				m.cutOnce()
				m.pass(4)
				m.edges[0].deaf.Store(false)
				m.pass(4)
			}
			m.stays(6)
			if m.edges[0].attempts.Load() < 10 {
				m.t.Errorf("only %d attempts", m.edges[0].attempts.Load())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				m := &movingSession{t: t, e: e}
				m.move()
				run(m)
			})
		})
	}
}

// toServer moves the session to a server, for a client without an edge.
func (m *movingSession) toServer() *client {
	c := &client{session: m.key.ID, pass: m.key.Password, timeout: 40_000}
	return c.resumeAt(m.t, m.e.servers[m.e.follower()])
}
