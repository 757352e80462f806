package mux

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
