package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestConnectRequest(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 4 * time.Second, AllowReadOnly: true})
		conn := n.accept()
		r := conn.greeting()
		want := jute.ConnectRequest{TimeoutMs: 4000, Password: make([]byte, 16), ReadOnly: true, HasReadOnly: true}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("connect request %+v, want %+v", r, want)
		}
		if id := c.Session().ID(); id != 0 || c.Status().Timeout != 4*time.Second || c.Status().Server != "" {
			t.Errorf("before: session %v, timeout %v, server %q", id, c.Status().Timeout, c.Status().Server)
		}
		conn.welcome(jute.ConnectResponse{TimeoutMs: 6000, SessionID: fakeSession, Password: fakePassword})
		if err := c.WaitConnected(bg); err != nil {
			t.Fatal(err)
		}
		key := c.Session().Key()
		if key.ID != fakeSession || string(key.Password) != string(fakePassword) || c.Status().Timeout != 6*time.Second || c.Status().Server != "a:2181" {
			t.Errorf("after: session %v %q, timeout %v, server %q", key.ID, key.Password, c.Status().Timeout, c.Status().Server)
		}
		if err := c.Status().Err; err != nil {
			t.Errorf("Status.Err %v while connected", err)
		}
	})
}

func TestServersInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181", "b:2181")
		c := n.newClient("a,b,c", Options{})
		conn := n.accept()
		conn.greet()
		if err := c.WaitConnected(bg); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		n.accept().greet()
		var got []string
		for _, d := range n.dials() {
			got = append(got, d.address)
		}
		// After c the list starts again: c is not tried twice in a row.
		if want := []string{"a:2181", "b:2181", "c:2181", "a:2181", "b:2181", "c:2181"}; !reflect.DeepEqual(got, want) {
			t.Errorf("tried %v, want %v", got, want)
		}
	})
}

func TestShuffleSpreadsClients(t *testing.T) {
	first := map[string]int{}
	for seed := range uint64(300) {
		h := newHosts([]string{"a", "b", "c"}, false, seeded(seed))
		server := h.pick()
		first[server]++
	}
	for _, s := range []string{"a", "b", "c"} {
		if first[s] < 60 {
			t.Errorf("%s is first for %d of 300 clients: %v", s, first[s], first)
		}
	}
}

// Without a server the rounds come at growing intervals, up to a bound.
func TestBackOffGrows(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181", "b:2181")
		c := n.newClient("a,b", Options{})
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		if err := c.WaitConnected(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("WaitConnected: %v", err)
		}
		dials := n.dials()
		want := firstPause
		for i := 2; i+1 < len(dials); i += 2 {
			pause := dials[i].at.Sub(dials[i-1].at)
			if pause < want/2 || pause >= want*3/2 {
				t.Errorf("pause %d is %v, want %v by half", i/2, pause, want)
			}
			if dials[i+1].at != dials[i].at {
				t.Errorf("a pause of %v within a round", dials[i+1].at.Sub(dials[i].at))
			}
			want = min(2*want, lastPause)
		}
		if len(dials) < 50 || len(dials) > 100 {
			t.Errorf("%d attempts in a minute", len(dials))
		}
	})
}

// A server that takes the session and hangs up at once is not stormed.
func TestBackOffOfServerThatHangsUp(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{KeepSession: true})
		began := time.Now()
		go func() {
			for {
				select {
				case conn := <-n.accepted:
					conn.greet()
					conn.Close()
				case <-c.s.done():
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		if dials := len(n.dials()); dials > 100 {
			t.Errorf("%d connections in %v", dials, time.Since(began))
		}
	})
}

// One that has answered is no such server, however short its connections.
func TestNoBackOffAfterAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{KeepSession: true})
		began := time.Now()
		for range 10 {
			conn := n.connect()
			f := c.Async().Exists("/a")
			conn.reply(conn.expect(jute.OpExists), 1, &Stat{})
			if _, err := f.Wait(bg); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			waitState(t, c, StateSuspended)
		}
		if took := time.Since(began); took > 10*firstPause {
			t.Errorf("ten connections took %v", took)
		}
	})
}

