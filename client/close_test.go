package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		w := armed(t, conn, addW(c, "/x", WatchPersistent), 0)
		get := c.Async().Get("/x")
		set := c.Async().Set("/x", nil, -1)
		closed := goErr(func() error { return c.Close(bg) })
		conn.answerGet(conn.expect(jute.OpGetData), 1, "still")
		conn.expect(jute.OpSetData)
		conn.expect(jute.OpCloseSession)
		if v, err := get.Wait(bg); err != nil || string(v.Data) != "still" {
			t.Errorf("a call before Close: %q, %v", v.Data, err)
		}
		if _, err := c.Get(bg, "/x"); !errors.Is(err, ErrClosed) || IsAmbiguous(err) {
			t.Errorf("a call after Close: %v", err)
		}
		quiet(t, "Close", closed)
		conn.Close() // without an answer
		if err := within(t, "Close", closed); !errors.Is(err, ErrConnectionLoss) || !IsAmbiguous(err) {
			t.Errorf("Close without an answer: %v", err)
		}
		if err := wait(set); !errors.Is(err, ErrClosed) || !IsAmbiguous(err) {
			t.Errorf("a change under way: %v", err)
		}
		if _, err := w.Next(bg); !errors.Is(err, ErrClosed) || c.State() != StateClosed {
			t.Errorf("watch: %v; state %v", err, c.State())
		}
	})
}

func TestCloseThatIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		first := goErr(func() error { return c.Close(bg) })
		synctest.Wait()
		second := goErr(func() error { return c.Close(bg) })
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		began := time.Now()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a Close whose context ends before the other is done: %v after %v", err, time.Since(began))
		}
		conn.reply(conn.expect(jute.OpCloseSession), 1, nil)
		if err := within(t, "Close", first); err != nil {
			t.Error(err)
		}
		if err := within(t, "second Close", second); err != nil {
			t.Error(err)
		}
		if err := c.Close(bg); err != nil {
			t.Error(err)
		}
		conn.expectEnd()
		if len(n.dials()) != 1 {
			t.Errorf("%d connections", len(n.dials()))
		}
	})
}

// Close in each state comes to an end, as fast as its context says.
func TestCloseInEachState(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reach func(t *testing.T, n *fakeNet, c *Client)
		want  error // of Close
	}{
		{"connecting, refused", func(t *testing.T, n *fakeNet, c *Client) {}, nil},
		{"connecting, dialing", func(t *testing.T, n *fakeNet, c *Client) { n.setDown(errHang, "a:2181"); time.Sleep(time.Second) }, nil},
		{"connecting, handshake", func(t *testing.T, n *fakeNet, c *Client) { n.setDown(nil, "a:2181"); n.accept().greeting() }, nil},
		{"suspended", func(t *testing.T, n *fakeNet, c *Client) {
			n.setDown(nil, "a:2181")
			conn := n.connect()
			waitState(t, c, StateConnected)
			n.setDown(errRefused, "a:2181")
			conn.Close()
			waitState(t, c, StateSuspended)
		}, ErrConnectionLoss},
		{"expired", func(t *testing.T, n *fakeNet, c *Client) {
			n.setDown(nil, "a:2181")
			n.connect().Close()
			n.accept().expire()
			waitState(t, c, StateExpired)
		}, nil},
		{"auth failed", func(t *testing.T, n *fakeNet, c *Client) {
			n.setDown(nil, "a:2181")
			conn := n.connect()
			c.Async().AddAuth("digest", nil)
			conn.refuse(conn.expect(jute.OpAuth), 0, ErrAuthFailed)
			waitState(t, c, StateAuthFailed)
		}, nil},
		{"dead server", func(t *testing.T, n *fakeNet, c *Client) {
			n.setDown(nil, "a:2181")
			n.connect()
			waitState(t, c, StateConnected)
		}, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				n.setDown(errRefused, "a:2181")
				var states []State
				c := n.newClient("a", Options{Watcher: func(e Event) { states = append(states, e.State) }})
				tt.reach(t, n, c)
				ctx, cancel := context.WithTimeout(bg, time.Second)
				defer cancel()
				began := time.Now()
				err := c.Close(ctx)
				if !errors.Is(err, tt.want) || tt.want == nil && err != nil || time.Since(began) > time.Second {
					t.Errorf("Close: %v after %v, want %v", err, time.Since(began), tt.want)
				}
				if err := c.Close(bg); err != nil {
					t.Errorf("Close again: %v", err)
				}
				synctest.Wait()
				if c.State() != StateClosed || states[len(states)-1] != StateClosed {
					t.Errorf("state %v, heard %v", c.State(), states)
				}
			})
		})
	}
}

