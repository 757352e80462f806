package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

func openPriority(tb testing.TB, c *client.Client, path string, o queue.Options) *queue.Priority {
	tb.Helper()
	q, err := queue.NewPriority(c, path, o)
	return opened(tb, q, err)
}

func openDelay(tb testing.TB, c *client.Client, path string, o queue.Options) *queue.Delay {
	tb.Helper()
	q, err := queue.NewDelay(c, path, o)
	return opened(tb, q, err)
}

func openBounded(tb testing.TB, c *client.Client, path string, capacity int, o queue.Options) *queue.Bounded {
	tb.Helper()
	q, err := queue.NewBounded(c, path, capacity, o)
	return opened(tb, q, err)
}

func openLeased(tb testing.TB, c *client.Client, path string, o queue.Options) *queue.Leased {
	tb.Helper()
	q, err := queue.NewLeased(c, path, o)
	return opened(tb, q, err)
}

// Lower numbers come first, those of one number in order; with both layouts.
func TestPriorities(t *testing.T) {
	for _, layout := range []queue.Layout{queue.Kazoo, queue.Book} {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			w := trial.New(t)
			q := openPriority(w, w.C, "/q", queue.Options{Layout: layout})
			for _, p := range []int{50, 7, 99, 50, 0} {
				w.Must(q.Offer(w.Ctx, fmt.Append(nil, p, "-", len(w.Children("/q"))), p))
			}
			want := []string{"0-4", "7-1", "50-0", "50-3", "99-2"}
			if got := drain(w, q); !slices.Equal(got, want) {
				t.Errorf("took %q, want %q", got, want)
			}
		})
	}
}

// What comes while a consumer works, and is more urgent, is next: the consumer does not
// go by the list that it has.
func TestPriorityComesWhileAConsumerWorks(t *testing.T) {
	w := trial.New(t)
	q, other := openPriority(w, w.C, "/q", queue.Options{}), openPriority(w, w.Other(), "/q", queue.Options{})
	w.Must(other.OfferAll(w.Ctx, [][]byte{[]byte("a"), []byte("b"), []byte("c")}, 50))
	take := func(want string) {
		t.Helper()
		if data, err := q.Take(w.Ctx); string(data) != want || err != nil {
			t.Fatalf("Take = %q, %v, want %s", data, err, want)
		}
	}
	take("a")
	rec := w.Record()
	w.Must(other.Offer(w.Ctx, []byte("urgent"), 1))
	w.Must(w.C.Sync(w.Ctx, "/q")) // the reply comes after the event
	take("urgent")
	take("b")
	if n := count(rec.All(), isList); n != 0 {
		t.Errorf("the list was read %d times more", n)
	}
	w.Must(other.Offer(w.Ctx, []byte("late"), 99))
	take("c")
	take("late")
	done := make(chan error, 1)
	go func() {
		data, err := q.Take(w.Ctx)
		if string(data) != "awaited" {
			err = fmt.Errorf("Take = %q, %v, want awaited", data, err)
		}
		done <- err
	}()
	w.Must(other.Offer(w.Ctx, []byte("awaited"), 5))
	w.Must(<-done)
}

func isList(r zktest.Traced) bool {
	return r.Op.String() == "getChildren" || r.Op.String() == "getChildren2"
}

func count(all []zktest.Traced, fits func(zktest.Traced) bool) int {
	n := 0
	for _, r := range all {
		if fits(r) {
			n++
		}
	}
	return n
}

// handClock is a clock that is set by hand.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
	armed  chan time.Duration // each After
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newHandClock() *handClock {
	return &handClock{now: time.UnixMilli(1_700_000_000_000), armed: make(chan time.Duration, 100)}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.timers = append(c.timers, timer{c.now.Add(d), ch})
	c.armed <- d
	return ch
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		if !t.at.After(c.now) {
			select {
			case t.c <- c.now:
			default:
			}
		}
	}
}

// Items are taken when their time has come, earliest first. A consumer waits for the
// first one by its clock, and turns to an earlier one that comes meanwhile.
// A time that the layout does not have is the last one, and not one that has passed.
func TestDelayOfFarTimes(t *testing.T) {
	w := trial.New(t)
	q := openDelay(w, w.C, "/q", queue.Options{})
	for _, at := range []time.Time{time.Unix(1<<40, 0), time.Unix(math.MaxInt64/1000, 0), time.Unix(1<<62, 0), time.Unix(math.MaxInt64, 0)} {
		w.Must(q.Offer(w.Ctx, []byte("far"), at))
	}
	if d, ok, err := q.Poll(w.Ctx); ok || err != nil {
		t.Errorf("poll = %q, %v, %v", d, ok, err)
	}
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Unix(-1<<55, 0), time.Unix(math.MinInt64, 0)} {
		if err := q.Offer(w.Ctx, []byte("past"), at); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("offer at %d = %v", at.Unix(), err)
		}
	}
	if d, ok, err := q.Poll(w.Ctx); ok || err != nil {
		t.Errorf("poll = %q, %v, %v", d, ok, err)
	}
}

