package mux

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

// carriers returns what opens connections to a server that carries streams, and counts them.
func carriers(t *testing.T) (open func(context.Context) (net.Conn, error), opened *atomic.Int32) {
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	opened = new(atomic.Int32)
	return func(context.Context) (net.Conn, error) {
		opened.Add(1)
		one, other := net.Pipe()
		work.Go(func() {
			c, err := Accept(other, other, time.Hour, echo)
			if err != nil {
				t.Error(err)
				return
			}
			c.Serve()
		})
		return one, nil
	}, opened
}

// Streams share few connections, of which a second one is opened when the first has many.
func TestPoolSharesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, opened := carriers(t)
		p := NewPool(2, slog.New(slog.DiscardHandler))
		var all []net.Conn
		for i := range 3 * spread {
			s, err := p.Dial(t.Context(), "a:1", "", open)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
			if want := int32(1 + min(i/spread, 1)); opened.Load() != want || p.Len() != int(want) {
				t.Fatalf("%d connections for %d streams", opened.Load(), i+1)
			}
		}
		for _, s := range all {
			io.WriteString(s, "x")
			if b := make([]byte, 1); must(s.Read(b)) != 1 {
				t.Error("no answer")
			}
			s.Close()
		}
		time.Sleep(2 * unusedFor)
		if p.Len() != 0 {
			t.Errorf("%d connections without streams", p.Len())
		}
		if _, err := p.Dial(t.Context(), "a:1", "", open); err != nil || opened.Load() != 3 {
			t.Errorf("after the end of all connections: %v", err)
		}
		p.Close()
		if _, err := p.Dial(t.Context(), "a:1", "", open); err == nil {
			t.Error("a closed pool opens a connection")
		}
	})
}

// A server that carries no streams gets a connection for each, is asked again after a minute, and none of its connections waits for another one.
func TestPoolOfAPlainServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2, slog.New(slog.DiscardHandler))
		defer p.Close()
		greeted, slow := 0, make(chan bool)
		plain := func(context.Context) (net.Conn, error) {
			one, other := net.Pipe()
			go func() {
				if n, _ := io.ReadFull(other, make([]byte, 8)); n == 8 {
					greeted++
				}
				other.Close()
			}()
			return one, nil
		}
		waits := func(context.Context) (net.Conn, error) {
			<-slow
			return nil, io.EOF
		}
		dial := func(open func(context.Context) (net.Conn, error)) {
			if nc, err := p.Dial(t.Context(), "a:1", "", open); err == nil {
				nc.Close()
			}
		}
		dial(plain)
		var waiting sync.WaitGroup
		waiting.Go(func() { dial(waits) })
		synctest.Wait()
		dial(plain) // at once, though the one before waits
		if greeted != 1 || p.Len() != 0 {
			t.Errorf("greeted %d times, %d connections", greeted, p.Len())
		}
		close(slow)
		waiting.Wait()
		time.Sleep(plainFor + 1)
		dial(plain)
		if greeted != 2 {
			t.Errorf("greeted %d times", greeted)
		}
	})
}

// A server that takes no further connection carries more streams on those that it has, and is asked again after a minute.
func TestPoolOfAFullServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, opened := carriers(t)
		p := NewPool(2, slog.New(slog.DiscardHandler))
		defer p.Close()
		refused := 0
		full := func(ctx context.Context) (net.Conn, error) {
			if opened.Load() > 0 {
				refused++
				one, other := net.Pipe()
				other.Close()
				return one, nil
			}
			return open(ctx)
		}
		dial := func(n int, open func(context.Context) (net.Conn, error)) {
			for range n {
				s, err := p.Dial(t.Context(), "a:1", "", open)
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(s, "x")
				if b := make([]byte, 1); must(s.Read(b)) != 1 {
					t.Error("no answer")
				}
			}
		}
		dial(2*spread, full)
		if refused != 1 || opened.Load() != 1 || p.Len() != 1 {
			t.Errorf("%d connections are refused, and %d opened, of which %d are left", refused, opened.Load(), p.Len())
		}
		time.Sleep(fewerFor + 1)
		dial(1, open)
		if opened.Load() != 2 {
			t.Errorf("%d connections after a minute", opened.Load())
		}
	})
}

// silent is a connection on which nothing comes or goes any more, though it does not fail.
type silent struct {
	net.Conn
	is *atomic.Bool
}

func (s silent) Read(b []byte) (int, error) {
	for {
		if n, err := s.Conn.Read(b); err != nil || !s.is.Load() {
			return n, err
		}
	}
}

func (s silent) Write(b []byte) (int, error) {
	if s.is.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

// wrongSilence returns what is wrong with a pool one of whose connections falls silent.
func wrongSilence(t *testing.T) (wrong []error) {
	open, opened := carriers(t)
	p := NewPool(1, slog.New(slog.DiscardHandler))
	defer p.Close()
	var is atomic.Bool
	dial := func(open func(context.Context) (net.Conn, error)) net.Conn {
		s, err := p.Dial(t.Context(), "a:1", "", open)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ask := func(s net.Conn) { io.WriteString(s, "x") }
	want := func(connections int32, what string) {
		s := dial(open)
		ask(s)
		s.SetReadDeadline(time.Now().Add(time.Second))
		if n, _ := s.Read(make([]byte, 1)); n != 1 || opened.Load() != connections {
			wrong = append(wrong, fmt.Errorf("%s: %d bytes, on connection %d", what, n, opened.Load()))
		}
		s.Close()
	}
	first := dial(func(ctx context.Context) (net.Conn, error) {
		nc, err := open(ctx)
		return silent{nc, &is}, err
	})
	ask(first)
	first.Read(make([]byte, 1))
	asks, early, idle := dial(open), dial(open), dial(open)
	ask(early)
	early.Close()
	want(1, "after a stream that has not waited")
	is.Store(true)
	ask(asks)
	time.Sleep(time.Second)
	first.Close()
	if _, err := p.Dial(t.Context(), "a:1", "", open); err != nil || opened.Load() != 1 {
		wrong = append(wrong, fmt.Errorf("after a stream that has asked for nothing: connection %d, %v", opened.Load(), err))
	}
	asks.Close()
	want(2, "after a stream that has got no answer")
	idle.Close()
	return wrong
}

// TestPoolOfASilentConnection: a connection on which nothing comes, though a stream has waited for an answer, gets no more streams.
func TestPoolOfASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range wrongSilence(t) {
			t.Error(err)
		}
	})
}

// TestSlowConnection: a connection may take long for much, if it takes a part now and then.
func TestSlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := net.Pipe()
		c := Connect(one, time.Hour)
		var work sync.WaitGroup
		work.Go(func() { c.Serve() })
		for range streams.MaxOut / streams.Window {
			s, err := c.Open("")
			if err != nil {
				t.Fatal(err)
			}
			s.WriteNow(make([]byte, streams.Window))
		}
		got := 0
		for b := make([]byte, writePiece); got < streams.MaxOut; {
			time.Sleep(writeWithin * 2 / 3)
			n, err := other.Read(b)
			if got += n; err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
		}
		other.Close()
		work.Wait()
	})
}