func TestConnectErrorNamesServers(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "refuses:1")
		n.setDown(errHang, "hangs:1")
		go func() {
			for conn := range n.accepted {
				switch conn.address {
				case "http:1":
					conn.greeting()
					conn.raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				case "closes:1":
					conn.greeting()
					conn.Close()
				case "garbage:1":
					conn.greeting()
					conn.send([]byte("what?"))
				case "half:1":
					conn.greeting()
					conn.raw([]byte{0, 0, 0, 37, 0, 0})
					conn.Close()
				case "ssh:1":
					conn.greeting()
					conn.raw([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
				case "negative:1":
					conn.greeting()
					conn.raw([]byte{0xff, 0xff, 0xff, 0xff})
				case "zero:1":
					conn.greeting()
					conn.welcome(jute.ConnectResponse{SessionID: 7, TimeoutMs: 0})
				case "minus:1":
					conn.greeting()
					conn.welcome(jute.ConnectResponse{SessionID: 7, TimeoutMs: -1})
				case "noid:1":
					conn.greeting()
					conn.welcome(jute.ConnectResponse{SessionID: 0, TimeoutMs: 10000})
				}
				// "silent:1" says nothing
			}
		}()
		defer close(n.accepted)
		want := map[string]string{
			"refuses:1": "connection refused", "hangs:1": "no answer within", "http:1": `"HTTP/1.1 400 Bad`, "closes:1": "closed the connection",
			"garbage:1": "does not speak ZooKeeper's protocol", "half:1": "unexpected EOF", "silent:1": "no answer within", "ssh:1": "does not speak ZooKeeper's protocol",
			"negative:1": "does not speak ZooKeeper's protocol", "zero:1": "does not speak ZooKeeper's protocol", "minus:1": "does not speak ZooKeeper's protocol", "noid:1": "does not speak ZooKeeper's protocol",
		}
		var list []string
		for s := range want {
			list = append(list, s)
		}
		ctx, cancel := context.WithTimeout(bg, 30*time.Second)
		defer cancel()
		_, err := Connect(ctx, strings.Join(list, ","), n.options(Options{}))
		ce, ok := errors.AsType[*ConnectError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errRefused) {
			t.Fatalf("Connect: %v", err)
		}
		if len(ce.Servers) != len(want) {
			t.Errorf("%d servers in %v", len(ce.Servers), err)
		}
		for _, s := range ce.Servers {
			if !strings.Contains(s.Err.Error(), want[s.Server]) {
				t.Errorf("%s: %v, want %q in it", s.Server, s.Err, want[s.Server])
			}
			if !strings.Contains(err.Error(), s.Server) {
				t.Errorf("%q does not name %s", err, s.Server)
			}
		}
	})
}

// Each attempt has its share of the session's timeout, however many servers hang.
func TestAttemptDeadline(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				list := []string{"a:1", "b:1", "c:1"}[:servers]
				n.setDown(errHang, list...)
				var took []time.Duration
				o := Options{Timeout: 9 * time.Second}
				o.Trace.Attempt = func(_ string, d time.Duration, err error) {
					if err == nil {
						t.Error("an attempt succeeded")
					}
					took = append(took, d)
				}
				c := n.newClient(strings.Join(list, ","), o)
				time.Sleep(time.Minute)
				c.s.abort()
				if len(took) < 7 {
					t.Errorf("%d attempts in a minute", len(took))
				}
				for _, d := range took[:len(took)-1] {
					if want := 6 * time.Second / time.Duration(servers); d != want {
						t.Errorf("an attempt took %v, want %v", d, want)
					}
				}
			})
		})
	}
}