// A server that does not answer holds Close up for no longer than the session lives.
func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		n.connect()
		waitState(t, c, StateConnected)
		began := time.Now()
		if err := c.Close(bg); !IsAmbiguous(err) || time.Since(began) > 9*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestCloseFromCallback(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		closed := make(chan error, 1)
		c.Async().Get("/x", func(Node, error) { closed <- c.Close(bg) })
		conn.answerGet(conn.expect(jute.OpGetData), 1, "")
		conn.reply(conn.expect(jute.OpCloseSession), 2, nil)
		if err := within(t, "Close", closed); err != nil {
			t.Error(err)
		}
	})
}

// StateClosed is the last callback: after it a program may release what callbacks use.
func TestClosedComesLast(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		var heard []string
		c := n.newClient("a", Options{Watcher: func(e Event) { heard = append(heard, "Watcher "+e.State.String()) }})
		n.setDown(errRefused, "a:2181")
		for _, path := range []string{"/a", "/b"} { // these wait for a connection
			c.Async().Get(path, func(_ Node, err error) { heard = append(heard, fmt.Sprintf("%s %t", path, errors.Is(err, ErrClosed))) })
		}
		if err := c.Close(bg); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []string{"/a true", "/b true", "Watcher closed"}
		if !slices.Equal(heard, want) {
			t.Errorf("heard %q\nwant  %q", heard, want)
		}
	})
}

// Connect leaves nothing behind when it fails.
func TestConnectThatFailsLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errHang, "a:2181")
		ctx, cancel := context.WithTimeoutCause(bg, time.Second, errors.New("bored"))
		defer cancel()
		if c, err := Connect(ctx, "a", n.options(Options{})); c != nil || err == nil || !strings.Contains(err.Error(), "bored") {
			t.Errorf("Connect: %v, %v", c, err)
		}
	})
}

// All ways to follow the state tell the same, in order.
func TestStatesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		var watched []State
		o := Options{RenewSession: true, Watcher: func(e Event) { watched = append(watched, e.State) }}
		c := n.newClient("a", o)
		ch := c.Session().States(bg)
		var want []State
		for range 5 { // more than the channel holds
			conn := n.connect()
			waitState(t, c, StateConnected)
			conn.Close()
			n.accept().expire()
			synctest.Wait()
			want = append(want, StateConnected, StateSuspended, StateExpired, StateConnecting)
		}
		c.Close(bg)
		want = append(want, StateClosed)
		var got []State
		for s := range ch {
			if len(got) > 0 && s.From != got[len(got)-1] {
				t.Errorf("%v follows %v", s, got)
			}
			got = append(got, s.To)
		}
		synctest.Wait()
		if !slices.Equal(got, want) || !slices.Equal(watched, want) {
			t.Errorf("States %v\nWatcher %v\nwant %v", got, watched, want)
		}
		if _, ok := <-c.Session().States(bg); ok {
			t.Error("a change after the end")
		}
	})
}

// Changes that nobody reads keep no goroutine after the end of the client and of their context. (The
// bubble waits for all goroutines.)
func TestStatesUnreadAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{KeepSession: true})
		ctx, cancel := context.WithCancel(bg)
		c.Session().States(ctx)
		for range 20 { // more than the channel holds
			conn := n.connect()
			waitState(t, c, StateConnected)
			conn.Close()
			waitState(t, c, StateSuspended)
		}
		c.Close(bg)
		cancel()
	})
}

// States ends with its context, and a reader that stopped reading delays nothing.
func TestStatesEndWithContext(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{KeepSession: true})
		ctx, cancel := context.WithCancel(bg)
		ch := c.Session().States(ctx)
		for range 20 {
			conn := n.connect()
			waitState(t, c, StateConnected)
			conn.Close()
			waitState(t, c, StateSuspended)
		}
		cancel()
		synctest.Wait()
		for range ch {
		}
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if len(c.s.listeners) != 0 {
			t.Errorf("%d listeners", len(c.s.listeners))
		}
	})
}

