package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// relayed is a relay in a test, and what its client was told.
type relayed struct {
	*Relay
	told []string
}

func (n *fakeNet) newRelay(o RelayOptions) *relayed {
	n.t.Helper()
	r := &relayed{}
	o.Options = n.options(o.Options)
	o.Reply = func(a Forwarded) {
		switch {
		case a.Lost != nil:
			r.told = append(r.told, fmt.Sprintf("%d lost, expired %v", a.Xid, a.Expired))
		default:
			r.told = append(r.told, fmt.Sprintf("%d ok %q", a.Xid, a.Body))
		}
	}
	o.Event = func(zxid Zxid, ev jute.WatcherEvent) { r.told = append(r.told, fmt.Sprintf("%v %s", ev.Type, ev.Path)) }
	relay, err := NewRelay("a:1,b:2", o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(relay.Abort)
	r.Relay = relay
	return r
}

// since returns what the client was told since the last call.
func (r *relayed) since() string {
	synctest.Wait()
	s := strings.Join(r.told, ", ")
	r.told = nil
	return s
}

// grant takes a session and grants exactly-once, with the number of the last write and the replies to earlier ones.
func (c *fakeConn) grant(done int64, replies ...string) (confirmed int64) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	b, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	d := jute.NewDecoder(b)
	var q jute.ConnectRequest
	var ask jute.ExtensionRequest
	q.Decode(&d)
	if !jute.Extended(&d) {
		c.t.Fatal("the relay asks for no extension")
	}
	ask.Decode(&d)
	welcome := jute.ConnectResponse{TimeoutMs: q.TimeoutMs, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
	granted := jute.ExtensionResponse{Features: jute.FeatureExactlyOnce, Done: done, Replies: int32(len(replies))}
	c.send(granted.Append(welcome.Append(nil)))
	for i, body := range replies {
		h := jute.ReplyHeader{Xid: int32(done) - int32(len(replies)) + 1 + int32(i), Zxid: 7}
		c.send(append(h.Append(nil), body...))
	}
	return ask.Confirmed
}

// forward forwards requests of one letter: r and w read and write the node of a path, c lists its children, n and d create and delete it.
func (r *relayed) forward(first int32, requests ...string) {
	for i, q := range requests {
		path := q[1:]
		op, body := jute.OpGetData, jute.AppendBool(jute.AppendString(nil, path), false)
		switch q[0] {
		case 'c':
			op = jute.OpGetChildren
		case 'W':
			body = jute.AppendBool(jute.AppendString(nil, path), true)
		case 'w':
			q := jute.SetDataRequest{Path: path, Version: -1}
			op, body = jute.OpSetData, q.Append(nil)
		case 'n':
			q := jute.CreateRequest{Path: path, ACL: OpenACL()}
			op, body = jute.OpCreate, q.Append(nil)
		case 'd':
			q := jute.DeleteRequest{Path: path, Version: -1}
			op, body = jute.OpDelete, q.Append(nil)
		}
		r.Forward(first+int32(i), op, body)
	}
}

// sent returns the paths of the requests that have come and were not read yet.
func (c *fakeConn) sent() (paths []string) {
	c.t.Helper()
	synctest.Wait()
	for {
		c.SetReadDeadline(time.Now().Add(time.Nanosecond))
		b, err := c.frame()
		if err != nil {
			return paths
		}
		paths = append(paths, request{body: b[8:]}.path())
	}
}

// answer answers a request by its number in the session.
func (c *fakeConn) answer(number int32, body string) {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: number, Zxid: 7}
	c.send(append(h.Append(nil), body...))
}

// TestRelayHoldsWritesBack: a write is not sent while a read before it is under way whose answer it would change. What
// comes after such a write waits with it.
func TestRelayHoldsWritesBack(t *testing.T) {
	for _, tt := range []struct {
		requests string
		sent     int // before there are answers
	}{
		{"r/a w/a", 1},
		{"r/a w/b w/a r/c", 2},
		{"r/a w/b r/b w/c", 4},
		{"c/a n/a/x", 1},
		{"r/a d/a/x", 1}, // its Stat has the number of children
		{"c/a w/a/x w/b", 1},
		{"r/a/x n/a", 2},
		{"w/a r/a w/b", 3},
	} {
		t.Run(tt.requests, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet(t)
				r := n.newRelay(RelayOptions{})
				conn := n.accept()
				conn.grant(0)
				r.forward(51, "r/first")
				conn.sent()
				conn.answer(1, "")
				requests := strings.Fields(tt.requests)
				r.forward(52, requests...)
				if got := conn.sent(); len(got) != tt.sent {
					t.Errorf("sent %q", got)
				}
				want := []string{`51 ok ""`}
				for i := range requests {
					conn.answer(int32(2+i), "")
					want = append(want, fmt.Sprintf(`%d ok ""`, 52+i))
				}
				if got := r.since(); got != strings.Join(want, ", ") {
					t.Errorf("told %s", got)
				}
			})
		})
	}
}