// Names are looked up at each attempt, and all of their addresses are tried.
func TestNamesAreResolvedAtEachAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		addresses := [][]string{{"10.0.0.1", "10.0.0.2"}, nil, {}, {"10.0.0.3"}}
		lookups := 0
		o := Options{Resolve: func(_ context.Context, host string) ([]string, error) {
			if host != "zk" {
				t.Errorf("looked up %q", host)
			}
			lookups++
			if addresses[lookups-1] == nil {
				return nil, errors.New("no such host")
			}
			return addresses[lookups-1], nil
		}}
		n.setDown(errRefused, "10.0.0.1:99", "10.0.0.2:99")
		c := n.newClient("zk:99", o)
		conn := n.accept()
		if conn.address != "10.0.0.3:99" {
			t.Errorf("connected to %s", conn.address)
		}
		conn.greet()
		if err := c.WaitConnected(bg); err != nil {
			t.Fatal(err)
		}
		if c.Status().Server != "zk:99" {
			t.Errorf("Server() = %q", c.Status().Server)
		}
		seen := map[string]bool{}
		for _, d := range n.dials() {
			seen[d.address] = true
		}
		if !seen["10.0.0.1:99"] || !seen["10.0.0.2:99"] || lookups != 4 {
			t.Errorf("tried %v after %d lookups", seen, lookups)
		}
	})
}

// One address from which no answer comes leaves time for the others.
func TestAddressThatHangsLeavesTimeForOthers(t *testing.T) {
	for _, first := range []string{"10.0.0.1", "10.0.0.2"} { // the order is by chance: one of them comes second
		bubble(t, func(t *testing.T, n *fakeNet) {
			n.setDown(errHang, net.JoinHostPort(first, "2181"))
			attempts := 0
			o := Options{Resolve: func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "10.0.0.2"}, nil }}
			o.Trace.Attempt = func(string, time.Duration, error) { attempts++ }
			c := n.newClient("zk", o)
			n.connect()
			if err := c.WaitConnected(bg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if attempts != 1 {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

// A client that sends nothing pings after a third of the timeout; one that sends
// does not.
func TestPingAtAThird(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		conn := n.connect()
		conn.mute = true
		began := time.Now()
		for i := 1; i <= 3; i++ {
			if conn.expect(jute.OpPing); time.Since(began) != time.Duration(i)*3*time.Second {
				t.Errorf("ping %d after %v", i, time.Since(began))
			}
			conn.pong()
		}
		for range 5 { // every 2 s: no ping
			time.Sleep(2 * time.Second)
			got := goErr(func() error { _, err := c.Exists(bg, "/"); return err })
			conn.reply(conn.expect(jute.OpExists), 1, &Stat{})
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		began = time.Now()
		if conn.expect(jute.OpPing); time.Since(began) != 3*time.Second {
			t.Errorf("ping %v after the last request", time.Since(began))
		}
	})
}

func TestSilenceDropsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a,b", Options{Timeout: 9 * time.Second})
		conn := n.connect()
		conn.mute = true
		began := time.Now()
		conn.expect(jute.OpPing)
		conn.expectEnd()
		if time.Since(began) != 6*time.Second {
			t.Errorf("dropped after %v, want two thirds of 9 s", time.Since(began))
		}
		next := n.accept()
		if r := next.greet(); r.SessionID != fakeSession || string(r.Password) != string(fakePassword) || next.address != "b:2181" {
			t.Errorf("next connection: %+v to %s", r, next.address)
		}
		waitState(t, c, StateConnected)
	})
}

// Events come from a server that gets nothing any more, too: only its answers say that the session lives.
func TestEventsAreNoAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		const timeout = 9 * time.Second
		n.newClient("a,b", Options{Timeout: timeout})
		conn := n.connect()
		began := time.Now()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for zxid := Zxid(1); ; zxid++ {
				select {
				case <-time.After(time.Second / 2):
				case <-stop:
					return
				}
				h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
				ev := jute.WatcherEvent{Type: jute.EventDataChanged, State: jute.StateSyncConnected, Path: "/x"}
				b, mark := jute.BeginFrame(nil)
				if _, err := conn.Write(jute.EndFrame(ev.Append(h.Append(b)), mark)); err != nil {
					return
				}
			}
		}()
		conn.mute = true
		conn.expect(jute.OpPing)
		conn.expectEnd()
		if took := time.Since(began); took != timeout*2/3 {
			t.Errorf("dropped after %v, want two thirds of %v", took, timeout)
		}
	})
}

