package lock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func mustTrace(w *trial.World, rec *zktest.Recording, want ...string) {
	w.Helper()
	if got := w.Trace(rec); !slices.Equal(got, want) {
		w.Errorf("trace is\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// What a lock costs that is free.
func TestTraceOfAFreeLock(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	for round := range 2 {
		rec := w.Record()
		h, err := m.Lock(w.Ctx)
		w.Must(err)
		awaitWatches(w, rec, 1)
		if trace := w.Trace(rec); round == 1 { // the first time the path is made
			want := []string{"create2 /l/_c_GUID-lock-", "getChildren2 /l", "getData /l/_c_GUID-lock-# watch"}
			if !slices.Equal(trace, want) {
				t.Errorf("lock: %q, want %q", trace, want)
			}
		}
		w.Must(h.Release(w.Ctx))
		mustTrace(w, rec, "delete /l/_c_GUID-lock-#", "event NodeDeleted /l/_c_GUID-lock-#")
	}
}

// A hand-over takes three round trips, and wakes nobody else. The first
// is the delete, as above.
func TestTraceOfAHandOver(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo, lock.WriteLock} {
		t.Run(layout.String(), func(t *testing.T) {
			w := trial.New(t)
			h := held(w, w.Other(), lock.Options{Layout: layout})
			rec := w.Record()
			out := locking(w.Ctx, mutex(t, w.C, lock.Options{Layout: layout}))
			awaitWatches(w, rec, 1)
			w.Must(w.C.Sync(w.Ctx, "/")) // the watch is set, too
			rec.Take()
			w.Must(h.Release(w.Ctx))
			got := <-out
			w.Must(got.err)
			awaitWatches(w, rec, 1)
			if got, want := ops(rec.Take()), []string{"event NodeDeleted", "getChildren2", "getData"}; !slices.Equal(got, want) {
				t.Errorf("hand-over: %q, want %q", got, want)
			}
			w.Must(got.held.Release(w.Ctx))
			if got, want := ops(rec.Take()), []string{"delete", "event NodeDeleted"}; !slices.Equal(got, want) {
				t.Errorf("unlock: %q, want %q", got, want)
			}
		})
	}
}

// However many wait, each hand-over wakes one of them and makes the same requests.
// Of the two events one goes to the owner of the node, which watched it while it held.
func TestTraceOfAHerd(t *testing.T) {
	const n = 20
	w := trial.New(t)
	rec := w.Record()
	outcomes := make(chan outcome, n)
	h := held(w, w.C, lock.Options{})
	for i := range n {
		c := w.Proxy.Client(t).Namespace(w.Dir())
		m := mutex(t, c, lock.Options{})
		go func() {
			h, err := m.Lock(w.Ctx)
			outcomes <- outcome{h, err}
		}()
		awaitWatches(w, rec, 2+i)
		w.Must(c.Sync(w.Ctx, "/")) // the watch is set, too
	}
	want := []string{"delete", "event NodeDeleted", "event NodeDeleted", "getChildren2", "getData"}
	for range n {
		rec.Take()
		w.Must(h.Release(w.Ctx))
		next := <-outcomes
		w.Must(next.err)
		awaitWatches(w, rec, 1)
		got := ops(rec.Take())
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("hand-over: %q, want %q", got, want)
		}
		h = next.held
	}
	w.Must(h.Release(w.Ctx))
}

// awaitWatches waits until n watches have been set.
func awaitWatches(w *trial.World, rec *zktest.Recording, n int) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool {
		found := slices.DeleteFunc(rec.All(), func(e zktest.Traced) bool { return !watches(e) })
		return len(found) == n
	}))
}

// ops returns what was done, without the paths.
func ops(trace []zktest.Traced) []string {
	var ops []string
	for _, e := range trace {
		op, _, _ := strings.Cut(e.String(), " /")
		ops = append(ops, op)
	}
	return ops
}