func TestWaitConnected(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181")
		c := n.newClient("a", Options{})
		waiting := goErr(func() error { return c.WaitConnected(bg) })
		time.Sleep(time.Second)
		if err := c.Status().Err; !errors.Is(err, errRefused) {
			t.Errorf("Status.Err %v", err)
		}
		quiet(t, "WaitConnected", waiting)
		n.setDown(nil, "a:2181")
		conn := n.connect()
		if err := within(t, "WaitConnected", waiting); err != nil {
			t.Error(err)
		}
		conn.Close()
		waitState(t, c, StateSuspended)
		waiting = goErr(func() error { return c.WaitConnected(bg) })
		synctest.Wait()
		c.Close(bg)
		if err := within(t, "WaitConnected", waiting); !errors.Is(err, ErrClosed) {
			t.Errorf("when the client is closed: %v", err)
		}
	})
}

// A TLS handshake that is never answered is given up like any other attempt.
func TestTLSHandshakeThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Secure: func(ctx context.Context, _ net.Conn, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		if err := c.WaitConnected(ctx); err == nil || !strings.Contains(err.Error(), "no answer within") {
			t.Errorf("WaitConnected: %v", err)
		}
	})
}

// Identities go to each connection, in order, and each AddAuth is answered once,
// also if it has to go to several connections.
func TestAddAuth(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Auth: []Auth{{"digest", []byte("a:a")}}})
		auths := func(conn *fakeConn, count int) (got []string, rs []request) {
			t.Helper()
			for range count {
				r := conn.expect(jute.OpAuth)
				d := jute.NewDecoder(r.body)
				var q jute.AuthRequest
				q.Decode(&d)
				got, rs = append(got, q.Scheme+" "+string(q.Auth)), append(rs, r)
			}
			return got, rs
		}
		conn := n.connect()
		auths(conn, 1)
		b := c.Async().AddAuth("digest", []byte("b:b"))
		again := c.Async().AddAuth("digest", []byte("a:a")) // under way already
		if got, _ := auths(conn, 1); !reflect.DeepEqual(got, []string{"digest b:b"}) {
			t.Errorf("sent %q", got)
		}
		conn.Close()
		waitState(t, c, StateSuspended)
		late := c.Async().AddAuth("ip", nil)
		conn = n.connect()
		got, rs := auths(conn, 3)
		if want := []string{"digest a:a", "digest b:b", "ip "}; !reflect.DeepEqual(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		conn.reply(rs[0], 0, nil)
		if err := wait(again); err != nil {
			t.Error(err)
		}
		if _, ok, _ := b.Result(); ok {
			t.Error("an AddAuth is done before its answer")
		}
		get := c.Async().Get("/x")
		conn.answerGet(conn.expect(jute.OpGetData), 1, "") // answers to identities may be overtaken
		if err := wait(get); err != nil {
			t.Error(err)
		}
		conn.reply(rs[1], 0, nil)
		if err := wait(b); err != nil {
			t.Error(err)
		}
		conn.refuse(rs[2], 0, ErrAuthFailed)
		if err := wait(late); !errors.Is(err, ErrAuthFailed) {
			t.Errorf("refused: %v", err)
		}
		waitState(t, c, StateAuthFailed)
		if err := c.Session().AddAuth(bg, "digest", nil); !errors.Is(err, ErrAuthFailed) {
			t.Errorf("after: %v", err)
		}
	})
}

// A renewed identity takes the place of those of its scheme when it is accepted.
func TestRenewAuth(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Auth: []Auth{{"jwt", []byte("1")}, {"digest", []byte("a:a")}}})
		auths := func(conn *fakeConn, want ...string) (rs []request) {
			t.Helper()
			for _, w := range want {
				r := conn.expect(jute.OpAuth)
				d := jute.NewDecoder(r.body)
				var q jute.AuthRequest
				q.Decode(&d)
				if got := q.Scheme + " " + string(q.Auth); got != w {
					t.Errorf("sent %q, want %q", got, w)
				}
				rs = append(rs, r)
			}
			return rs
		}
		conn := n.connect()
		for _, r := range auths(conn, "jwt 1", "digest a:a") {
			conn.reply(r, 0, nil)
		}
		renewed := goDo(func() (any, error) { return nil, c.Session().RenewAuth(bg, "jwt", []byte("2")) })
		auths(conn, "jwt 2")
		conn.Close() // before the answer
		conn = n.connect()
		rs := auths(conn, "jwt 1", "digest a:a", "jwt 2")
		for _, r := range rs {
			conn.reply(r, 0, nil)
		}
		if v := within(t, "RenewAuth", renewed); v.err != nil {
			t.Error(v.err)
		}
		if err := c.Session().RenewAuth(bg, "jwt", []byte("2")); err != nil { // known already
			t.Error(err)
		}
		conn.Close()
		conn = n.connect()
		auths(conn, "digest a:a", "jwt 2")
	})
}