// A piece of a reply is a sign of life, if it says that it is one: by its xid.
func TestPiecesOfAReplyAreSignsOfLife(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		conn := n.connect()
		got := goDo(func() ([]byte, error) { node, err := c.Get(bg, "/x"); return node.Data, err })
		r := conn.expect(jute.OpGetData)
		go func() { // swallow the pings
			for {
				if _, err := conn.frame(); err != nil {
					return
				}
			}
		}()
		h := jute.ReplyHeader{Xid: r.xid, Zxid: 1}
		body := &jute.GetDataResponse{Data: []byte("slow")}
		b, mark := jute.BeginFrame(nil)
		frame := jute.EndFrame(body.Append(h.Append(b)), mark)
		conn.raw(frame[:8]) // up to the xid
		for _, x := range frame[8:] {
			time.Sleep(time.Second)
			conn.raw([]byte{x})
		}
		if v := within(t, "get", got); v.err != nil || string(v.val) != "slow" {
			t.Errorf("got %q, %v", v.val, v.err)
		}
		if len(n.dials()) != 1 {
			t.Error("the connection was given up")
		}
	})
}

// A server that answers with another session than the one that was to be taken up
// again is not taken for it.
func TestServerWithAnotherSession(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a,b", Options{})
		n.connect().Close()
		conn := n.accept()
		conn.greeting()
		conn.welcome(jute.ConnectResponse{TimeoutMs: 10000, SessionID: 99, Password: fakePassword})
		n.connect()
		waitState(t, c, StateConnected)
		if id := c.Session().ID(); id != fakeSession {
			t.Errorf("session %v", id)
		}
	})
}

// What the client is given is the caller's again, to be wiped: each connection has
// the same credentials all the same.
func TestAuthIsCopied(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		given, added := []byte("u:p"), []byte("v:q")
		c := n.newClient("a", Options{Auth: []Auth{{"digest", given}}})
		c.Async().AddAuth("digest", added)
		clear(given)
		clear(added)
		for range 2 {
			conn := n.connect()
			for _, want := range []string{"u:p", "v:q"} {
				r := conn.expect(jute.OpAuth)
				if !strings.Contains(string(r.body), want) {
					t.Errorf("credentials %q, want %q", r.body, want)
				}
				conn.reply(r, 0, nil)
			}
			conn.Close()
		}
	})
}

func TestAuthFailed(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Auth: []Auth{{"digest", []byte("u:p")}}})
		conn := n.connect()
		call := goErr(func() error { _, err := c.Set(bg, "/x", nil, -1); return err })
		r := conn.expect(jute.OpAuth)
		conn.expect(jute.OpSetData)
		conn.refuse(r, 0, jute.ErrAuthFailed)
		if err := within(t, "set", call); !errors.Is(err, ErrConnectionLoss) && !errors.Is(err, ErrAuthFailed) || !IsAmbiguous(err) {
			t.Errorf("call under way: %v", err)
		}
		waitState(t, c, StateAuthFailed)
		if _, err := c.Get(bg, "/x"); !errors.Is(err, ErrAuthFailed) {
			t.Errorf("call after: %v", err)
		}
		if err := c.WaitConnected(bg); !errors.Is(err, ErrAuthFailed) {
			t.Errorf("WaitConnected: %v", err)
		}
		time.Sleep(time.Minute)
		if len(n.dials()) != 1 {
			t.Errorf("%d attempts with bad credentials", len(n.dials()))
		}
	})
}

