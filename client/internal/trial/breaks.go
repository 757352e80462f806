package trial

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
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
)

// attemptLimit ends a test that hangs. No outcome depends on it.
const attemptLimit = 5 * time.Minute

// Quick is a retry policy for tests: many attempts, short pauses.
func Quick() *client.RetryPolicy {
	return &client.RetryPolicy{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// Breakage is one way to break a connection during an operation.
type Breakage struct {
	T    *testing.T
	Name string
	P    *zktest.Proxy
	// C is the client whose connection breaks, and look another one. The paths of both are
	// below the same directory, which is empty at first.
	C, Look *client.Client
	Cut     *zktest.Cut
}

// EveryBreak calls work with a client whose connection breaks at its first request, then at
// its second, and so on until work makes no more requests: once before the request reaches
// the server and once before the reply reaches the client. Then it does the same with a
// connection that has broken at the first request before, so that the client's recovery is
// broken, too. prepare makes the nodes that work needs. t runs in parallel with other tests.
func EveryBreak(t *testing.T, prepare func(b *Breakage), work func(ctx context.Context, b *Breakage)) {
	t.Helper()
	t.Parallel()
	srv := NewWorld(t, 1)
	look := srv.Client(t)
	for _, first := range []string{"", "before-1-", "after-1-"} {
		for _, where := range []string{"before", "after"} {
			for n, last := 1, false; !last; n++ { // a cut counts the requests after the previous ones
				name := fmt.Sprintf("%s%s-%d", first, where, n)
				t.Run(name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), attemptLimit)
					defer cancel()
					b := NewBreakage(ctx, t, srv, look, name)
					if prepare != nil {
						prepare(b)
					}
					if first != "" {
						b.BreakAt(first, zktest.Any())
					}
					b.Cut = b.BreakAt(where, zktest.Nth(n, zktest.Any()))
					work(ctx, b)
					last = !b.Broken()
					b.Cut.Cancel()
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

// BreakAt breaks the connection at a request.
func (b *Breakage) BreakAt(where string, m zktest.Match) *zktest.Cut {
	if strings.HasPrefix(where, "before") {
		return b.P.CutBefore(m)
	}
	return b.P.CutAfter(m)
}

// NewBreakage makes one without a cut, below a new directory of that name.
func NewBreakage(ctx context.Context, t *testing.T, srv *World, look *client.Client, name string) *Breakage {
	t.Helper()
	// Of several addresses the client tries the next one without a pause.
	b := &Breakage{T: t, Name: name, P: zktest.NewProxy(t, srv.Addr(), srv.Addr(), srv.Addr(), srv.Addr())}
	dir := "/" + name
	Must(t, settle.Ensure(ctx, look, dir, client.CreateOptions{}))
	b.C = b.P.Client(t, zktest.Plain).WithRetry(Quick()).Namespace(srv.Root + dir)
	b.Look = look.Namespace(dir)
	return b
}

// EveryExpiry is EveryBreak where the session ends before the client can connect again. The
// session survives a break at the first request. t runs in parallel with other tests.
func EveryExpiry(t *testing.T, renew bool, work func(ctx context.Context, b *Breakage)) {
	t.Helper()
	t.Parallel()
	srv := NewWorld(t, 1)
	look := srv.Client(t)
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

func testExpiry(t *testing.T, srv *World, look *client.Client, first, where string, n int, renew bool, work func(ctx context.Context, b *Breakage)) (broken bool) {
	ctx, cancel := context.WithTimeout(t.Context(), attemptLimit)
	defer cancel()
	name := fmt.Sprintf("%s%s-%d", first, where, n)
	b := NewBreakage(ctx, t, srv, look, name)
	var hit atomic.Bool
	expired := make(chan struct{})
	c := b.P.Client(t, zktest.Plain, func(o *client.Options) {
		o.RenewSession = renew
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if hit.Load() {
				<-expired
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	b.C = c.WithRetry(Quick()).Namespace(srv.Root + "/" + name)
	if first != "" {
		b.BreakAt(first, zktest.Any())
	}
	nth := zktest.Nth(n, zktest.Any())
	m := func(op client.OpCode, path string) bool {
		if !nth(op, path) {
			return false
		}
		hit.Store(true)
		return true
	}
	b.Cut = b.BreakAt(where, m)
	var expiry sync.WaitGroup
	expiry.Go(func() {
		defer close(expired)
		select {
		case <-b.Cut.Done():
			id := c.Session().ID()
			b.P.ExpireSession(id)
		case <-ctx.Done():
		}
	})
	work(ctx, b)
	broken = b.Broken()
	b.Cut.Cancel()
	cancel()
	expiry.Wait()
	return broken
}

// Broken reports whether the connection has been broken.
func (b *Breakage) Broken() bool {
	select {
	case <-b.Cut.Done():
		return true
	default:
		return false
	}
}

// Children returns the names of the nodes of a directory, as the other client sees
// them.
func (b *Breakage) Children(ctx context.Context, path string) []string {
	b.T.Helper()
	Must(b.T, b.Look.Sync(ctx, path))
	list, err := b.Look.Children(ctx, path)
	Must(b.T, err)
	slices.Sort(list.Names)
	return list.Names
}

// Data returns a node's data, as the other client sees it.
func (b *Breakage) Data(ctx context.Context, path string) (string, client.Stat) {
	b.T.Helper()
	Must(b.T, b.Look.Sync(ctx, path))
	node, err := b.Look.Get(ctx, path)
	Must(b.T, err)
	return string(node.Data), node.Stat
}

// AwaitGone waits until a directory is empty.
func (b *Breakage) AwaitGone(ctx context.Context, path string) {
	b.T.Helper()
	for {
		list, err := b.Look.ChildrenW(ctx, path)
		Must(b.T, err)
		if len(list.Names) == 0 {
			Must(b.T, list.Watch.Close(ctx))
			return
		}
		if _, err := list.Watch.Next(ctx); err != nil {
			b.T.Fatalf("%v are left: %v", list.Names, err)
		}
	}
}

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// MustBe fails the test unless err is want.
func MustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}
