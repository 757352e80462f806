package lock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func semaphoreWatching(w *trial.World, rec *zktest.Recording, n int) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool {
		return len(slices.DeleteFunc(rec.All(), func(e zktest.Traced) bool { return !e.Watch })) >= n
	}))
}

// What a lease costs that is free: no watch but that over the lease itself.
func TestTraceOfAFreeLease(t *testing.T) {
	w := trial.New(t)
	s := newSemaphore(w, w.C, 2, hold.Options{})
	other, err := s.Acquire(w.Ctx, 1) // which makes the nodes above
	w.Must(err)
	w.Must(w.C.Sync(w.Ctx, "/"))
	rec := w.Record()
	var lease *hold.Held
	var got []string
	for {
		lease, err = s.Acquire(w.Ctx, 1)
		w.Must(err)
		semaphoreWatching(w, rec, 1)
		got = w.Trace(rec)
		if !slices.Contains(got, "createContainer /sem/locks") {
			break
		}
		w.Must(lease.Release(w.Ctx)) // it was empty, and the server took it away just then
		rec.Take()
	}
	got = slices.DeleteFunc(got, func(e string) bool { // at the same time as others
		return e == "getData /sem/leases/_c_GUID-lease-# watch" || strings.HasSuffix(e, "sync /")
	})
	want := []string{
		"getData /sem",
		"create2 /sem/locks/_c_GUID-lock-", "getChildren2 /sem/locks",
		"create2 /sem/leases/_c_GUID-lease-", "getChildren2 /sem/leases",
		"delete /sem/locks/_c_GUID-lock-#",
	}
	if !slices.Equal(got, want) {
		t.Errorf("acquire:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	w.Must(lease.Release(w.Ctx))
	w.Must(other.Release(w.Ctx))
}

// However many wait, a lease that is returned wakes the one that watches the leases, and
// that one's leaving of the line the next one.
func TestSemaphoreTraceOfAHerd(t *testing.T) {
	const n = 8
	w := trial.New(t)
	rec := w.Record()
	holder := newSemaphore(w, w.Look, 2, hold.Options{})
	var held []*hold.Held
	for range 2 {
		lease, err := holder.Acquire(w.Ctx, 1)
		w.Must(err)
		held = append(held, lease)
	}
	var waiters []*waiter
	var clients []*client.Client
	for i := range n {
		c := w.Proxy.Client(t).Namespace(w.Dir())
		waiters = append(waiters, acquire(w, w.Ctx, newSemaphore(w, c, 2, hold.Options{}), 1))
		semaphoreWatching(w, rec, i+1)
		w.Must(c.Sync(w.Ctx, "/")) // the watch is set, too
		clients = append(clients, c)
	}
	for i, next := range waiters {
		rec.Take()
		w.Must(held[0].Release(w.Ctx))
		held = append(held[1:], next.get())
		set := 2 // on its lease; the next one, on the leases
		if i == n-1 {
			set = 1
		}
		semaphoreWatching(w, rec, set)
		for _, c := range clients {
			w.Must(c.Sync(w.Ctx, "/")) // they are set, too
		}
		var events []string
		for _, e := range w.Trace(rec) {
			if strings.HasPrefix(e, "event") {
				events = append(events, e)
			}
		}
		slices.Sort(events)
		want := []string{"event NodeChildrenChanged /sem/leases", "event NodeDeleted /sem/locks/_c_GUID-lock-#"}
		if i == n-1 {
			want = want[:1]
		}
		if i >= 2 { // the lease returned is one of C's own, and watched
			want = append(want, "event NodeDeleted /sem/leases/_c_GUID-lease-#")
			slices.Sort(want)
		}
		if !slices.Equal(events, want) {
			t.Errorf("hand-over %d: %q, want %q", i, events, want)
		}
	}
	for _, lease := range held {
		w.Must(lease.Release(w.Ctx))
	}
	empty(w)
}
