package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// told is the client of a relay in a test.
type told struct {
	reply func(Forwarded)
	event func(Zxid, jute.WatcherEvent)
}

func (c *told) Reply(a Forwarded)                     { c.reply(a) }
func (c *told) Event(zxid Zxid, ev jute.WatcherEvent) { c.event(zxid, ev) }
func (c *told) Attempted(string, error)               {}
func (c *told) Ended(*Relay)                          {}
func (c *told) Carry(ctx context.Context, _, _ string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	return open(ctx)
}

// startRelay makes a relay, whose random choices depend on a seed.
func (n *fakeNet) startRelay(c *told, o RelayOptions, seed uint64) *Relay {
	n.t.Helper()
	m, err := NewRelays("a:1,b:2", n.options(Options{Rand: seeded(seed)}))
	if err != nil {
		n.t.Fatal(err)
	}
	return m.New(c, o)
}

// relayed is a relay in a test, and what its client was told.
type relayed struct {
	*Relay
	told []string
	seen Zxid // of the last reply
}

func (n *fakeNet) newRelay(o RelayOptions) *relayed {
	n.t.Helper()
	r := &relayed{}
	reply := func(a Forwarded) {
		switch {
		case a.Lost == nil && a.Zxid < r.seen:
			n.t.Errorf("the answer to %d is at zxid %v, after one at %v", a.Xid, a.Zxid, r.seen)
		case a.Lost != nil:
			r.told = append(r.told, fmt.Sprintf("%d lost, expired %v", a.Xid, a.Expired))
		default:
			r.told, r.seen = append(r.told, fmt.Sprintf("%d ok %q", a.Xid, a.Body)), a.Zxid
		}
	}
	event := func(zxid Zxid, ev jute.WatcherEvent) { r.told = append(r.told, fmt.Sprintf("%v %s", ev.Type, ev.Path)) }
	r.Relay = n.startRelay(&told{reply, event}, o, 1)
	n.t.Cleanup(r.Abort)
	return r
}

// since returns what the client was told since the last call.
func (r *relayed) since() string {
	synctest.Wait()
	s := strings.Join(r.told, ", ")
	r.told = nil
	return s
}

// grant takes a session and grants exactly-once and feeds, with the number of the last write and the replies to earlier ones.
func (c *fakeConn) grant(done int64, replies ...string) (confirmed int64) {
	c.t.Helper()
	_, confirmed = c.grantOf(jute.FeatureExactlyOnce|jute.FeatureFeed, done, replies...)
	return confirmed
}

