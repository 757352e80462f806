package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

func openTwoPhase(tb testing.TB, c *client.Client, path string, o queue.Options) *queue.TwoPhase {
	tb.Helper()
	q, err := queue.NewTwoPhase(c, path, o)
	return opened(tb, q, err)
}

// writtenDown returns a draft as another process knows it.
func writtenDown(tb testing.TB, d *queue.Draft) *queue.Draft {
	tb.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		tb.Fatal(err)
	}
	other := new(queue.Draft)
	if err := json.Unmarshal(text, other); err != nil {
		tb.Fatal(err)
	}
	return other
}

// A draft can't be taken, and holds nobody up; it can be from the moment on at which it
// is offered. Items come in the order of their drafts.
func TestDrafts(t *testing.T) {
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/in/q", queue.Options{}), openTwoPhase(w, w.Look, "/in/q", queue.Options{})
	first, second := queue.NewDraft([]byte("1")), &queue.Draft{ID: "a/b-item-0000000001 ü", Data: []byte("2")}
	w.Must(q.Prepare(w.Ctx, first))
	name := first.Item
	w.Must(q.Prepare(w.Ctx, first))
	if first.Item != name || name == "" {
		t.Errorf("prepared twice, %q and %q", name, first.Item)
	}
	_, there, err := other.Peek(w.Ctx)
	if got := drain(w, other); len(got) != 0 || there || err != nil {
		t.Errorf("took %q of drafts, Peek = %v, %v", got, there, err)
	}
	w.Must(q.Offer(w.Ctx, second))
	w.Must(q.Offer(w.Ctx, queue.NewDraft(nil)))
	if data, there, err := other.Peek(w.Ctx); string(data) != "2" || !there || err != nil {
		t.Errorf("Peek = %q, %v, %v, want 2", data, there, err)
	}
	if data, err := other.Take(w.Ctx); string(data) != "2" || err != nil {
		t.Errorf("Take = %q, %v, want 2 as 1 is a draft", data, err)
	}
	w.Must(q.Offer(w.Ctx, first))
	w.Must(w.Look.Sync(w.Ctx, "/in/q"))
	if got := drain(w, other); !slices.Equal(got, []string{"1", ""}) {
		t.Errorf("took %q, want 1 and the empty one", got)
	}
}

// An offer that is repeated is one item, whether that is there or was taken, and also in
// another process that knows what was written down.
func TestOfferRepeated(t *testing.T) {
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Other(), "/q", queue.Options{})
	d := queue.NewDraft([]byte("a"))
	lost := writtenDown(t, d) // by a process that never comes to know d.Item
	w.Must(q.Prepare(w.Ctx, d))
	w.Must(other.Prepare(w.Ctx, lost))
	if lost.Item != d.Item {
		t.Errorf("prepared %q and %q under one ID", d.Item, lost.Item)
	}
	copied := writtenDown(t, d)
	for range 2 {
		w.Must(q.Offer(w.Ctx, d))
		w.Must(other.Offer(w.Ctx, copied))
	}
	if node, err := w.Look.Get(w.Ctx, "/q/"+d.Item); node.Stat.Version != 1 || err != nil {
		t.Errorf("the flag was set %d times (%v), want once", node.Stat.Version, err)
	}
	if got := drain(w, q); !slices.Equal(got, []string{"a"}) {
		t.Errorf("took %q, want a", got)
	}
	w.Must(q.Offer(w.Ctx, d))
	w.Must(other.Offer(w.Ctx, copied))
	if n := len(w.Children("/q")); n != 0 {
		t.Errorf("there are %d items after the only one was taken", n)
	}
}

// An offer is two requests and its repetition is one; neither lists what is there.
func TestTraceTwoPhase(t *testing.T) {
	w := trial.New(t)
	q := openTwoPhase(w, w.C, "/q", queue.Options{})
	w.Must(q.Offer(w.Ctx, queue.NewDraft(nil)))
	rec := w.Record()
	d := queue.NewDraft(nil)
	w.Must(q.Offer(w.Ctx, d))
	expect(w, rec, "an offer", "create /q/_c_GUID-item-", "setData /q/_c_GUID-item-#")
	w.Must(q.Offer(w.Ctx, d))
	expect(w, rec, "repeated", "setData /q/_c_GUID-item-#")
	d = writtenDown(t, queue.NewDraft(nil))
	w.Must(q.Prepare(w.Ctx, d))
	expect(w, rec, "of an ID that may be there", "sync /q", "getChildren /q", "create /q/_c_GUID-item-")
}

