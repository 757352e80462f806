package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func newEvent(t testing.TB, c *client.Client, kind barrier.Kind, o barrier.Options) *barrier.Event {
	t.Helper()
	e, err := barrier.NewEvent(c, "/dir/e", kind, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func manual(t testing.TB, c *client.Client) *barrier.Event {
	return newEvent(t, c, barrier.ManualReset, barrier.Options{})
}

func auto(t testing.TB, c *client.Client) *barrier.Event {
	return newEvent(t, c, barrier.AutoReset, barrier.Options{})
}

func eventWait(ctx context.Context, e *barrier.Event) <-chan error {
	done := make(chan error, 1)
	go func() { done <- e.Wait(ctx) }()
	return done
}

// queue makes n clients wait for an auto-reset event, one after the other.
func queue(w *trial.World, n int) []<-chan error {
	var all []<-chan error
	for i := range n {
		all = append(all, eventWait(w.Ctx, auto(w, w.Other())))
		w.AwaitChildren("/dir/e", i+1)
	}
	return all
}

func mustBeSet(w *trial.World, e *barrier.Event, want bool) {
	w.Helper()
	got, err := e.IsSet(w.Ctx)
	if got != want || err != nil {
		w.Errorf("IsSet = %v, %v, want %v", got, err, want)
	}
}

// A set event lets all pass until it is reset.
func TestEventManual(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	e, other := manual(t, w.C), manual(t, w.Other())
	mustBeSet(w, e, false)
	w.Must(e.Set(w.Ctx))
	w.Must(other.Set(w.Ctx))
	for range 2 {
		w.Must(e.Wait(w.Ctx))
		w.Must(other.Wait(w.Ctx))
	}
	mustBeSet(w, other, true)
	w.Must(other.Reset(w.Ctx))
	w.Must(other.Reset(w.Ctx))
	mustBeSet(w, e, false)
}

// All that wait are released by a Set, though it is reset at once, and by a Pulse. One
// event each.
func TestEventManualReleasesAll(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*trial.World, *barrier.Event){
		"set":       func(w *trial.World, e *barrier.Event) { w.Must(e.Set(w.Ctx)) },
		"set+reset": func(w *trial.World, e *barrier.Event) { w.Must(e.Set(w.Ctx)); w.Must(e.Reset(w.Ctx)) },
		"pulse":     func(w *trial.World, e *barrier.Event) { w.Must(e.Pulse(w.Ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			const n = 5
			w.Must(manual(t, w.Look).Reset(w.Ctx))
			rec := w.Record()
			var waiting []<-chan error
			var clients []*client.Client
			for range n {
				c := w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir())
				clients = append(clients, c)
				waiting = append(waiting, eventWait(w.Ctx, manual(t, c)))
			}
			w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool { return len(watches(rec)) >= n }))
			for _, c := range clients { // this is answered after the reads
				_, err := c.Exists(w.Ctx, "/")
				w.Must(err)
			}
			release(w, manual(t, w.Look))
			for _, done := range waiting {
				w.Must(<-done)
			}
			mustBeSet(w, manual(t, w.Look), name == "set")
			if got := events(rec); got < n || got > 2*n {
				t.Errorf("%d waiters had %d wake-ups", n, got)
			}
		})
	}
}

func watches(rec *zktest.Recording) []zktest.Traced {
	return slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return !r.Watch })
}

func events(rec *zktest.Recording) int {
	return len(slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return r.Event == 0 }))
}

// A Set releases one, the first; and as many Sets as many.
func TestEventAutoIsFIFO(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	all := queue(w, 3)
	e := auto(t, w.C)
	w.Must(e.Set(w.Ctx))
	w.Must(<-all[0])
	w.AwaitChildren("/dir/e", 2)
	w.Must(e.Set(w.Ctx))
	w.Must(e.Set(w.Ctx))
	w.Must(<-all[1])
	w.Must(<-all[2])
	mustBeSet(w, e, false)
}

// A Set that finds nobody is remembered, once.
func TestEventAutoRemembersOne(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	e := auto(t, w.C)
	w.Must(e.Set(w.Ctx))
	w.Must(e.Set(w.Ctx))
	mustBeSet(w, e, true)
	w.Must(e.Wait(w.Ctx))
	mustBeSet(w, e, false)
	w.Must(e.Set(w.Ctx))
	w.Must(e.Reset(w.Ctx))
	mustBeSet(w, e, false)
	w.Must(e.Pulse(w.Ctx)) // nobody is there
	mustBeSet(w, e, false)
	all := queue(w, 2)
	w.Must(e.Pulse(w.Ctx))
	w.Must(<-all[0])
	mustBeSet(w, e, false)
	w.Must(e.Set(w.Ctx))
	w.Must(<-all[1])
}

