package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestXidsWrapAround(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		c.s.mu.Lock()
		c.s.seq = 1<<31 - 4
		c.s.mu.Unlock()
		var futures []*Future[Node]
		for i := range 5 {
			futures = append(futures, c.Async().Get(fmt.Sprint("/", i)))
		}
		var xids []int32
		for i := range 5 {
			r := conn.expect(jute.OpGetData)
			xids = append(xids, r.xid)
			conn.answerGet(r, Zxid(i+1), r.path())
		}
		if want := []int32{1<<31 - 3, 1<<31 - 2, 1<<31 - 1, 1, 2}; !reflect.DeepEqual(xids, want) {
			t.Errorf("xids %d, want %d", xids, want)
		}
		for i, f := range futures {
			if v, err := f.Wait(bg); err != nil || string(v.Data) != fmt.Sprint("/", i) {
				t.Errorf("reply %d: %q, %v", i, v.Data, err)
			}
		}
	})
}

func TestXidOf(t *testing.T) {
	const most = 1<<31 - 1
	for seq, want := range map[uint64]int32{1: 1, 2: 2, most: most, most + 1: 1, 2 * most: most, 2*most + 1: 1, 1 << 33: 4, 1<<63 + 1: 3} {
		if got := xidOf(seq); got != want {
			t.Errorf("xidOf(%d) = %d, want %d", seq, got, want)
		}
	}
}

// A reply that is not to the oldest request ends the connection: it can't be known
// what else is wrong with the server.
func TestReplyOutOfOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		get := c.Async().GetW("/x")
		set := c.Async().Set("/x", nil, -1)
		conn.expect(jute.OpGetData)
		conn.reply(conn.expect(jute.OpSetData), 1, &Stat{})
		for what, err := range map[string]error{"get": wait(get), "set": wait(set)} {
			if !errors.Is(err, ErrConnectionLoss) || IsAmbiguous(err) != (what == "set") || !strings.Contains(err.Error(), "out of order") {
				t.Errorf("%s: %v, ambiguous: %v", what, err, IsAmbiguous(err))
			}
		}
		if r := n.connect(); len(r.pending()) != 0 || tableSize(c) != 0 {
			t.Errorf("a watch that was not set is in the table (%d)", tableSize(c))
		}
	})
}

func wait[T any](f *Future[T]) error {
	_, err := f.Wait(bg)
	return err
}

// A change that was not handed to the socket has not been done, and the error says
// so; one that was may have been.
func TestAmbiguousIsWhatWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		a := c.Async()
		sent := a.Set("/sent", nil, -1)
		sentGet := a.Get("/sent")
		synctest.Wait() // the writer hangs in its write: nobody reads
		queued := a.Set("/queued", nil, -1)
		queuedGet := a.Get("/queued")
		conn.Close()
		for what, err := range map[string]error{"sent": wait(sent), "sent get": wait(sentGet), "queued": wait(queued), "queued get": wait(queuedGet)} {
			if !errors.Is(err, ErrConnectionLoss) || IsAmbiguous(err) != (what == "sent") {
				t.Errorf("%s: %v, ambiguous: %v", what, err, IsAmbiguous(err))
			}
		}
	})
}

// What was issued without a connection is sent when there is one, in order, behind
// the identities and the watches.
func TestWaitingCallsAreSent(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Auth: []Auth{{"digest", []byte("a:a")}}})
		early := c.Async().Create("/first", nil, CreateOptions{})
		conn := n.connect()
		conn.reply(conn.expect(jute.OpAuth), 0, nil)
		conn.reply(conn.expect(jute.OpCreate), 5, &jute.PathResponse{Path: "/first"})
		if err := wait(early); err != nil {
			t.Fatal(err)
		}
		w := c.Async().GetW("/x")
		conn.answerGet(conn.expect(jute.OpGetData), 6, "")
		if err := wait(w); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		waitState(t, c, StateSuspended)
		calls := []<-chan struct{}{
			c.Async().Set("/x", nil, 1).Done(), c.Async().Get("/x").Done(), c.Async().AddAuth("digest", []byte("b:b")).Done(),
			c.Async().Delete("/x", 1).Done(), c.Async().Exists("/x").Done(),
		}
		conn = n.connect()
		var ops []jute.OpCode
		for range 7 {
			r, err := conn.read()
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, r.op)
			switch r.op {
			case jute.OpSetWatches:
				if q := r.setWatches(); q.RelativeZxid != 6 || !reflect.DeepEqual(q.Data, []string{"/x"}) {
					t.Errorf("setWatches %+v", q)
				}
				conn.reply(r, 0, nil)
			case jute.OpGetData:
				conn.answerGet(r, 7, "")
			default:
				conn.reply(r, 7, &Stat{})
			}
		}
		want := []jute.OpCode{jute.OpAuth, jute.OpAuth, jute.OpSetWatches, jute.OpSetData, jute.OpGetData, jute.OpDelete, jute.OpExists}
		if !reflect.DeepEqual(ops, want) {
			t.Errorf("sent %v, want %v", ops, want)
		}
		for _, done := range calls {
			<-done
		}
	})
}

