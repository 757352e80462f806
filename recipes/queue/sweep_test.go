package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// sweepAll removes the drafts, of which there are so many, and expects nothing else to
// be there.
func sweepAll(w *trial.World, q *queue.TwoPhase, want int) {
	w.Helper()
	removed := 0
	for n := -1; n != 0; { // until those of the last millisecond are old
		swept, err := q.Sweep(w.Ctx, time.Millisecond)
		w.Must(err)
		removed += swept
		n, err = q.Len(w.Ctx)
		w.Must(err)
	}
	if removed > want {
		w.Errorf("there were %d drafts, want %d at most", removed, want)
	}
}

// Sweep removes drafts that are old enough, and neither those that aren't nor items.
func TestSweep(t *testing.T) {
	w := trial.New(t)
	q := openTwoPhase(w, w.C, "/q", queue.Options{})
	if n, err := q.Sweep(w.Ctx, time.Hour); n != 0 || err != nil {
		t.Errorf("Sweep of nothing = %d, %v", n, err)
	}
	w.Must(q.Offer(w.Ctx, queue.NewDraft([]byte("a"))))
	w.Must(q.Prepare(w.Ctx, queue.NewDraft([]byte("b"))))
	if n, err := q.Sweep(w.Ctx, time.Hour); n != 0 || err != nil {
		t.Errorf("Sweep of a young draft = %d, %v", n, err)
	}
	for n := 0; n == 0; { // until the leader's clock advances
		var err error
		n, err = q.Sweep(w.Ctx, time.Millisecond)
		w.Must(err)
	}
	if got := drain(w, q); !slices.Equal(got, []string{"a"}) || len(w.Children("/q")) != 0 {
		t.Errorf("took %q, want a; and there is %q", got, w.Children("/q"))
	}
}

// An item that becomes consumable after its draft was found to be old is not removed.
func TestSweepOfADraftThatIsOffered(t *testing.T) {
	w := trial.New(t)
	producer := openTwoPhase(w, w.Look, "/q", queue.Options{})
	d := queue.NewDraft([]byte("a"))
	w.Must(producer.Prepare(w.Ctx, d))
	var once sync.Once
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, r client.TracedRequest) {
			// It has been read, in a page where the server has these, and is removed next.
			if r.Op == jute.OpChildrenPage || strings.HasSuffix(r.Path, "/"+d.Item) {
				once.Do(func() { w.Must(producer.Offer(w.Ctx, d)) })
			}
		}
	})
	q := openTwoPhase(w, c, "/q", queue.Options{})
	for old := false; !old; { // until the leader's clock advances
		if _, err := w.Look.Set(w.Ctx, "/q", nil, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		dir, err := w.Look.Get(w.Ctx, "/q")
		w.Must(err)
		node, err := w.Look.Get(w.Ctx, "/q/"+d.Item)
		w.Must(err)
		old = dir.Stat.Mtime > node.Stat.Ctime
	}
	if n, err := q.Sweep(w.Ctx, time.Millisecond); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v, want that it leaves the item", n, err)
	}
	if got := drain(w, q); !slices.Equal(got, []string{"a"}) {
		t.Errorf("took %q, want a", got)
	}
}

// A draft that becomes consumable while drafts are removed is removed, or is an item.
func TestSweepWhileOffering(t *testing.T) {
	const rounds, drafts = 5, 20
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Other(), "/q", queue.Options{})
	removed := 0
	for range rounds {
		var all []*queue.Draft
		for range drafts {
			d := queue.NewDraft(nil)
			w.Must(q.Prepare(w.Ctx, d))
			all = append(all, d)
		}
		offered := make(chan error)
		go func() {
			var errs []error
			for _, d := range slices.Backward(all) {
				errs = append(errs, other.Offer(w.Ctx, d))
			}
			offered <- errors.Join(errs...)
		}()
		n, err := q.Sweep(w.Ctx, time.Millisecond)
		w.Must(err)
		w.Must(<-offered)
		removed += n
	}
	w.Must(w.C.Sync(w.Ctx, "/q"))
	if taken := len(drain(w, q)); removed+taken != rounds*drafts {
		t.Errorf("%d were removed and %d taken, of %d", removed, taken, rounds*drafts)
	}
	t.Logf("%d of %d were removed", removed, rounds*drafts)
}