// grantOf grants some features. It returns the zxid that the client has seen, too.
func (c *fakeConn) grantOf(features Features, done int64, replies ...string) (seen Zxid, confirmed int64) {
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
	granted := jute.ExtensionResponse{Features: features, Done: done, Replies: int32(len(replies))}
	c.send(granted.Append(welcome.Append(nil)))
	for i, body := range replies {
		h := jute.ReplyHeader{Xid: int32(done) - int32(len(replies)) + 1 + int32(i), Zxid: 7}
		c.send(append(h.Append(nil), body...))
	}
	return q.LastZxidSeen, ask.Confirmed
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

// TestRelayZxids: the outcome of a write that is told after a read which shows more has the zxid of that. Its client tells the next server
// that it has seen this much.
func TestRelayZxids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		r.forward(1, "r/a", "w/b")
		conn.sent()
		conn.Close()
		conn = n.accept()
		conn.grant(2, "two") // at 7
		read := conn.expect(jute.OpGetData)
		conn.reply(read, 9, nil)
		if got := r.since(); got != `1 ok "", 2 ok "two"` || r.seen != 9 {
			t.Errorf("told %s, at %v", got, r.seen)
		}
		r.forward(3, "W/watched")
		conn.sent()
		conn.answer(3, "three")
		conn.notify(EventDataChanged, "/watched", 20)
		if r.since(); r.Client().Status().LastZxid != 20 { // of the answers to its pings
			t.Errorf("at %v after an event at 20", r.Client().Status().LastZxid)
		}
		r.forward(4, "w/b")
		conn.sent()
		conn.Close()
		conn = n.accept()
		conn.grant(4, "four") // at 7; of the transaction at 20 another event may come
		if got := r.since(); got != `4 ok "four"` || r.seen != 19 {
			t.Errorf("told %s, at %v", got, r.seen)
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

// watch forwards an addWatch.
func (r *relayed) watch(xid int32, path string, mode WatchMode) {
	q := jute.AddWatchRequest{Path: path, Mode: mode}
	r.Forward(xid, jute.OpAddWatch, q.Append(nil))
}

// watchesAcross has a persistent watch set, and returns the next connection, where it is set again.
func (r *relayed) watchesAcross(n *fakeNet, conn *fakeConn) *fakeConn {
	conn.grant(0)
	r.watch(5, "/a", WatchPersistent)
	conn.reply(conn.expect(jute.OpAddWatch), 5, nil)
	conn.Close()
	conn = n.accept()
	conn.grant(0)
	conn.reply(conn.expect(jute.OpSetWatches2), 7, nil)
	return conn
}

// feed sends an event of the feed that a relay has.
func (c *fakeConn) feed(e jute.FeedEvent) {
	c.t.Helper()
	e.Feed = resume.Feed
	h := jute.ReplyHeader{Xid: jute.XidFeed, Zxid: e.Zxid}
	c.send(e.Append(h.Append(nil)))
}

// changes returns changes, each of a zxid, a kind and a path.
func changes(t *testing.T, all ...string) (list []jute.Change) {
	for i, text := range all {
		c := jute.Change{Index: int32(i)}
		var kind string
		if _, err := fmt.Sscan(text, &c.Zxid, &kind, &c.Path); err != nil {
			t.Fatal(err)
		}
		c.Kind = map[string]jute.ChangeKind{"created": jute.ChangeCreated, "deleted": jute.ChangeDeleted, "data": jute.ChangeData, "children": jute.ChangeChildren}[kind]
		list = append(list, c)
	}
	return list
}

// TestRelayTellsWhatPersistentWatchesMiss loses a connection with watches of all kinds. The client gets the events that it lacks, in their
// order, and each once; its requests wait for that.
func TestRelayTellsWhatPersistentWatchesMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		r.watch(1, "/t/r", WatchRecursive)
		r.watch(2, "/t/p", WatchPersistent)
		r.forward(3, "W/t/r/a", "W/one")
		r.watch(5, "/t/gone", WatchPersistent)
		gone := jute.RemoveWatchesRequest{Path: "/t/gone", Type: jute.WatchAny}
		r.Forward(6, jute.OpRemoveWatches, gone.Append(nil))
		conn.sent()
		for i := range int32(6) {
			conn.answer(1+i, "")
		}
		conn.notify(EventCreated, "/t/r/b", 8)
		r.since()
		r.forward(7, "r/x", "w/y")
		r.watch(9, "/t/late", WatchPersistent)
		r.forward(10, "w/z") // waits: the watch has its event, or it was set later
		if got := conn.sent(); len(got) != 3 {
			t.Fatalf("sent %q", got)
		}
		conn.Close()

		conn = n.accept()
		if seen, _ := conn.grantOf(jute.FeatureExactlyOnce|jute.FeatureFeed, 8, "written"); seen != 8 {
			t.Errorf("seen %v", seen)
		}
		set := conn.expect(jute.OpSetWatches2)
		got := set.setWatches()
		if !slices.Equal(got.Data, []string{"/one", "/t/r/a"}) || !slices.Equal(got.Persistent, []string{"/t/p"}) || !slices.Equal(got.PersistentRecursive, []string{"/t/r"}) {
			t.Errorf("watches %+v", got)
		}
		subscribe := conn.expect(jute.OpSubscribe)
		d := jute.NewDecoder(subscribe.body)
		var q jute.SubscribeRequest
		if q.Decode(&d); q.Path != "/t" || !q.Recursive || q.After != 7 {
			t.Errorf("%+v", q)
		}
		conn.notify(EventDataChanged, "/one", -1)
		conn.notify(EventDataChanged, "/t/r/a", -1)
		conn.reply(set, 12, nil)
		conn.notify(EventDataChanged, "/t/r/c", 13)
		conn.reply(subscribe, 13, &jute.SubscribeResponse{Zxid: 7})
		conn.notify(EventDeleted, "/t/r/d", 15)
		conn.feed(jute.FeedEvent{Zxid: 11, Changes: changes(t, "8 created /t/r/b", "8 children /t/r", "8 created /t/p/x", "8 children /t/p", "9 children /t/p", "10 data /t/other", "11 data /t/r/a", "11 data /t/r/a")})
		r.forward(11, "r/y")
		if got := conn.sent(); len(got) != 0 || r.since() != "" {
			t.Errorf("sent %q", got)
		}
		conn.feed(jute.FeedEvent{Zxid: 14, Level: true, Changes: changes(t, "12 data /t/p", "13 data /t/r/c", "14 created /t/gone", "14 children /t", "14 created /t/p/e/f", "14 children /t/p/e")})
		if got := r.since(); got != "NodeDataChanged /one, NodeChildrenChanged /t/p, NodeChildrenChanged /t/p, NodeDataChanged /t/r/a, NodeDataChanged /t/r/a, "+
			"NodeDataChanged /t/p, NodeDataChanged /t/r/c, NodeDeleted /t/r/d" {
			t.Errorf("told %s", got)
		}
		conn.expect(jute.OpUnsubscribe)
		if got := conn.sent(); !slices.Equal(got, []string{"/x"}) && !slices.Equal(got, []string{"/x", "/t/late"}) {
			t.Errorf("sent %q", got)
		}
		conn.answer(7, "x")
		conn.answer(9, "watched")
		if got := r.since(); got != `7 ok "x", 8 ok "written", 9 ok "watched"` {
			t.Errorf("told %s", got)
		}
		conn.Close()
		conn = n.accept()
		conn.grant(8)
		conn.expect(jute.OpSetWatches2)
		d = jute.NewDecoder(conn.expect(jute.OpSubscribe).body)
		if q.Decode(&d); q.Path != "/t" || q.After != 14 {
			t.Errorf("%+v", q)
		}
	})
}

