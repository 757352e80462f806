package client

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// After a reconnect all watches are set again, each in its list.
func TestWatchesAreSetAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a/app", Options{})
		conn := n.connect()
		armed(t, conn, getW(c, "/get"), 0)
		armed(t, conn, existsW(c, "/there"), 0)
		armed(t, conn, existsW(c, "/absent"), ErrNoNode)
		armed(t, conn, childrenW(c, "/"), 0)
		armed(t, conn, childrenW(c, "/get"), 0)
		p := armed(t, conn, addW(c, "/p", WatchPersistent), 0)
		r := armed(t, conn, addW(c, "/r", WatchRecursive), 0)
		fired := armed(t, conn, getW(c, "/fired"), 0)
		conn.notify(EventDataChanged, "/app/fired", 2)
		closed := armed(t, conn, getW(c, "/closed"), 0)
		go closed.Close(bg)
		conn.reply(conn.expect(jute.OpRemoveWatches), 50, nil)
		under := c.Async().GetW("/underway")
		conn.expect(jute.OpGetData)
		conn.Close()
		if err := wait(under); !errors.Is(err, ErrConnectionLoss) {
			t.Error(err)
		}
		conn = n.accept()
		if q := conn.greet(); q.LastZxidSeen != 50 {
			t.Errorf("last zxid seen %v", q.LastZxidSeen)
		}
		set := conn.expect(jute.OpSetWatches2)
		got := set.setWatches()
		want := jute.SetWatchesRequest{
			RelativeZxid: 50, Data: []string{"/app/get", "/app/there"}, Exist: []string{"/app/absent"}, Child: []string{"/app", "/app/get"},
			Persistent: []string{"/app/p"}, PersistentRecursive: []string{"/app/r"},
		}
		if !reflect.DeepEqual(got, want) || set.xid != jute.XidSetWatches {
			t.Errorf("set again with %d: %+v, want %+v", set.xid, got, want)
		}
		conn.notify(EventCreated, "/app/p", -1) // caught up with
		conn.reply(set, 50, nil)
		synctest.Wait()
		if got := events(p); !slices.Equal(got, []string{"NodeCreated /p", "WatchRearmed /p"}) {
			t.Errorf("persistent watch: %q", got)
		}
		if got := events(r); !slices.Equal(got, []string{"WatchRearmed /r"}) {
			t.Errorf("recursive watch: %q", got)
		}
		if got := events(fired); !slices.Equal(got, []string{"NodeDataChanged /fired", "closed"}) {
			t.Errorf("watch that has fired: %q", got)
		}
	})
}

// A hundred thousand watches are set again in requests that a server takes, and
// the persistent ones hear of it behind the last.
func TestManyWatchesAreSetAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		const count = 100_000
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		p := armed(t, conn, addW(c, "/p", WatchPersistent), 0)
		want := map[string]bool{"/p": true}
		c.s.mu.Lock()
		for i := range count {
			path := fmt.Sprintf("/some/longer/path/of/a/node/%06d", i)
			k := watchKind(i % 4)
			w := c.newWatch(path, k)
			c.s.watches.arm(&call{}, w, path)
			w.armed = true
			want[path] = true
		}
		c.s.mu.Unlock()
		conn.Close()
		conn = n.connect()
		chunks := 0
		for len(want) > 0 {
			r, err := conn.read()
			if err != nil {
				t.Fatalf("%d chunks, %d watches missing: %v", chunks, len(want), err)
			}
			chunks++
			if len(r.body) > setWatchesChunk+1000 {
				t.Errorf("a request of %d bytes", len(r.body))
			}
			q := r.setWatches()
			for _, list := range [][]string{q.Data, q.Exist, q.Child, q.Persistent, q.PersistentRecursive} {
				for _, path := range list {
					if !want[path] {
						t.Fatalf("%s is set twice, or was not set", path)
					}
					delete(want, path)
				}
			}
			synctest.Wait()
			if got := events(p); got != nil {
				t.Fatalf("after %d chunks without the last reply: %q", chunks, got)
			}
			conn.reply(r, 1, nil)
		}
		synctest.Wait()
		if got := events(p); !slices.Equal(got, []string{"WatchRearmed /p"}) {
			t.Errorf("in the end: %q", got)
		}
		if chunks < 20 || chunks > 60 {
			t.Errorf("%d chunks", chunks)
		}
	})
}

