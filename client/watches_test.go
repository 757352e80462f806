package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// armed sets a watch with call, whose request the server answers with code.
func armed(t *testing.T, conn *fakeConn, call func() (*Watch, error), code jute.Code) *Watch {
	t.Helper()
	got := goDo(call)
	r, err := conn.read()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case code != 0:
		conn.refuse(r, 1, code)
	case r.op == jute.OpExists:
		conn.reply(r, 1, &Stat{})
	case r.op == jute.OpGetData:
		conn.answerGet(r, 1, "")
	case r.op == jute.OpGetChildren2:
		conn.reply(r, 1, &jute.GetChildren2Response{})
	case r.op == jute.OpAddWatch:
		conn.reply(r, 1, &jute.ErrorResponse{})
	default:
		t.Fatalf("want a request that sets a watch, got %v", r.op)
	}
	v := within(t, "watch", got)
	if v.err != nil {
		t.Fatal(v.err)
	}
	return v.val
}

func getW(c *Client, path string) func() (*Watch, error) {
	return func() (*Watch, error) { node, err := c.GetW(bg, path); return node.Watch, err }
}

func existsW(c *Client, path string) func() (*Watch, error) {
	return func() (*Watch, error) { found, err := c.ExistsW(bg, path); return found.Watch, err }
}

func childrenW(c *Client, path string) func() (*Watch, error) {
	return func() (*Watch, error) { list, err := c.ChildrenW(bg, path); return list.Watch, err }
}

func addW(c *Client, path string, mode WatchMode) func() (*Watch, error) {
	return func() (*Watch, error) { return c.AddWatch(bg, path, mode) }
}

// events returns what is in the watch's channel, as "type path", and at its end
// whether it is closed.
func events(w *Watch) (got []string) {
	for {
		select {
		case ev, ok := <-w.Events():
			if !ok {
				return append(got, "closed")
			}
			got = append(got, ev.Type.String()+" "+ev.Path)
		default:
			return got
		}
	}
}

// All watches that an event concerns hear of it, and no others: one notification
// stands for all that the session has at the path.
func TestWhoHearsOfAnEvent(t *testing.T) {
	for _, tt := range []struct {
		typ  EventType
		path string
		want string // of the watches below, which hear of it
	}{
		{EventCreated, "/a/n", "get get2 exists absent persistent r:/ r:/a r:/a/n"},
		{EventDataChanged, "/a/n", "get get2 exists absent persistent r:/ r:/a r:/a/n"},
		{EventDeleted, "/a/n", "get get2 exists absent children persistent r:/ r:/a r:/a/n"},
		{EventChildrenChanged, "/a/n", "children"}, // the persistent one has heard it of the child
		{EventDataChanged, "/a/nn", "r:/ r:/a"},
		{EventDataChanged, "/a/n/deep/er", "r:/ r:/a r:/a/n"},
		{EventCreated, "/a", "r:/ r:/a"},
		{EventDataChanged, "/", "r:/"},
		{EventDataChanged, "", "r:/"},
		{EventCreated, "/ab/n", "r:/"},
	} {
		bubble(t, func(t *testing.T, n *fakeNet) {
			c := n.newClient("a", Options{})
			conn := n.connect()
			all := map[string]*Watch{
				"get": armed(t, conn, getW(c, "/a/n"), 0), "get2": armed(t, conn, getW(c, "/a/n"), 0),
				"exists": armed(t, conn, existsW(c, "/a/n"), 0), "absent": armed(t, conn, existsW(c, "/a/n"), ErrNoNode),
				"children":   armed(t, conn, childrenW(c, "/a/n"), 0),
				"persistent": armed(t, conn, addW(c, "/a/n", WatchPersistent), 0),
				"r:/":        armed(t, conn, addW(c, "/", WatchRecursive), 0),
				"r:/a":       armed(t, conn, addW(c, "/a", WatchRecursive), 0), "r:/a/n": armed(t, conn, addW(c, "/a/n", WatchRecursive), 0),
			}
			conn.notify(tt.typ, tt.path, 9)
			synctest.Wait()
			path := tt.path
			if path == "" {
				path = "/"
			}
			for name, w := range all {
				var want []string
				if slices.Contains(strings.Fields(tt.want), name) {
					want = append(want, tt.typ.String()+" "+path)
					if w.kind.OneShot() {
						want = append(want, "closed")
					}
				}
				if got := events(w); !slices.Equal(got, want) {
					t.Errorf("%v %s: %s got %q, want %q", tt.typ, tt.path, name, got, want)
				}
			}
		})
	}
}