// TestRelayRestoresWatches: watches that its client has set again by itself are the relay's, too.
func TestRelayRestoresWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{Seen: 5})
		conn := n.accept()
		conn.grant(0)
		again := jute.SetWatchesRequest{RelativeZxid: 5, Data: []string{"/d", "/fired"}, Exist: []string{"/e"}, Child: []string{"/c"}, Persistent: []string{"/p"}}
		r.Forward(jute.XidSetWatches, jute.OpSetWatches2, again.Append2(nil))
		set := conn.expect(jute.OpSetWatches2)
		conn.Close()

		conn = n.accept()
		conn.grant(0)
		if set = conn.expect(jute.OpSetWatches2); set.xid == jute.XidSetWatches {
			t.Error("watches are set again before the client has done so")
		}
		conn.notify(EventDataChanged, "/fired", -1)
		conn.reply(set, 7, nil)
		if got := r.since(); got != `NodeDataChanged /fired, -8 ok ""` {
			t.Errorf("told %s", got)
		}
		conn.Close()

		conn = n.accept()
		conn.grant(0)
		got := conn.expect(jute.OpSetWatches2).setWatches()
		if got.RelativeZxid != 7 || !slices.Equal(got.Data, []string{"/d"}) || len(got.Exist) != 1 || len(got.Child) != 1 || len(got.Persistent) != 1 {
			t.Errorf("watches %+v", got)
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
		{"a persistent watch and a server without feeds", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			r.watch(5, "/a", WatchPersistent)
			conn.reply(conn.expect(jute.OpAddWatch), 5, nil)
			conn.Close()
			n.accept().grantOf(jute.FeatureExactlyOnce, 0)
		}, `5 ok ""`},
		{"a persistent watch and a server without a feed for it", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn = r.watchesAcross(n, conn)
			conn.refuse(conn.expect(jute.OpSubscribe), 7, ErrQuotaExceeded)
		}, `5 ok ""`},
		{"a persistent watch and a server whose history begins later", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn = r.watchesAcross(n, conn)
			conn.reply(conn.expect(jute.OpSubscribe), 7, &jute.SubscribeResponse{Zxid: 6, Compacted: true})
		}, `5 ok ""`},
		{"a persistent watch whose feed is too slow", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn = r.watchesAcross(n, conn)
			conn.reply(conn.expect(jute.OpSubscribe), 7, &jute.SubscribeResponse{Zxid: 5})
			conn.feed(jute.FeedEvent{Zxid: 7, Compacted: true})
		}, `5 ok ""`},
		{"a write that was done, and whose events can't be told", func(n *fakeNet, r *relayed, conn *fakeConn) {
			conn.grant(0)
			r.watch(5, "/a", WatchPersistent)
			conn.reply(conn.expect(jute.OpAddWatch), 5, nil)
			r.forward(6, "w/a")
			conn.sent()
			conn.Close()
			conn = n.accept()
			conn.grant(2, "written")
			conn.reply(conn.expect(jute.OpSetWatches2), 7, nil)
			conn.refuse(conn.expect(jute.OpSubscribe), 7, ErrQuotaExceeded)
		}, `5 ok "", 6 lost, expired false`},
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
			time.Sleep(DefaultTimeout * 3 / 2) // without a ping of the client
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

