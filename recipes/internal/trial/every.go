package trial

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// Every runs fn once without a fault. Then, for each request that the client made, it runs fn
// with a client whose connection breaks before that request reaches the server, and with one
// whose connection breaks before the reply; and again with the session ended, too. If renew
// is true, the client begins a new one then (client.Options.RenewSession). The runs are
// parallel subtests, and t runs in parallel with other tests. With -short each request has
// one of the four kinds of fault.
//
// fn must end what it starts, and fail if the recipe breaks a promise or leaves nodes behind.
func Every(t *testing.T, renew bool, fn func(w *World)) {
	t.Helper()
	t.Parallel()
	servers := zktest.Target(t, 1)
	look := servers.Client(t)
	requests := 0
	t.Run("unharmed", func(t *testing.T) {
		w := newWorld(t, servers, look)
		w.connect(renewing(renew))
		rec := w.Record()
		fn(w)
		requests = len(rec.All())
	})
	if t.Failed() {
		return
	}
	faults := make(chan func(*testing.T))
	names := make(chan string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for run := range faults {
				t.Run(<-names, run)
			}
		})
	}
	for i, what := range []string{"cut", "expired"} {
		for j, when := range []string{"before", "after"} {
			for n := 1; n <= requests && !t.Failed(); n++ {
				if testing.Short() && (n+i+2*j)%4 != quarter {
					continue
				}
				name := fmt.Sprintf("%s-%s-%d", what, when, n)
				faults <- func(t *testing.T) {
					w := newWorld(t, servers, look)
					w.Fault, w.Expires = name, what == "expired"
					w.harm(when == "after", n, renew)
					fn(w)
				}
				names <- name
			}
		}
	}
	close(faults)
	workers.Wait()
}

func renewing(renew bool) func(*client.Options) {
	return func(o *client.Options) { o.RenewSession = renew }
}

// harm connects C, and prepares the fault at its nth request.
func (w *World) harm(after bool, n int, renew bool) {
	w.Helper()
	hit, expired, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.connect(renewing(renew), func(o *client.Options) {
		if w.Expires {
			o.Dial = dialAfter(hit, expired)
		}
	})
	nth := zktest.Nth(n, zktest.Any())
	match := func(op client.OpCode, path string) bool {
		found := nth(op, path)
		if found {
			close(hit)
		}
		return found
	}
	w.hit = hit
	arm := w.Proxy.CutBefore
	if after {
		arm = w.Proxy.CutAfter
	}
	cut := arm(match)
	var expiry sync.WaitGroup
	expiry.Go(func() {
		defer close(expired)
		select {
		case <-cut.Done():
			if id := w.C.Session().ID(); w.Expires {
				w.Proxy.ExpireSession(id)
			}
		case <-over:
		}
	})
	w.Cleanup(func() {
		cut.Cancel()
		close(over)
		expiry.Wait()
	})
}

// dialAfter connects, but waits from hit to done, so that the client does not resume the
// session that is about to be ended.
func dialAfter(hit, done <-chan struct{}) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-hit:
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
