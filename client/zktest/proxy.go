package zktest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// Proxy stands between clients and one or several servers, each of which has an address at
// the proxy. Its methods act on the connections to all of its servers; At narrows them to
// one.
type Proxy struct {
	hub   *hub
	doors []*door
}

// hub is the shared state of a proxy's doors.
type hub struct {
	t    testing.TB
	ctx  context.Context // ends with the test
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards the fields that say so, here and in doors, conns and cuts.
	mu       sync.Mutex
	closed   bool
	news     chan struct{} // closed and replaced when a count changes
	sessions map[jute.SessionID]*session
	records  []*Recording
	expiring int           // calls of ExpireSession under way
	expired  chan struct{} // closed when the last of these ends; nil if there are none
}

// NewProxy starts a proxy for the servers, host:port each, which need not be up. It ends with
// the test.
func NewProxy(t testing.TB, servers ...string) *Proxy {
	t.Helper()
	if len(servers) == 0 {
		t.Fatalf("zktest: a proxy to no server")
	}
	h := &hub{t: t, news: make(chan struct{}), sessions: map[jute.SessionID]*session{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	p := &Proxy{hub: h}
	t.Cleanup(p.close)
	for _, server := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: proxy to %s: %v", server, err)
		}
		d := &door{hub: h, l: l, target: server, conns: map[*conn]bool{}, counts: Counts{}}
		p.doors = append(p.doors, d)
		h.work.Go(d.accept)
	}
	return p
}

// close ends everything.
func (p *Proxy) close() {
	h := p.hub
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	for _, d := range p.doors {
		d.l.Close()
		d.cutAll(nil)
	}
	h.work.Wait()
}

// At returns the proxy of its i-th server only, from 0.
func (p *Proxy) At(i int) *Proxy { return &Proxy{hub: p.hub, doors: p.doors[i : i+1]} }

// Len returns the number of servers.
func (p *Proxy) Len() int { return len(p.doors) }

// Addr returns the address, host:port, at which clients reach the first server.
func (p *Proxy) Addr() string { return p.doors[0].l.Addr().String() }

// ConnectString returns the addresses at which clients reach the servers, separated by
// commas.
func (p *Proxy) ConnectString() string {
	var addrs []string
	for _, d := range p.doors {
		addrs = append(addrs, d.l.Addr().String())
	}
	return strings.Join(addrs, ",")
}

// CutConnections breaks all connections now.
func (p *Proxy) CutConnections() {
	for _, d := range p.doors {
		d.cutAll(nil)
	}
}

// CutSession breaks the connections of a session now. The session lives on.
func (p *Proxy) CutSession(id client.SessionID) {
	for _, d := range p.doors {
		d.cutAll(func(c *conn) bool { return c.session == id })
	}
}

// Refuse resets new connections at once, until Accept. Existing connections stay.
func (p *Proxy) Refuse() { p.set(func(d *door) { d.refusing = true }) }

// Accept ends Refuse.
func (p *Proxy) Accept() { p.set(func(d *door) { d.refusing = false }) }

// Stall makes the connections black holes, until Resume: nothing passes, and nothing breaks.
// New connections are accepted, and get no answer.
func (p *Proxy) Stall() {
	p.set(func(d *door) {
		if d.stalled == nil {
			d.stalled = make(chan struct{})
		}
	})
}

// Resume ends Stall. What was held back is delivered.
func (p *Proxy) Resume() {
	p.set(func(d *door) {
		if d.stalled != nil {
			close(d.stalled)
			d.stalled = nil
		}
	})
}

func (p *Proxy) set(change func(*door)) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	for _, d := range p.doors {
		change(d)
	}
}

// CutBefore breaks the connection of the next request that m matches, and drops the request:
// the operation has not been done.
func (p *Proxy) CutBefore(m Match) *Cut { return p.arm(m, false) }

// CutAfter forwards the next request that m matches, and breaks the connection instead of
// forwarding the reply: the operation has been done, or has failed as Cut.Err says.
func (p *Proxy) CutAfter(m Match) *Cut { return p.arm(m, true) }

func (p *Proxy) arm(m Match, after bool) *Cut {
	c := &Cut{hub: p.hub, match: m, after: after, done: make(chan struct{}), armed: true, code: jute.ErrConnectionLoss}
	p.set(func(d *door) { d.cuts = append(d.cuts, c) })
	return c
}

// Counts is the number of requests forwarded, by opcode. The connect request counts as
// OpCreateSession.
type Counts map[client.OpCode]int

// Of returns the number of requests of these operations together.
func (c Counts) Of(ops ...client.OpCode) int {
	n := 0
	for _, op := range ops {
		n += c[op]
	}
	return n
}

// Since returns the number of requests after an earlier snapshot.
func (c Counts) Since(before Counts) Counts {
	diff := Counts{}
	for op, n := range c {
		if n != before[op] {
			diff[op] = n - before[op]
		}
	}
	return diff
}

// Total returns the number of requests, except pings.
func (c Counts) Total() int {
	n := 0
	for op, k := range c {
		if op != jute.OpPing {
			n += k
		}
	}
	return n
}

// Requests returns the number of requests forwarded so far.
func (p *Proxy) Requests() Counts {
	sum := Counts{}
	p.set(func(d *door) {
		for op, n := range d.counts {
			sum[op] += n
		}
	})
	return sum
}

// Notifications returns the number of watch events forwarded so far.
func (p *Proxy) Notifications() int {
	n := 0
	p.set(func(d *door) { n += d.notifications })
	return n
}

// Connections returns the number of connections.
func (p *Proxy) Connections() int {
	n := 0
	p.set(func(d *door) { n += len(d.conns) })
	return n
}

// AwaitRequests waits until at least n requests of the operation have been forwarded. The
// error is that of ctx.
func (p *Proxy) AwaitRequests(ctx context.Context, op client.OpCode, n int) error {
	return p.await(ctx, fmt.Sprintf("%d requests %v", n, op), func() bool { return p.Requests()[op] >= n })
}

// AwaitNotifications waits until at least n watch events have been forwarded. The error is
// that of ctx.
func (p *Proxy) AwaitNotifications(ctx context.Context, n int) error {
	return p.await(ctx, fmt.Sprintf("%d watch events", n), func() bool { return p.Notifications() >= n })
}

func (p *Proxy) await(ctx context.Context, what string, there func() bool) error {
	for {
		p.hub.mu.Lock()
		news := p.hub.news
		p.hub.mu.Unlock()
		if there() {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// tellLocked wakes the goroutines that wait for counts.
func (h *hub) tellLocked() {
	close(h.news)
	h.news = make(chan struct{})
}