// TestRelayNamesItself takes a session at first, and then continues it under its name, so that servers can say when another client has it.
// After a connection to a server that does not know whose the session is, it takes it again.
func TestRelayNamesItself(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		r := n.newRelay(RelayOptions{})
		const all = jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeatureMoved
		connected := func(answer jute.ConnectResponse, granted Features) (jute.Holder, *fakeConn) {
			conn := n.accept()
			b, err := conn.frame()
			if err != nil {
				t.Fatal(err)
			}
			d := jute.NewDecoder(b)
			var q jute.ConnectRequest
			var ask jute.ExtensionRequest
			q.Decode(&d)
			ask.Decode(&d)
			conn.send((&jute.ExtensionResponse{Features: granted}).Append(answer.Append(nil)))
			r.Ping()
			return ask.Holder, conn
		}
		welcome := jute.ConnectResponse{TimeoutMs: 10_000, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
		var asked []jute.Holder
		for _, granted := range []Features{all, all, jute.FeatureExactlyOnce | jute.FeatureFeed, all} {
			h, conn := connected(welcome, granted)
			asked = append(asked, h)
			synctest.Wait()
			conn.Close()
		}
		h, _ := connected(jute.ConnectResponse{Password: make([]byte, jute.PasswordLen), HasReadOnly: true}, jute.FeatureMoved)
		<-r.Done()
		name := asked[1]
		want := []jute.Holder{name | jute.HolderTakes, name, name, name | jute.HolderTakes}
		if !slices.Equal(asked, want) || h != name || name.Name() != name {
			t.Errorf("%d, then %d; want %d, then %d", asked, h, want, name)
		}
		if err := r.Client().Status().Err; !errors.Is(err, ErrSessionMoved) || r.Expired() {
			t.Errorf("ended with %v, expired %v", err, r.Expired())
		}
	})
}

// TestRelayTellsMissedEventsAsOfAReply: what watches have missed is told when the server has said which state it shows. The next server must not
// be behind that, and after a connection that is lost before, nothing was told.
func TestRelayTellsMissedEventsAsOfAReply(t *testing.T) {
	for _, own := range []bool{false, true} { // the client has set the watch again by itself
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet(t)
				r := n.newRelay(RelayOptions{})
				conn := n.accept()
				conn.grant(0)
				synctest.Wait()
				if own {
					q := jute.SetWatchesRequest{RelativeZxid: 5, Data: []string{"/a"}}
					r.Forward(1, jute.OpSetWatches, q.Append(nil))
				} else {
					r.forward(1, "W/a")
					conn.sent()
					conn.answer(1, "")
					r.since()
					conn.Close()
					conn = n.accept()
					conn.grant(0)
				}
				conn.expect(jute.OpSetWatches)
				conn.notify(EventDataChanged, "/a", -1)
				if got := r.since(); got != "" {
					t.Errorf("told before the reply: %s", got)
				}
				conn.Close()
				conn = n.accept()
				conn.grant(0)
				set := conn.expect(jute.OpSetWatches)
				conn.notify(EventDataChanged, "/a", -1)
				conn.reply(set, 9, nil)
				want := "NodeDataChanged /a"
				if own {
					want += `, 1 ok ""`
				}
				if got := r.since(); got != want {
					t.Errorf("told %q, want %q", got, want)
				}
				conn.Close()
				if seen, _ := n.accept().grantOf(jute.FeatureExactlyOnce, 0); seen != 9 {
					t.Errorf("the next server is told that the client has seen %v", seen)
				}
			})
		})
	}
}

