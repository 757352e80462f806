package cluster

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// flow is the state of the network in one direction between two servers.
type flow struct {
	mu      sync.Mutex
	state   weather
	changed chan struct{} // closed when state changes
	way     way           // of all connections, if they share the rate
}

// way is what lets bytes pass at a rate, in the order in which they came.
type way struct{ free time.Time }

// pass returns when n bytes that have come now have passed.
func (w *way) pass(n, rate int) time.Time {
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	return w.free
}

// weather is what happens to bytes on their way.
type weather struct {
	refused bool          // connections are reset, and new ones refused
	held    bool          // nothing arrives; when that ends, all of it does, as TCP sends again
	delay   time.Duration // of each byte
	rate    int           // bytes per second, of each connection; 0 is no limit
	shared  bool          // the rate is that of all connections together
}

func newFlow() *flow { return &flow{changed: make(chan struct{})} }

func (f *flow) set(w weather) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = w
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flow) get() (weather, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.changed
}

// due returns when n bytes that a connection has brought now may be delivered. own is
// the connection's way.
func (f *flow) due(n int, own *way) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := time.Now().Add(f.state.delay)
	if f.state.rate == 0 {
		return due
	}
	if f.state.shared {
		own = &f.way
	}
	if at := own.pass(n, f.state.rate); at.After(due) {
		return at
	}
	return due
}

// await returns true when bytes may pass, or false when done is closed before.
func (f *flow) await(done <-chan struct{}) bool {
	for {
		w, changed := f.get()
		if !w.held {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// relay takes connections of one server to a port of another. there is the way
// of the dialler's bytes, back that of the answers.
type relay struct {
	listener    net.Listener
	target      string
	there, back *flow

	mu    sync.Mutex
	pipes map[*pipe]struct{}
	done  chan struct{}
	wg    sync.WaitGroup
}

// newRelay opens a relay to a port of this machine.
func newRelay(t testing.TB, target string, there, back *flow) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: target, there: there, back: back, pipes: make(map[*pipe]struct{}), done: make(chan struct{})}
	r.wg.Go(r.accept)
	return r
}

func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

func (r *relay) accept() {
	for {
		nc, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.carry(nc) })
	}
}

// carry connects to the target when the network lets it, and carries bytes both
// ways until one end closes.
func (r *relay) carry(near net.Conn) {
	p := &pipe{near: near, done: make(chan struct{})}
	r.mu.Lock()
	r.pipes[p] = struct{}{}
	r.mu.Unlock()
	defer func() {
		p.end(true)
		r.mu.Lock()
		delete(r.pipes, p)
		r.mu.Unlock()
	}()
	if !r.there.await(p.done) || !r.back.await(p.done) || r.refused() {
		return
	}
	far, err := net.DialTimeout("tcp", r.target, time.Second)
	if err != nil || !p.join(far) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(far, near, r.there) })
	wg.Go(func() { p.pump(near, far, r.back) })
	wg.Wait()
}

func (r *relay) refused() bool {
	there, _ := r.there.get()
	back, _ := r.back.get()
	return there.refused || back.refused
}

// reset ends all connections, with a reset.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pipes {
		p.end(true)
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.reset()
	r.wg.Wait()
}

// pipe is one connection through a relay.
type pipe struct {
	mu        sync.Mutex
	near, far net.Conn // far is nil before it is there
	done      chan struct{}
	ended     bool
}

// join adds the far side, unless the pipe has ended.
func (p *pipe) join(far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		far.Close()
		return false
	}
	p.far = far
	return true
}

// end closes both sides, with a reset or in an orderly way.
func (p *pipe) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	for _, nc := range []net.Conn{p.near, p.far} {
		if nc == nil {
			continue
		}
		if reset {
			nc.(*net.TCPConn).SetLinger(0)
		}
		nc.Close()
	}
}

// chunk is a piece of a stream under way.
type chunk struct {
	b   []byte
	due time.Time
}

// pump carries bytes from src to dst as the flow allows, and buffers up to 8 MiB, as a
// network does. What is under way when src ends is still delivered.
func (p *pipe) pump(dst, src net.Conn, f *flow) {
	defer p.end(false)
	under := make(chan chunk, 256)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer close(under)
		buf := make([]byte, 32<<10)
		var own way
		for {
			n, err := src.Read(buf)
			if n > 0 {
				select {
				case under <- chunk{slices.Clone(buf[:n]), f.due(n, &own)}:
				case <-p.done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range under {
		if !p.deliver(dst, c, f) {
			p.end(false)
			return
		}
	}
}

func (p *pipe) deliver(dst net.Conn, c chunk, f *flow) bool {
	if wait := time.Until(c.due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-p.done:
			return false
		}
	}
	if !f.await(p.done) {
		return false
	}
	_, err := dst.Write(c.b)
	return err == nil
}

// network is all that lies between the servers of an ensemble: for each ordered
// pair of servers a flow, and relays that the first of them dials to reach the
// second.
type network struct {
	flows  map[[2]int]*flow
	relays map[[2]int][]*relay // quorum port, election port
}

func newNetwork(t testing.TB, servers []*server) *network {
	t.Helper()
	n := &network{flows: make(map[[2]int]*flow), relays: make(map[[2]int][]*relay)}
	n.each(servers, func(from, to *server) { n.flows[[2]int{from.id, to.id}] = newFlow() })
	n.each(servers, func(from, to *server) {
		way := [2]int{from.id, to.id}
		for _, port := range []int{to.quorum, to.election} {
			r := newRelay(t, (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String(), n.flows[way], n.flows[[2]int{to.id, from.id}])
			n.relays[way] = append(n.relays[way], r)
			t.Cleanup(r.close)
		}
	})
	return n
}

func (n *network) each(servers []*server, visit func(from, to *server)) {
	for _, a := range servers {
		for _, b := range servers {
			if a != b {
				visit(a, b)
			}
		}
	}
}

// set changes one direction.
func (n *network) set(from, to int, w weather) { n.flows[[2]int{from, to}].set(w) }

// reset breaks the connections between two servers.
func (n *network) reset(a, b int) {
	for _, way := range [][2]int{{a, b}, {b, a}} {
		for _, r := range n.relays[way] {
			r.reset()
		}
	}
}

// cut refuses connections between two servers.
func (n *network) cut(a, b int) {
	n.set(a, b, weather{refused: true})
	n.set(b, a, weather{refused: true})
	n.reset(a, b)
}

// hold makes all bytes between two servers disappear until heal.
func (n *network) hold(a, b int) {
	n.set(a, b, weather{held: true})
	n.set(b, a, weather{held: true})
}

// heal makes the whole network fair.
func (n *network) heal() {
	for _, f := range n.flows {
		f.set(weather{})
	}
}