func TestChunksOfSetWatches(t *testing.T) {
	var w watches
	for i := range 50 {
		for k := range watchKinds {
			path := fmt.Sprintf("/%d/%02d", k, i)
			x := (&Client{}).newWatch(path, k)
			w.arm(&call{}, x, path)
			x.armed = i%5 != 0 // those under way are not set again
		}
	}
	for _, chunk := range []int{-5, 0, 1, 10, 11, 100, 1000, 1 << 20} {
		seen := 0
		for _, r := range w.requests(7, chunk) {
			size := 0
			lists := [][]string{r.Data, r.Exist, r.Child, r.Persistent, r.PersistentRecursive}
			for k, list := range lists {
				for _, p := range list {
					size += len(p) + 4
					seen++
					if p[1] != byte('0'+k) {
						t.Errorf("chunk %d: %s in list %d", chunk, p, k)
					}
				}
			}
			if size > max(chunk, 9) || size == 0 || r.RelativeZxid != 7 {
				t.Errorf("chunk %d: %d bytes in one, since %v", chunk, size, r.RelativeZxid)
			}
		}
		if want := 40 * int(watchKinds); seen != want {
			t.Errorf("chunk %d: %d watches, want %d", chunk, seen, want)
		}
	}
}

// A server that does not set the watches again is left for one that does.
func TestWatchesThatAreNotSetAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a,b", Options{})
		conn := n.connect()
		w := armed(t, conn, getW(c, "/x"), 0)
		conn.Close()
		conn = n.connect()
		conn.refuse(conn.expect(jute.OpSetWatches), 0, ErrThrottled)
		conn = n.connect()
		conn.reply(conn.expect(jute.OpSetWatches), 0, nil)
		conn.notify(EventDataChanged, "/x", 2)
		if _, err := w.Next(bg); err != nil {
			t.Error(err)
		}
		h := jute.ReplyHeader{Xid: jute.XidSetWatches} // once more, unasked
		conn.send(h.Append(nil))
		n.connect()
		waitState(t, c, StateConnected)
	})
}

// A watch may be closed without a connection: the next server isn't asked for it.
func TestCloseOfWatchWhileSuspended(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		w := armed(t, conn, getW(c, "/x"), 0)
		conn.Close()
		waitState(t, c, StateSuspended)
		began := time.Now()
		if err := w.Close(bg); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		conn = n.connect()
		synctest.Wait()
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("sent %v", ops)
		}
	})
}

// What covers a watch as it is issued without a connection may be gone when there
// is one, or come after it.
func TestWatchIssuedWhileSuspended(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mode  WatchMode
		close bool // the wide watch, before there is a connection
		want  []bool
	}{
		{"persistent", WatchPersistent, false, []bool{false, false, true}},
		{"persistent is closed", WatchPersistent, true, []bool{true, true, true}},
		{"recursive", WatchRecursive, false, []bool{false, false, true}},
		{"recursive is closed", WatchRecursive, true, []bool{true, true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *fakeNet) {
				c := n.newClient("a", Options{})
				conn := n.connect()
				p := armed(t, conn, addW(c, "/x", tt.mode), 0)
				conn.Close()
				waitState(t, c, StateSuspended)
				a := c.Async()
				a.GetW("/x")
				a.GetW("/x")
				a.GetW("/y")
				a.AddWatch("/y", WatchPersistent)
				if tt.close {
					if err := p.Close(bg); err != nil {
						t.Fatal(err)
					}
				}
				conn = n.connect()
				if !tt.close {
					conn.reply(conn.expect(jute.OpSetWatches2), 1, nil)
				}
				for i, want := range tt.want {
					r := conn.expect(jute.OpGetData)
					if path, watch := r.watched(); watch != want {
						t.Errorf("get %d of %s sets a watch: %v, want %v", i, path, watch, want)
					}
				}
				d := jute.NewDecoder(conn.expect(jute.OpAddWatch).body)
				var q jute.AddWatchRequest
				if q.Decode(&d); d.Err() != nil || q.Mode != WatchPersistent {
					t.Errorf("addWatch %+v, %v", q, d.Err())
				}
			})
		})
	}
}