// A client of a read-only server moves to one with a quorum when there is one, and
// to that one.
func TestReadOnlyServerIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		o := Options{AllowReadOnly: true, Resolve: func(_ context.Context, host string) ([]string, error) {
			return []string{map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}[host]}, nil
		}}
		const a, b, c3 = "10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181"
		c := n.newClient("a,b,c", o)
		first := n.accept()
		if r := first.greeting(); !r.ReadOnly || first.address != a {
			t.Errorf("%s is asked with %+v", first.address, r)
		}
		first.welcome(jute.ConnectResponse{TimeoutMs: 10000, SessionID: 5, ReadOnly: true})
		if err := c.WaitConnected(bg); err != nil || c.State() != StateReadOnly {
			t.Fatalf("%v, %v", c.State(), err)
		}
		go func() {
			for first.expectPong() {
			}
		}()
		answers := map[string]string{b: "ro", c3: "rw"}
		for {
			conn := n.accept()
			word := make([]byte, 4)
			if _, err := conn.in.Read(word); err != nil || string(word) != "isro" {
				t.Fatalf("%s is sent %q, %v", conn.address, word, err)
			}
			conn.raw([]byte(answers[conn.address]))
			conn.Close()
			if conn.address == c3 {
				break
			}
		}
		conn := n.accept()
		if r := conn.greeting(); r.SessionID != 0 || conn.address != c3 {
			t.Errorf("after %s has said rw the client goes to %s with %+v", c3, conn.address, r)
		}
		conn.welcome(jute.ConnectResponse{TimeoutMs: 10000, SessionID: 6})
		waitState(t, c, StateConnected)
	})
}

// expectPong answers one ping; false at the end of the connection.
func (c *fakeConn) expectPong() bool {
	if _, err := c.frame(); err != nil {
		return false
	}
	h := jute.ReplyHeader{Xid: jute.XidPing}
	b, mark := jute.BeginFrame(nil)
	_, err := c.Write(jute.EndFrame(h.Append(b), mark))
	return err == nil
}

// The time of a round trip is that of the request that was answered, not that of a
// ping before it.
func TestRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		var trips []time.Duration
		o := Options{Timeout: 9 * time.Second}
		o.Trace.RoundTrip = func(d time.Duration) { trips = append(trips, d) }
		c := n.newClient("a", o)
		conn := n.connect()
		conn.mute = true
		var want []time.Duration
		for i := range 3 {
			for range 4 {
				conn.expect(jute.OpPing)
				time.Sleep(time.Millisecond)
				conn.pong()
				want = append(want, time.Millisecond)
			}
			f := c.Async().Exists("/")
			r := conn.expect(jute.OpExists)
			time.Sleep(time.Duration(i+2) * time.Millisecond)
			conn.reply(r, 1, &Stat{})
			wait(f)
			want = append(want, time.Duration(i+2)*time.Millisecond)
		}
		if !reflect.DeepEqual(trips, want) {
			t.Errorf("round trips %v, want %v", trips, want)
		}
	})
}

// What the client has seen of history is the highest zxid of a reply, whatever
// comes after it: notifications, pings, and replies that know less.
func TestLastZxid(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		for _, zxid := range []Zxid{5, 9, 7, 0, -1} {
			f := c.Async().Exists("/")
			conn.reply(conn.expect(jute.OpExists), zxid, &Stat{})
			wait(f)
		}
		conn.notify(EventCreated, "/x", 100)
		synctest.Wait()
		if c.Status().LastZxid != 9 {
			t.Errorf("LastZxid %v", c.Status().LastZxid)
		}
		conn.Close()
		if r := n.accept().greet(); r.LastZxidSeen != 9 {
			t.Errorf("the next server is told %v", r.LastZxidSeen)
		}
	})
}

// TestNoRoom: the code by which a read-only server refuses writes means, from one
// that is not read-only, that a disk or its memory is full.
func TestNoRoom(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNet(t)
			c := n.newClient("a", Options{AllowReadOnly: true})
			conn := n.accept()
			conn.greeting()
			conn.welcome(jute.ConnectResponse{TimeoutMs: 10000, SessionID: 5, ReadOnly: readOnly})
			f := c.Async().Set("/a", nil, AnyVersion)
			conn.refuse(conn.expect(jute.OpSetData), 1, ErrNotReadOnly)
			_, err := f.Wait(bg)
			text := "setData /a: the server refuses writes that need room: a disk or the memory is full"
			if readOnly {
				text = "setData /a: server is read-only"
			}
			if !errors.Is(err, ErrNotReadOnly) || errors.Is(err, ErrNoRoom) == readOnly || err.Error() != text {
				t.Errorf("read-only %v: %v, want %s", readOnly, err, text)
			}
			if IsAmbiguous(err) || IsRetryable(err) {
				t.Errorf("%v: ambiguous %v, retryable %v", err, IsAmbiguous(err), IsRetryable(err))
			}
		})
	}
}