// Connect does not succeed with credentials that are refused, and adds nothing to
// the traffic to find that out.
func TestConnectWaitsForAuth(t *testing.T) {
	for _, code := range []jute.Code{0, ErrAuthFailed} {
		bubble(t, func(t *testing.T, n *fakeNet) {
			o := n.options(Options{Auth: []Auth{{"digest", []byte("a:a")}, {"digest", []byte("b:b")}}})
			got := goDo(func() (*Client, error) { return Connect(bg, "a", o) })
			conn := n.connect()
			first, second := conn.expect(jute.OpAuth), conn.expect(jute.OpAuth)
			conn.reply(first, 0, nil)
			synctest.Wait()
			quiet(t, "Connect", got)
			conn.refuse(second, 0, code)
			v := within(t, "Connect", got)
			if ce, ok := errors.AsType[*ConnectError](v.err); code != 0 && (!ok || !errors.Is(ce, ErrAuthFailed)) || code == 0 && v.err != nil {
				t.Errorf("auth answered with %d: %v", code, v.err)
			}
			if v.err == nil {
				if ops := conn.pending(); len(ops) != 0 {
					t.Errorf("sent %v", ops)
				}
				v.val.s.abort()
			}
		})
	}
}

// Refused credentials are a server's doing: the errors say which one's, whether the
// refusal comes before or after Connect asks for it.
func TestRefusedCredentialsNameTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181")
		got := goDo(func() (*Client, error) {
			return Connect(bg, "a,b", n.options(Options{Auth: []Auth{{"digest", []byte("a:a")}, {"x", nil}}}))
		})
		conn := n.connect()
		conn.reply(conn.expect(jute.OpAuth), 0, nil)
		conn.refuse(conn.expect(jute.OpAuth), 0, ErrAuthFailed)
		err := within(t, "Connect", got).err
		const want = "not connected: authentication failed; b:2181: authentication failed: scheme x"
		if ce, ok := errors.AsType[*ConnectError](err); !ok || len(ce.Servers) != 1 || !errors.Is(err, ErrAuthFailed) || err.Error() != want {
			t.Errorf("Connect: %v, want %s", err, want)
		}
		c := n.newClient("b", Options{})
		conn = n.connect()
		added := goErr(func() error { return c.Session().AddAuth(bg, "x", nil) })
		conn.refuse(conn.expect(jute.OpAuth), 0, ErrAuthFailed)
		if err := within(t, "AddAuth", added); err.Error() != "auth: authentication failed: b:2181: scheme x" {
			t.Errorf("AddAuth: %v", err)
		}
		waitState(t, c, StateAuthFailed)
		if err := c.WaitConnected(bg); err.Error() != "not connected: authentication failed; b:2181: authentication failed: scheme x" {
			t.Errorf("WaitConnected: %v", err)
		}
	})
}

func TestAddAuthWaitsForConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		if err := c.Session().AddAuth(bg, "", nil); !errors.Is(err, ErrBadArguments) {
			t.Errorf("without a scheme: %v", err)
		}
		f := c.Async().AddAuth("digest", []byte("a:a"))
		c.s.abort()
		if err := wait(f); !errors.Is(err, ErrClosed) {
			t.Errorf("at the end of the session: %v", err)
		}
	})
}

// An answer to an authentication that nobody asked for ends the connection.
func TestAuthAnswerThatWasNotAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		h := jute.ReplyHeader{Xid: jute.XidAuth}
		conn.send(h.Append(nil))
		n.connect()
		waitState(t, c, StateConnected)
	})
}

// What no server should send ends the connection, and never the program.
func TestGarbageOnTheConnection(t *testing.T) {
	for name, frame := range map[string][]byte{
		"empty frame": {0, 0, 0, 0}, "half a header": {0, 0, 0, 5, 0, 0, 0, 1, 0}, "negative length": {0x80, 0, 0, 0}, "text": []byte("HTTP/1.1 200 OK"),
		"notification without body": {0, 0, 0, 16, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"reply to nothing":          {0, 0, 0, 16, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"unknown negative xid":      {0, 0, 0, 16, 255, 255, 255, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				c := n.newClient("a", Options{})
				conn := n.connect()
				waitState(t, c, StateConnected)
				go conn.Write(frame) // of which the client may read a part
				waitState(t, c, StateSuspended)
				conn.Close()
				n.connect()
				waitState(t, c, StateConnected)
			})
		})
	}
}