// A node with a recursive watch has no other at servers before 3.9: who watches its
// children is told when one comes or goes, and once.
func TestChildrenUnderRecursiveWatch(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		armed(t, conn, addW(c, "/a", WatchRecursive), 0)
		p, children := armed(t, conn, addW(c, "/a", WatchPersistent), 0), armed(t, conn, childrenW(c, "/a"), 0)
		conn.notify(EventCreated, "/a/b/c", 2)
		conn.notify(EventDataChanged, "/a/b", 3)
		conn.notify(EventCreated, "/a/b", 4)
		conn.notify(EventChildrenChanged, "/a", 4) // from a server of 3.9
		conn.notify(EventDeleted, "/a/b", 5)
		conn.notify(EventDeleted, "/a", 6)
		synctest.Wait()
		if got := events(children); !slices.Equal(got, []string{"NodeChildrenChanged /a", "closed"}) {
			t.Errorf("children: %q", got)
		}
		if got := events(p); !slices.Equal(got, []string{"NodeChildrenChanged /a", "NodeChildrenChanged /a", "NodeDeleted /a"}) {
			t.Errorf("persistent: %q", got)
		}
	})
}

// A one-shot watch gets one event, says what it is, and is out of the table.
func TestOneShotFiresOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		w := armed(t, conn, getW(c, "/x"), 0)
		conn.notify(EventDataChanged, "/x", 7)
		conn.notify(EventDeleted, "/x", 8)
		ev, err := w.Next(bg)
		if want := (Event{Type: EventDataChanged, State: StateConnected, Path: "/x", Zxid: 7}); err != nil || ev != want {
			t.Errorf("event %+v, %v; want %+v", ev, err, want)
		}
		for range 2 {
			if _, err := w.Next(bg); err != ErrWatchFired || w.Err() != nil {
				t.Errorf("after the event: %v, Err %v", err, w.Err())
			}
			if err := w.Close(bg); err != nil { // a second time round with the watch closed
				t.Error(err)
			}
		}
		if tableSize(c) != 0 {
			t.Errorf("%d in the table", tableSize(c))
		}
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("Close of a watch that has fired sent %v", ops)
		}
	})
}

// When a read is done, the events that came before its reply are in the channels.
func TestEventBeforeReply(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		one := armed(t, conn, getW(c, "/x"), 0)
		all := armed(t, conn, addW(c, "/", WatchRecursive), 0)
		for i := range 10 {
			got := goDo(func() ([]string, error) {
				_, err := c.Get(bg, "/x")
				return append(events(one), events(all)...), err
			})
			r := conn.expect(jute.OpGetData)
			conn.notify(EventDataChanged, "/x", Zxid(i+2))
			conn.answerGet(r, Zxid(i+2), "new")
			want := []string{"NodeDataChanged /x", "closed", "NodeDataChanged /x"}
			if i > 0 {
				want = want[1:]
			}
			if v := within(t, "get", got); v.err != nil || !slices.Equal(v.val, want) {
				t.Fatalf("with reply %d: %q, %v; want %q", i, v.val, v.err, want)
			}
		}
	})
}

// An event that comes before the reply of the read that sets a watch is not that
// watch's.
func TestEventBeforeWatchIsSet(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		first := armed(t, conn, getW(c, "/x"), 0)
		second := c.Async().GetW("/x")
		r := conn.expect(jute.OpGetData)
		conn.notify(EventDataChanged, "/x", 2)
		conn.answerGet(r, 2, "")
		v, err := second.Wait(bg)
		if err != nil {
			t.Fatal(err)
		}
		if got := events(first); !slices.Equal(got, []string{"NodeDataChanged /x", "closed"}) {
			t.Errorf("first: %q", got)
		}
		if got := events(v.Watch); got != nil {
			t.Errorf("second: %q", got)
		}
		conn.notify(EventDeleted, "/x", 3)
		synctest.Wait()
		if got := events(v.Watch); !slices.Equal(got, []string{"NodeDeleted /x", "closed"}) {
			t.Errorf("second: %q", got)
		}
	})
}

