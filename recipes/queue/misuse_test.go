package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// New says what is wrong.
func TestNewRefuses(t *testing.T) {
	w := trial.New(t)
	tests := []struct {
		name string
		make func() (any, error)
		want string
	}{
		{"relative", func() (any, error) { return queue.New(w.C, "q", queue.Options{}) }, `path "q"`},
		{"root", func() (any, error) { return queue.New(w.C, "/", queue.Options{}) }, "below"},
		{"offers", func() (any, error) { return queue.New(w.C, "/q", queue.Options{Offers: 3}) }, "Options.Offers is 3"},
		{"takes", func() (any, error) { return queue.New(w.C, "/q", queue.Options{Takes: -1}) }, "Options.Takes is -1"},
		{"layout", func() (any, error) { return queue.New(w.C, "/q", queue.Options{Layout: 9}) }, "Options.Layout is 9"},
		{"attempts", func() (any, error) { return queue.NewLeased(w.C, "/q", queue.Options{MaxAttempts: -1}) }, "MaxAttempts is -1"},
		{"priority", func() (any, error) { return queue.NewPriority(w.C, "/q", queue.Options{Layout: queue.Apache}) }, "has no priorities"},
		{"unordered", func() (any, error) { return queue.NewPriority(w.C, "/q", queue.Options{Unordered: true}) }, "Options.Unordered"},
		{"delay", func() (any, error) { return queue.NewDelay(w.C, "/q", queue.Options{Layout: queue.Kazoo}) }, "Options.Layout"},
		{"none", func() (any, error) { return queue.NewBounded(w.C, "/q", 0, queue.Options{}) }, "capacity is 0"},
		{"many", func() (any, error) { return queue.NewBounded(w.C, "/q", 1<<20, queue.Options{}) }, "capacity is 1048576"},
		{"lease", func() (any, error) { return queue.NewLeased(w.C, "/q", queue.Options{Exclusive: true}) }, "Options.Exclusive"},
	}
	for _, test := range tests {
		if _, err := test.make(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want something with %q", test.name, err, test.want)
		}
	}
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
}

// Arguments of calls that are out of range are errors, and nothing is done.
func TestCallsRefuse(t *testing.T) {
	w := trial.New(t)
	q, p := open(w, w.C, "/q", queue.Options{}), openPriority(w, w.C, "/p", queue.Options{Layout: queue.Book})
	l, d := openLeased(w, w.C, "/l", queue.Options{}), openDelay(w, w.C, "/d", queue.Options{})
	_, err1 := q.PollAll(w.Ctx, 0)
	err2, err3 := p.Offer(w.Ctx, nil, 100), p.Offer(w.Ctx, nil, -1)
	err4 := l.OfferAll(w.Ctx, nil, 1000)
	err5 := d.Offer(w.Ctx, nil, time.UnixMilli(-1))
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("%d: %v, want ErrBadArguments", i+1, err)
		}
	}
	w.Must(q.OfferAll(w.Ctx, nil))
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
}

// Nodes of somebody else are an error that names one, and nothing is taken.
func TestNodesOfSomebodyElse(t *testing.T) {
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := trial.New(t)
			q := k(w, w.C)
			w.Must(q.offer(w.Ctx, "a"))
			dir := "/in/q"
			if kind == "bounded" {
				dir += "/items"
			}
			_, err := w.Look.Create(w.Ctx, dir+"/alien", nil, client.CreateOptions{})
			w.Must(err)
			if _, err := q.Take(w.Ctx); !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), `"alien"`) {
				t.Errorf("Take = %v, want an ErrLayout that names alien", err)
			}
			w.Must(w.Look.Delete(w.Ctx, dir+"/alien", client.AnyVersion))
			if data, err := q.Take(w.Ctx); string(data) != "a" || err != nil {
				t.Errorf("Take = %q, %v, want a", data, err)
			}
		})
	}
}

// What is no item of a delay queue stays where it is.
func TestDelayOfBrokenItems(t *testing.T) {
	w := trial.New(t)
	q := openDelay(w, w.C, "/q", queue.Options{})
	w.Must(q.Offer(w.Ctx, []byte("a"), time.UnixMilli(1)))
	path := "/q/" + w.Children("/q")[0]
	good, err := w.Look.Get(w.Ctx, path)
	w.Must(err)
	two := append(append([]byte{}, good.Data[:len(good.Data)-1]...), good.Data[4:]...)
	for _, bad := range [][]byte{nil, []byte("plain"), good.Data[:len(good.Data)-1], two} {
		_, err := w.Look.Set(w.Ctx, path, bad, client.AnyVersion)
		w.Must(err)
		fresh := openDelay(w, w.C, "/q", queue.Options{})
		if _, _, err := fresh.Poll(w.Ctx); !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), path) {
			t.Errorf("Poll of %q = %v, want an ErrLayout that names %s", bad, err, path)
		}
		w.Must(fresh.Close(w.Ctx))
	}
	if n, err := q.Len(w.Ctx); n != 1 || err != nil {
		t.Errorf("Len = %d, %v, want 1", n, err)
	}
}

