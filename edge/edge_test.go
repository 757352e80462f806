package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a step of a test may take.
const patience = 5 * time.Minute

// start starts an edge of servers, and returns its address.
func start(t *testing.T, upstream string, change ...func(*Options)) (*Edge, string) {
	t.Helper()
	o := Options{Upstream: upstream, MaxClients: 100, Version: "3.9.5-x", Log: slog.New(slog.DiscardHandler), Client: client.Options{Logger: client.NoLog}}
	for _, f := range change {
		f(&o)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Serve("", l)
	t.Cleanup(e.Close)
	return e, l.Addr().String()
}

// old returns a client of an edge that knows no extension of the protocol, and loses writes with its connection.
func old(t *testing.T, address string, change ...func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{Logger: client.NoLog, PlainSession: true, Timeout: 20 * time.Second}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Connect(ctx, address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// TestNoConnectionIsLost cuts the connection upstream before and after requests of all kinds. Each is done once, the
// client gets its result, and still has its connection.
func TestNoConnectionIsLost(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	c := old(t, address)
	ctx := t.Context()
	if _, err := c.Create(ctx, "/n", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	since, sets, cuts := c.Status().Since, 0, 0
	get := func() error {
		node, err := c.GetW(ctx, "/n")
		if err == nil && int(node.Stat.Version) != sets {
			err = fmt.Errorf("version %d after %d sets", node.Stat.Version, sets)
		}
		return err
	}
	for _, op := range []struct {
		code jute.OpCode
		run  func(path string) error
	}{
		{jute.OpCreate, func(path string) error {
			_, err := c.Create(ctx, path, nil, client.CreateOptions{})
			return err
		}},
		{jute.OpCreate2, func(path string) error {
			made, err := c.Create(ctx, path+"-", nil, client.CreateOptions{Mode: client.EphemeralSequential, Stat: true})
			if err == nil && made.Stat.EphemeralOwner != c.Session().ID() {
				err = fmt.Errorf("created %+v", made)
			}
			return err
		}},
		{jute.OpSetData, func(string) error {
			sets++
			stat, err := c.Set(ctx, "/n", []byte("x"), client.AnyVersion)
			if err == nil && int(stat.Version) != sets {
				err = fmt.Errorf("version %d after %d sets", stat.Version, sets)
			}
			return err
		}},
		{jute.OpDelete, func(string) error {
			return c.Delete(ctx, "/"+jute.OpCreate.String()+fmt.Sprint(cuts%2), client.AnyVersion)
		}},
		{jute.OpMulti, func(path string) error {
			_, err := c.Multi(ctx, client.CreateOp(path, nil, client.CreateOptions{}), client.CheckOp("/n", client.AnyVersion))
			return err
		}},
		{jute.OpGetData, func(string) error { return get() }},
		{jute.OpExists, func(string) error { _, err := c.ExistsW(ctx, "/n"); return err }},
		{jute.OpGetChildren2, func(string) error { _, err := c.ChildrenW(ctx, "/"); return err }},
		{jute.OpGetACL, func(string) error { _, err := c.GetACL(ctx, "/n"); return err }},
		{jute.OpGetAllChildrenNumber, func(string) error { _, err := c.CountDescendants(ctx, "/"); return err }},
		{jute.OpGetEphemerals, func(string) error { _, err := c.Session().Ephemerals(ctx, "/"); return err }},
		{jute.OpSync, func(string) error { return c.Sync(ctx, "/") }},
		{jute.OpWhoAmI, func(string) error { _, err := c.Session().WhoAmI(ctx); return err }},
	} {
		for i, arm := range []func(zktest.Match) *zktest.Cut{s.CutBefore, s.CutAfter} {
			cut := arm(zktest.Op(op.code))
			if err := op.run(fmt.Sprintf("/%v%d", op.code, i)); err != nil {
				t.Errorf("%v, cut %d: %v", op.code, i, err)
			}
			<-cut.Done()
			cuts++
		}
	}
	until(t, "not each connection is replaced", func() bool { return e.figures.resumed.Load() >= int64(cuts) }) // it counts after it has answered
	if got := e.figures.resumed.Load(); got != int64(cuts) || e.figures.lost.Load() != 0 {
		t.Errorf("%d cuts, %d connections replaced, %d clients lost", cuts, got, e.figures.lost.Load())
	}
	if c.Status().Since != since {
		t.Error("the client has lost its connection")
	}
	// The same of the end of the session: it is told as if the connection had lasted.
	for _, arm := range []func(zktest.Match) *zktest.Cut{s.CutBefore, s.CutAfter} {
		c := old(t, address)
		cut := arm(zktest.Op(jute.OpCloseSession))
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		<-cut.Done()
	}
}

// TestPipelines has many requests of a client under way when connections end. Each read shows the writes before it,
// and none after it.
func TestPipelines(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	c := old(t, address)
	ctx := t.Context()
	for _, path := range []string{"/a", "/b"} {
		if _, err := c.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := context.WithCancel(ctx)
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for i := 0; stop.Err() == nil; i++ {
			match := zktest.Nth(1+i%17, zktest.Op(jute.OpSetData))
			if i%3 == 0 {
				match = zktest.Nth(1+i%5, zktest.Op(jute.OpGetData))
			}
			cut := s.CutAfter(match)
			select {
			case <-cut.Done():
			case <-stop.Done():
				cut.Cancel()
			}
		}
	})
	version := map[string]int32{}
	for range 20 {
		var checks []func() error
		for i := range 60 {
			path := []string{"/a", "/b"}[i/3%2]
			if i%3 == 1 {
				f, want := c.Async().Get(path), version[path]
				checks = append(checks, func() error {
					node, err := f.Wait(ctx)
					if err == nil && node.Stat.Version != want {
						err = fmt.Errorf("get of %s: version %d, want %d", path, node.Stat.Version, want)
					}
					return err
				})
				continue
			}
			version[path]++
			f, want := c.Async().Set(path, nil, client.AnyVersion), version[path]
			checks = append(checks, func() error {
				stat, err := f.Wait(ctx)
				if err == nil && stat.Version != want {
					err = fmt.Errorf("set of %s: version %d, want %d", path, stat.Version, want)
				}
				return err
			})
		}
		for _, check := range checks {
			if err := check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stopped()
	cutting.Wait()
	if lost := e.figures.lost.Load(); lost != 0 {
		t.Errorf("%d clients lost", lost)
	}
}

// TestWatchesAcrossConnections changes nodes while a connection upstream is away. The client's watches tell it, before the
// answer to a write of its own that comes later.
func TestWatchesAcrossConnections(t *testing.T) {
	s := zktest.Start(t)
	_, address := start(t, s.ConnectString())
	c := old(t, address)
	ctx := t.Context()
	direct := s.Client(t)
	if _, err := direct.Create(ctx, "/n", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	data, err := c.GetW(ctx, "/n")
	children, err2 := c.ChildrenW(ctx, "/")
	absent, err3 := c.ExistsW(ctx, "/later")
	quiet, err4 := c.ExistsW(ctx, "/never")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	id := c.Session().ID()
	s.Stall() // what the edge sends next has no answer
	f := c.Async().SetACL("/n", client.OpenACL(), client.AnyVersion)
	s.CutSession(id)
	s.Resume()
	if _, err := direct.Set(ctx, "/n", nil, client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Create(ctx, "/later", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*client.Watch{data.Watch, children.Watch, absent.Watch} {
		if _, err := w.Next(ctx); err != nil {
			t.Errorf("watch of %s: %v", w.Path(), err)
		}
	}
	if quiet.Watch.Fired() {
		t.Error("the watch of a node that was not changed has fired")
	}
}

// TestPersistentWatchesMissNothing cuts connections upstream with events on their way, and changes nodes while they are away. The client gets
// each event once, in its order, before the replies that show it.
func TestPersistentWatchesMissNothing(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	c := old(t, address)
	ctx := t.Context()
	direct := s.Client(t)
	for _, path := range []string{"/r", "/p", "/r/own", "/other"} {
		if _, err := direct.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	recursive, err := c.AddWatch(ctx, "/r", client.WatchRecursive)
	persistent, err2 := c.AddWatch(ctx, "/p", client.WatchPersistent)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	since := c.Status().Since
	acls := [][]client.ACL{nil, {{Perms: client.PermAll &^ client.PermRead, ID: jute.WorldAnyone}}} // a child that the client may not read is an event, too
	for round := range 12 {
		child, gone, id := fmt.Sprintf("/r/%d", round), fmt.Sprintf("/p/%d", round), c.Session().ID()
		if _, err := direct.Create(ctx, child, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Refuse()
		s.CutSession(id)
		own := c.Async().Set("/r/own", nil, client.AnyVersion)
		_, err := direct.Multi(ctx, client.SetOp("/r", nil, client.AnyVersion), client.SetOp("/other", nil, client.AnyVersion), client.SetOp("/r", nil, client.AnyVersion))
		_, err2 := direct.Create(ctx, gone, nil, client.CreateOptions{ACL: acls[round%2]})
		err3 := direct.Delete(ctx, gone, client.AnyVersion)
		_, err4 := direct.Set(ctx, "/p", nil, client.AnyVersion)
		if err := errors.Join(err, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		s.Accept()
		if _, err := own.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for w, want := range map[*client.Watch]string{
			recursive:  fmt.Sprintf("NodeCreated %s, NodeDataChanged /r, NodeDataChanged /r, NodeDataChanged /r/own, ", child),
			persistent: "NodeChildrenChanged /p, NodeChildrenChanged /p, NodeDataChanged /p, ",
		} {
			got, last := "", client.Zxid(0)
			for w.Pending() || len(w.Events()) > 0 {
				ev, err := w.Next(ctx)
				if err != nil || ev.Zxid < last {
					t.Errorf("%+v, %v after %v", ev, err, last)
				}
				got, last = got+fmt.Sprintf("%v %s, ", ev.Type, ev.Path), ev.Zxid
			}
			if got != want {
				t.Errorf("round %d: %s", round, got)
			}
		}
	}
	if c.Status().Since != since || e.figures.lost.Load() != 0 {
		t.Error("the client has lost its connection")
	}
}

// TestEndsWhereItMust: an edge does not promise what it can't keep.
func TestEndsWhereItMust(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	ctx := t.Context()
	t.Run("an operation that may have been done", func(t *testing.T) {
		c := old(t, address)
		cut := s.CutAfter(zktest.Op(jute.OpReconfig))
		if _, err := c.Ensemble().Reconfig(ctx, client.Members{Leaving: "9"}, -1); !errors.Is(err, client.ErrConnectionLoss) {
			t.Errorf("%v", err)
		}
		<-cut.Done()
	})
	t.Run("an operation that does not exist", func(t *testing.T) {
		b, mark := jute.BeginFrame(hello())
		h := jute.RequestHeader{Xid: 5, Type: 888}
		got := say(t, address, string(jute.EndFrame(h.Append(b), mark)))
		if !strings.HasSuffix(got, "\xff\xff\xff\xfa") { // -6: and the connection has ended
			t.Errorf("%q", got)
		}
	})
	t.Run("expired session", func(t *testing.T) {
		c := old(t, address)
		before := e.figures.lost.Load()
		states := c.Session().States(ctx)
		s.ExpireSession(c.Session().ID())
		for got := range states {
			if got.To.Final() {
				if got.To != client.StateExpired {
					t.Errorf("%+v", got)
				}
				break
			}
		}
		if e.figures.lost.Load() == before {
			t.Error("the edge has not noticed")
		}
	})
	t.Run("wrong identity", func(t *testing.T) {
		c := old(t, address)
		if err := c.Session().AddAuth(ctx, "none", []byte("x")); !errors.Is(err, client.ErrAuthFailed) {
			t.Errorf("%v", err)
		}
	})
}

// TestIdentitiesAcrossConnections adds an identity, which the next connection upstream has as well.
func TestIdentitiesAcrossConnections(t *testing.T) {
	s := zktest.Start(t)
	_, address := start(t, s.ConnectString())
	c := old(t, address)
	ctx := t.Context()
	if err := c.Session().AddAuth(ctx, "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/own", nil, client.CreateOptions{ACL: []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "auth"}}}}); err != nil {
		t.Fatal(err)
	}
	cut := s.CutBefore(zktest.Op(jute.OpGetData))
	if _, err := c.Get(ctx, "/own"); err != nil {
		t.Error(err)
	}
	<-cut.Done()
}

// TestTakesSessionsOver has a client whose edge ends. It resumes its session through another one, in which writes are done exactly
// once again.
func TestTakesSessionsOver(t *testing.T) {
	s := zktest.Start(t)
	first, one := start(t, s.ConnectString())
	_, two := start(t, s.ConnectString())
	c := old(t, one+","+two, func(o *client.Options) { o.Fixed = true })
	ctx := t.Context()
	if _, err := c.Create(ctx, "/mine", nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	id, states := c.Session().ID(), c.Session().States(ctx)
	first.Close()
	for got := range states {
		if got.To == client.StateConnected {
			break
		}
	}
	cut := s.CutAfter(zktest.Op(jute.OpSetData))
	stat, err := c.Set(ctx, "/mine", nil, client.AnyVersion)
	if err != nil || stat.Version != 1 || stat.EphemeralOwner != id {
		t.Errorf("%+v, %v", stat, err)
	}
	<-cut.Done()
}

// TestLeavesSessionsThatMove has a client whose session is resumed through another edge, while its connection to the first one is there. That
// connection ends, and the session stays where it is.
func TestLeavesSessionsThatMove(t *testing.T) {
	s := zktest.Start(t)
	first, one := start(t, s.ConnectString())
	second, two := start(t, s.ConnectString())
	nc, err := net.Dial("tcp", one)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write(hello())
	answer := make([]byte, 4+36)
	if _, err := io.ReadFull(nc, answer); err != nil {
		t.Fatal(err)
	}
	var r jute.ConnectResponse
	d := jute.NewDecoder(answer[4:])
	r.Decode(&d)
	c := old(t, two, func(o *client.Options) { o.Session = client.SessionKey{ID: r.SessionID, Password: r.Password} })
	if rest, err := io.ReadAll(nc); len(rest) > 0 || err != nil {
		t.Errorf("%x, %v", rest, err)
	}
	if _, err := c.Get(t.Context(), "/"); err != nil || c.Session().ID() != r.SessionID {
		t.Errorf("session %v of %v, %v", c.Session().ID(), r.SessionID, err)
	}
	f := &first.figures
	if f.moved.Load() != 1 || f.lost.Load() != 0 || f.resumed.Load() != 0 || second.figures.resumed.Load() != 0 {
		t.Errorf("%d moved, %d lost, %d and %d resumed", f.moved.Load(), f.lost.Load(), f.resumed.Load(), second.figures.resumed.Load())
	}
}

// say sends bytes to an edge, and returns what it sends until it ends the connection.
func say(t *testing.T, address, text string) string {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write([]byte(text))
	answer, _ := io.ReadAll(nc) // it may be reset
	return string(answer)
}

// TestWords asks for figures, and sends what is no request.
func TestWords(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	c := old(t, address)
	for word, want := range map[string]string{
		"ruok": "imok", "isro": "rw", "mntr": "zk_edge_clients\t1\n", "stat": "Clients:\n /127.0.0.1:", "envi": "zookeeper.version=3.9.5-x",
		"srvr": "\nUpstream: " + s.ConnectString() + " 1\nResumed: 0\nLost: 0\n",
		"cons": fmt.Sprintf("sid=0x%x,", uint64(c.Session().ID())), "dump": "ask a server",
	} {
		if got := say(t, address, word); !strings.Contains(got, want) {
			t.Errorf("%s: %q", word, got)
		}
	}
	for _, bad := range []string{"\x7f\xff\xff\xff", "\xff\xff\xff\xff", "\x00\x00\x00\x02ab", "GET / HTTP/1.1\r\n\r\n"} {
		if got := say(t, address, bad); got != "" {
			t.Errorf("%q: %q", bad, got)
		}
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// hello is the connect request of a new session.
func hello() []byte {
	q := jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, jute.PasswordLen)}
	b, mark := jute.BeginFrame(nil)
	return jute.EndFrame(q.Append(b), mark)
}

// TestAnEndedSessionIsNoFailure has a client come back to a session that has ended: the server has answered.
func TestAnEndedSessionIsNoFailure(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	q := jute.ConnectRequest{TimeoutMs: 10_000, SessionID: 99, Password: make([]byte, jute.PasswordLen)}
	b, mark := jute.BeginFrame(nil)
	if got := say(t, address, string(jute.EndFrame(q.Append(b), mark))); got == "" {
		t.Error("the client does not learn that its session has ended")
	}
	if got, n := say(t, address, "srvr"), e.figures.failed.Load(); strings.Contains(got, "Trouble") || n != 0 {
		t.Errorf("%d attempts have failed:\n%s", n, got)
	}
}

// TestTooManyClients refuses a client, and still answers what is wrong.
func TestTooManyClients(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString(), func(o *Options) { o.MaxClients = 1 })
	c := old(t, address)
	if got := say(t, address, string(hello())); got != "" || e.figures.refused.Load() != 1 {
		t.Errorf("%q, %d refused", got, e.figures.refused.Load())
	}
	if got := say(t, address, "srvr"); !strings.Contains(got, "Trouble: clients are refused: there are 1, and no more may be\n") {
		t.Errorf("srvr: %s", got)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	old(t, address) // in its place, at the latest when the edge has noticed: the client tries again
}

// TestSilentClientsMakeRoom: connections that say nothing keep nobody else away.
func TestSilentClientsMakeRoom(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString(), func(o *Options) { o.Descriptors = 3 }) // one client, and one connection more
	var silent []net.Conn
	for range 5 {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(patience))
		silent = append(silent, nc)
	}
	for _, nc := range silent[:3] {
		if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("an older one is still there:", err)
		}
	}
	old(t, address)
	if got := say(t, address, "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
	if n := e.figures.refused.Load(); n < 3 {
		t.Errorf("%d refused", n)
	}
}

// TestGoesBeforeItsSession: a client that goes while no server is reached takes nothing any more, whatever timeout it has asked for. What one that stays has sent
// meanwhile is answered when there is a server.
func TestGoesBeforeItsSession(t *testing.T) {
	s := zktest.Start(t)
	p := zktest.NewProxy(t, s.ConnectString())
	p.Stall()
	e, address := start(t, p.ConnectString())
	q := jute.ConnectRequest{TimeoutMs: math.MaxInt32, Password: make([]byte, jute.PasswordLen)}
	b, mark := jute.BeginFrame(nil)
	begin := jute.EndFrame(q.Append(b), mark)
	connect := func() net.Conn {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(patience))
		nc.Write(begin)
		return nc
	}
	stays, goes := connect(), connect()
	var begun *conn // the one that stays
	until(t, "the client has not begun", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for c := range e.conns {
			if c.begins.Load() && c.nc.RemoteAddr().String() == stays.LocalAddr().String() {
				begun = c
			}
		}
		return begun != nil
	})
	b, mark = jute.BeginFrame(nil)
	h, body := jute.RequestHeader{Xid: 1, Type: jute.OpExists}, jute.PathWatchRequest{Path: "/"}
	stays.Write(jute.EndFrame(body.Append(h.Append(b)), mark))
	goes.Close()
	until(t, "the one that goes stays", func() bool { return e.left() <= 1 })
	p.Resume()
	if _, err := frame(stays); err != nil {
		t.Fatal(err)
	}
	reply, err := frame(stays)
	if err != nil {
		t.Fatal(err)
	}
	d := jute.NewDecoder(reply)
	var answer jute.ReplyHeader
	if answer.Decode(&d); answer.Xid != 1 || answer.Err != 0 {
		t.Errorf("the answer: %+v", answer)
	}
}

// TestDescriptors: clients leave enough of what the process may have open for connections to the servers, however little that is.
func TestDescriptors(t *testing.T) {
	for _, tt := range []struct {
		files                    int64
		most, connections        int
		wantClients, wantBesides int
	}{
		{0, 10_000, 2, 10_000, 100},
		{-1, 10_000, 2, 10_000, 100},
		{1 << 40, 10_000, 2, 10_000, 100},
		{20_000, 10_000, 2, 10_000, 100},
		{20_000, 10_000, 0, 9820, 100},
		{1024, 10_000, 2, 752, 100},
		{64, 10_000, 2, 24, 8},
		{2, 10_000, 2, 1, 1},
	} {
		o := Options{MaxClients: tt.most, Connections: tt.connections, Descriptors: tt.files}
		clients, besides := o.divide(3)
		if clients != tt.wantClients || besides != tt.wantBesides {
			t.Errorf("%d files, %d connections to a server: %d clients and %d connections besides, want %d and %d", tt.files, tt.connections, clients, besides, tt.wantClients, tt.wantBesides)
		}
	}
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString(), func(o *Options) { o.Connections, o.Descriptors = 2, 8 }) // 3 clients, and 1 besides
	for range 3 {
		old(t, address)
	}
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	until(t, "there are not four", func() bool { return e.left() >= 4 })
	if got := say(t, address, "ruok"); got != "imok" {
		t.Errorf("the fifth is told %q", got)
	}
	idle.SetDeadline(time.Now().Add(patience))
	if _, err := idle.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the fourth has made no room:", err)
	}
}

// TestOverrun has clients that do not read what waits for them. No others are taken, until they have read it or are gone.
func TestOverrun(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString())
	old(t, address)
	e.figures.queued.Add(overrun + 1) // as if they were many
	if got := say(t, address, string(hello())); got != "" || e.figures.refused.Load() != 1 {
		t.Errorf("%q, %d refused", got, e.figures.refused.Load())
	}
	if got := say(t, address, "srvr"); !strings.Contains(got, "Trouble: clients are refused: 256 MiB wait") {
		t.Errorf("srvr: %s", got)
	}
	e.figures.queued.Add(-overrun - 1)
	c := old(t, address)
	if _, err := c.Create(t.Context(), "/n", make([]byte, 100_000), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		c.Async().Get("/n")
	}
	e.Close()
	if n := e.figures.queued.Load(); n != 0 {
		t.Errorf("%d bytes wait for nobody", n)
	}
}

// TestTroubles has an edge without servers, and one whose servers go.
func TestTroubles(t *testing.T) {
	s := zktest.Start(t)
	_, address := start(t, s.ConnectString())
	c := old(t, address)
	s.Stall()
	s.CutSession(c.Session().ID())
	for !strings.Contains(say(t, address, "srvr"), "Trouble: clients that wait for a server: 1") {
		if t.Context().Err() != nil {
			t.Fatal("no trouble")
		}
	}
	s.Resume()
	if _, err := c.Get(t.Context(), "/"); err != nil {
		t.Error(err)
	}
	got := ""
	for deadline := time.Now().Add(patience); !strings.Contains(got, "Resumed: 1\n") && time.Now().Before(deadline); { // it is counted after it works
		got = say(t, address, "srvr")
	}
	if !strings.Contains(got, "Resumed: 1\n") || strings.Contains(got, "Trouble") {
		t.Errorf("srvr: %s", got)
	}
}
