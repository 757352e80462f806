package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

func TestReadsOfARetryingViewSurviveEveryBreak(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := b.Look.Create(b.T.Context(), "/a", []byte("x"), client.CreateOptions{})
		must(b.T, err)
	}, func(ctx context.Context, b *breakage) {
		node, err := b.C.Get(ctx, "/a")
		must(b.T, err)
		list, err := b.C.ChildrenW(ctx, "/")
		must(b.T, err)
		if string(node.Data) != "x" || len(list.Names) != 1 {
			b.T.Fatalf("data is %q, children are %v", node.Data, list.Names)
		}
		_, err = b.Look.Create(ctx, "/b", nil, client.CreateOptions{})
		must(b.T, err)
		if ev, err := list.Watch.Next(ctx); err != nil || ev.Type != client.EventChildrenChanged {
			b.T.Fatalf("the watch has %v, %v", ev, err)
		}
	})
}

// A change of which it isn't known whether it was done is never hidden by a retry,
// and never done twice.
func TestChangesOfARetryingViewAreDoneAtMostOnce(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		_, err := b.C.Create(ctx, "/task-", nil, client.CreateOptions{Mode: client.PersistentSequential})
		if err != nil && !client.IsAmbiguous(err) {
			b.T.Fatal(err)
		}
		n := len(b.Children(ctx, "/"))
		if n > 1 || err == nil && n != 1 {
			b.T.Fatalf("%d nodes, error is %v", n, err)
		}
	})
}

func TestRetryingViewGivesUpWithTheSession(t *testing.T) {
	everyExpiry(t, false, func(ctx context.Context, b *breakage) {
		_, err := b.C.Get(ctx, "/")
		if b.Broken() {
			mustBe(b.T, err, client.ErrSessionExpired)
		} else {
			must(b.T, err)
		}
	})
}

// A call that is cancelled between two attempts fails as one does that is cancelled while
// there is no connection: with the context's error, and that of the connection behind it.
func TestCancelledBetweenAttempts(t *testing.T) {
	srv := newWorld(t, 1)
	b := newBreakage(t.Context(), t, srv, srv.Client(t), "d")
	ctx, cancel := context.WithCancel(t.Context())
	c := b.C.WithRetry(&client.RetryPolicy{Backoff: time.Hour, Jitter: func() float64 { cancel(); return 0 }})
	b.Cut = b.BreakAt("before", zktest.Op(jute.OpGetData))
	_, err := c.Get(ctx, "/")
	mustBe(t, err, context.Canceled)
	mustBe(t, err, client.ErrConnectionLoss)
	if client.IsAmbiguous(err) || client.IsRetryable(err) || !strings.HasPrefix(err.Error(), "getData /: context canceled: connection loss") {
		t.Errorf("error is %v", err)
	}
}

// The hazard of a worker's status: it sets "working" and the connection breaks, so
// nobody knows whether that was done; it sets "idle"; the retry of "working" must not
// come out on top. The version that settle.Set is given prevents that.
func TestOldStatusDoesNotOverwriteANewerOne(t *testing.T) {
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			ctx := t.Context()
			srv := newWorld(t, 1)
			b := newBreakage(ctx, t, srv, srv.Client(t), "d")
			// 1. The status is known, with its version.
			_, err := b.C.Create(ctx, "/status", []byte("idle"), client.CreateOptions{})
			must(t, err)
			// 2. The worker begins to work, and the connection breaks.
			b.Cut = b.BreakAt(where, zktest.Op(jute.OpSetData))
			b.P.Refuse()
			old := make(chan error)
			go func() {
				_, err := settle.Set(ctx, b.C, "/status", []byte("working"), 0)
				old <- err
			}()
			<-b.Cut.Done()
			// 3. and 4. The work is done, and says so over another connection.
			_, err = b.Look.Set(ctx, "/status", []byte("done"), client.AnyVersion)
			must(t, err)
			// 5. The connection is back; the first set is repeated, or seen to.
			b.P.Accept()
			mustBe(t, <-old, client.ErrBadVersion)
			// 6. The newer status stands.
			if data, _ := b.Data(ctx, "/status"); data != "done" {
				t.Fatalf("status is %q", data)
			}
		})
	}
}