// TestRelayTakesNoMoreThanIsAnswered: what a client asks for takes bounded memory while there is no answer, on a connection and without one.
func TestRelayTakesNoMoreThanIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		r := n.newRelay(RelayOptions{})
		c := n.accept()
		c.grant(0)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range 2 * maxAsked {
				r.forward(int32(i+1), "r/a")
			}
		}()
		waiting := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			s := r.c.s
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := r.asked.Len(); got != want {
				t.Errorf("%s: %d requests are without an answer, want %d", when, got, want)
			}
		}
		waiting("before any answer", maxAsked)
		c.Close()
		waiting("without a connection", maxAsked)
		c = n.accept()
		c.grant(0)
		waiting("on another connection", maxAsked)
		for i := range maxAsked {
			c.answer(int32(i+1), "")
		}
		waiting("when they are answered", maxAsked)
		for i := range maxAsked {
			c.answer(int32(maxAsked+i+1), "")
		}
		<-ended
		waiting("in the end", 0)
		if len(r.told) != 2*maxAsked {
			t.Errorf("%d answers", len(r.told))
		}
	})
}

// TestRelayPassesFewPingsOn: a client's flood of pings takes no memory while the server does not answer.
func TestRelayPassesFewPingsOn(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		r := n.newRelay(RelayOptions{})
		conn := n.accept()
		conn.grant(0)
		synctest.Wait()
		for range 2 { // another time when they are answered
			for range 100 * maxPings {
				r.Ping()
			}
			synctest.Wait()
			if ops := conn.pending(); len(ops) != maxPings {
				t.Errorf("%d pings are passed on, want %d", len(ops), maxPings)
			}
			for range maxPings {
				conn.pong()
			}
			synctest.Wait()
		}
	})
}

// TestRelayRemembersFewIdentities: a server takes any number of addauth that prove nothing new. With more than it remembers, a relay ends with its connection.
func TestRelayRemembersFewIdentities(t *testing.T) {
	for name, tt := range map[string]struct{ size, count int }{"many": {0, 2 * maxProofs}, "long": {maxProofBytes / 4, 8}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				r := n.newRelay(RelayOptions{})
				conn := n.accept()
				conn.grant(0)
				synctest.Wait()
				s := r.c.s
				go func() {
					for i := range tt.count {
						a := jute.AuthRequest{Scheme: "ip", Auth: fmt.Appendf(make([]byte, tt.size), "%d", i)}
						r.Forward(int32(-4), jute.OpAuth, a.Append(nil))
					}
				}()
				synctest.Wait()
				s.mu.Lock()
				if want := min(tt.count, maxProofs); len(s.auths) != want {
					t.Errorf("%d identities wait for an answer, want %d", len(s.auths), want)
				}
				s.mu.Unlock()
				for range tt.count {
					conn.reply(conn.expect(jute.OpAuth), 0, nil)
					synctest.Wait()
				}
				s.mu.Lock()
				left, bound := len(s.auths), r.rules.Bound
				s.mu.Unlock()
				if left != 0 || !bound || r.proving != 0 {
					t.Errorf("%d identities are remembered, bound %v, %d without an answer", left, bound, r.proving)
				}
				conn.Close()
				<-r.Done()
			})
		})
	}
}

