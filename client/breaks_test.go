package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// attemptLimit ends what hangs; nothing is decided by it otherwise.
const attemptLimit = 30 * time.Second

// quick is a retry policy for tests: patient, but without long pauses.
func quick() *client.RetryPolicy {
	return &client.RetryPolicy{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// breakage is one way to break a connection under an operation.
type breakage struct {
	t    *testing.T
	name string
	p    *zktest.Proxy
	// c is the client whose connection breaks, look another one; both have their
	// paths below the same directory, which is empty.
	c, look *client.Client
	cut     *zktest.Cut
}

// everyBreak calls work with a client whose connection breaks at its first
// request, then at its second, and so on until it makes no more: once before the
// request reaches the server and once before the reply reaches the client. Then it
// does the same with a connection that has broken at the first request before, so
// that what the client does to recover is broken, too. prepare makes what work
// needs. t runs beside other tests.
func everyBreak(t *testing.T, prepare func(b *breakage), work func(ctx context.Context, b *breakage)) {
	t.Helper()
	t.Parallel()
	srv := newWorld(t, 1)
	look := srv.client(t)
	for _, first := range []string{"", "before-1-", "after-1-"} {
		for _, where := range []string{"before", "after"} {
			for n, last := 1, false; !last; n++ { // a cut counts what comes after those before it
				name := fmt.Sprintf("%s%s-%d", first, where, n)
				t.Run(name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), attemptLimit)
					defer cancel()
					b := newBreakage(ctx, t, srv, look, name)
					if prepare != nil {
						prepare(b)
					}
					if first != "" {
						b.breakAt(first, zktest.Any())
					}
					b.cut = b.breakAt(where, zktest.Nth(n, zktest.Any()))
					work(ctx, b)
					last = !b.broken()
					b.cut.Cancel()
				})
				if t.Failed() {
					return
				}
				if n > 50 {
					t.Fatal("it makes more than 50 requests: it seems to go round in circles")
				}
			}
		}
	}
}

// breakAt breaks the connection at a request.
func (b *breakage) breakAt(where string, m zktest.Match) *zktest.Cut {
	if strings.HasPrefix(where, "before") {
		return b.p.CutBefore(m)
	}
	return b.p.CutAfter(m)
}

func newBreakage(ctx context.Context, t *testing.T, srv *world, look *client.Client, name string) *breakage {
	t.Helper()
	// Of several addresses the client tries the next one without a pause.
	b := &breakage{t: t, name: name, p: zktest.NewProxy(t, srv.Addr(), srv.Addr(), srv.Addr(), srv.Addr())}
	dir := "/" + name
	must(t, look.EnsurePath(ctx, dir, nil))
	b.c = b.p.Client(t).WithRetry(quick()).Namespace(srv.root + dir)
	b.look = look.Namespace(dir)
	return b
}

// everyExpiry is everyBreak where the session ends before the client can connect
// again; it outlives a break at the first request. t runs beside other tests.
func everyExpiry(t *testing.T, renew bool, work func(ctx context.Context, b *breakage)) {
	t.Helper()
	t.Parallel()
	srv := newWorld(t, 1)
	look := srv.client(t)
	for _, first := range []string{"", "before-1-", "after-1-"} {
		for _, where := range []string{"before", "after"} {
			for n, last := 1, false; !last; n++ {
				last = !testExpiry(t, srv, look, first, where, n, renew, work)
				if t.Failed() || n > 50 {
					t.Fatalf("at %s%s-%d", first, where, n)
				}
			}
		}
	}
}

func testExpiry(t *testing.T, srv *world, look *client.Client, first, where string, n int, renew bool, work func(ctx context.Context, b *breakage)) (broken bool) {
	ctx, cancel := context.WithTimeout(t.Context(), attemptLimit)
	defer cancel()
	name := fmt.Sprintf("%s%s-%d", first, where, n)
	b := newBreakage(ctx, t, srv, look, name)
	var hit atomic.Bool
	expired := make(chan struct{})
	c := b.p.Client(t, func(o *client.Options) {
		o.RenewSession = renew
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if hit.Load() {
				<-expired
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	b.c = c.WithRetry(quick()).Namespace(srv.root + "/" + name)
	if first != "" {
		b.breakAt(first, zktest.Any())
	}
	nth := zktest.Nth(n, zktest.Any())
	m := func(op client.OpCode, path string) bool {
		if !nth(op, path) {
			return false
		}
		hit.Store(true)
		return true
	}
	b.cut = b.breakAt(where, m)
	var expiry sync.WaitGroup
	expiry.Go(func() {
		defer close(expired)
		select {
		case <-b.cut.Done():
			id, _ := c.Session()
			b.p.ExpireSession(id)
		case <-ctx.Done():
		}
	})
	work(ctx, b)
	broken = b.broken()
	b.cut.Cancel()
	cancel()
	expiry.Wait()
	return broken
}

// broken reports whether the connection has been broken.
func (b *breakage) broken() bool {
	select {
	case <-b.cut.Done():
		return true
	default:
		return false
	}
}

// children returns the names of the nodes of a directory, as the other client sees
// them.
func (b *breakage) children(ctx context.Context, path string) []string {
	b.t.Helper()
	must(b.t, b.look.Sync(ctx, path))
	list, err := b.look.Children(ctx, path)
	must(b.t, err)
	slices.Sort(list.Names)
	return list.Names
}

// data returns a node's data, as the other client sees it.
func (b *breakage) data(ctx context.Context, path string) (string, client.Stat) {
	b.t.Helper()
	must(b.t, b.look.Sync(ctx, path))
	node, err := b.look.Get(ctx, path)
	must(b.t, err)
	return string(node.Data), node.Stat
}

// awaitGone waits until a directory has no nodes.
func (b *breakage) awaitGone(ctx context.Context, path string) {
	b.t.Helper()
	for {
		list, err := b.look.ChildrenW(ctx, path)
		must(b.t, err)
		if len(list.Names) == 0 {
			must(b.t, list.Watch.Close(ctx))
			return
		}
		if _, err := list.Watch.Next(ctx); err != nil {
			b.t.Fatalf("%v are left: %v", list.Names, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}