// TestRelayResumes loses connections under requests. The client gets one answer to each, in their order.
func TestRelayResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		r.forward(1, "W/watched", "r/a")
		conn.sent()
		conn.answer(1, "one")
		conn.answer(2, "two")
		r.forward(3, "r/a", "w/b", "r/c", "w/d")
		if got := conn.sent(); len(got) != 4 {
			t.Fatalf("sent %q", got)
		}
		conn.Close()
		conn = n.accept()
		if confirmed := conn.grant(4, "four"); confirmed != 2 {
			t.Errorf("confirmed %d", confirmed)
		}
		set := conn.expect(jute.OpSetWatches)
		if got := set.setWatches(); !slices.Equal(got.Data, []string{"/watched"}) {
			t.Errorf("watches %+v", got)
		}
		if got := conn.sent(); !slices.Equal(got, []string{"/a", "/c", "/d"}) {
			t.Errorf("sent again %q", got)
		}
		if got := r.since(); got != `1 ok "one", 2 ok "two"` {
			t.Errorf("told %s", got)
		}
		conn.notify(EventDataChanged, "/watched", 3)
		conn.reply(set, 7, nil)
		if got := r.since(); got != `NodeDataChanged /watched` {
			t.Errorf("told %s", got)
		}
		conn.answer(3, "three")
		conn.answer(5, "five")
		conn.answer(6, "six")
		if got := r.since(); got != `3 ok "three", 4 ok "four", 5 ok "five", 6 ok "six"` {
			t.Errorf("told %s", got)
		}
	})
}

// TestRelayTellsEventsFirst: the outcome of a write of an earlier connection comes after what watches have missed.
func TestRelayTellsEventsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		r.forward(1, "W/watched")
		conn.sent()
		conn.answer(1, "")
		r.forward(2, "w/a")
		conn.sent()
		conn.Close()
		conn = n.accept()
		conn.grant(2, "two")
		set := conn.expect(jute.OpSetWatches)
		conn.notify(EventDataChanged, "/watched", 3)
		conn.reply(set, 7, nil)
		if got := r.since(); got != `1 ok "", NodeDataChanged /watched, 2 ok "two"` {
			t.Errorf("told %s", got)
		}
	})
}

// TestRelayEnds: a session that can't continue unseen ends for its client, with everything that is under way.
func TestRelayEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(n *fakeNet, r *relayed, conn *fakeConn)
		want string
	}{
		{"no grant", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.greet()
			r.forward(5, "r/a", "w/a")
			conn.sent()
			conn.Close()
		}, "5 lost, expired false, 6 lost, expired false"},
		{"a persistent watch", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			q := jute.AddWatchRequest{Path: "/a", Mode: WatchPersistent}
			r.Forward(5, jute.OpAddWatch, q.Append(nil))
			conn.sent()
			conn.Close()
		}, "5 lost, expired false"},
		{"an end at the servers", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			r.forward(5, "w/a")
			conn.sent()
			conn.Close()
			n.accept().expire()
		}, "5 lost, expired true"},
		{"closed at the servers", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			r.Forward(5, jute.OpCloseSession, nil)
			conn.sent()
			conn.Close()
			n.accept().expire()
		}, `5 ok ""`},
		{"an operation that may have been done", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			r.Forward(5, jute.OpReconfig, nil)
			conn.sent()
			conn.Close()
			n.accept().grant(0)
		}, "5 lost, expired false"},
		{"a silent client", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			conn.mute = true
			time.Sleep(DefaultTimeout) // without a ping of the client
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet(t)
				r := n.newRelay(RelayOptions{})
				conn := n.accept()
				tt.run(n, r, conn)
				if got := r.since(); got != tt.want {
					t.Errorf("told %s", got)
				}
				if tt.name == "an operation that may have been done" {
					return // its client ends
				}
				select {
				case <-r.Done():
				default:
					t.Error("the relay has not ended")
				}
			})
		})
	}
}

// TestRelayLivesAsItsClient: only the pings of its client are sent, and a connection that is silent while the client is not is
// replaced.
func TestRelayLivesAsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		conn.mute = true
		time.Sleep(DefaultTimeout / 2)
		if got := conn.pending(); len(got) != 0 {
			t.Errorf("sent %v without a ping of the client", got)
		}
		r.Ping()
		synctest.Wait()
		if got := conn.pending(); !slices.Equal(got, []jute.OpCode{jute.OpPing}) {
			t.Errorf("sent %v", got)
		}
		time.Sleep(DefaultTimeout / 3)
		n.accept().grant(0)
	})
}
