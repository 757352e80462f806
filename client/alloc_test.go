//go:build !race

package client

// Not with the race detector, which makes pools forget what they have.

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// newEchoClient returns a client of a server over real sockets, which answers gets
// with 100 bytes, and everything else with a Stat, without a byte of garbage.
func newEchoClient(tb testing.TB) *Client {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if nc, err := l.Accept(); err == nil {
			echo(nc)
		}
	}()
	c, err := Connect(context.Background(), l.Addr().String(), Options{Logger: NoLog})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.s.abort()
		l.Close()
		<-served
	})
	return c
}

// echo serves one connection until it ends.
func echo(nc net.Conn) {
	defer nc.Close()
	in, out := bufio.NewReaderSize(nc, 1<<16), bufio.NewWriterSize(nc, 1<<16)
	frame := func(payload []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
	}
	welcome := jute.ConnectResponse{TimeoutMs: 10000, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
	stat, data := Stat{}, jute.GetDataResponse{Data: make([]byte, 100)}
	h := jute.ReplyHeader{Zxid: 1}
	answers := map[jute.OpCode][]byte{jute.OpGetData: frame(data.Append(h.Append(nil))), jute.OpPing: frame(h.Append(nil))}
	other := frame(stat.Append(h.Append(nil)))
	req := make([]byte, 1<<12)
	for first := true; ; first = false {
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		if _, err := io.ReadFull(in, req[:4]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(req)
		if _, err := io.ReadFull(in, req[:n]); err != nil {
			return
		}
		if first {
			out.Write(frame(welcome.Append(nil)))
			continue
		}
		answer, ok := answers[jute.OpCode(binary.BigEndian.Uint32(req[4:]))]
		if !ok {
			answer = other
		}
		copy(answer[4:8], req[:4])
		out.Write(answer)
	}
}

// A read allocates its data and nothing else.
func TestAllocations(t *testing.T) {
	c := newEchoClient(t)
	for _, tt := range []struct {
		name string
		most float64
		fn   func() error
	}{
		{"get", 1, func() error { _, err := c.Get(bg, "/some/path"); return err }},
		{"exists", 0, func() error { _, err := c.Exists(bg, "/some/path"); return err }},
		{"set", 0, func() error { _, err := c.Set(bg, "/some/path", []byte{}, -1); return err }},
	} {
		got := testing.AllocsPerRun(2000, func() {
			if err := tt.fn(); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v", tt.name, got)
		if got > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c := newEchoClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(bg, "/some/path"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetParallel is of synchronous gets from many goroutines.
func BenchmarkGetParallel(b *testing.B) {
	c := newEchoClient(b)
	b.ReportAllocs()
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Get(bg, "/some/path"); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkGetPipelined keeps 1000 asynchronous gets under way.
func BenchmarkGetPipelined(b *testing.B) {
	c := newEchoClient(b)
	b.ReportAllocs()
	a := c.Async()
	var ring [1000]*Future[Node]
	i := 0
	for b.Loop() {
		if f := ring[i%len(ring)]; f != nil {
			if _, err := f.Wait(bg); err != nil {
				b.Fatal(err)
			}
		}
		ring[i%len(ring)] = a.Get("/some/path")
		i++
	}
}