// While a persistent watch has a path, a one-shot one is not set at the server,
// which before 3.9 would lose the other.
func TestOneShotUnderPersistent(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		flag := func(f *Future[Node]) bool {
			t.Helper()
			r := conn.expect(jute.OpGetData)
			_, watch := r.watched()
			conn.answerGet(r, 1, "")
			if err := wait(f); err != nil {
				t.Fatal(err)
			}
			return watch
		}
		if !flag(c.Async().GetW("/x")) {
			t.Error("a watch alone is not set")
		}
		p := armed(t, conn, addW(c, "/x", WatchPersistent), 0)
		f := c.Async().GetW("/x")
		if flag(f) {
			t.Error("a watch under a persistent one is set")
		}
		if !flag(c.Async().GetW("/x/y")) {
			t.Error("a watch beside a persistent one is not set")
		}
		if err := p.Close(bg); err != nil {
			t.Error(err)
		}
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("%v, though the one-shot watch lives on the persistent one", ops)
		}
		conn.notify(EventDataChanged, "/x", 2)
		synctest.Wait()
		if v, _ := f.Wait(bg); !slices.Equal(events(v.Watch), []string{"NodeDataChanged /x", "closed"}) {
			t.Error("the one-shot watch did not fire")
		}
		if got := events(p); !slices.Equal(got, []string{"closed"}) {
			t.Errorf("a watch that is closed got %q", got)
		}
	})
}

// What is under way counts: a one-shot watch issued behind a persistent one is not
// set at the server either.
func TestOneShotUnderPersistentUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		p, f := c.Async().AddWatch("/x", WatchPersistent), c.Async().GetW("/x")
		add, get := conn.expect(jute.OpAddWatch), conn.expect(jute.OpGetData)
		if _, watch := get.watched(); watch {
			t.Error("the one-shot watch replaces the persistent one on servers before 3.9")
		}
		conn.reply(add, 1, &jute.ErrorResponse{})
		conn.answerGet(get, 1, "")
		if err := wait(p); err != nil {
			t.Error(err)
		}
		if err := wait(f); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseTellsServerIfNobodyElseNeedsIt(t *testing.T) {
	type step struct {
		close string // the watch
		want  WatchType
	}
	for name, steps := range map[string][]step{
		"data":       {{"get", 0}, {"get2", 0}, {"exists", DataWatches}, {"children", AnyWatches}},
		"children":   {{"children", ChildWatches}, {"exists", 0}, {"get2", 0}, {"get", AnyWatches}},
		"twice":      {{"get", 0}, {"get", 0}, {"get2", 0}, {"get2", 0}, {"children", ChildWatches}, {"children", 0}, {"exists", AnyWatches}},
		"other path": {{"other", AnyWatches}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				c := n.newClient("a", Options{})
				conn := n.connect()
				all := map[string]*Watch{
					"get": armed(t, conn, getW(c, "/x"), 0), "get2": armed(t, conn, getW(c, "/x"), 0), "exists": armed(t, conn, existsW(c, "/x"), ErrNoNode),
					"children": armed(t, conn, childrenW(c, "/x"), 0), "other": armed(t, conn, addW(c, "/y", WatchPersistent), 0),
				}
				for _, s := range steps {
					closed := goErr(func() error { return all[s.close].Close(bg) })
					if s.want != 0 {
						r := conn.expect(jute.OpRemoveWatches)
						d := jute.NewDecoder(r.body)
						var q jute.RemoveWatchesRequest
						q.Decode(&d)
						if q.Path != all[s.close].Path() || WatchType(q.Type) != s.want {
							t.Errorf("close of %s: %+v, want type %d", s.close, q, s.want)
						}
						conn.refuse(r, 2, ErrNoWatcher) // it fired meanwhile, perhaps
					}
					if err := within(t, s.close, closed); err != nil {
						t.Errorf("close of %s: %v", s.close, err)
					}
					if err := all[s.close].Err(); err != ErrWatchClosed {
						t.Errorf("close of %s: Err %v", s.close, err)
					}
					if got := events(all[s.close]); !slices.Equal(got, []string{"closed"}) {
						t.Errorf("close of %s: %q", s.close, got)
					}
				}
				synctest.Wait()
				if ops := conn.pending(); len(ops) != 0 {
					t.Errorf("sent %v", ops)
				}
			})
		})
	}
}

