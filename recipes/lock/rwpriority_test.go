package lock_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// A grant whose reply was lost is looked for after a sync. The server of the next connection
// may lag: a contender that waited for one that came meanwhile, and waits for the grant,
// would wait forever.
func TestGrantThatIsInDoubtIsLookedForInSync(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Read, lock.Write} {
		w := trial.New(t)
		w.Must(settle.Ensure(w.Ctx, w.Look, "/lock", client.CreateOptions{Mode: client.Container}))
		l, err := lock.NewPriority(w.C, "/lock", lock.RWOptions{})
		w.Must(err)
		w.Proxy.CutAfter(zktest.Op(jute.OpMulti))
		rec := w.Record()
		h, err := priority{l}.take(w.Ctx, kind, 0)
		w.Must(err)
		got := strings.Join(w.Trace(rec), "\n")
		if want := "-held-#\nsync /lock\ngetChildren2 /lock\nexists "; !strings.Contains(got, want) {
			t.Errorf("%s: the trace is\n%s\nwant in it\n%s", kind, got, want)
		}
		unlock(w, h)
	}
}

// A reader of lower priority that is granted the lock between a writer's look and its grant
// is asked for it, as one is that was seen before.
func TestPriorityAsksWhoSlipsIn(t *testing.T) {
	w := trial.New(t)
	stem := "/lock/_c_" + line.NewID() + "-p0-read-"
	w.Must(settle.Ensure(w.Ctx, w.Look, "/lock", client.CreateOptions{Mode: client.Container}))
	place, err := w.Look.Create(w.Ctx, stem, nil, client.CreateOptions{Mode: client.EphemeralSequential})
	w.Must(err)
	grant := strings.Replace(place.Path, "-read-", "-read-held-", 1)
	var once sync.Once
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, r client.TracedRequest) {
			if r.Op == jute.OpGetChildren2 {
				once.Do(func() {
					_, err := w.Look.Create(w.Ctx, grant, nil, client.CreateOptions{Mode: client.Ephemeral})
					w.Must(err)
				})
			}
		}
	})
	changed, err := w.Look.GetW(w.Ctx, place.Path)
	w.Must(err)
	l, err := lock.NewPriority(c, "/lock", lock.RWOptions{Ask: true})
	w.Must(err)
	writer := make(chan error, 1)
	go func() {
		h, err := l.Lock(w.Ctx, 1)
		if err == nil {
			err = h.Release(w.Ctx)
		}
		writer <- err
	}()
	if _, err := changed.Watch.Next(w.Ctx); err != nil {
		t.Fatalf("the reader is not asked: %v", err)
	}
	node, err := w.Look.Get(w.Ctx, place.Path)
	w.Must(err)
	if string(node.Data) != string(lock.AskRelease) {
		t.Errorf("the reader is asked with %q", node.Data)
	}
	w.Must(w.Look.Delete(w.Ctx, grant, client.AnyVersion))
	w.Must(w.Look.Delete(w.Ctx, place.Path, client.AnyVersion))
	w.Must(<-writer)
}
