package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

func TestReadsOfARetryingViewSurviveEveryBreak(t *testing.T) {
	everyBreak(t, func(b *breakage) {
		_, err := b.look.Create(b.t.Context(), "/a", []byte("x"), client.CreateOptions{})
		must(b.t, err)
	}, func(ctx context.Context, b *breakage) {
		node, err := b.c.Get(ctx, "/a")
		must(b.t, err)
		list, err := b.c.ChildrenW(ctx, "/")
		must(b.t, err)
		if string(node.Data) != "x" || len(list.Names) != 1 {
			b.t.Fatalf("data is %q, children are %v", node.Data, list.Names)
		}
		_, err = b.look.Create(ctx, "/b", nil, client.CreateOptions{})
		must(b.t, err)
		if ev, err := list.Watch.Next(ctx); err != nil || ev.Type != client.EventChildrenChanged {
			b.t.Fatalf("the watch has %v, %v", ev, err)
		}
	})
}

// A change of which it isn't known whether it was done is never hidden by a retry,
// and never done twice.
func TestChangesOfARetryingViewAreDoneAtMostOnce(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		_, err := b.c.Create(ctx, "/task-", nil, client.CreateOptions{Mode: client.PersistentSequential})
		if err != nil && !client.IsAmbiguous(err) {
			b.t.Fatal(err)
		}
		n := len(b.children(ctx, "/"))
		if n > 1 || err == nil && n != 1 {
			b.t.Fatalf("%d nodes, error is %v", n, err)
		}
	})
}

func TestRetryingViewGivesUpWithTheSession(t *testing.T) {
	everyExpiry(t, false, func(ctx context.Context, b *breakage) {
		_, err := b.c.Get(ctx, "/")
		if b.broken() {
			mustBe(b.t, err, client.ErrSessionExpired)
		} else {
			must(b.t, err)
		}
	})
}

// A call that is cancelled between two attempts fails as one does that is cancelled while
// there is no connection: with the context's error, and that of the connection behind it.
func TestCancelledBetweenAttempts(t *testing.T) {
	srv := newWorld(t, 1)
	b := newBreakage(t.Context(), t, srv, srv.client(t), "d")
	ctx, cancel := context.WithCancel(t.Context())
	c := b.c.WithRetry(&client.RetryPolicy{Backoff: time.Hour, Jitter: func() float64 { cancel(); return 0 }})
	b.cut = b.breakAt("before", zktest.Op(jute.OpGetData))
	_, err := c.Get(ctx, "/")
	mustBe(t, err, context.Canceled)
	mustBe(t, err, client.ErrConnectionLoss)
	if client.IsAmbiguous(err) || client.IsRetryable(err) || !strings.HasPrefix(err.Error(), "getData /: context canceled: connection loss") {
		t.Errorf("error is %v", err)
	}
}

// The hazard of a worker's status: it sets "working" and the connection breaks, so
// nobody knows whether that was done; it sets "idle"; the retry of "working" must not
// come out on top. SetIdempotent's version keeps it from that.
func TestOldStatusDoesNotOverwriteANewerOne(t *testing.T) {
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			ctx := t.Context()
			srv := newWorld(t, 1)
			b := newBreakage(ctx, t, srv, srv.client(t), "d")
			// 1. The status is known, with its version.
			_, err := b.c.Create(ctx, "/status", []byte("idle"), client.CreateOptions{})
			must(t, err)
			// 2. The worker begins to work, and the connection breaks.
			b.cut = b.breakAt(where, zktest.Op(jute.OpSetData))
			b.p.Refuse()
			old := make(chan error)
			go func() {
				_, err := b.c.SetIdempotent(ctx, "/status", []byte("working"), 0)
				old <- err
			}()
			<-b.cut.Done()
			// 3. and 4. The work is done, and says so over another connection.
			_, err = b.look.Set(ctx, "/status", []byte("done"), client.AnyVersion)
			must(t, err)
			// 5. The connection is back; the first set is repeated, or seen to.
			b.p.Accept()
			mustBe(t, <-old, client.ErrBadVersion)
			// 6. The newer status stands.
			if data, _ := b.data(ctx, "/status"); data != "done" {
				t.Fatalf("status is %q", data)
			}
		})
	}
}