// A consumer that waits reads a draft once, and is woken when it can be taken: by its
// creation, which says nothing yet, and by its flag. The list is read once.
func TestTraceTakeOfADraft(t *testing.T) {
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Look, "/q", queue.Options{})
	old, d := queue.NewDraft(nil), queue.NewDraft([]byte("a"))
	w.Must(other.Prepare(w.Ctx, old))
	w.Must(other.Prepare(w.Ctx, d))
	rec := w.Record()
	taken := make(chan error)
	go func() {
		data, err := q.Take(w.Ctx)
		if string(data) != "a" {
			err = fmt.Errorf("Take = %q, %v", data, err)
		}
		taken <- err
	}()
	w.Must(rec.Await(w.Ctx, "a read of the second draft", func(r zktest.Traced) bool { return strings.HasSuffix(r.Path, d.Item) }))
	w.Must(w.C.Sync(w.Ctx, "/q")) // its reply comes after that of the read
	w.Must(other.Prepare(w.Ctx, queue.NewDraft(nil)))
	w.Must(other.Offer(w.Ctx, d))
	w.Must(<-taken)
	got := w.Trace(rec)
	for i := range got {
		got[i] = strings.Replace(got[i], "getChildren2", "getChildren", 1)
	}
	for _, want := range []struct {
		line string
		n    int
	}{
		{"getChildren /q", 1}, {"getData /q/_c_GUID-item-#", 3}, {"setData /q/_c_GUID-item-#", 0},
		{"event NodeCreated /q/_c_GUID-item-#", 1}, {"event NodeDataChanged /q/_c_GUID-item-#", 1},
	} {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != want.line })); n != want.n {
			t.Errorf("%q came %d times, want %d: %q", want.line, n, want.n, got)
		}
	}
}

// A flag that is set while the draft is being read ahead, or was, is not missed.
func TestNoFlagIsMissed(t *testing.T) {
	const drafts = 12
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Look, "/q", queue.Options{})
	for round := range 10 {
		var all []*queue.Draft
		for range drafts {
			d := queue.NewDraft(fmt.Append(nil, round))
			w.Must(other.Prepare(w.Ctx, d))
			all = append(all, d)
		}
		offered := make(chan error)
		go func() {
			var errs []error
			for i := range all {
				errs = append(errs, other.Offer(w.Ctx, all[(i*5+round)%drafts]))
			}
			offered <- errors.Join(errs...)
		}()
		for range drafts {
			if data, err := q.Take(w.Ctx); string(data) != fmt.Sprint(round) || err != nil {
				t.Fatalf("Take = %q, %v, want %d", data, err, round)
			}
		}
		w.Must(<-offered)
	}
}

// A draft that was read ahead of its turn is read again when its flag is set.
func TestFlagOfADraftThatWasReadAhead(t *testing.T) {
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Look, "/q", queue.Options{})
	for range 3 { // so that reading ahead begins
		w.Must(other.Offer(w.Ctx, queue.NewDraft(nil)))
	}
	d := queue.NewDraft([]byte("d"))
	w.Must(other.Prepare(w.Ctx, d))
	w.Must(w.C.Sync(w.Ctx, "/q"))
	rec := w.Record()
	for range 3 {
		if _, ok, err := q.Poll(w.Ctx); !ok || err != nil {
			t.Fatalf("Poll = %v, %v", ok, err)
		}
	}
	w.Must(rec.Await(w.Ctx, "that the draft is read ahead", func(r zktest.Traced) bool { return strings.HasSuffix(r.Path, d.Item) }))
	w.Must(w.C.Sync(w.Ctx, "/q"))
	w.Must(other.Offer(w.Ctx, d))
	w.Must(w.C.Sync(w.Ctx, "/q"))
	if got := drain(w, q); !slices.Equal(got, []string{"d"}) {
		t.Errorf("took %q, want d", got)
	}
}

// An item that is gone when its flag is set again was taken: it is not looked for, and
// not offered again.
func TestGoneIsTaken(t *testing.T) {
	w := trial.New(t)
	q, other := openTwoPhase(w, w.C, "/q", queue.Options{}), openTwoPhase(w, w.Look, "/q", queue.Options{})
	d := queue.NewDraft([]byte("a"))
	w.Must(q.Prepare(w.Ctx, d))
	rec := w.Record()
	cut := w.Proxy.CutAfter(func(op client.OpCode, _ string) bool { return op.String() == "setData" })
	ctx, cancel := context.WithCancel(w.Ctx)
	go func() {
		<-cut.Done()
		cancel()
	}()
	if err := q.Offer(ctx, d); err != nil && !client.IsAmbiguous(err) {
		t.Errorf("Offer = %v, want an ambiguous error if any", err)
	}
	data, err := other.Take(w.Ctx)
	if string(data) != "a" || err != nil {
		t.Errorf("Take = %q, %v, want a", data, err)
	}
	w.Must(q.Offer(w.Ctx, d))
	if n := count(rec.All(), func(r zktest.Traced) bool {
		return isList(r) || r.Op.String() == "create" || strings.HasSuffix(r.Path, d.Item) && r.Op.String() != "setData"
	}); n != 0 {
		t.Errorf("it was looked for, or made again: %q", w.Trace(rec))
	}
	if n := len(w.Children("/q")); n != 0 {
		t.Errorf("there are %d items, want none", n)
	}
}

// An offer that is repeated blindly, in the same session, the next one or another
// process, is one item, though a consumer takes it at once.
func TestEveryFaultOfTwoPhase(t *testing.T) {
	for _, renew := range []bool{false, true} {
		t.Run(fmt.Sprintf("renew=%t", renew), func(t *testing.T) {
			trial.Every(t, renew, func(w *trial.World) { repeatBlindly(w, renew) })
		})
	}
}

