package client

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// The events of all watches of an inbox come through it, each with its watch, in the
// order of the server, however late they are taken; others have their own channels.
func TestInbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a/app", Options{})
		conn := n.connect()
		inbox := NewInbox()
		in := c.WithInbox(inbox)
		names := map[*Watch]string{
			armed(t, conn, addW(in, "/p", WatchRecursive), 0): "recursive",
			armed(t, conn, getW(in, "/x"), 0):                 "data",
			armed(t, conn, childrenW(in, "/x"), 0):            "children",
		}
		own := armed(t, conn, getW(c, "/x"), 0)
		var want []string
		for i := range 2 * persistentBuffer {
			conn.notify(EventCreated, fmt.Sprintf("/app/p/%d", i), 2)
			want = append(want, fmt.Sprintf("recursive NodeCreated /p/%d", i))
		}
		conn.notify(EventDeleted, "/app/x", 3)
		want = append(want, "data NodeDeleted /x", "children NodeDeleted /x")
		synctest.Wait()
		for w, name := range names {
			if w.Events() != nil || !w.Pending() || w.Fired() != (name != "recursive") {
				t.Errorf("%s: events %v, pending %v, fired %v", name, w.Events(), w.Pending(), w.Fired())
			}
		}
		var got []string
		for range want {
			e := within(t, "event", inbox.Events())
			got = append(got, fmt.Sprintf("%s %v %s", names[e.Watch], e.Event.Type, e.Event.Path))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		synctest.Wait()
		if inbox.Pending() {
			t.Error("there is more")
		}
		if ev := events(own); !slices.Equal(ev, []string{"NodeDeleted /x", "closed"}) {
			t.Errorf("a watch beside the inbox got %q", ev)
		}
	})
}

// A closed inbox lets go of what nobody has received, and its watches can be closed.
func TestInboxClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		inbox := NewInbox()
		w := armed(t, conn, addW(c.WithInbox(inbox), "/p", WatchPersistent), 0)
		for range 2 * persistentBuffer {
			conn.notify(EventDataChanged, "/p", 2)
		}
		synctest.Wait()
		inbox.Close() // the bubble's end checks that no goroutine is left
		conn.notify(EventDataChanged, "/p", 3)
		done := goErr(func() error { return w.Close(bg) })
		conn.reply(conn.expect(jute.OpRemoveWatches), 4, nil)
		if err := within(t, "Close", done); err != nil || !w.Fired() || w.Err() != ErrWatchClosed {
			t.Errorf("%v, ended: %v, %v", err, w.Fired(), w.Err())
		}
	})
}