// ACLs that forbid come through, with the path, and nothing is left.
func TestForbidden(t *testing.T) {
	w := trial.New(t)
	w.Must(w.Look.Session().AddAuth(w.Ctx, "digest", []byte("u:p")))
	acl := []client.ACL{client.DigestACL(client.PermAll, "u", "p")}
	theirs := open(w, w.Look, "/in/q", queue.Options{ACL: acl})
	w.Must(theirs.Offer(w.Ctx, []byte("a")))
	for kind, k := range kinds {
		if kind == "bounded" {
			continue // another path
		}
		q := k(w, w.C)
		err1 := q.offer(w.Ctx, "b")
		_, err2 := q.Take(w.Ctx)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/in/q") {
				t.Errorf("%s: %v, want ErrNoAuth with the path", kind, err)
			}
		}
		w.Must(q.Close(w.Ctx))
	}
	if n := len(w.AwaitChildren("/in/q-receipts", 1)); n != 1 {
		t.Errorf("there are %d receipts, want theirs", n)
	}
	if got := drain(w, theirs); len(got) != 1 {
		t.Errorf("there is %q, want a", got)
	}
}

// One consumer has an exclusive queue until it closes it, and then the next.
func TestExclusive(t *testing.T) {
	w := trial.New(t)
	o := queue.Options{Exclusive: true}
	first, second := open(w, w.C, "/q", o), open(w, w.Look, "/q", o)
	offerAll(w, first, "a", "b", "c")
	if data, err := first.Take(w.Ctx); string(data) != "a" || err != nil {
		t.Fatalf("Take = %q, %v, want a", data, err)
	}
	if _, _, err := second.Poll(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("Poll of the second = %v, want ErrNotHeld", err)
	}
	taken := make(chan string)
	go func() {
		data, err := second.Take(w.Ctx)
		if err != nil {
			t.Error(err)
		}
		taken <- string(data)
	}()
	w.AwaitChildren("/q-consumer", 2)
	if data, err := first.Take(w.Ctx); string(data) != "b" || err != nil {
		t.Fatalf("Take = %q, %v, want b", data, err)
	}
	w.Must(first.Close(w.Ctx))
	if got := <-taken; got != "c" {
		t.Errorf("the second took %q, want c", got)
	}
}

// An exclusive consumer whose place is gone takes nothing by it.
func TestExclusiveDeposed(t *testing.T) {
	w := trial.New(t)
	q := open(w, w.C, "/q", queue.Options{Exclusive: true})
	offerAll(w, q, "a", "b")
	_, err := q.Take(w.Ctx)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, "/q-consumer/"+w.Children("/q-consumer")[0], client.AnyVersion))
	if data, err := q.Take(w.Ctx); string(data) != "b" || err != nil {
		t.Errorf("Take = %q, %v, want b", data, err)
	}
	if got := w.Children("/q-consumer"); len(got) != 1 {
		t.Errorf("there are places %q, want a new one", got)
	}
}

// Ephemeral items are deleted with the session that offered them; others stay.
func TestEphemeralItems(t *testing.T) {
	w := trial.New(t)
	producer := w.Other()
	q := open(w, w.C, "/q", queue.Options{})
	lasting, fleeting := open(w, producer, "/q", queue.Options{}), open(w, producer, "/q", queue.Options{Ephemeral: true})
	offerAll(w, lasting, "stays")
	offerAll(w, fleeting, "goes")
	w.Must(lasting.Close(w.Ctx))
	w.Must(fleeting.Close(w.Ctx))
	w.Must(producer.Close(w.Ctx))
	if got := drain(w, q); len(got) != 1 || got[0] != "stays" {
		t.Errorf("there is %q, want stays", got)
	}
}

// Close ends the calls that wait.
func TestCloseEndsWaiting(t *testing.T) {
	for kind, k := range kinds {
		w := trial.New(t)
		q := k(w, w.C)
		ended := make(chan error)
		rec := w.Record()
		go func() {
			_, err := q.Take(context.Background())
			ended <- err
		}()
		w.Must(rec.Await(w.Ctx, "a watch", func(r zktest.Traced) bool { return r.Watch || r.Op.String() == "addWatch" }))
		w.Must(q.Close(w.Ctx))
		if err := <-ended; !errors.Is(err, recipes.ErrClosed) {
			t.Errorf("%s: Take = %v, want ErrClosed", kind, err)
		}
		if err := q.offer(w.Ctx, "a"); !errors.Is(err, recipes.ErrClosed) {
			t.Errorf("%s: Offer = %v, want ErrClosed", kind, err)
		}
	}
}

// Consumers of one process and of several, in order or not, take each item once.
func TestConsumersShare(t *testing.T) {
	for _, o := range []queue.Options{{}, {Unordered: true}, {Takes: queue.AtLeastOnce}} {
		w := trial.New(t)
		const items = 300
		producer := open(w, w.C, "/q", o)
		w.Must(producer.OfferAll(w.Ctx, make([][]byte, items)))
		taken := make(chan int, 6)
		for i := range 3 {
			q := open(w, w.Other(), "/q", o)
			for range 2 {
				go func() {
					n := 0
					for {
						got, err := q.PollAll(w.Ctx, 1+i*5)
						if err != nil {
							t.Error(err)
						}
						if len(got) == 0 {
							taken <- n
							return
						}
						n += len(got)
					}
				}()
			}
		}
		sum := 0
		for range 6 {
			sum += <-taken
		}
		if sum != items {
			t.Errorf("%+v: %d items were taken, want %d", o, sum, items)
		}
	}
}