// A read that is about to set a watch keeps the server's from being removed.
func TestCloseCountsWatchesUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		w := armed(t, conn, getW(c, "/x"), 0)
		f := c.Async().GetW("/x")
		r := conn.expect(jute.OpGetData)
		if err := w.Close(bg); err != nil {
			t.Fatal(err)
		}
		conn.answerGet(r, 1, "")
		if err := wait(f); err != nil {
			t.Fatal(err)
		}
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("sent %v", ops)
		}
	})
}

func TestRemoveWatches(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		get, children := armed(t, conn, getW(c, "/x"), 0), armed(t, conn, childrenW(c, "/x"), 0)
		remove := func(typ WatchType, code jute.Code) error {
			t.Helper()
			done := goErr(func() error { return c.Session().RemoveWatches(bg, "/x", typ) })
			r := conn.expect(jute.OpRemoveWatches)
			if code == 0 {
				conn.reply(r, 2, nil)
			} else {
				conn.refuse(r, 2, code)
			}
			return within(t, "RemoveWatches", done)
		}
		if err := remove(DataWatches, 0); err != nil {
			t.Error(err)
		}
		if get.Err() != ErrWatchClosed || children.Err() != nil {
			t.Errorf("get %v, children %v", get.Err(), children.Err())
		}
		if err := remove(AnyWatches, ErrNoWatcher); err != nil { // it fired while the request was on its way
			t.Errorf("of a watch that the server does not have any more: %v", err)
		}
		if children.Err() != ErrWatchClosed || tableSize(c) != 0 {
			t.Errorf("children %v, %d in the table", children.Err(), tableSize(c))
		}
		if err := remove(AnyWatches, ErrNoWatcher); !errors.Is(err, ErrNoWatcher) {
			t.Errorf("of no watch: %v", err)
		}
	})
}

// Watches that live on another one of the path are not removed with it, nor it
// with them.
func TestRemoveWatchesLeavesOthersAlone(t *testing.T) {
	for _, typ := range []WatchType{PersistentWatches, DataWatches, ChildWatches} {
		bubble(t, func(t *testing.T, n *fakeNet) {
			c := n.newClient("a", Options{})
			conn := n.connect()
			p := armed(t, conn, addW(c, "/x", WatchPersistent), 0)
			get, children := armed(t, conn, getW(c, "/x"), 0), armed(t, conn, childrenW(c, "/x"), 0)
			done := goErr(func() error { return c.Session().RemoveWatches(bg, "/x", typ) })
			synctest.Wait()
			if ops := conn.pending(); len(ops) != 0 {
				t.Errorf("type %d: sent %v", typ, ops)
			}
			if err := within(t, "RemoveWatches", done); err != nil {
				t.Errorf("type %d: %v", typ, err)
			}
			gone := map[WatchType]*Watch{PersistentWatches: p, DataWatches: get, ChildWatches: children}
			for k, w := range gone {
				if (w.Err() != nil) != (k == typ) {
					t.Errorf("type %d: the watch of type %d: %v", typ, k, w.Err())
				}
			}
		})
	}
}

// Watches name nodes as the view does that set them.
func TestWatchesOfNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		app := c.Namespace("/app")
		whole := armed(t, conn, addW(c, "/", WatchRecursive), 0)
		part := armed(t, conn, addW(app, "/", WatchRecursive), 0)
		deep := armed(t, conn, addW(app.Namespace("/x"), "/y", WatchPersistent), 0)
		for _, path := range []string{"/app", "/app/x/y", "/apple", "/app/x/yy"} {
			conn.notify(EventDataChanged, path, 2)
		}
		synctest.Wait()
		for _, tt := range []struct {
			w    *Watch
			want []string
		}{
			{whole, []string{"NodeDataChanged /app", "NodeDataChanged /app/x/y", "NodeDataChanged /apple", "NodeDataChanged /app/x/yy"}},
			{part, []string{"NodeDataChanged /", "NodeDataChanged /x/y", "NodeDataChanged /x/yy"}},
			{deep, []string{"NodeDataChanged /y"}},
		} {
			if got := events(tt.w); !slices.Equal(got, tt.want) {
				t.Errorf("watch on %s: %q, want %q", tt.w.full, got, tt.want)
			}
		}
	})
}

