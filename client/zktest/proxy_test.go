package zktest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/jute"
)

// deadline ends a test that waits for what does not come.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustCreate(t testing.TB, c *client.Client, path string, mode client.CreateMode) {
	t.Helper()
	if _, err := c.Create(deadline(t), path, nil, client.CreateOptions{Mode: mode}); err != nil {
		t.Fatal(err)
	}
}

func await(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-deadline(t).Done():
		t.Fatalf("%s: not within 30 s", what)
	}
}

// TestCuts breaks the connection before and after one of several requests that
// are under way together: those before it are done and answered, it is done or
// not, and those after it are not.
func TestCuts(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			s := zktest.Start(t)
			c := s.Client(t, zktest.Plain)
			arm := s.CutBefore
			if after {
				arm = s.CutAfter
			}
			cut := arm(zktest.OpAt(jute.OpCreate, "/n5"))
			var creates []*client.Future[client.Created]
			for i := range 10 {
				creates = append(creates, c.Async().Create(fmt.Sprintf("/n%d", i), nil, client.CreateOptions{}))
			}
			await(t, "cut", cut.Done())
			for i, f := range creates {
				_, err := f.Wait(deadline(t))
				if i < 5 && err != nil || i >= 5 && !errors.Is(err, client.ErrConnectionLoss) {
					t.Errorf("create %d = %v", i, err)
				}
			}
			for i := range 10 {
				found, err := c.Exists(deadline(t), fmt.Sprintf("/n%d", i))
				if want := i < 5 || i == 5 && after; found.Exists != want || err != nil {
					t.Errorf("exists /n%d = %v, %v; want %v", i, found.Exists, err, want)
				}
			}
			if err := cut.Err(); after && err != nil || !after && err != client.ErrConnectionLoss {
				t.Errorf("the cut's error is %v", err)
			}
		})
	}
}

func TestCutAfterAFailure(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t, zktest.Plain)
	mustCreate(t, c, "/a", client.Persistent)
	cut := s.CutAfter(zktest.Writes())
	_, err := c.Create(deadline(t), "/a", nil, client.CreateOptions{})
	await(t, "cut", cut.Done())
	if !client.IsAmbiguous(err) || cut.Err() != client.ErrNodeExists {
		t.Errorf("create = %v, the reply was %v", err, cut.Err())
	}
}

func TestMatches(t *testing.T) {
	ctx := deadline(t)
	s := zktest.Start(t)
	c := s.Client(t, zktest.Plain)
	mustCreate(t, c, "/a", client.Persistent)

	never := s.CutBefore(zktest.At("/a"))
	never.Cancel()
	third := s.CutBefore(zktest.Nth(3, zktest.Op(jute.OpExists, jute.OpGetData)))
	if _, err := c.Get(ctx, "/a"); err != nil {
		t.Errorf("first read: %v", err)
	}
	if _, err := c.Exists(ctx, "/a"); err != nil {
		t.Errorf("second read: %v", err)
	}
	if _, err := c.Exists(ctx, "/a"); !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("third read: %v", err)
	}
	await(t, "third", third.Done())

	inMulti := s.CutAfter(zktest.OpAt(jute.OpMulti, "/c"))
	_, err := c.Multi(ctx, client.CreateOp("/b", nil, client.CreateOptions{}), client.CreateOp("/c", nil, client.CreateOptions{}))
	if !client.IsAmbiguous(err) {
		t.Errorf("multi = %v", err)
	}
	await(t, "multi", inMulti.Done())
	if found, err := c.Exists(ctx, "/c"); !found.Exists || err != nil {
		t.Errorf("exists /c = %v, %v", found.Exists, err)
	}

	next := s.CutBefore(zktest.Any())
	states := c.Session().States(ctx)
	s.CutConnections() // the handshake that follows is not what Any means
	for change := range states {
		if change.To.Connected() {
			break
		}
	}
	if err := c.Sync(ctx, "/"); !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("sync = %v", err)
	}
	await(t, "next", next.Done())

	// A session that is made and never heard of.
	cut := s.CutAfter(zktest.Op(jute.OpCreateSession))
	s.Client(t)
	await(t, "handshake", cut.Done())
}

// TestStall shows that what is held back is not lost, and that a break throws it
// away.
func TestStall(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t, zktest.Plain)
	mustCreate(t, c, "/a", client.Persistent)
	s.Stall()
	reads := c.Async().Get("/a")
	s.Resume()
	if _, err := reads.Wait(deadline(t)); err != nil {
		t.Errorf("get: %v", err)
	}
	before := s.Requests()
	s.Stall()
	lost := c.Async().Delete("/a", client.AnyVersion)
	s.CutConnections()
	if _, err := lost.Wait(deadline(t)); !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("delete: %v", err)
	}
	s.Resume()
	if found, err := c.Exists(deadline(t), "/a"); !found.Exists || err != nil {
		t.Errorf("exists = %v, %v", found.Exists, err)
	}
	if n := s.Requests().Since(before)[jute.OpDelete]; n != 0 {
		t.Errorf("%d deletes got through", n)
	}
}

