package main

import (
	"net"
	"sync"
)

// relay stands between an edge and a server, and can hold up what passes in one direction, as a network does that has lost a route.
type relay struct {
	l        net.Listener
	server   *server
	to, from gate
}

// gate lets pass, or holds up.
type gate struct {
	mu     sync.Mutex
	opened sync.Cond
	shut   bool
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	g.opened.Broadcast()
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.opened.Wait()
	}
}

func newRelay(s *server) (*relay, error) {
	l, err := net.Listen("tcp", loopback(0))
	if err != nil {
		return nil, err
	}
	r := &relay{l: l, server: s}
	r.to.opened.L, r.from.opened.L = &r.to.mu, &r.from.mu
	go r.serve()
	return r, nil
}

// serve passes connections on until the listener is closed. They end with those of the server or of the edge.
func (r *relay) serve() {
	for {
		from, err := r.l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", r.server.addr)
		if err != nil {
			from.Close()
			continue
		}
		go pump(to, from, &r.to)
		go pump(from, to, &r.from)
	}
}

func pump(to, from net.Conn, g *gate) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if g.pass(); err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