// TestSlowReplay: what persistent watches have missed takes a slow line longer than a session's timeout. Answers to pings come behind it.
func TestSlowReplay(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		const timeout = 9 * time.Second
		r := n.newRelay(RelayOptions{Timeout: timeout})
		conn := r.watchesAcross(n, n.accept())
		conn.reply(conn.expect(jute.OpSubscribe), 7, &jute.SubscribeResponse{Zxid: 5})
		go func() {
			for { // nothing is answered
				if _, err := conn.frame(); err != nil {
					return
				}
			}
		}()
		for zxid := range Zxid(5) {
			r.Ping()
			time.Sleep(timeout / 3)
			conn.feed(jute.FeedEvent{Zxid: 10 + zxid, Level: zxid == 4, Changes: changes(t, fmt.Sprint(10+zxid, " data /a"))})
		}
		if got := r.since(); strings.Count(got, "NodeDataChanged /a") != 5 {
			t.Errorf("the client was told %s", got)
		}
	})
}

// TestRelayOfSilentServer: a client that does not ping while it waits, as the C client, gives up two thirds of its timeout after it was told something. The relay
// has another server before, also if it was told the answer to an earlier one of its requests.
func TestRelayOfSilentServer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers int           // requests that are answered, of two
		idle    time.Duration // of the client before that
		want    time.Duration // since the last answer
	}{
		{"at once", 0, 0, 9 * time.Second},
		{"after an answer", 1, 0, 9 * time.Second},
		{"after a while", 0, 8 * time.Second, 11 * time.Second},
		{"a client that asks for nothing", 2, 0, 18 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				r := n.newRelay(RelayOptions{Timeout: 18 * time.Second})
				first := n.accept()
				first.grant(0)
				synctest.Wait()
				began := time.Now()
				time.Sleep(tt.idle)
				r.forward(1, "r/a", "r/b")
				for range tt.answers {
					first.answerGet(first.expect(jute.OpGetData), 1, "")
				}
				go func() {
					for {
						if _, err := first.frame(); err != nil {
							return
						}
					}
				}()
				r.c.s.mu.Lock()
				failed := r.c.s.conn.failed
				r.c.s.mu.Unlock()
				<-failed
				if took := time.Since(began); took != tt.want {
					t.Errorf("the connection is given up after %v, want %v", took, tt.want)
				}
				if tt.answers < 2 {
					n.accept().grant(0)
					synctest.Wait()
				}
			})
		})
	}
}

// TestRelayOfOneWayConnection: a server tells events, and gets no request any more. While the session lives, its client's request is asked elsewhere.
func TestRelayOfOneWayConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		const timeout = 9 * time.Second
		r := n.newRelay(RelayOptions{Timeout: timeout})
		first := n.accept()
		first.grant(0)
		synctest.Wait()
		began := time.Now()
		r.forward(1, "w/a")
		over := make(chan struct{})
		defer synctest.Wait()
		defer close(over)
		go func() { // its client, which waits, pings
			for {
				select {
				case <-time.After(timeout / 3):
					r.Ping()
				case <-over:
					return
				}
			}
		}()
		go func() {
			for zxid := Zxid(1); ; zxid++ {
				h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
				ev := jute.WatcherEvent{Type: jute.EventDataChanged, State: jute.StateSyncConnected, Path: "/x"}
				b, mark := jute.BeginFrame(nil)
				if _, err := first.Write(jute.EndFrame(ev.Append(h.Append(b)), mark)); err != nil {
					return
				}
				select {
				case <-time.After(time.Second / 2):
				case <-over:
					return
				}
			}
		}()
		go func() { // the requests go into a buffer on the way
			for {
				if _, err := first.frame(); err != nil {
					return
				}
			}
		}()
		second := n.accept()
		if took := time.Since(began); took != timeout/2 {
			t.Errorf("another server after %v, want half of %v", took, timeout)
		}
		second.grant(0)
		q := second.expect(jute.OpSetData)
		second.reply(q, 100, &Stat{})
		synctest.Wait()
		if last := r.told[len(r.told)-1]; !strings.HasPrefix(last, "1 ok") {
			t.Errorf("the client was told %q", last)
		}
	})
}
