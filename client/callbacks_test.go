package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestCallbacksInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		var got []string
		note := func(what string) { got = append(got, what) }
		c := n.newClient("a", Options{Watcher: func(e Event) { note(e.Type.String() + e.Path) }})
		conn := n.connect()
		waitState(t, c, StateConnected)
		a := c.Async()
		a.Get("/1", func(Node, error) { note("get1") }, func(Node, error) { note("get1b") })
		a.Set("/2", nil, -1, func(_ Stat, err error) { note(fmt.Sprint("set ", errors.Is(err, ErrBadVersion))) })
		a.Exists("/3", func(Presence, error) { note("exists") })
		a.Get("bad path", func(_ Node, err error) { note(fmt.Sprint("bad ", errors.Is(err, ErrBadArguments))) })
		r1, r2, r3 := conn.expect(jute.OpGetData), conn.expect(jute.OpSetData), conn.expect(jute.OpExists)
		conn.answerGet(r1, 1, "")
		conn.notify(EventCreated, "/n", 2)
		conn.refuse(r2, 2, ErrBadVersion)
		conn.reply(r3, 3, &Stat{})
		synctest.Wait()
		want := []string{"None", "bad true", "get1", "get1b", "NodeCreated/n", "set true", "exists"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("callbacks %q, want %q", got, want)
		}
	})
}

func TestCallbackThatBlocksIsNamedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		book := &logBook{}
		c := n.newClient("a", Options{Logger: book, SlowCallback: 2 * time.Second})
		conn := n.connect()
		release := make(chan struct{})
		first := make(chan struct{})
		for _, path := range []string{"/quick", "/blocks", "/behind", "/last"} {
			c.Async().Get(path, func(Node, error) {
				switch path {
				case "/quick":
					<-first
				case "/blocks":
					<-release
				}
			})
			conn.answerGet(conn.expect(jute.OpGetData), 1, "")
		}
		synctest.Wait()
		close(first) // the others are taken together
		time.Sleep(1900 * time.Millisecond)
		if lines := book.with("callback blocks"); len(lines) != 0 {
			t.Errorf("named too early: %q", lines)
		}
		time.Sleep(10 * time.Second)
		lines := book.with("callback blocks")
		if len(lines) != 1 || !strings.Contains(lines[0], "getData") || !strings.Contains(lines[0], "path=/blocks") || !strings.Contains(lines[0], "waiting=2") {
			t.Errorf("log: %q", lines)
		}
		close(release)
		synctest.Wait()
		time.Sleep(time.Minute)
		if lines := book.with("callback blocks"); len(lines) != 1 {
			t.Errorf("log: %q", lines)
		}
	})
}

// A log that blocks at the line about a callback holds up no operation.
func TestSlowLogOfASlowCallback(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		release := make(chan struct{})
		c := n.newClient("a", Options{SlowCallback: time.Second, Logger: logFunc(func(msg string) {
			if strings.HasPrefix(msg, "callback blocks") {
				<-release
			}
		})})
		conn := n.connect()
		c.Async().Get("/blocks", func(Node, error) { <-release })
		conn.answerGet(conn.expect(jute.OpGetData), 1, "")
		time.Sleep(2 * time.Second)
		behind := c.Async().Get("/behind", func(Node, error) {})
		conn.answerGet(conn.expect(jute.OpGetData), 1, "")
		if _, err := behind.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		next := c.Async().Get("/next")
		conn.answerGet(conn.expect(jute.OpGetData), 1, "")
		if _, err := next.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		close(release)
	})
}

// logFunc is a Logger that is told the message alone.
type logFunc func(msg string)

func (f logFunc) Log(_ context.Context, _ slog.Level, msg string, _ ...any) { f(msg) }

// Callbacks may issue operations and wait for them.
func TestCallbackThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		got := make(chan string, 3)
		c.Async().Get("/1", func(Node, error) {
			node, err := c.Get(bg, "/2")
			got <- fmt.Sprint(string(node.Data), err)
			c.Async().Get("/3", func(v Node, err error) { got <- fmt.Sprint(string(v.Data), err) })
		})
		for range 3 {
			r := conn.expect(jute.OpGetData)
			conn.answerGet(r, 1, r.path())
		}
		for _, want := range []string{"/2<nil>", "/3<nil>"} {
			if v := within(t, "callback", got); v != want {
				t.Errorf("got %q, want %q", v, want)
			}
		}
	})
}

// Whatever is issued when, each call is answered once and the trace hears of it.
func TestTraceHearsOfEachCall(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		heard := make(chan string, 100)
		o := Options{}
		type name struct{}
		o.Trace.Request = func(ctx context.Context, r TracedRequest) {
			heard <- fmt.Sprintf("%v %s %v %d %v %v", r.Op, r.Path, r.Took, r.Zxid, errors.Is(r.Err, ErrConnectionLoss), ctx.Value(name{}))
		}
		c := n.newClient("a", o)
		conn := n.connect()
		waitState(t, c, StateConnected)
		f, g := c.Async().Get("/1"), c.Async().Get("/2")
		r := conn.expect(jute.OpGetData)
		time.Sleep(time.Second)
		conn.answerGet(r, 7, "")
		time.Sleep(time.Second)
		conn.Close()
		wait(f)
		wait(g)
		for _, want := range []string{"getData /1 1s 7 false <nil>", "getData /2 2s 0 true <nil>"} {
			if v := within(t, "trace", heard); v != want {
				t.Errorf("heard %q, want %q", v, want)
			}
		}
		n.setDown(errRefused, "a:2181")
		waitState(t, c, StateSuspended)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		c.Get(context.WithValue(ctx, name{}, "mine"), "/3")
		if v := within(t, "trace", heard); v != "getData /3 1s 0 true mine" { // why it had to wait
			t.Errorf("of a call that was given up: %q", v)
		}
		quiet(t, "trace", heard)
	})
}