func TestContextEndsBeforeSending(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181")
		c := n.newClient("a", Options{})
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := c.Create(ctx, "/x", nil, CreateOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errRefused) || IsAmbiguous(err) {
			t.Errorf("create: %v", err)
		}
		node, err := c.GetW(ctx, "/x")
		if err == nil || node.Watch != nil || tableSize(c) != 0 {
			t.Errorf("GetW: %v, %v, %d watches", node.Watch, err, tableSize(c))
		}
		n.setDown(nil, "a:2181")
		conn := n.connect()
		synctest.Wait()
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("sent nevertheless: %v", ops)
		}
	})
}

// An operation whose context has ended before is not begun.
func TestContextThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		for range 20 {
			if _, err := c.Create(ctx, "/x", nil, CreateOptions{}); !errors.Is(err, context.Canceled) || IsAmbiguous(err) {
				t.Fatalf("create: %v", err)
			}
			if err := c.Session().AddAuth(ctx, "digest", []byte("a:b")); !errors.Is(err, context.Canceled) {
				t.Fatalf("addAuth: %v", err)
			}
		}
		synctest.Wait()
		if ops := conn.pending(); len(ops) != 0 {
			t.Errorf("sent nevertheless: %v", ops)
		}
	})
}

// A caller that leaves does not disturb the replies to others.
func TestContextEndsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		cause := errors.New("bored")
		ctx, cancel := context.WithCancelCause(bg)
		set := goErr(func() error { _, err := c.Set(ctx, "/x", nil, -1); return err })
		rset := conn.expect(jute.OpSetData)
		get := goErr(func() error { node, err := c.GetW(ctx, "/x"); _ = node.Watch; return err })
		rget := conn.expect(jute.OpGetData)
		cancel(cause)
		if err := within(t, "set", set); !errors.Is(err, cause) || !IsAmbiguous(err) {
			t.Errorf("set: %v", err)
		}
		if err := within(t, "get", get); !errors.Is(err, cause) || IsAmbiguous(err) {
			t.Errorf("get: %v", err)
		}
		other := goDo(func() (string, error) { node, err := c.Get(bg, "/y"); return string(node.Data), err })
		rother := conn.expect(jute.OpGetData)
		conn.reply(rset, 1, &Stat{})
		conn.answerGet(rget, 2, "late")
		conn.answerGet(rother, 3, "mine")
		if v := within(t, "other", other); v.err != nil || v.val != "mine" {
			t.Errorf("the next operation got %q, %v", v.val, v.err)
		}
		if tableSize(c) != 0 {
			t.Error("the watch of a caller that has left is in the table")
		}
	})
}

func TestRequestTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		const limit = 1000
		// Of data: a header, the path, the data's length, the version, and the request's number in
		// the session are sent, too.
		const most = limit - 8 - 6 - 4 - 4 - 8
		c := n.newClient("a", Options{MaxRequest: limit})
		conn := n.connect()
		waitState(t, c, StateConnected)
		before := goErr(func() error { _, err := c.Exists(bg, "/before"); return err })
		first := conn.expect(jute.OpExists)
		_, err := c.Set(bg, "/x", make([]byte, most+1), -1)
		if !errors.Is(err, ErrBadArguments) || IsAmbiguous(err) || !strings.Contains(err.Error(), "1000") {
			t.Errorf("set: %v", err)
		}
		node, err := c.GetW(bg, "/"+strings.Repeat("x", 1000))
		if !errors.Is(err, ErrBadArguments) || node.Watch != nil || tableSize(c) != 0 {
			t.Errorf("GetW: %v, %v, %d watches", node.Watch, err, tableSize(c))
		}
		after := goErr(func() error { _, err := c.Set(bg, "/x", make([]byte, most), -1); return err })
		r := conn.expect(jute.OpSetData)
		conn.reply(first, 1, &Stat{})
		conn.reply(r, 2, &Stat{})
		if err := within(t, "before", before); err != nil {
			t.Error(err)
		}
		if err := within(t, "after", after); err != nil {
			t.Error(err)
		}
	})
}

