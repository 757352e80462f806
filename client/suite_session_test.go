package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// TestSuiteClose ends a session: its ephemeral nodes are gone, and its client
// refuses all else.
func TestSuiteClose(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		other := w.Client(t)
		_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
		ok(t, err)
		makeNode(t, c.Client, "/p", "")
		states := c.Session().States(ctx)
		ok(t, c.Close(ctx))
		if change := ended(t, states, client.StateClosed); change.From != client.StateConnected {
			t.Errorf("closed from %v", change.From)
		}
		if _, open := <-states; open {
			t.Error("a state after the last")
		}
		for path, want := range map[string]bool{"/e": false, "/p": true} {
			if found, err := other.Exists(ctx, path); found.Exists != want || err != nil {
				t.Errorf("exists %s = %v, %v", path, found.Exists, err)
			}
		}
		_, err = c.Get(ctx, "/p")
		failsWith(t, err, client.ErrClosed, "getData /p: ")
		_, err = c.Create(ctx, "/q", nil, client.CreateOptions{})
		failsWith(t, err, client.ErrClosed, "create /q: ")
		ok(t, c.Close(ctx))
	})
}

// TestSuiteBreak shows that a session with its ephemeral nodes outlives its
// connection, and what the client says meanwhile.
func TestSuiteBreak(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
		ok(t, err)
		id := c.Session().ID()
		states := c.Session().States(ctx)
		w.Refuse()
		w.CutSession(id)
		if change := ended(t, states, client.StateSuspended); change.Err == nil || change.Session != id {
			t.Errorf("suspended: %+v", change)
		}
		write := c.a.Create("/late", nil, client.CreateOptions{}) // waits for the connection
		w.Accept()
		ended(t, states, client.StateConnected)
		if _, err := write.Wait(ctx); err != nil {
			t.Errorf("create while suspended: %v", err)
		}
		found, err := c.Exists(ctx, "/e")
		if again := c.Session().ID(); !found.Exists || err != nil || again != id || found.Stat.EphemeralOwner != id {
			t.Errorf("session %v, before %v; exists /e = %v %+v, %v", again, id, found.Exists, found.Stat, err)
		}
	})
}

// TestSuiteExpiry has the servers end a session.
func TestSuiteExpiry(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		other := w.Client(t)
		_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
		ok(t, err)
		found, err := other.ExistsW(ctx, "/e")
		ok(t, err)
		states := c.Session().States(ctx)
		id := c.Session().ID()
		w.ExpireSession(id)
		if ev, err := found.Watch.Next(ctx); err != nil || ev.Type != client.EventDeleted {
			t.Errorf("event %v, %v", ev, err)
		}
		if change := ended(t, states, client.StateExpired); !errors.Is(change.Err, client.ErrSessionExpired) {
			t.Errorf("expired: %+v", change)
		}
		_, err = c.Set(ctx, "/e", nil, client.AnyVersion)
		failsWith(t, err, client.ErrSessionExpired, "setData /e: ")
		failsWith(t, c.WaitConnected(ctx), client.ErrSessionExpired)
		ok(t, c.Close(ctx))
	})
}

// TestSuiteRenewSession continues with a new session after one has expired.
func TestSuiteRenewSession(t *testing.T) {
	w := newWorld(t, 1)
	ctx := deadline(t)
	c := w.Client(t, func(o *client.Options) { o.RenewSession = true })
	_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
	node, err := c.GetW(ctx, "/e")
	ok(t, err)
	states := c.Session().States(ctx)
	old := c.Session().ID()
	w.ExpireSession(old)
	for _, want := range []client.State{client.StateSuspended, client.StateExpired, client.StateConnecting, client.StateConnected} {
		if change := <-states; change.To != want {
			t.Errorf("state %v, want %v", change.To, want)
		}
	}
	if _, err := node.Watch.Next(ctx); !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("the old session's watch ends with %v", err)
	}
	found, err := c.Exists(ctx, "/e")
	if id := c.Session().ID(); id == old || found.Exists || err != nil {
		t.Errorf("session %v, before %v; exists /e = %v, %v", id, old, found.Exists, err)
	}
	_, err = c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
}

// TestSuiteSilence lets a session expire because nothing gets through, which the
// client finds out by its own clock.
func TestSuiteSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ctx := deadline(t)
	other := w.Client(t)
	door := zktest.NewProxy(t, w.Addr())
	c := door.Client(t, func(o *client.Options) { o.Timeout = 10 * time.Second }).Namespace(w.Root)
	_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
	found, err := other.ExistsW(ctx, "/e")
	ok(t, err)
	states := c.Session().States(ctx)
	door.Stall()
	ended(t, states, client.StateSuspended)
	change := ended(t, states, client.StateExpired)
	if !errors.Is(change.Err, client.ErrSessionExpired) {
		t.Errorf("expired: %+v", change)
	}
	if ev, err := found.Watch.Next(ctx); err != nil || ev.Type != client.EventDeleted {
		t.Errorf("event %v, %v", ev, err)
	}
}

// TestSuitePings keeps an idle session alive for longer than its timeout.
func TestSuitePings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ctx := deadline(t)
	c := w.Client(t, func(o *client.Options) { o.Timeout = 9 * time.Second })
	_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
	if err := w.AwaitRequests(ctx, jute.OpPing, 6); err != nil { // one in a third of the timeout, or two
		t.Fatal(err)
	}
	if found, err := c.Exists(ctx, "/e"); !found.Exists || err != nil {
		t.Errorf("exists = %v, %v", found.Exists, err)
	}
}

// TestSuiteOrder issues changes and reads together: they are done and answered in
// the order of their issue, callbacks included.
func TestSuiteOrder(t *testing.T) {
	w := newWorld(t, 1)
	c := w.Client(t)
	ctx := deadline(t)
	makeNode(t, c, "/a", "")
	const rounds = 200
	var order []int // of the callbacks' goroutine
	done := make(chan struct{})
	for i := range rounds {
		c.Async().Set("/a", fmt.Append(nil, i), int32(i), func(client.Stat, error) { order = append(order, 2*i) })
		c.Async().Get("/a", func(n client.Node, err error) {
			order = append(order, 2*i+1)
			if err != nil || string(n.Data) != fmt.Sprint(i) {
				t.Errorf("get %d = %q, %v", i, n.Data, err)
			}
			if i == rounds-1 {
				close(done)
			}
		})
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("not all callbacks came")
	}
	if len(order) != 2*rounds || !slices.IsSorted(order) {
		t.Errorf("the callbacks came as %v", order)
	}
}

// TestSuiteNobodyThere says which servers failed, and why.
func TestSuiteNobodyThere(t *testing.T) {
	w := newWorld(t, 1)
	w.Refuse()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var dials atomic.Int64
	_, err := client.Connect(ctx, w.ConnectString(), client.Options{Logger: client.NoLog,
		Dial: func(dialing context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 2 { // the first one has failed
				cancel()
			}
			return new(net.Dialer).DialContext(dialing, network, address)
		}})
	var all *client.ConnectError
	if !errors.As(err, &all) || !errors.Is(err, context.Canceled) || len(all.Servers) != 1 || !strings.Contains(err.Error(), w.Addr()) {
		t.Errorf("connect = %v", err)
	}
	w.Accept()
}