// The first waiter dies at the moment of a Set: the next one gets the signal.
func TestEventSignalOfTheDeadPassesOn(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	dying := eventWait(w.Ctx, auto(t, w.C))
	w.AwaitChildren("/dir/e", 1)
	next := eventWait(w.Ctx, auto(t, w.Other()))
	w.AwaitChildren("/dir/e", 2)
	w.Proxy.Stall()
	w.Must(auto(t, w.Look).Set(w.Ctx))
	mustBeSet(w, auto(t, w.Look), true)
	id := w.C.Session().ID()
	w.Proxy.Resume()
	cut := w.Proxy.CutBefore(func(op client.OpCode, _ string) bool { return op.Write() })
	w.Proxy.ExpireSession(id)
	cut.Cancel()
	if err := <-dying; err == nil { // it was faster
		w.Must(auto(t, w.Look).Set(w.Ctx))
	}
	w.Must(<-next)
}

// The signal of a waiter that gives up goes to the next one, or is remembered.
func TestEventAutoGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	done := eventWait(ctx, auto(t, w.C))
	w.AwaitChildren("/dir/e", 1)
	next := queueBehind(w)
	cancel(why)
	mustBe(t, <-done, why)
	w.AwaitChildren("/dir/e", 1)
	w.Must(auto(t, w.Look).Set(w.Ctx))
	w.Must(<-next)
	w.AwaitChildren("/dir/e", 0)
}

func queueBehind(w *trial.World) <-chan error {
	next := eventWait(w.Ctx, auto(w, w.Other()))
	w.AwaitChildren("/dir/e", 2)
	return next
}

func TestEventManualGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	rec := w.Record()
	done := eventWait(ctx, manual(t, w.C))
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	_, err := w.C.Exists(w.Ctx, "/") // its reply comes after the one that set the watch
	w.Must(err)
	cancel(why)
	mustBe(t, <-done, why)
	mustBe(t, w.C.Session().CheckWatches(w.Ctx, "/dir/e", client.AnyWatches), client.ErrNoWatcher)
}

// What the first in line does, and how many events it takes.
func TestEventTraceAuto(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(auto(t, w.Look).Reset(w.Ctx))
	rec := w.Record()
	done := eventWait(w.Ctx, auto(t, w.C))
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	_, err := w.C.Exists(w.Ctx, "/") // its reply comes after the one that set the watch
	w.Must(err)
	w.Must(auto(t, w.Look).Set(w.Ctx))
	w.Must(<-done)
	want := []string{
		"getData /dir/e",
		"create2 /dir/e/_c_GUID-waiter-",
		"getChildren2 /dir/e",
		"getData /dir/e watch",
		"exists ", // the test's own
		"event NodeDataChanged /dir/e",
		"getData /dir/e watch",
		"multi /dir/e", // the signal is taken and the line left
		"multi /dir/e/_c_GUID-waiter-#",
		"event NodeDataChanged /dir/e", // its own change, which uses its watch up
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q\nwant %q", got, want)
	}
}

// A Set wakes the first one, whose leaving wakes the second: no matter how many wait.
func TestEventNoHerd(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	const n = 8
	rec := w.Record()
	var all []<-chan error
	for i := range n {
		all = append(all, eventWait(w.Ctx, auto(t, w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir()))))
		w.AwaitChildren("/dir/e", i+1)
		w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool { return len(watches(rec)) >= i+1 }))
	}
	rec.Take()
	for _, done := range all {
		w.Must(auto(t, w.Look).Set(w.Ctx))
		w.Must(<-done)
	}
	// Each Set wakes the first waiter, which is then told of its own change, and the
	// second when the first has left.
	if got, most := events(rec), 3*n; got > most {
		t.Errorf("%d sets of %d waiters took %d events, want %d at most", n, n, got, most)
	}
}

