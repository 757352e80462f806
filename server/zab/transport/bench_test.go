package transport

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// collector is a handler that counts what it receives, and answers pings.
type collector struct {
	mu      sync.Mutex
	cond    sync.Cond
	gen     uint64
	entries int
	pongs   int
	reply   func(gen uint64, m *zab.Message)
}

func newCollector() *collector {
	c := &collector{}
	c.cond.L = &c.mu
	return c
}

func (c *collector) PeerUp(_ zab.SID, gen uint64, _ Hello) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen = gen
	c.cond.Broadcast()
}

func (c *collector) PeerDown(zab.SID, uint64, error) {}

func (c *collector) Receive(_ zab.SID, gen uint64, m *zab.Message) {
	if m.Kind == zab.MsgPing && c.reply != nil {
		c.reply(gen, m)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries += len(m.Entries)
	if m.Kind == zab.MsgPong {
		c.pongs++
	}
	c.cond.Signal()
}

func (c *collector) ReceiveApp(zab.SID, uint64, uint8, []byte) {}

func (c *collector) Drained(zab.SID, uint64) {}

func (c *collector) Stream(_ zab.SID, _ []byte, r io.Reader) error {
	_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, make([]byte, 128<<10))
	return err
}

func (c *collector) until(ok func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		c.cond.Wait()
	}
}

func loopback(tb testing.TB, change ...func(*Options)) (a, b *Transport, atA, atB *collector) {
	tb.Helper()
	atA, atB = newCollector(), newCollector()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	start := func(id zab.SID, h Handler, peers []Peer) *Transport {
		o := Options{Self: id, Introduce: says(zab.Introduction{Boot: uint64(id)}), Handler: h, Peers: peers}
		if id == 1 {
			o.Listen = []string{l.Addr().String()}
			o.ListenFunc = func(string, string) (net.Listener, error) { return l, nil }
		}
		for _, f := range change {
			f(&o)
		}
		t, err := New(o)
		if err != nil {
			tb.Fatal(err)
		}
		if err := t.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { t.Close() })
		return t
	}
	a = start(1, atA, []Peer{{ID: 2}})
	b = start(2, atB, []Peer{{ID: 1, Addrs: []string{l.Addr().String()}}})
	atA.until(func() bool { return atA.gen != 0 })
	atB.until(func() bool { return atB.gen != 0 })
	return a, b, atA, atB
}

func batch(entries, size int) *zab.Message {
	m := &zab.Message{Kind: zab.MsgAppend, Epoch: 1, Prev: jute.MakeZxid(1, 0), Commit: jute.MakeZxid(1, 0)}
	for i := range uint32(entries) {
		m.Entries = append(m.Entries, zab.Entry{Zxid: jute.MakeZxid(1, i+1), Prev: jute.MakeZxid(1, i), Data: make([]byte, size)})
	}
	return m
}

// BenchmarkEntries sends batches of log entries over loopback, at most 8 MiB ahead of the
// receiver.
func BenchmarkEntries(b *testing.B) {
	for _, shape := range []struct{ entries, size int }{{1, 100}, {1, 1 << 10}, {60, 1 << 10}, {1000, 1 << 10}} {
		b.Run(fmt.Sprintf("batch=%d/size=%d", shape.entries, shape.size), func(b *testing.B) {
			from, _, atA, atB := loopback(b)
			m := batch(shape.entries, shape.size)
			ahead := max(1, 8<<20/(shape.entries*shape.size)) * shape.entries
			b.SetBytes(int64(shape.entries * shape.size))
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				from.Send(2, atA.gen, m)
				if sent += shape.entries; sent%(ahead/4+1) < shape.entries {
					atB.until(func() bool { return atB.entries >= sent-ahead })
				}
			}
			atB.until(func() bool { return atB.entries >= sent })
		})
	}
}

// BenchmarkRoundTrip sends one message and one answer.
func BenchmarkRoundTrip(b *testing.B) {
	from, to, atA, atB := loopback(b)
	pong := &zab.Message{Kind: zab.MsgPong}
	atB.reply = func(gen uint64, _ *zab.Message) { to.Send(1, gen, pong) }
	ping := &zab.Message{Kind: zab.MsgPing, Seq: 1, Commit: 1 << 32}
	b.ReportAllocs()
	sent := 0
	for b.Loop() {
		sent++
		from.Send(2, atA.gen, ping)
		atA.until(func() bool { return atA.pongs == sent })
	}
}

// BenchmarkStream sends bulk data over loopback.
func BenchmarkStream(b *testing.B) {
	_, from, _, _ := loopback(b)
	s, err := from.OpenStream(b.Context(), 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 1<<20)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// TestControlAllocatesNothing sends pings both ways: neither end may allocate.
func TestControlAllocatesNothing(t *testing.T) {
	from, to, atA, atB := loopback(t)
	pong := &zab.Message{Kind: zab.MsgPong}
	atB.reply = func(gen uint64, _ *zab.Message) { to.Send(1, gen, pong) }
	ping := &zab.Message{Kind: zab.MsgPing, Seq: 1, Commit: 1 << 32}
	want := 0
	done := func() bool { return atA.pongs == want }
	if n := testing.AllocsPerRun(1000, func() {
		want++
		from.Send(2, atA.gen, ping)
		atA.until(done)
	}); n > 0 {
		t.Errorf("%v allocations for each round trip", n)
	}
}
