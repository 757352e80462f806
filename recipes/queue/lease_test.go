package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// An item is one consumer's until that acknowledges it or gives it back.
func TestLease(t *testing.T) {
	w := trial.New(t)
	q, other := openLeased(w, w.C, "/q", queue.Options{}), openLeased(w, w.Other(), "/q", queue.Options{})
	w.Must(q.Offer(w.Ctx, []byte("a")))
	w.Must(q.OfferAll(w.Ctx, [][]byte{[]byte("urgent")}, 1))
	first, err := q.Take(w.Ctx)
	w.Must(err)
	second, err := other.Take(w.Ctx)
	w.Must(err)
	if string(first.Data()) != "urgent" || string(second.Data()) != "a" {
		t.Errorf("leased %q and %q, want urgent and a", first.Data(), second.Data())
	}
	if second.Token() <= first.Token() {
		t.Errorf("tokens are %v and then %v, want them to grow", first.Token(), second.Token())
	}
	if l, ok, err := q.Poll(w.Ctx); ok || err != nil {
		t.Errorf("Poll = %v, %v, %v of a queue whose items are all leased", l, ok, err)
	}
	w.Must(first.Ack(w.Ctx))
	for name, end := range map[string]func(context.Context) error{"Ack": first.Ack, "Release": first.Release} {
		if err := end(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("%s after Ack = %v, want ErrNotHeld", name, err)
		}
	}
	if err := context.Cause(first.Context()); err == nil || errors.Is(err, recipes.ErrLost) {
		t.Errorf("the context of an acknowledged lease: %v", err)
	}
	again := make(chan *queue.Lease)
	go func() {
		l, err := q.Take(w.Ctx)
		if err != nil {
			t.Error(err)
		}
		again <- l
	}()
	w.AwaitChildren("/q/waiting", 1)
	w.Must(second.Release(w.Ctx))
	l := <-again
	if string(l.Data()) != "a" || l.Attempt() != 2 {
		t.Errorf("after Release there is %q, attempt %d, want a, 2", l.Data(), l.Attempt())
	}
	w.Must(l.Ack(w.Ctx))
	if n, err := q.Len(w.Ctx); n != 0 || err != nil {
		t.Errorf("Len = %d, %v", n, err)
	}
	if got := w.Children("/q/taken"); len(got) != 0 {
		t.Errorf("claims %q are left", got)
	}
}

// An item whose consumer dies is available again, and the consumer, should it only have
// been thought dead, can't acknowledge it any more.
func TestLeaseOfADeadConsumer(t *testing.T) {
	w := trial.New(t)
	q, other := openLeased(w, w.C, "/q", queue.Options{}), openLeased(w, w.Other(), "/q", queue.Options{})
	w.Must(other.Offer(w.Ctx, []byte("a")))
	l, err := q.Take(w.Ctx)
	w.Must(err)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	l2, err := other.Take(w.Ctx)
	w.Must(err)
	if string(l2.Data()) != "a" || l2.Attempt() != 2 || l2.Token() <= l.Token() {
		t.Errorf("leased %q, attempt %d, token %v after %v", l2.Data(), l2.Attempt(), l2.Token(), l.Token())
	}
	<-l.Context().Done()
	if err := context.Cause(l.Context()); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the lost lease's context: %v, want ErrLost", err)
	}
	if err := l.Ack(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("Ack of the lost lease = %v, want ErrNotHeld", err)
	}
	w.Must(l2.Ack(w.Ctx))
}

// An item on which consumers fail again and again is put aside.
func TestLeaseOfPoison(t *testing.T) {
	w := trial.New(t)
	q := openLeased(w, w.C, "/q", queue.Options{MaxAttempts: 2})
	w.Must(q.OfferAll(w.Ctx, [][]byte{[]byte("poison"), []byte("food")}, 7))
	for range 2 {
		l, err := q.Take(w.Ctx)
		w.Must(err)
		if string(l.Data()) != "poison" {
			t.Fatalf("leased %q, want poison", l.Data())
		}
		w.Must(l.Release(w.Ctx))
		w.Must(q.Close(w.Ctx)) // which forgets the list
		q = openLeased(w, w.C, "/q", queue.Options{MaxAttempts: 2})
	}
	l, err := q.Take(w.Ctx)
	w.Must(err)
	if string(l.Data()) != "food" {
		t.Errorf("leased %q, want food", l.Data())
	}
	dead := open(w, w.C, "/q/dead", queue.Options{Layout: queue.Kazoo})
	if got := drain(w, dead); !slices.Equal(got, []string{"poison"}) {
		t.Errorf("put aside was %q, want poison", got)
	}
}

// Close gives back what is leased.
func TestLeasedClose(t *testing.T) {
	w := trial.New(t)
	q := openLeased(w, w.C, "/q", queue.Options{})
	w.Must(q.Offer(w.Ctx, []byte("a")))
	l, err := q.Take(w.Ctx)
	w.Must(err)
	w.Must(q.Close(w.Ctx))
	if got := w.Children("/q/taken"); len(got) != 0 {
		t.Errorf("claims %q are left", got)
	}
	if err := l.Ack(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("Ack after Close = %v, want ErrNotHeld", err)
	}
	if _, err := q.Take(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("Take after Close = %v, want ErrClosed", err)
	}
}

// A claim that somebody has deleted is lost: the next consumer's is not touched by an
// acknowledgement that comes late, ours or kazoo's.
func TestLeaseThatWasTakenAway(t *testing.T) {
	for _, by := range []string{"zkd", "kazoo"} {
		w := trial.New(t)
		q, other := openLeased(w, w.C, "/q", queue.Options{}), openLeased(w, w.Look, "/q", queue.Options{})
		w.Must(other.Offer(w.Ctx, []byte("a")))
		l, err := q.Take(w.Ctx)
		w.Must(err)
		claim := "/q/taken/" + w.Children("/q/taken")[0]
		w.Must(w.Look.Delete(w.Ctx, claim, client.AnyVersion))
		<-l.Context().Done()
		if err := context.Cause(l.Context()); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("the context of a deleted claim: %v, want ErrLost", err)
		}
		if by == "zkd" {
			_, err = other.Take(w.Ctx)
		} else {
			_, err = w.Look.Create(w.Ctx, claim, []byte("kazoo"), client.CreateOptions{Mode: client.Ephemeral})
		}
		w.Must(err)
		if err := l.Ack(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("Ack beside a claim of %s = %v, want ErrNotHeld", by, err)
		}
		if n, m := len(w.Children("/q/entries")), len(w.Children("/q/taken")); n != 1 || m != 1 {
			t.Errorf("there are %d items and %d claims, want one each", n, m)
		}
	}
}