func TestRefuse(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	s.Refuse()
	if err := c.Sync(deadline(t), "/"); err != nil {
		t.Errorf("sync on a connection that was there: %v", err)
	}
	if text, err := word(s.Addr(), "ruok"); err == nil && text != "" {
		t.Errorf("ruok said %q", text)
	}
	s.Accept()
	if text, err := word(s.Addr(), "ruok"); text != "imok" {
		t.Errorf("ruok said %q, %v", text, err)
	}
}

// word sends a four-letter word as nc does, which says first that nothing follows.
func word(addr, w string) (string, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	io.WriteString(nc, w)
	nc.(*net.TCPConn).CloseWrite()
	text, err := io.ReadAll(nc)
	return string(text), err
}

func TestLargeFrames(t *testing.T) {
	ctx := deadline(t)
	s := zktest.Start(t)
	c := s.Client(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 60_000)
	if _, err := c.Create(ctx, "/a", data, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if node, err := c.Get(ctx, "/a"); err != nil || !bytes.Equal(node.Data, data) {
		t.Errorf("got %d bytes, %v; want %d", len(node.Data), err, len(data))
	}
}

func TestCounts(t *testing.T) {
	ctx := deadline(t)
	s := zktest.Start(t)
	watcher, c := s.Client(t), s.Client(t)
	w, err := watcher.AddWatch(ctx, "/", client.WatchRecursive)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Requests()
	for i := range 3 {
		mustCreate(t, c, fmt.Sprintf("/%d", i), client.Persistent)
	}
	if err := s.AwaitNotifications(ctx, 3); err != nil {
		t.Error(err)
	}
	if err := s.AwaitRequests(ctx, jute.OpCreate, before[jute.OpCreate]+3); err != nil {
		t.Error(err)
	}
	for range 3 {
		if _, err := w.Next(ctx); err != nil {
			t.Error(err)
		}
	}
	since := s.Requests().Since(before)
	if since.Total() != 3 || since.Of(jute.OpCreate, jute.OpDelete) != 3 || s.Notifications() != 3 || s.Connections() != 2 {
		t.Errorf("%v, %d notifications, %d connections", since, s.Notifications(), s.Connections())
	}
	short, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("enough"))
	if err := s.AwaitRequests(short, jute.OpDelete, 1); err == nil || !strings.Contains(err.Error(), "1 requests delete: enough") {
		t.Errorf("an await that is given up says %v", err)
	}
}

func TestExpireSession(t *testing.T) {
	ctx := deadline(t)
	s := zktest.Start(t)
	owner, other := s.Client(t), s.Client(t)
	mustCreate(t, owner, "/e", client.Ephemeral)
	id := owner.Session().ID()
	s.ExpireSession(id)
	if found, err := other.Exists(ctx, "/e"); found.Exists || err != nil {
		t.Errorf("the ephemeral is there: %v, %v", found.Exists, err)
	}
	if _, err := owner.Get(ctx, "/"); !errors.Is(err, client.ErrSessionExpired) {
		// The break may have come in the middle.
		if _, err = owner.Get(ctx, "/"); !errors.Is(err, client.ErrSessionExpired) {
			t.Errorf("get = %v", err)
		}
	}
	if other.State() != client.StateConnected {
		t.Errorf("the other session is %v", other.State())
	}
}

func TestExpireSessionOfAStranger(t *testing.T) {
	f := standin.New()
	defer f.End()
	zktest.Start(f).ExpireSession(0x1234)
	if want := "zktest: expire session 0x1234: it has not come through this proxy"; f.Failures() != want {
		t.Errorf("failed with %q, want %q", f.Failures(), want)
	}
}

// TestCutSession shows that a session outlives its connection.
func TestCutSession(t *testing.T) {
	ctx := deadline(t)
	s := zktest.Start(t)
	c, other := s.Client(t), s.Client(t)
	states := c.Session().States(ctx)
	id := c.Session().ID()
	s.CutSession(id)
	for _, want := range []client.State{client.StateSuspended, client.StateConnected} {
		if change := <-states; change.To != want || change.Session != id {
			t.Errorf("%v of session %v, want %v of %v", change.To, change.Session, want, id)
		}
	}
	if n := s.Requests()[jute.OpCreateSession]; n != 3 || other.State() != client.StateConnected {
		t.Errorf("%d handshakes, the other session is %v", n, other.State())
	}
}

// TestOtherLibrary breaks the connection of a client that is not ours.
func TestOtherLibrary(t *testing.T) {
	s := zktest.Start(t)
	p := zktest.NewProxy(t, s.Addr())
	c, events, err := zk.Connect([]string{p.Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	cut := p.CutAfter(zktest.OpAt(jute.OpCreate, "/a"))
	if _, err := c.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); err != zk.ErrConnectionClosed {
		t.Errorf("create = %v", err)
	}
	await(t, "cut", cut.Done())
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	if ok, _, err := c.Exists("/a"); !ok || err != nil {
		t.Errorf("exists = %v, %v", ok, err)
	}
	p.ExpireSession(client.SessionID(c.SessionID()))
	for e := range events {
		if e.State == zk.StateExpired {
			return
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
