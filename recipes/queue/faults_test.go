package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// allowed fails the test if err is one that the fault does not explain: a broken
// connection is hidden, the end of a session is not.
func allowed(w *trial.World, what string, err error) {
	w.Helper()
	if err == nil || w.Expires && w.Hit() && (trial.Passing(err) || errors.Is(err, queue.ErrUnknown) || errors.Is(err, recipes.ErrLost)) {
		return
	}
	w.Fatalf("%s: %s = %v", w.Fault, what, err)
}

// shut closes a queue to whose client the fault may have happened.
func shut(w *trial.World, q interface{ Close(context.Context) error }) {
	w.Helper()
	allowed(w, "Close", q.Close(w.Ctx))
}

// tidy closes the other queue and sees to it that nothing but items is left.
func tidy(w *trial.World, q interface{ Close(context.Context) error }) {
	w.Helper()
	w.Must(q.Close(w.Ctx))
	for _, dir := range []string{"/in/q-receipts", "/in/q-consumer", "/in/q/waiting", "/in/q/taken"} {
		w.AwaitChildren(dir, 0)
	}
}

// each runs fn for each kind of fault; where a new session may change what is done, also
// with one that is renewed.
func each(t *testing.T, name string, fn func(w *trial.World)) {
	t.Run(name, func(t *testing.T) { trial.Every(t, false, fn) })
	for _, again := range []string{"exactly", "queue-Take", "exclusive-Take", "Ack"} {
		if name == again {
			t.Run(name+"-renewed", func(t *testing.T) { trial.Every(t, true, fn) })
		}
	}
}

// What an offer says that it did it has done, also if a consumer takes the item at
// once, so that it can't be found afterwards.
func TestEveryFaultOfAnOffer(t *testing.T) {
	for _, g := range []queue.Guarantee{queue.ExactlyOnce, queue.AtLeastOnce, queue.AtMostOnce} {
		each(t, []string{"exactly", "atleast", "atmost"}[g], func(w *trial.World) {
			consumer := open(w, w.Other(), "/in/q", queue.Options{})
			var taken []string
			ctx, stop := context.WithCancel(w.Ctx)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for {
					data, err := consumer.Take(ctx)
					if err != nil {
						return
					}
					taken = append(taken, string(data))
				}
			}()
			q := open(w, w.C, "/in/q", queue.Options{Offers: g})
			err1 := q.Offer(w.Ctx, []byte("a"))
			err2 := q.OfferAll(w.Ctx, [][]byte{[]byte("b"), []byte("c")})
			w.Must(consumer.Offer(w.Ctx, []byte("end")))
			stop()
			<-over
			taken = append(taken, drain(w, consumer)...)
			for i, err := range map[string]error{"a": err1, "b": err2, "c": err2} {
				n := len(slices.DeleteFunc(slices.Clone(taken), func(s string) bool { return s != i }))
				low, high := 1, 1
				switch {
				case err != nil && client.IsAmbiguous(err):
					low = 0
				case err != nil:
					low, high = 0, 0
				}
				if g == queue.AtLeastOnce {
					high = 2
				}
				if n < low || n > high {
					w.Errorf("%s: Offer(%s) = %v, and it was there %d times", w.Fault, i, err, n)
				}
				if err != nil && g != queue.AtMostOnce {
					allowed(w, "Offer", err)
				}
			}
			shut(w, q)
			tidy(w, consumer)
		})
	}
}

// taker is what queues have in common.
type taker interface {
	Poll(context.Context) ([]byte, bool, error)
	PollAll(context.Context, int) ([][]byte, error)
	Take(context.Context) ([]byte, error)
	TakeAll(context.Context, int) ([][]byte, error)
	Close(context.Context) error
}

// ways are the calls that take, up to two items at a time.
var ways = map[string]func(context.Context, taker) ([][]byte, error){
	"Poll": func(ctx context.Context, q taker) ([][]byte, error) {
		data, ok, err := q.Poll(ctx)
		if !ok {
			return nil, err
		}
		return [][]byte{data}, err
	},
	"Take": func(ctx context.Context, q taker) ([][]byte, error) {
		data, err := q.Take(ctx)
		if err != nil {
			return nil, err
		}
		return [][]byte{data}, nil
	},
	"PollAll": func(ctx context.Context, q taker) ([][]byte, error) { return q.PollAll(ctx, 2) },
}

// What is returned has been taken, and what has been taken is returned; in all kinds of
// queue and in each way to take.
func TestEveryFaultOfATake(t *testing.T) {
	for kind, k := range kinds {
		for way, take := range ways {
			if way != "Take" && kind != "queue" || kind == "priority" {
				continue // which is as "delay"
			}
			each(t, kind+"-"+way, func(w *trial.World) {
				other := k(w, w.Look)
				for _, word := range []string{"a", "b", "c"} {
					w.Must(other.offer(w.Ctx, word))
				}
				q := k(w, w.C)
				var got, doubt []string
				for range 2 {
					items, err := take(w.Ctx, q)
					for _, data := range items {
						got = append(got, string(data))
					}
					if u, ok := errors.AsType[*queue.UnknownError](err); ok {
						for _, data := range u.Data {
							doubt = append(doubt, string(data))
						}
					}
					allowed(w, way, err)
				}
				renewed := !w.C.State().Final()
				shut(w, q)
				rest := drain(w, other)
				all := append(slices.Clone(got), rest...)
				for _, word := range []string{"a", "b", "c"} {
					n := len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != word }))
					if n != 1 && !(n == 0 && slices.Contains(doubt, word)) {
						w.Errorf("%s: got %q, in doubt %q, left %q", w.Fault, got, doubt, rest)
					}
					if renewed && slices.Contains(doubt, word) && slices.Contains(rest, word) {
						w.Errorf("%s: %s is in doubt, but is there", w.Fault, word)
					}
				}
				tidy(w, other)
			})
		}
	}
}