func repeatBlindly(w *trial.World, renew bool) {
	consumer := openTwoPhase(w, w.Look, "/in/q", queue.Options{})
	var taken []string
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			data, err := consumer.Take(w.Ctx)
			if err != nil || string(data) == "end" {
				return
			}
			taken = append(taken, string(data))
		}
	}()
	q, next := openTwoPhase(w, w.C, "/in/q", queue.Options{}), openTwoPhase(w, w.Other(), "/in/q", queue.Options{})
	a, b := queue.NewDraft([]byte("a")), &queue.Draft{ID: "b", Data: []byte("b")}
	// a is offered until that succeeds: here if it can, else by another client.
	err := q.Offer(w.Ctx, a)
	allowed(w, "Offer", err)
	if err != nil && renew {
		err = q.Offer(w.Ctx, a)
	}
	if err != nil {
		w.Must(next.Offer(w.Ctx, a))
	}
	// b's producer writes down what it knows, and dies at the end of its session. The
	// next one begins where that has ended, and knows nothing of what came behind.
	err = q.Prepare(w.Ctx, b)
	allowed(w, "Prepare", err)
	file := writtenDown(w, b)
	if err == nil {
		allowed(w, "Offer", q.Offer(w.Ctx, b))
	}
	w.Must(next.Offer(w.Ctx, file))
	shut(w, q)
	w.Must(next.Offer(w.Ctx, queue.NewDraft([]byte("end"))))
	<-over
	taken = append(taken, drain(w, consumer)...)
	if slices.Sort(taken); !slices.Equal(taken, []string{"a", "b"}) {
		w.Errorf("%s: took %q, want a and b, each once", w.Fault, taken)
	}
	sweepAll(w, next, 1)
	w.Must(next.Close(w.Ctx))
	tidy(w, consumer)
}

// What is wrong with a draft, or with a call, is an error, and nothing is done.
func TestTwoPhaseRefuses(t *testing.T) {
	w := trial.New(t)
	for _, o := range []queue.Options{{Layout: queue.Apache}, {Unordered: true}, {Ephemeral: true}, {Offers: queue.AtLeastOnce}} {
		if _, err := queue.NewTwoPhase(w.C, "/q", o); err == nil || !strings.Contains(err.Error(), "Options.") {
			t.Errorf("NewTwoPhase with %+v = %v", o, err)
		}
	}
	q := openTwoPhase(w, w.C, "/q", queue.Options{})
	for _, d := range []queue.Draft{{}, {ID: "a", Item: "_c_b-item-0000000001"}, {ID: "a", Item: "_c_a-item-1"}, {ID: "a", Item: "x"}} {
		err1, err2 := q.Prepare(w.Ctx, &d), q.Offer(w.Ctx, &d)
		if !errors.Is(err1, client.ErrBadArguments) || !errors.Is(err2, client.ErrBadArguments) {
			t.Errorf("%+v: Prepare = %v, Offer = %v, want ErrBadArguments", d, err1, err2)
		}
	}
	for _, age := range []time.Duration{0, -1} {
		if _, err := q.Sweep(w.Ctx, age); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("Sweep(%v) = %v, want ErrBadArguments", age, err)
		}
	}
	ctx, cancel := context.WithCancelCause(w.Ctx)
	enough := errors.New("enough")
	cancel(enough)
	if err := q.Offer(ctx, queue.NewDraft(nil)); !errors.Is(err, enough) {
		t.Errorf("Offer = %v, want %v", err, enough)
	}
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
	w.Must(q.Close(w.Ctx))
	_, err := q.Sweep(w.Ctx, time.Hour)
	for _, err := range []error{err, q.Prepare(w.Ctx, queue.NewDraft(nil)), q.Offer(w.Ctx, queue.NewDraft(nil))} {
		if !errors.Is(err, recipes.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

// Nodes that are no items of a two-phase queue, or have no flag, are errors that name
// them, and stay.
func TestTwoPhaseOfBrokenItems(t *testing.T) {
	w := trial.New(t)
	for _, name := range []string{"_c_a-item-0000000000", "_c_a-0000000000", "qn-0000000000"} {
		_, err := settle.CreateAll(w.Ctx, w.Look, "/q/"+name, nil, client.CreateOptions{})
		w.Must(err)
		q := openTwoPhase(w, w.C, "/q", queue.Options{})
		_, _, err1 := q.Poll(w.Ctx)
		_, _, err2 := q.Peek(w.Ctx)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want an ErrLayout that names %s", err, name)
			}
		}
		if _, err := q.Sweep(w.Ctx, time.Hour); !strings.Contains(name, "item") && !errors.Is(err, recipes.ErrLayout) {
			t.Errorf("Sweep = %v, want ErrLayout", err)
		}
		w.Must(w.Look.Delete(w.Ctx, "/q/"+name, client.AnyVersion))
	}
}