func TestDelay(t *testing.T) {
	w := trial.New(t)
	clock := newHandClock()
	q, other := openDelay(w, w.C, "/q", queue.Options{Clock: clock}), openDelay(w, w.Other(), "/q", queue.Options{})
	start := clock.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	w.Must(other.Offer(w.Ctx, []byte("late"), at(2*time.Hour)))
	w.Must(other.Offer(w.Ctx, []byte("past"), at(-time.Hour)))
	if got := drain(w, q); !slices.Equal(got, []string{"past"}) {
		t.Errorf("took %q, want past", got)
	}
	if data, ok, err := q.Peek(w.Ctx); string(data) != "late" || !ok || err != nil {
		t.Errorf("Peek = %q, %v, %v", data, ok, err)
	}
	taken := make(chan string)
	go func() {
		for range 2 {
			data, err := q.Take(w.Ctx)
			if err != nil {
				t.Error(err)
			}
			taken <- string(data)
		}
	}()
	for d := range clock.armed {
		if d == 2*time.Hour {
			break
		}
	}
	w.Must(other.Offer(w.Ctx, []byte("early"), at(time.Hour)))
	for d := range clock.armed {
		if d == time.Hour {
			break
		}
	}
	// The consumer may look at the clock just before it advances, and arm a timer just after.
	await := func(want string) {
		for {
			select {
			case d := <-clock.armed:
				clock.advance(max(d, 0))
			case got := <-taken:
				if got != want {
					t.Errorf("took %q, want %q", got, want)
				}
				return
			}
		}
	}
	clock.advance(time.Hour)
	await("early")
	clock.advance(time.Hour)
	await("late")
}

// The bound is exact whatever happens at the same time, and waiting offers are served when an
// item is taken.
func TestBoundedIsExact(t *testing.T) {
	const capacity, producers, each = 3, 4, 8
	w := trial.New(t)
	q := openBounded(w, w.C, "/q", capacity, queue.Options{})
	var work sync.WaitGroup
	for p := range producers {
		producer := openBounded(w, w.Other(), "/q", capacity, queue.Options{})
		work.Go(func() {
			for i := range each {
				if err := producer.Offer(w.Ctx, fmt.Appendf(nil, "%d-%02d", p, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, producers)
	for range producers * each {
		if n := len(w.Children("/q/items")); n > capacity {
			t.Errorf("there are %d items, want %d at most", n, capacity)
		}
		data, err := q.Take(w.Ctx)
		w.Must(err)
		var p, i int
		fmt.Sscanf(string(data), "%d-%d", &p, &i)
		if i != next[p] {
			t.Errorf("took %s, want number %d", data, next[p])
		}
		next[p]++
	}
	work.Wait()
	if got := w.Children("/q/slots"); len(got) != 0 {
		t.Errorf("slots %q are in use by nothing", got)
	}
	if got := w.Children("/q/waiting"); len(got) != 0 {
		t.Errorf("%q wait for nothing", got)
	}
}

// Producers fill the queue at the same time: no more than the bound get in.
func TestBoundedFillsToTheBound(t *testing.T) {
	const capacity = 5
	w := trial.New(t)
	var work sync.WaitGroup
	results := make(chan bool, 20)
	for range 4 {
		q := openBounded(w, w.Other(), "/q", capacity, queue.Options{})
		work.Go(func() {
			for range 5 {
				ok, err := q.TryOffer(w.Ctx, nil)
				if err != nil {
					t.Error(err)
				}
				results <- ok
			}
		})
	}
	work.Wait()
	close(results)
	in := 0
	for ok := range results {
		if ok {
			in++
		}
	}
	if there := len(w.Children("/q/items")); in != capacity || there != capacity {
		t.Errorf("%d were let in, and %d are there, want %d", in, there, capacity)
	}
}

// A context that ends takes its place in the line with it, and offers nothing.
func TestBoundedGivesUp(t *testing.T) {
	w := trial.New(t)
	q := openBounded(w, w.C, "/q", 1, queue.Options{})
	w.Must(q.Offer(w.Ctx, []byte("a")))
	ctx, cancel := context.WithCancelCause(w.Ctx)
	enough := errors.New("enough")
	failed := make(chan error)
	go func() { failed <- q.Offer(ctx, []byte("b")) }()
	w.AwaitChildren("/q/waiting", 1)
	cancel(enough)
	if err := <-failed; !errors.Is(err, enough) {
		t.Errorf("Offer = %v, want %v", err, enough)
	}
	w.AwaitChildren("/q/waiting", 0)
	if got := drain(w, q); !slices.Equal(got, []string{"a"}) {
		t.Errorf("there was %q, want a", got)
	}
}