func TestStripOfRoot(t *testing.T) {
	for _, tt := range []struct{ root, in, want string }{
		{"", "/a", "/a"}, {"/app", "/app", "/"}, {"/app", "/app/x", "/x"}, {"/app", "/apple", "/apple"}, {"/app", "/b", "/b"}, {"/a/b", "/a/b/c/d", "/c/d"},
	} {
		if got := (&Client{root: tt.root}).strip(tt.in); got != tt.want {
			t.Errorf("root %q: strip(%q) = %q, want %q", tt.root, tt.in, got, tt.want)
		}
	}
}

// Nothing is lost or out of order if a channel is not read, and when the session is
// over no goroutine waits for its reader.
func TestWatchThatIsNotRead(t *testing.T) {
	for _, end := range []string{"read", "close watch", "remove", "expire", "close client"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				c := n.newClient("a", Options{})
				conn := n.connect()
				w := armed(t, conn, addW(c, "/", WatchRecursive), 0)
				const count = 1000
				for i := range count {
					conn.notify(EventDataChanged, fmt.Sprint("/", i), Zxid(i))
				}
				synctest.Wait()
				if end == "read" {
					for i := range count {
						if ev, err := w.Next(bg); err != nil || ev.Path != fmt.Sprint("/", i) {
							t.Fatalf("event %d: %+v, %v", i, ev, err)
						}
					}
					return
				}
				endWatching(t, n, c, conn, w, end)
				// What was in the channel may still be read; then it is closed.
				for i := 0; ; i++ {
					ev, ok := <-w.Events()
					if !ok {
						break
					}
					if ev.Path != fmt.Sprint("/", i) {
						t.Fatalf("event %d: %+v", i, ev)
					}
				}
			})
		})
	}
}

// endWatching ends a recursive watch at the root.
func endWatching(t *testing.T, n *fakeNet, c *Client, conn *fakeConn, w *Watch, end string) {
	switch end {
	case "close watch":
		go w.Close(bg)
		conn.reply(conn.expect(jute.OpRemoveWatches), 1, nil)
	case "remove":
		go c.Session().RemoveWatches(bg, "/", AnyWatches)
		conn.reply(conn.expect(jute.OpRemoveWatches), 1, nil)
	case "expire":
		conn.Close()
		n.accept().expire()
		waitState(t, c, StateExpired)
	case "close client":
		conn.Close()
		c.Close(bg)
	}
}

// The session's end does not wait for readers: the bubble fails if a goroutine is
// left.
func TestNobodyWaitsForReaders(t *testing.T) {
	for _, end := range []string{"close watch", "remove", "expire", "close client"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				c := n.newClient("a", Options{})
				ctx, cancel := context.WithCancel(bg)
				c.Session().States(ctx)
				conn := n.connect()
				w := armed(t, conn, addW(c, "/", WatchRecursive), 0)
				for i := range 100 {
					conn.notify(EventDataChanged, "/x", Zxid(i))
				}
				synctest.Wait()
				endWatching(t, n, c, conn, w, end)
				c.Close(bg)
				cancel()
			})
		})
	}
}

// Events that come after Close are nobody's.
func TestEventsAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		w := armed(t, conn, addW(c, "/x", WatchPersistent), 0)
		closed := goErr(func() error { return w.Close(bg) })
		r := conn.expect(jute.OpRemoveWatches)
		conn.notify(EventDataChanged, "/x", 2)
		conn.reply(r, 2, nil)
		if err := within(t, "Close", closed); err != nil {
			t.Error(err)
		}
		if got := events(w); !slices.Equal(got, []string{"closed"}) {
			t.Errorf("got %q", got)
		}
		if _, err := w.Next(bg); err != ErrWatchClosed {
			t.Errorf("Next: %v", err)
		}
	})
}
