package client

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestExpiryToldByServer(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		conn.Close()
		waitState(t, c, StateSuspended)
		call := goErr(func() error { _, err := c.Get(bg, "/x"); return err })
		synctest.Wait()
		n.accept().expire()
		err := within(t, "get", call)
		if !errors.Is(err, ErrSessionExpired) || IsAmbiguous(err) {
			t.Errorf("waiting call: %v", err)
		}
		waitState(t, c, StateExpired)
		if _, err := c.Get(bg, "/x"); !errors.Is(err, ErrSessionExpired) {
			t.Errorf("call after: %v", err)
		}
		if err := c.WaitConnected(bg); !errors.Is(err, ErrSessionExpired) {
			t.Errorf("WaitConnected: %v", err)
		}
		if err := c.Close(bg); err != nil || c.State() != StateClosed {
			t.Errorf("Close: %v, %v", err, c.State())
		}
		if _, err := c.Get(bg, "/x"); !errors.Is(err, ErrClosed) {
			t.Errorf("call after Close: %v", err)
		}
	})
}

// Cut off from all servers, the session counts as expired when its timeout has
// passed since the last request was sent that has been answered: from then on a
// server may have expired it.
func TestExpiryWhileCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		conn := n.connect()
		waitState(t, c, StateConnected)
		time.Sleep(time.Second)
		sent := time.Now()
		got := goErr(func() error { _, err := c.Exists(bg, "/"); return err })
		r := conn.expect(jute.OpExists)
		time.Sleep(time.Second) // the answer takes its time
		conn.reply(r, 1, &Stat{})
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		n.setDown(errRefused, "a:2181")
		conn.Close()
		waitState(t, c, StateExpired)
		if got := time.Since(sent); got != 9*time.Second {
			t.Errorf("expired %v after the last answered request was sent, want 9 s", got)
		}
		err := c.WaitConnected(bg)
		if !errors.Is(err, ErrSessionExpired) || !strings.Contains(err.Error(), "a:2181") {
			t.Errorf("WaitConnected: %v", err)
		}
	})
}

// A session that was idle for longer than its timeout, but for pings, is as alive
// as any other when its connection breaks.
func TestExpiryCountsPings(t *testing.T) {
	for _, after := range []int{0, 1, 2} { // operations after the idle time
		bubble(t, func(t *testing.T, n *fakeNet) {
			c := n.newClient("a", Options{Timeout: 9 * time.Second})
			conn := n.connect()
			exists := func() {
				got := goErr(func() error { _, err := c.Exists(bg, "/"); return err })
				conn.reply(conn.expect(jute.OpExists), 1, &Stat{})
				if err := <-got; err != nil {
					t.Fatal(err)
				}
			}
			exists()
			idle := make(chan struct{})
			go func() {
				defer close(idle)
				for range 20 {
					conn.mute = true
					conn.expect(jute.OpPing)
					conn.pong()
				}
			}()
			<-idle
			conn.mute = false
			for range after {
				exists()
			}
			synctest.Wait()
			conn.Close()
			waitState(t, c, StateSuspended)
			n.connect()
			waitState(t, c, StateConnected)
		})
	}
}

// A pong vouches for the time of its own ping, not of one sent since.
func TestPongBelongsToItsPing(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		conn := n.connect()
		conn.mute = true
		conn.expect(jute.OpPing)
		first := time.Now()
		time.Sleep(2 * time.Second)
		h := jute.ReplyHeader{Xid: jute.XidPing} // to the first
		b, mark := jute.BeginFrame(nil)
		pong := jute.EndFrame(h.Append(b), mark)
		conn.raw(pong[:8]) // keeps the connection
		conn.expect(jute.OpPing)
		conn.raw(pong[8:])
		synctest.Wait()
		n.setDown(errRefused, "a:2181")
		conn.Close()
		waitState(t, c, StateExpired)
		if got := time.Since(first); got != 9*time.Second {
			t.Errorf("expired %v after the ping that was answered", got)
		}
	})
}

func TestPongThatWasNotAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		conn.pong()
		synctest.Wait()
		conn.Close()
		n.connect()
		waitState(t, c, StateConnected)
	})
}

func TestKeepSession(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{KeepSession: true})
		conn := n.connect()
		waitState(t, c, StateConnected)
		n.setDown(errRefused, "a:2181")
		conn.Close()
		time.Sleep(time.Hour)
		if c.State() != StateSuspended {
			t.Fatalf("after an hour: %v", c.State())
		}
		n.setDown(nil, "a:2181")
		if r := n.accept().greet(); r.SessionID != fakeSession {
			t.Errorf("session %v", r.SessionID)
		}
		waitState(t, c, StateConnected)
	})
}

func TestRenewSession(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		var states, events []State
		o := Options{RenewSession: true, Watcher: func(e Event) {
			if e.Type == EventSession {
				events = append(events, e.State)
			}
		}}
		c := n.newClient("a", o)
		ctx, stop := context.WithCancel(bg)
		defer stop()
		changes := c.Session().States(ctx)
		conn := n.connect()
		got := goDo(func() (*Watch, error) { node, err := c.GetW(bg, "/x"); return node.Watch, err })
		conn.answerGet(conn.expect(jute.OpGetData), 77, "")
		w := within(t, "GetW", got).val
		conn.Close()
		n.accept().expire()
		if _, err := w.Next(bg); !errors.Is(err, ErrSessionExpired) || !errors.Is(w.Err(), ErrSessionExpired) {
			t.Errorf("watch of the old session: %v", err)
		}
		conn = n.accept()
		if r := conn.greeting(); r.SessionID != 0 {
			t.Errorf("the new session is asked for with id %v", r.SessionID)
		}
		conn.welcome(jute.ConnectResponse{TimeoutMs: 5000, SessionID: 99, Password: fakePassword})
		waitState(t, c, StateConnected)
		get := goErr(func() error { _, err := c.Get(bg, "/x"); return err })
		conn.answerGet(conn.expect(jute.OpGetData), 78, "")
		if err := within(t, "get", get); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []State{StateConnected, StateSuspended, StateExpired, StateConnecting, StateConnected}
		for range want {
			states = append(states, within(t, "States", changes).To)
		}
		if !reflect.DeepEqual(states, want) || !reflect.DeepEqual(events, want) {
			t.Errorf("States %v, Watcher %v, want %v", states, events, want)
		}
		if id := c.Session().ID(); id != 99 || c.Status().Timeout != 5*time.Second {
			t.Errorf("session %v, timeout %v", id, c.Status().Timeout)
		}
	})
}

// A session counts from when it was asked for, if nothing was answered since.
func TestExpiryCountsFromConnect(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		conn := n.accept()
		r := conn.greeting()
		asked := time.Now()
		time.Sleep(time.Second)
		conn.welcome(jute.ConnectResponse{TimeoutMs: r.TimeoutMs, SessionID: fakeSession, Password: fakePassword})
		waitState(t, c, StateConnected)
		time.Sleep(time.Second)
		n.setDown(errRefused, "a:2181")
		conn.Close()
		waitState(t, c, StateExpired)
		if got := time.Since(asked); got != 9*time.Second {
			t.Errorf("expired %v after the session was asked for", got)
		}
	})
}