func TestBrokenReplyBody(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		f, g := c.Async().GetW("/x"), c.Async().Set("/x", nil, -1)
		h := jute.ReplyHeader{Xid: conn.expect(jute.OpGetData).xid, Zxid: 1}
		conn.expect(jute.OpSetData)
		conn.send(append(h.Append(nil), 0, 0, 1))
		v, err := f.Wait(bg)
		if !errors.Is(err, ErrMarshalling) || v.Watch != nil || IsAmbiguous(err) {
			t.Errorf("get: %v, watch %v", err, v.Watch)
		}
		if err := wait(g); !errors.Is(err, ErrConnectionLoss) || !IsAmbiguous(err) {
			t.Errorf("set: %v", err)
		}
		conn = n.connect()
		synctest.Wait()
		if ops := conn.pending(); len(ops) != 0 || tableSize(c) != 0 {
			t.Errorf("%d watches in the table, sent %v", tableSize(c), ops)
		}
	})
}

func TestReplyTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{MaxReply: 1000})
		conn := n.connect()
		f := c.Async().Get("/x")
		conn.answerGet(conn.expect(jute.OpGetData), 1, strings.Repeat("x", 900))
		if err := wait(f); err != nil {
			t.Error(err)
		}
		f = c.Async().Get("/x")
		conn.expect(jute.OpGetData)
		go conn.Write([]byte{0, 0, 3, 0xe9}) // 1001
		if err := wait(f); !errors.Is(err, ErrConnectionLoss) || !strings.Contains(err.Error(), "MaxReply") {
			t.Errorf("reply of 1001 bytes: %v", err)
		}
		n.connect()
	})
}

// A watch is returned if it was set, and else nil.
func TestWatchOnlyWithSuccess(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		calls := map[string]func() (*Watch, error){
			"get":      func() (*Watch, error) { node, err := c.GetW(bg, "/x"); return node.Watch, err },
			"exists":   func() (*Watch, error) { found, err := c.ExistsW(bg, "/x"); return found.Watch, err },
			"children": func() (*Watch, error) { list, err := c.ChildrenW(bg, "/x"); return list.Watch, err },
			"addWatch": func() (*Watch, error) { return c.AddWatch(bg, "/x", WatchRecursive) },
			"config":   func() (*Watch, error) { node, err := c.GetW(bg, ConfigPath); return node.Watch, err },
		}
		for what, call := range calls {
			for _, code := range []jute.Code{ErrNoNode, ErrNoAuth} {
				got := goDo(call)
				r, err := conn.read()
				if err != nil {
					t.Fatal(err)
				}
				conn.refuse(r, 1, code)
				v := within(t, what, got)
				if absent := what == "exists" && code == ErrNoNode; (v.val != nil) != absent || (v.err == nil) != absent || tableSize(c) != 0 && !absent {
					t.Errorf("%s refused with %v: watch %v, %v, %d in the table", what, code, v.val, v.err, tableSize(c))
				}
				if v.val != nil {
					closed := goErr(func() error { return v.val.Close(bg) })
					conn.reply(conn.expect(jute.OpRemoveWatches), 1, nil)
					within(t, "Close", closed)
				}
			}
		}
	})
}

func TestFutureFromManyGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		f := c.Async().Get("/x")
		if _, ok, _ := f.Result(); ok {
			t.Error("a result before the reply")
		}
		ended, cancel := context.WithCancel(bg)
		cancel()
		if _, err := f.Wait(ended); !errors.Is(err, context.Canceled) || IsAmbiguous(err) {
			t.Errorf("Wait with a context that has ended: %v", err)
		}
		var wg sync.WaitGroup
		check := func(v Node, err error) {
			if err != nil || string(v.Data) != "data" {
				t.Errorf("%q, %v", v.Data, err)
			}
		}
		for i := range 30 {
			wg.Go(func() {
				switch i % 3 {
				case 0:
					check(f.Wait(bg))
				case 1:
					<-f.Done()
					v, ok, err := f.Result()
					if !ok {
						t.Error("done without a result")
					}
					check(v, err)
				case 2:
					ctx, cancel := context.WithTimeout(bg, time.Hour)
					defer cancel()
					check(f.Wait(ctx))
				}
			})
		}
		conn.answerGet(conn.expect(jute.OpGetData), 1, "data")
		wg.Wait()
		check(f.Wait(ended)) // what is there is there
		<-f.Done()
	})
}

