package client

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// wantSet expects a setWatches, which it does not answer.
func wantSet(t *testing.T, conn *fakeConn, want jute.SetWatchesRequest) request {
	t.Helper()
	r := conn.expect(jute.OpSetWatches)
	if got := r.setWatches(); !reflect.DeepEqual(got, want) {
		t.Errorf("setWatches %+v, want %+v", got, want)
	}
	return r
}

// One-shot watches that were to live on a persistent one which is refused are set by
// themselves, as of what their reads saw. The connection stays.
func TestOneShotUnderRefusedPersistent(t *testing.T) {
	for _, code := range []jute.Code{ErrNoAuth, ErrThrottled, ErrUnimplemented} {
		bubble(t, func(t *testing.T, n *fakeNet) {
			c := n.newClient("a", Options{})
			conn := n.connect()
			a := c.Async()
			wide, other := a.AddWatch("/x", WatchPersistent), a.AddWatch("/y", WatchPersistent)
			get, exists, children, beside := a.GetW("/x"), a.ExistsW("/x"), a.ChildrenW("/x"), a.GetW("/y")
			conn.refuse(conn.expect(jute.OpAddWatch), 4, code)
			conn.reply(conn.expect(jute.OpAddWatch), 4, &jute.ErrorResponse{})
			conn.answerGet(conn.expect(jute.OpGetData), 5, "")
			conn.refuse(conn.expect(jute.OpExists), 6, ErrNoNode)
			conn.reply(conn.expect(jute.OpGetChildren2), 7, &jute.GetChildren2Response{})
			conn.answerGet(conn.expect(jute.OpGetData), 8, "")
			if err := wait(wide); !errors.Is(err, code) {
				t.Errorf("addWatch: %v, want %v", err, code)
			}
			for _, err := range []error{wait(other), wait(get), wait(exists), wait(children), wait(beside)} {
				if err != nil {
					t.Error(err)
				}
			}
			for _, want := range []jute.SetWatchesRequest{
				{RelativeZxid: 5, Data: []string{"/x"}},
				{RelativeZxid: 6, Exist: []string{"/x"}},
				{RelativeZxid: 7, Child: []string{"/x"}},
			} {
				conn.reply(wantSet(t, conn, want), 9, nil)
			}
			conn.notify(EventDataChanged, "/x", 9)
			synctest.Wait()
			got, _ := get.Wait(bg)
			if ev := events(got.Watch); !slices.Equal(ev, []string{"NodeDataChanged /x", "closed"}) {
				t.Errorf("the one-shot watch got %q", ev)
			}
			there, _ := other.Wait(bg)
			if ev := events(there); len(ev) != 0 {
				t.Errorf("the persistent watch elsewhere got %q", ev)
			}
			if state := c.State(); state != StateConnected {
				t.Errorf("the session is %v", state)
			}
		})
	}
}

// Until the server has said that such a watch is set, the next one must be told to
// look further back than what the client has seen since.
func TestOneShotUnderRefusedPersistentAndALostConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		wide, get := c.Async().AddWatch("/x", WatchRecursive), c.Async().GetW("/x")
		conn.refuse(conn.expect(jute.OpAddWatch), 4, ErrThrottled)
		conn.answerGet(conn.expect(jute.OpGetData), 5, "")
		if err := wait(wide); !errors.Is(err, ErrThrottled) {
			t.Error(err)
		}
		if err := wait(get); err != nil {
			t.Error(err)
		}
		later := c.Async().Get("/y")
		wantSet(t, conn, jute.SetWatchesRequest{RelativeZxid: 5, Data: []string{"/x"}})
		conn.answerGet(conn.expect(jute.OpGetData), 70, "") // by then /x may have changed, unnoticed
		if err := wait(later); err != nil {
			t.Error(err)
		}
		conn.Close()
		for _, since := range []Zxid{5, 70} {
			conn = n.connect()
			r := wantSet(t, conn, jute.SetWatchesRequest{RelativeZxid: since, Data: []string{"/x"}})
			conn.reply(r, 70, nil)
			synctest.Wait()
			conn.Close()
		}
	})
}

// Where another wide watch has come behind the refused one, a one-shot watch can't be
// set without taking its place at servers before 3.9: all are set again.
func TestOneShotBetweenTwoPersistent(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		a := c.Async()
		first, get, second := a.AddWatch("/x", WatchPersistent), a.GetW("/x"), a.AddWatch("/x", WatchRecursive)
		conn.refuse(conn.expect(jute.OpAddWatch), 4, ErrThrottled)
		conn.answerGet(conn.expect(jute.OpGetData), 5, "")
		conn.expect(jute.OpAddWatch)
		conn.expectEnd()
		if err := wait(first); !errors.Is(err, ErrThrottled) {
			t.Error(err)
		}
		if err := wait(second); !errors.Is(err, ErrConnectionLoss) {
			t.Error(err)
		}
		if err := wait(get); err != nil {
			t.Error(err)
		}
		conn = n.connect()
		wantSet(t, conn, jute.SetWatchesRequest{RelativeZxid: 5, Data: []string{"/x"}})
	})
}

// What was sent as a recursive watch, as one was before it, is one at the server even
// if the first was refused.
func TestPersistentBehindRefusedRecursive(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		a := c.Async()
		a.AddWatch("/x", WatchRecursive)
		second := a.AddWatch("/x", WatchPersistent)
		conn.refuse(conn.expect(jute.OpAddWatch), 4, ErrThrottled)
		conn.reply(conn.expect(jute.OpAddWatch), 4, &jute.ErrorResponse{})
		w, err := second.Wait(bg)
		if err != nil {
			t.Fatal(err)
		}
		conn.notify(EventCreated, "/x/y", 5)
		synctest.Wait()
		if ev := events(w); !slices.Equal(ev, []string{"NodeChildrenChanged /x"}) {
			t.Errorf("events %q", ev)
		}
	})
}
