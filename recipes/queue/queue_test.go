package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

func open(tb testing.TB, c *client.Client, path string, o queue.Options) *queue.Queue {
	tb.Helper()
	q, err := queue.New(c, path, o)
	return opened(tb, q, err)
}

// offerAll offers the words one by one.
func offerAll(w *trial.World, q *queue.Queue, words ...string) {
	w.Helper()
	for _, word := range words {
		w.Must(q.Offer(w.Ctx, []byte(word)))
	}
}

// drain polls until there is nothing left.
func drain(w *trial.World, q interface {
	PollAll(context.Context, int) ([][]byte, error)
}) []string {
	w.Helper()
	var words []string
	for {
		items, err := q.PollAll(w.Ctx, 100)
		w.Must(err)
		if len(items) == 0 {
			return words
		}
		for _, data := range items {
			words = append(words, string(data))
		}
	}
}

// What goes in comes out in the same order, however it goes in and comes out, and in
// each mode.
func TestFirstInFirstOut(t *testing.T) {
	guarantees := []queue.Guarantee{queue.ExactlyOnce, queue.AtLeastOnce, queue.AtMostOnce}
	for _, layout := range []queue.Layout{0, queue.Apache, queue.Kazoo} {
		for _, g := range guarantees {
			t.Run(fmt.Sprintf("layout-%d-guarantee-%d", layout, g), func(t *testing.T) {
				w := trial.New(t)
				q := open(w, w.C, "/in/q", queue.Options{Layout: layout, Offers: g, Takes: g, Exclusive: g == queue.AtMostOnce})
				offerAll(w, q, "a", "b")
				w.Must(q.OfferAll(w.Ctx, [][]byte{[]byte("c"), []byte("d"), []byte("e")}))
				if n, err := q.Len(w.Ctx); n != 5 || err != nil {
					t.Errorf("Len = %d, %v, want 5", n, err)
				}
				if data, err := q.Take(w.Ctx); string(data) != "a" || err != nil {
					t.Errorf("Take = %q, %v, want a", data, err)
				}
				if data, ok, err := q.Peek(w.Ctx); string(data) != "b" || !ok || err != nil {
					t.Errorf("Peek = %q, %v, %v, want b", data, ok, err)
				}
				if data, ok, err := q.Poll(w.Ctx); string(data) != "b" || !ok || err != nil {
					t.Errorf("Poll = %q, %v, %v, want b", data, ok, err)
				}
				if got := drain(w, q); !slices.Equal(got, []string{"c", "d", "e"}) {
					t.Errorf("the rest is %q, want c, d, e", got)
				}
				_, ok, err := q.Poll(w.Ctx)
				if ok || err != nil {
					t.Errorf("Poll of nothing = %v, %v", ok, err)
				}
				_, ok, err = q.Peek(w.Ctx)
				if ok || err != nil {
					t.Errorf("Peek of nothing = %v, %v", ok, err)
				}
				w.Must(q.Close(w.Ctx))
				w.Must(q.Close(w.Ctx))
				if _, _, err := q.Poll(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
					t.Errorf("Poll of a closed queue = %v, want ErrClosed", err)
				}
			})
		}
	}
}