// A server that does not read stops the flood of requests, and none of the callers
// waits forever.
func TestBackPressure(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{Timeout: 9 * time.Second})
		n.connect()
		waitState(t, c, StateConnected)
		data := bytes.Repeat([]byte("x"), 1<<20-1000)
		// 17 of them fill what may wait, which happens up to three times: what the
		// writer takes in one go, what waits after that, and what then waits for a
		// connection.
		const many = 60
		flood := make(chan *Future[Stat], 1000)
		go func() {
			defer close(flood)
			for range many {
				flood <- c.Async().Set("/x", data, -1)
			}
		}()
		synctest.Wait()
		c.s.mu.Lock()
		waiting := len(c.s.out)
		c.s.mu.Unlock()
		if issued := len(flood); issued == many || waiting < maxOut || waiting > maxOut+len(data)+1000 {
			t.Errorf("%d requests and %d bytes wait to be written", issued, waiting)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Set(ctx, "/y", nil, -1)
		if !errors.Is(err, context.DeadlineExceeded) || IsAmbiguous(err) || time.Since(began) != time.Second {
			t.Errorf("a caller with a context that ends after 1 s is back after %v: %v, ambiguous %v", time.Since(began), err, IsAmbiguous(err))
		}
		waitState(t, c, StateSuspended) // silence
		synctest.Wait()
		c.s.mu.Lock() // what follows waits for a connection, and no more than may
		waiting = c.s.waiting
		c.s.mu.Unlock()
		if waiting < maxOut || waiting > maxOut+len(data)+1000 || len(flood) == many {
			t.Errorf("%d requests and %d bytes wait for a connection", len(flood), waiting)
		}
		lost := 0
		for range 20 {
			if f := <-flood; f != nil {
				if _, ok, err := f.Result(); ok && errors.Is(err, ErrConnectionLoss) {
					lost++
				}
			}
		}
		if lost < 16 {
			t.Errorf("%d calls failed with the connection", lost)
		}
		conn := n.connect() // and what was not issued yet goes to the next one
		conn.reply(conn.expect(jute.OpSetData), 1, &Stat{})
		synctest.Wait()
		if _, more := <-flood; !more {
			t.Error("nothing was issued after the reconnect")
		}
		c.s.mu.Lock()
		waiting = c.s.waiting
		c.s.mu.Unlock()
		if waiting != 0 {
			t.Errorf("%d bytes are said to wait for a connection that is there", waiting)
		}
	})
}

// Calls that wait for a connection and are given up leave their room to others.
func TestRoomOfCallsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		data := bytes.Repeat([]byte("x"), 1<<20-1000)
		ctx, cancel := context.WithCancel(bg)
		for range 20 {
			go c.Set(ctx, "/x", data, -1)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if c.s.waiting != 0 || c.s.calls.Len() != 0 {
			t.Errorf("%d calls with %d bytes wait", c.s.calls.Len(), c.s.waiting)
		}
	})
}

// What operations use again is never two operations' at a time, whenever their
// callers leave.
func TestNoResultGoesToAnother(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		c := n.newClient("a", Options{})
		conn := n.connect()
		waitState(t, c, StateConnected)
		served := goErr(func() error { // answers with the path, after up to 4 ms
			r := seeded(1)
			for {
				q, err := conn.read()
				if err != nil {
					return err
				}
				if r.IntN(100) == 0 {
					time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
				}
				h, body := jute.ReplyHeader{Xid: q.xid, Zxid: 1}, jute.GetDataResponse{Data: []byte(q.path())}
				(&modelConn{fakeConn: conn}).put(body.Append(h.Append(nil)))
			}
		})
		var wg sync.WaitGroup
		var got, left atomic.Int64
		for g := range 40 {
			r := seeded(uint64(g))
			wg.Go(func() {
				for i := range 100 {
					ctx, cancel := context.WithTimeout(bg, time.Duration(r.IntN(6000))*time.Microsecond)
					path := fmt.Sprintf("/%d/%d", g, i)
					node, err := c.Get(ctx, path)
					cancel()
					switch {
					case err == nil && string(node.Data) == path:
						got.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						left.Add(1)
					default:
						t.Errorf("get %s: %q, %v", path, node.Data, err)
					}
				}
			})
		}
		wg.Wait()
		c.s.abort()
		<-served
		if got.Load() < 100 || left.Load() < 100 {
			t.Errorf("%d came, %d callers left: not much of a test", got.Load(), left.Load())
		}
	})
}

// Thousands of callers that leave together while there is no connection are gone at
// once, and nothing of theirs is kept.
func TestManyCallersLeave(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		n.setDown(errRefused, "a:2181")
		c := n.newClient("a", Options{})
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 3000 {
			wg.Go(func() {
				if _, err := c.GetW(ctx, fmt.Sprint("/", i)); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if c.s.calls.Len() != 0 || len(c.s.watches.byPath[watchData]) != 0 {
			t.Errorf("%d calls and %d watches are left", c.s.calls.Len(), len(c.s.watches.byPath[watchData]))
		}
	})
}