// offering is a queue of any kind that one can offer words to.
type offering struct {
	taker
	offer func(ctx context.Context, word string) error
}

var kinds = map[string]func(w *trial.World, c *client.Client) offering{
	"queue": func(w *trial.World, c *client.Client) offering {
		q := open(w, c, "/in/q", queue.Options{})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, []byte(word)) }}
	},
	"priority": func(w *trial.World, c *client.Client) offering {
		q := openPriority(w, c, "/in/q", queue.Options{})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, []byte(word), 5) }}
	},
	"delay": func(w *trial.World, c *client.Client) offering {
		q := openDelay(w, c, "/in/q", queue.Options{})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, []byte(word), time.UnixMilli(7)) }}
	},
	"twophase": func(w *trial.World, c *client.Client) offering {
		q := openTwoPhase(w, c, "/in/q", queue.Options{})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, queue.NewDraft([]byte(word))) }}
	},
	"bounded": func(w *trial.World, c *client.Client) offering {
		q := openBounded(w, c, "/in/q", 3, queue.Options{})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, []byte(word)) }}
	},
	"exclusive": func(w *trial.World, c *client.Client) offering {
		q := open(w, c, "/in/q", queue.Options{Exclusive: c == w.C})
		return offering{q, func(ctx context.Context, word string) error { return q.Offer(ctx, []byte(word)) }}
	},
}

// A call that waits for an item gets it, though the connection breaks meanwhile.
func TestEveryFaultOfWaiting(t *testing.T) {
	for kind, k := range kinds {
		if kind == "bounded" || kind == "delay" {
			continue // which wait as "queue" and "priority"
		}
		each(t, kind, func(w *trial.World) {
			other, q := k(w, w.Look), k(w, w.C)
			type result struct {
				data []byte
				err  error
			}
			taken := make(chan result, 1)
			ctx, stop := context.WithCancel(w.Ctx)
			defer stop()
			go func() {
				data, err := q.Take(ctx)
				taken <- result{data, err}
			}()
			w.Must(other.offer(w.Ctx, "a"))
			r := <-taken
			allowed(w, "Take", r.err)
			shut(w, q)
			rest := drain(w, other)
			if n := len(rest); r.err == nil && (n != 0 || string(r.data) != "a") || r.err != nil && n != 1 && !errors.Is(r.err, queue.ErrUnknown) {
				w.Errorf("%s: Take = %q, %v, and %q is left", w.Fault, r.data, r.err, rest)
			}
			tidy(w, other)
		})
	}
}

// An offer that waited for a full queue is in the queue, and no other.
func TestEveryFaultOfAFullQueue(t *testing.T) {
	each(t, "bounded", func(w *trial.World) {
		q, other := openBounded(w, w.C, "/in/q", 1, queue.Options{}), openBounded(w, w.Look, "/in/q", 1, queue.Options{})
		w.Must(other.Offer(w.Ctx, []byte("a")))
		offered := make(chan error, 1)
		go func() { offered <- q.Offer(w.Ctx, []byte("b")) }()
		data, err := other.Take(w.Ctx)
		w.Must(err)
		if string(data) != "a" {
			w.Errorf("took %q, want a", data)
		}
		err = <-offered
		allowed(w, "Offer", err)
		rest := drain(w, other)
		if n := len(rest); err == nil && n != 1 || err != nil && !client.IsAmbiguous(err) && n != 0 || n > 1 {
			w.Errorf("%s: Offer = %v, and there is %q", w.Fault, err, rest)
		}
		shut(w, q)
		tidy(w, other)
		w.AwaitChildren("/in/q/slots", 0)
	})
}

// An item is leased to one, is done when it was acknowledged, and is there again when it
// was given back or its consumer has died.
func TestEveryFaultOfALease(t *testing.T) {
	for _, way := range []string{"Ack", "Release"} {
		each(t, way, func(w *trial.World) {
			q, other := openLeased(w, w.C, "/in/q", queue.Options{}), openLeased(w, w.Look, "/in/q", queue.Options{})
			w.Must(other.Offer(w.Ctx, []byte("a")))
			l, err := q.Take(w.Ctx)
			allowed(w, "Take", err)
			if err == nil {
				if string(l.Data()) != "a" || l.Attempt() != 1 && !w.Expires {
					w.Errorf("%s: leased %q, attempt %d", w.Fault, l.Data(), l.Attempt())
				}
				end := l.Ack
				if way == "Release" {
					end = l.Release
				}
				if err = end(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
					allowed(w, way, err)
				}
				<-l.Context().Done()
			}
			shut(w, q)
			n, lenErr := other.Len(w.Ctx)
			w.Must(lenErr)
			low, high := 1, 1 // items
			if way == "Ack" && err == nil {
				low, high = 0, 0
			}
			if way == "Ack" && errors.Is(err, queue.ErrUnknown) {
				low = 0
			}
			if n < low || n > high {
				w.Fatalf("%s: %s = %v, and there are %d items", w.Fault, way, err, n)
			}
			if n == 1 {
				l, err := other.Take(w.Ctx)
				w.Must(err)
				w.Must(l.Ack(w.Ctx))
			}
			tidy(w, other)
		})
	}
}
