package testserver

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/internal/accept"
	"github.com/zkd-project/zkd/jute"
)

// Proxy passes connections of clients on to a server.
type Proxy struct {
	listener net.Listener
	server   string
	stop     chan struct{} // closed by Close
	work     sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
}

// link is a connection of a client, and that to the server.
type link struct {
	client, server net.Conn
	session        jute.SessionID // 0 until the server has answered, and for words
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// NewProxy returns a proxy at a free port, to a server's address. Close must be called.
func NewProxy(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server, stop: make(chan struct{}), links: map[*link]struct{}{}}
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close closes all connections, and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	close(p.stop)
	p.mu.Unlock()
	p.listener.Close()
	p.Drop(func(jute.SessionID) bool { return true })
	p.work.Wait()
}

// Drop closes the connections of those sessions that match, and returns how many they are.
// Connections without a session have 0.
func (p *Proxy) Drop(match func(jute.SessionID) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if match(l.session) {
			l.close()
			n++
		}
	}
	return n
}

// Sessions returns the sessions that are connected.
func (p *Proxy) Sessions() (list []jute.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.session != 0 {
			list = append(list, l.session)
		}
	}
	slices.Sort(list)
	return list
}

func (p *Proxy) accept() {
	for {
		c, err := accept.Next(p.listener, p.stop, func(error) {})
		if err != nil {
			return // closed
		}
		p.work.Go(func() { p.serve(c) })
	}
}

// serve passes a connection on until either side ends it.
func (p *Proxy) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	l := &link{client: c, server: s}
	defer l.close()
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	p.work.Go(func() {
		_, _ = io.Copy(s, c)
		// A client that has said its last word may wait for the answer to it.
		_ = s.(*net.TCPConn).CloseWrite()
	})
	from := bufio.NewReader(s)
	if id := sessionOf(from); id != 0 {
		p.mu.Lock()
		l.session = id
		p.mu.Unlock()
	}
	_, _ = io.Copy(c, from)
}

// add notes a connection, unless the proxy is closed.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stop:
		return false
	default:
		p.links[l] = struct{}{}
		return true
	}
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// sessionOf returns the session in the first frame of a server, which it does not take from r,
// or 0 if the server answers something else.
func sessionOf(r *bufio.Reader) jute.SessionID {
	head, err := r.Peek(4)
	if err != nil {
		return 0
	}
	n := binary.BigEndian.Uint32(head)
	if n > 256 { // a word's answer; a frame with a session has some 40 bytes
		return 0
	}
	frame, err := r.Peek(4 + int(n))
	if err != nil {
		return 0
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame[4:])
	resp.Decode(&d)
	if d.Err() != nil {
		return 0
	}
	return resp.SessionID
}