func TestEventBadUse(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for _, path := range []string{"e", "/", "/e/"} {
		if _, err := barrier.NewEvent(w.C, path, barrier.ManualReset, barrier.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v, want an error that names the path", path, err)
		}
	}
	if _, err := barrier.NewEvent(nil, "/e", barrier.ManualReset, barrier.Options{}); err == nil {
		t.Error("New without a client has no error")
	}
	if _, err := barrier.NewEvent(w.C, "/e", "", barrier.Options{}); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("New without a kind = %v, want an error that names the kind", err)
	}
	w.Must(manual(t, w.C).Set(w.Ctx))
	mustBe(t, auto(t, w.C).Wait(w.Ctx), recipes.ErrLayout)
	mustBe(t, auto(t, w.C).Set(w.Ctx), recipes.ErrLayout)
	w.Must(w.Look.Delete(w.Ctx, "/dir/e", client.AnyVersion))
	_, err := w.Look.Create(w.Ctx, "/dir/e", []byte("hello"), client.CreateOptions{})
	w.Must(err)
	mustBe(t, manual(t, w.C).Wait(w.Ctx), recipes.ErrLayout)
	mustBe(t, manual(t, w.C).Set(w.Ctx), recipes.ErrLayout)
	if names := w.Children("/dir/e"); len(names) != 0 {
		t.Errorf("left on the tree: %q", names)
	}
}

func TestEventForeignChild(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(auto(t, w.C).Reset(w.Ctx))
	_, err := w.Look.Create(w.Ctx, "/dir/e/foreign", nil, client.CreateOptions{})
	w.Must(err)
	mustBe(t, auto(t, w.C).Wait(w.Ctx), recipes.ErrLayout)
	w.Must(auto(t, w.C).Set(w.Ctx)) // for any waiter
	mustBe(t, auto(t, w.C).Set(w.Ctx), recipes.ErrLayout)
	w.AwaitChildren("/dir/e", 1)
}

func TestEventForbidden(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	own := w.Other(func(o *client.Options) { o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("me:secret")}} })
	w.Must(newEvent(t, own, barrier.AutoReset, barrier.Options{ACL: client.CreatorACL()}).Set(w.Ctx))
	mustBe(t, auto(t, w.C).Set(w.Ctx), client.ErrNoAuth)
	mustBe(t, auto(t, w.C).Wait(w.Ctx), client.ErrNoAuth)
}

// Set counts the waiters that the leader knows of. Otherwise it would drop a signal for a waiter
// that its own server does not know of yet.
func TestEventWaitersAreCountedInSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signal  func(*barrier.Event, context.Context) error
		before  int // Sets that nobody has taken yet
		waiters int // that come after the read of the event's state
	}{{"set", (*barrier.Event).Set, 1, 2}, {"pulse", (*barrier.Event).Pulse, 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			w := trial.New(t)
			for range c.before {
				w.Must(auto(t, w.Look).Set(w.Ctx))
			}
			w.Must(auto(t, w.Look).Pulse(w.Ctx)) // so that the node is there
			var once sync.Once
			late := w.Other(func(o *client.Options) {
				o.Trace.Request = func(_ context.Context, op client.OpCode, _ string, _ time.Duration, _ client.Zxid, _ error) {
					if op == jute.OpGetData {
						once.Do(func() {
							for range c.waiters {
								_, err := w.Look.Create(w.Ctx, "/dir/e/_c_"+line.NewID()+"-waiter-", nil, client.CreateOptions{Mode: client.EphemeralSequential})
								w.Must(err)
							}
						})
					}
				}
			})
			w.Must(c.signal(auto(t, late), w.Ctx))
			node, err := w.Look.Get(w.Ctx, "/dir/e")
			w.Must(err)
			if want := fmt.Sprintf(`"signals":%d`, c.before+1); !strings.Contains(string(node.Data), want) {
				t.Errorf("the event is %s, want in it %s", node.Data, want)
			}
		})
	}
}

// An event that is deleted before one has joined the line is made again as what it is.
func TestEventDeletedBeforeJoining(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	var once sync.Once
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, op client.OpCode, path string, _ time.Duration, _ client.Zxid, err error) {
			if op == jute.OpGetData && strings.HasSuffix(path, "/dir/e") && err == nil {
				once.Do(func() { w.Must(w.Look.Delete(w.Ctx, "/dir/e", client.AnyVersion)) })
			}
		}
	})
	done := make(chan error, 1)
	go func() { done <- auto(t, c).Wait(w.Ctx) }()
	w.AwaitChildren("/dir/e", 1)
	w.Must(auto(t, w.Look).Set(w.Ctx))
	w.Must(<-done)
	if set, err := auto(t, w.Look).IsSet(w.Ctx); err != nil || set {
		t.Errorf("is set: %t, %v, and the one signal was taken", set, err)
	}
}

// Whose parent is deleted again and again is told so, some time.
func TestEventParentThatDoesNotStay(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, op client.OpCode, _ string, _ time.Duration, _ client.Zxid, _ error) {
			if op == jute.OpCreateContainer {
				_ = w.Look.Delete(w.Ctx, "/dir", client.AnyVersion)
			}
		}
	})
	mustBe(t, manual(t, c).Set(w.Ctx), client.ErrNoNode)
}
