package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// world is a link without a client: the tests call it as the client does.
type world struct {
	link
	events queue
}

func newWorld(servers int) *world {
	w := &world{}
	w.events.init()
	c := &Conn{}
	w.link.init(c, servers, 10*time.Second)
	w.link.queue = &w.events
	return w
}

// succeed makes a connection and a session.
func (w *world) succeed() net.Conn {
	w.connecting("server:1")
	ours, theirs := net.Pipe()
	theirs.Close()
	nc := w.connected(ours)
	w.attempted(nil)
	return nc
}

// refuse fails an attempt to connect.
func (w *world) refuse() {
	w.connecting("server:1")
	w.attempted(errors.New("refused"))
}

// hangUp fails an attempt after the connection was made.
func (w *world) hangUp(err error) {
	w.connecting("server:1")
	ours, theirs := net.Pipe()
	theirs.Close()
	w.connected(ours).Close()
	w.attempted(err)
}

func (w *world) states() (s string) {
	w.events.close()
	for {
		ev, ok := w.events.next()
		if !ok {
			return s
		}
		s += fmt.Sprintln(ev.State, ev.Server)
	}
}

// waits says how a call stands.
func waits(k *call) string {
	synctest.Wait()
	if err := k.ctx.Err(); err == nil {
		return "waits"
	}
	return context.Cause(k.ctx).Error()
}

// TestPatience has calls that wait for a connection.
func TestPatience(t *testing.T) {
	expect := func(t *testing.T, k *call, want string) {
		t.Helper()
		if got := waits(k); got != want {
			t.Errorf("after %v: %s, want %s", time.Now().Format("05.000"), got, want)
		}
	}
	const noServer, closed = "zk: could not connect to a server", "zk: connection closed"
	for name, f := range map[string]func(t *testing.T, w *world){
		"no server in the first second": func(t *testing.T, w *world) {
			k := w.begin()
			w.refuse()
			w.refuse()
			expect(t, k, "waits") // it may restart
			time.Sleep(patience)
			expect(t, k, noServer)
			if !w.end(k) {
				t.Error("it was sent")
			}
		},
		"no server afterwards": func(t *testing.T, w *world) {
			k := w.begin()
			time.Sleep(2 * patience)
			w.refuse()
			expect(t, k, "waits") // there is another server
			w.refuse()
			expect(t, k, noServer)
			w.end(k)
		},
		"servers without a quorum": func(t *testing.T, w *world) {
			k := w.begin()
			for range 5 {
				w.hangUp(io.EOF)
				w.refuse()
			}
			time.Sleep(9 * time.Second)
			expect(t, k, "waits")
			time.Sleep(time.Second)
			expect(t, k, noServer)
			w.end(k)
		},
		"sent in time": func(t *testing.T, w *world) {
			k := w.begin()
			w.refuse()
			w.succeed()
			time.Sleep(time.Hour)
			expect(t, k, "waits")
			if w.end(k) {
				t.Error("it was not sent")
			}
		},
		"sent, and the connection lost": func(t *testing.T, w *world) {
			nc := w.succeed()
			k := w.begin()
			time.Sleep(time.Hour)
			nc.Close()
			w.refuse()
			w.refuse()
			time.Sleep(9 * time.Second)
			expect(t, k, "waits")
			w.succeed().Close() // its outcome did not come
			time.Sleep(9 * time.Second)
			expect(t, k, "waits")
			late := w.begin()
			time.Sleep(time.Second)
			expect(t, k, closed)
			expect(t, late, "waits")
			w.end(k)
			w.end(late)
		},
		"the session expires": func(t *testing.T, w *world) {
			w.succeed().Close()
			k := w.begin()
			w.hangUp(fmt.Errorf("%w: forgotten", client.ErrSessionExpired))
			w.hangUp(fmt.Errorf("%w: forgotten", client.ErrSessionExpired))
			expect(t, k, "waits")
			if !w.end(k) { // run issues it again
				t.Error("it was sent")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(2)
				f(t, w)
				w.close()
				if len(w.calls) != 0 {
					t.Errorf("%d calls are left", len(w.calls))
				}
			})
		})
	}
}

// TestUnsent has a call that waits for a session, and fails before there is one or afterwards.
func TestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range []jute.Code{client.ErrConnectionLoss, client.ErrSessionExpired} {
			c := &Conn{}
			c.queue.init()
			c.link.init(c, 1, 10*time.Second)
			fails := func() error { return &client.Error{Op: jute.OpDelete, Path: "/a", Err: reason} }
			tries := 0
			_, err := run(c, func(context.Context) (client.None, error) {
				if tries++; tries < 3 {
					return client.None{}, fails()
				}
				return client.None{}, nil
			})
			if err != nil || tries != 3 {
				t.Errorf("%v, never sent: %v after %d tries", reason, err, tries)
			}
			_, err = run(c, func(context.Context) (client.None, error) {
				c.link.connecting("server:1")
				c.link.attempted(nil)
				return client.None{}, fails()
			})
			if err != errorOf(reason) {
				t.Errorf("%v, sent: %v", reason, err)
			}
			c.link.close()
		}
	})
}

// TestStates has the states that are reported of connections that fail in each way.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.refuse()
		w.hangUp(io.EOF)
		w.connecting("first") // two addresses of one server
		ours, theirs := net.Pipe()
		theirs.Close()
		w.connected(ours)
		nc := w.succeed()
		nc.Close()
		nc.Close()
		w.hangUp(client.ErrSessionExpired)
		w.connecting("fast")
		ours, theirs = net.Pipe()
		theirs.Close()
		w.connected(ours).Close() // ended before the client knows that it has a session
		w.attempted(nil)
		w.close()
		want := `StateConnecting server:1
StateConnecting server:1
StateConnected server:1
StateDisconnected server:1
StateConnecting first
StateConnected first
StateDisconnected first
StateConnecting server:1
StateConnected server:1
StateHasSession server:1
StateDisconnected server:1
StateConnecting server:1
StateConnected server:1
StateExpired server:1
StateDisconnected server:1
StateConnecting fast
StateConnected fast
StateHasSession fast
StateDisconnected fast
`
		if got := w.states(); got != want {
			t.Errorf("states:\n%swant:\n%s", got, want)
		}
	})
}
