package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// taken returns the first n changes of a feed as text, and the last one.
func taken(t *testing.T, c *client.Client, path string, o client.FeedOptions, n int) (text string, last client.Change) {
	t.Helper()
	var b strings.Builder
	for change, err := range c.Feed(t.Context(), path, o) {
		ok(t, err)
		fmt.Fprintf(&b, "%v %s %s, ", change.Kind, change.Path, change.Data)
		last = change
		if n--; n == 0 {
			break
		}
	}
	return strings.TrimSuffix(b.String(), ", "), last
}

func TestFeed(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	if f := c.Status().Features; f&jute.FeatureFeed == 0 {
		t.Fatalf("the server grants %v", f)
	}
	makeNode(t, c, "/a", "1")
	makeNode(t, c, "/a/x", "2")
	makeNode(t, c, "/b", "3")
	_, err := c.Multi(t.Context(), client.SetOp("/a", []byte("4"), -1), client.SetOp("/b", []byte("5"), -1), client.SetOp("/a/x", []byte("6"), -1))
	ok(t, err)
	ok(t, c.Delete(t.Context(), "/a/x", -1))
	for _, tt := range []struct {
		name, path, want string
		n                int
		o                client.FeedOptions
	}{
		{"all", "/", "created /a 1, created /a/x 2, created /b 3, data /a 4, data /b 5, data /a/x 6, deleted /a/x ", 7, client.FeedOptions{Data: true}},
		{"below a path", "/a", "created /a , created /a/x , data /a , data /a/x , deleted /a/x ", 5, client.FeedOptions{}},
		{"a node alone", "/a", "created /a 1, data /a 4", 2, client.FeedOptions{Alone: true, Data: true}},
		{"kinds", "/", "created /a , created /a/x , created /b , deleted /a/x ", 4, client.FeedOptions{Kinds: []client.ChangeKind{client.ChangeCreated, client.ChangeDeleted}}},
	} {
		if got, _ := taken(t, c, tt.path, tt.o, tt.n); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if got, _ := taken(t, c.Namespace("/a"), "/", client.FeedOptions{}, 2); got != "created / , created /x " {
		t.Errorf("in a namespace: %s", got)
	}
	// From each change on, the others follow; from within a transaction, all of it.
	want := []string{"created /a/x ", "created /b ", "data /a ", "data /a ", "data /a ", "deleted /a/x "}
	for i, next := range want {
		_, change := taken(t, c, "/", client.FeedOptions{}, i+1)
		if got, again := taken(t, c, "/", client.FeedOptions{After: change.Resume}, 1); got != next || change.Resume > change.Zxid {
			t.Errorf("after change %d, %+v: %s %+v", i, change, got, again)
		}
	}
	ok(t, s.AwaitRequests(t.Context(), jute.OpUnsubscribe, 5+2*len(want)))
}

// A change says what became of the parent, and a client is told once that it may no longer read a node.
func TestFeedOfParentsAndLosses(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	makeNode(t, c, "/a", "")
	makeNode(t, c, "/a/x", "")
	secret := []client.ACL{{Perms: client.PermAll &^ client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	acl := func(acl []client.ACL) {
		t.Helper()
		_, err := c.SetACL(t.Context(), "/a/x", acl, -1)
		ok(t, err)
	}
	set := func() {
		t.Helper()
		_, err := c.Set(t.Context(), "/a/x", nil, -1)
		ok(t, err)
	}
	acl(secret)
	set()
	acl(secret)
	acl(client.OpenACL())
	ok(t, c.Delete(t.Context(), "/a/x", -1))
	parent, err := c.Exists(t.Context(), "/a")
	ok(t, err)
	var got []string
	for change, err := range c.Feed(t.Context(), "/a", client.FeedOptions{}) {
		ok(t, err)
		got = append(got, fmt.Sprintf("%v %s lost=%v", change.Kind, change.Path, change.Lost()))
		if change.Kind != client.ChangeDeleted {
			continue
		}
		if st := parent.Stat; change.ParentCversion != st.Cversion || change.ParentChildren != st.NumChildren || change.Zxid != st.Pzxid {
			t.Errorf("a change of %+v: %+v", st, change)
		}
		break
	}
	want := "created /a lost=false, created /a/x lost=false, acl /a/x lost=true, acl /a/x lost=false, deleted /a/x lost=false"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// A Follower knows when it has everything that its client has seen.
func TestFollowerIsLevel(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	makeNode(t, c, "/n", "")
	f := c.Follow("/n", client.FeedOptions{After: client.FromNow})
	defer f.Close()
	level := func() client.Zxid {
		t.Helper()
		for {
			changes, err := f.Next()
			ok(t, err)
			if zxid, level := f.Zxid(); level {
				return zxid
			}
			if len(changes) == 0 {
				<-f.Ready()
			}
		}
	}
	level()
	for range 5 {
		makeNode(t, c, "/other", "") // no change that the feed has
		ok(t, c.Delete(t.Context(), "/other", -1))
		if got, want := level(), c.Status().LastZxid; got != want {
			t.Errorf("the feed is at %v, and the client at %v", got, want)
		}
		_, err := c.Set(t.Context(), "/n", nil, -1)
		ok(t, err)
		if zxid, level := f.Zxid(); level {
			t.Errorf("the feed is at %v, and has not returned the last change", zxid)
		}
		level()
		s.CutSession(c.Session().ID())
		ok(t, c.WaitConnected(t.Context()))
	}
}

// A feed whose connection is lost again and again, and which moves between servers, has each
// change once, in order.
func TestFeedOverCuts(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient())
	c, writer := e.Client(t, steadfast), e.Client(t, steadfast)
	makeNode(t, writer, "/n", "")
	const changes = 300
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < changes && err == nil; i += 3 {
			var ops []client.Op
			for k := range 3 {
				ops = append(ops, client.SetOp("/n", fmt.Append(nil, i+k), -1))
			}
			_, err = writer.Multi(t.Context(), ops...)
		}
		written <- err
	}()
	n := 0
	for change, err := range c.Feed(t.Context(), "/n", client.FeedOptions{Data: true, Kinds: []client.ChangeKind{client.ChangeData}}) {
		ok(t, err)
		if string(change.Data) != fmt.Sprint(n) || int(change.Stat.Version) != n+1 {
			t.Fatalf("got %+v, want change %d", change, n)
		}
		if n++; n == changes {
			break
		}
		if n%20 == 0 {
			e.CutSession(c.Session().ID())
		}
	}
	ok(t, <-written)
}

// The last feed that a server has room for has it again on the next connection of its session.
func TestFeedKeepsItsPlace(t *testing.T) {
	s := zktest.Start(t, zktest.Config("zkd.maxFeeds=1"))
	c, writer := s.Client(t, steadfast), s.Client(t, steadfast)
	makeNode(t, writer, "/n", "")
	n := 0
	for change, err := range c.Feed(t.Context(), "/n", client.FeedOptions{After: 0}) {
		ok(t, err)
		if change.Kind == client.ChangeData && int(change.Stat.Version) != n {
			t.Fatalf("got %+v, want version %d", change, n)
		}
		if n++; n == 20 {
			break
		}
		s.CutSession(c.Session().ID())
		_, err := writer.Set(t.Context(), "/n", nil, -1)
		ok(t, err)
	}
}

// steadfast is for clients that lose connections, and must not lose their sessions or writes.
func steadfast(o *client.Options) {
	o.Logger, o.Timeout = client.NoLog, 10*time.Minute
}

// A feed ends with the reason.
func TestFeedEnds(t *testing.T) {
	s := zktest.Start(t, zktest.Config("zkd.feedHistoryKb=64"))
	c := s.Client(t)
	makeNode(t, c, "/n", "")
	end := func(c *client.Client, o client.FeedOptions, each func(client.Change)) error {
		for change, err := range c.Feed(t.Context(), "/n", o) {
			if err != nil {
				return err
			}
			each(change)
		}
		return nil
	}
	var gone *client.CompactedError
	err := end(c, client.FeedOptions{Data: true}, func(change client.Change) {
		if change.Kind == client.ChangeCreated { // more than the window and the history
			for range 40 {
				_, err := c.Set(t.Context(), "/n", make([]byte, 100_000), -1)
				ok(t, err)
			}
		}
	})
	if !errors.As(err, &gone) || gone.Oldest <= gone.After || !strings.Contains(err.Error(), "subscribe /n: the changes after zxid") {
		t.Errorf("a slow feed: %v", err)
	}
	if err := end(c, client.FeedOptions{}, nil); !errors.As(err, &gone) {
		t.Errorf("an old zxid: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for change, err := range c.Feed(ctx, "/n", client.FeedOptions{After: gone.Oldest}) {
		if err == nil {
			cancel()
			continue // there may be more that has come
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %+v: %v", change, err)
		}
	}
	cancel()
	if err := end(c, client.FeedOptions{After: -2}, nil); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("a zxid that can't be: %v", err)
	}
	failsWith(t, end(c, client.FeedOptions{After: gone.Oldest}, func(client.Change) { ok(t, c.Close(t.Context())) }), client.ErrClosed)

	off := zktest.Start(t, zktest.Config("zkd.feedHistoryKb=0")).Client(t)
	failsWith(t, end(off, client.FeedOptions{}, nil), client.ErrUnimplemented, "subscribe /n", "does not offer")
}
