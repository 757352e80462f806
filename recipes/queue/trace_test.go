package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// expect fails the test if the requests are not those.
func expect(w *trial.World, rec *zktest.Recording, what string, want ...string) {
	w.Helper()
	got := w.Trace(rec)
	for i := range got { // Apache's and ours are the same operation
		got[i] = strings.Replace(got[i], "getChildren2", "getChildren", 1)
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// An offer is one request, whatever the guarantee, once there is a receipt; no lock, and
// no look at what has become of it.
func TestTraceOffer(t *testing.T) {
	w := trial.New(t)
	q := open(w, w.C, "/q", queue.Options{})
	w.Must(q.Offer(w.Ctx, nil))
	rec := w.Record()
	w.Must(q.Offer(w.Ctx, nil))
	expect(w, rec, "exactly once", "multi /q-receipts/GUID", "multi /q/qn-")
	w.Must(q.OfferAll(w.Ctx, make([][]byte, 2)))
	expect(w, rec, "two", "multi /q-receipts/GUID", "multi /q/qn-", "multi /q/qn-")
	blind := open(w, w.C, "/q", queue.Options{Offers: queue.AtLeastOnce})
	w.Must(blind.Offer(w.Ctx, nil))
	expect(w, rec, "at least once", "multi /q/qn-")
}

// The first offer makes what is missing, and no more.
func TestTraceFirstOffer(t *testing.T) {
	w := trial.New(t)
	q := open(w, w.C, "/q", queue.Options{})
	rec := w.Record()
	w.Must(q.Offer(w.Ctx, nil))
	got := w.Trace(rec)
	if len(got) > 12 {
		t.Errorf("the first offer takes %d requests: %q", len(got), got)
	}
}

// The list is read once, and again when it is used up; no watch is set.
func TestTracePoll(t *testing.T) {
	w := trial.New(t)
	q, other := open(w, w.C, "/q", queue.Options{}), open(w, w.Look, "/q", queue.Options{})
	w.Must(other.OfferAll(w.Ctx, make([][]byte, 5)))
	w.Must(q.Offer(w.Ctx, nil))
	rec := w.Record()
	_, ok, err := q.Poll(w.Ctx)
	w.Must(err)
	expect(w, rec, "the first", "getChildren /q", "getData /q/qn-#", "multi /q-receipts/GUID", "multi /q/qn-#")
	for ok {
		_, ok, err = q.Poll(w.Ctx)
		w.Must(err)
	}
	all := rec.All()
	reads := count(all, func(r zktest.Traced) bool { return r.Op.String() == "getData" })
	if lists := count(all, isList); lists != 1 || reads != 5 {
		t.Errorf("there were %d lists and %d reads, want 1 and 5", lists, reads)
	}
	if n := count(all, func(r zktest.Traced) bool { return r.Watch }); n != 0 {
		t.Errorf("%d watches were set", n)
	}
}

// At an empty queue the consumer sets one watch and is woken once.
func TestTraceTake(t *testing.T) {
	w := trial.New(t)
	q, other := open(w, w.C, "/q", queue.Options{}), open(w, w.Look, "/q", queue.Options{})
	w.Must(other.Offer(w.Ctx, nil))
	w.Must(q.Offer(w.Ctx, nil)) // has a receipt, now
	_, err := q.TakeAll(w.Ctx, 2)
	w.Must(err)
	rec := w.Record()
	taken := make(chan error)
	go func() {
		_, err := q.Take(w.Ctx)
		taken <- err
	}()
	w.Must(rec.Await(w.Ctx, "the watch", func(r zktest.Traced) bool { return r.Watch }))
	w.Must(w.C.Sync(w.Ctx, "/q")) // its reply comes after the one that set the watch
	w.Must(other.Offer(w.Ctx, nil))
	w.Must(<-taken)
	expect(w, rec, "take", "getChildren /q", "getChildren /q watch", "sync /q", "event NodeChildrenChanged /q",
		"getChildren /q", "getData /q/qn-#", "multi /q-receipts/GUID", "multi /q/qn-#")
}

// A take that is given up leaves no watch behind.
func TestTraceGivenUp(t *testing.T) {
	w := trial.New(t)
	q := open(w, w.C, "/q", queue.Options{})
	w.Must(open(w, w.Look, "/q", queue.Options{}).Offer(w.Ctx, nil))
	_, err := q.Take(w.Ctx)
	w.Must(err)
	rec := w.Record()
	ctx, cancel := context.WithCancelCause(w.Ctx)
	enough := errors.New("enough")
	taken := make(chan error)
	go func() {
		_, err := q.Take(ctx)
		taken <- err
	}()
	w.Must(rec.Await(w.Ctx, "the watch", func(r zktest.Traced) bool { return r.Watch }))
	w.Must(w.C.Sync(w.Ctx, "/q")) // its reply comes after the one that set the watch
	cancel(enough)
	if err := <-taken; !errors.Is(err, enough) {
		t.Errorf("Take = %v, want %v", err, enough)
	}
	if err := w.C.Session().CheckWatches(w.Ctx, "/q", client.ChildWatches); !errors.Is(err, client.ErrNoWatcher) {
		t.Errorf("CheckWatches = %v, want ErrNoWatcher", err)
	}
}

// An item that comes between the look at an empty queue and the watch is not missed: an
// offer and a take race again and again.
func TestNoItemIsMissed(t *testing.T) {
	for kind, k := range kinds {
		w := trial.New(t)
		q, other := k(w, w.C), k(w, w.Look)
		for i := range 30 {
			word := fmt.Sprint(kind, i)
			offered := make(chan error)
			go func() { offered <- other.offer(w.Ctx, word) }()
			if data, err := q.Take(w.Ctx); string(data) != word || err != nil {
				t.Fatalf("Take = %q, %v, want %s", data, err, word)
			}
			w.Must(<-offered)
		}
		w.Must(q.Close(w.Ctx))
	}
}

// Each item wakes one of many calls that wait for leases, and acknowledgements wake none: the
// number of wake-ups depends on the items, not on the waiters.
func TestTraceLeasesHaveNoHerd(t *testing.T) {
	const workers, items = 8, 8
	w := trial.New(t)
	var events atomic.Int64
	counting := func(o *client.Options) {
		o.Trace.Event = func(client.Event) { events.Add(1) }
	}
	var work sync.WaitGroup
	leases := make(chan *queue.Lease)
	for range workers {
		q := openLeased(w, w.Other(counting), "/q", queue.Options{})
		work.Go(func() {
			l, err := q.Take(w.Ctx)
			if err != nil {
				t.Error(err)
			}
			leases <- l
		})
	}
	w.AwaitChildren("/q/waiting", workers)
	q := openLeased(w, w.C, "/q", queue.Options{})
	for range items {
		w.Must(q.Offer(w.Ctx, nil))
		w.Must((<-leases).Ack(w.Ctx))
	}
	work.Wait()
	// Each item has events of the new entry and what follows (the claim, and for the next
	// item the acknowledgement), of the place in line, and of the claim.
	if n := events.Load(); n > 7*items {
		t.Errorf("%d items led to %d wake-ups of %d workers", items, n, workers)
	}
	t.Logf("%d items led to %d wake-ups of %d workers", items, events.Load(), workers)
}

// A lease is taken and acknowledged with one request each, besides the reads.
func TestTraceLease(t *testing.T) {
	w := trial.New(t)
	q := openLeased(w, w.C, "/q", queue.Options{})
	w.Must(q.OfferAll(w.Ctx, make([][]byte, 2), 5))
	l, err := q.Take(w.Ctx)
	w.Must(err)
	w.Must(l.Ack(w.Ctx))
	rec := w.Record()
	if l, err = q.Take(w.Ctx); err != nil {
		t.Fatal(err)
	}
	w.Must(rec.Await(w.Ctx, "the watch over the claim", func(r zktest.Traced) bool { return r.Watch }))
	w.Must(l.Ack(w.Ctx))
	expect(w, rec, "a lease", "getData /q/entries/entry-005-#",
		"multi /q/entries/entry-005-#", "multi /q/taken/entry-005-#", "multi /q/taken/entry-005-#",
		"getData /q/taken/entry-005-# watch",
		"multi /q/entries/entry-005-#", "multi /q/taken/entry-005-#", "event NodeDeleted /q/taken/entry-005-#")
}

// A priority queue reads its list once and goes by a watch from then on.
func TestTracePriority(t *testing.T) {
	w := trial.New(t)
	q, other := openPriority(w, w.C, "/q", queue.Options{}), openPriority(w, w.Look, "/q", queue.Options{})
	w.Must(other.OfferAll(w.Ctx, make([][]byte, 20), 5))
	rec := w.Record()
	for i := range 40 {
		if _, err := q.Take(w.Ctx); err != nil {
			t.Fatal(err)
		}
		if i < 20 {
			w.Must(other.Offer(w.Ctx, nil, i))
		}
	}
	if n := count(rec.All(), isList); n != 1 {
		t.Errorf("the list was read %d times, want once", n)
	}
}
