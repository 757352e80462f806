package barrier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func place(t testing.TB, c *client.Client, n int) *barrier.Rendezvous {
	t.Helper()
	r, err := barrier.NewRendezvous(c, "/pairs", n, barrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type met struct {
	barrier.Meeting
	err error
}

func meet(ctx context.Context, r *barrier.Rendezvous, value string) <-chan met {
	done := make(chan met, 1)
	go func() {
		m, err := r.Meet(ctx, []byte(value))
		done <- met{m, err}
	}()
	return done
}

// mustMeet fails the test unless there was a meeting with those values.
func mustMeet(t testing.TB, m met, own int, values ...string) {
	t.Helper()
	got := string(bytes.Join(m.Values, []byte(" ")))
	if m.err != nil || m.Own != own || got != strings.Join(values, " ") {
		t.Errorf("meeting is %q, own value %d, %v; want %q, %d", got, m.Own, m.err, values, own)
	}
}

// Two meet, and then the next two; each has the other's value.
func TestRendezvousTwo(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for range 2 {
		first := meet(w.Ctx, place(t, w.C, 2), "a")
		w.AwaitChildren("/pairs", 1)
		second := <-meet(w.Ctx, place(t, w.Other(), 2), "b")
		mustMeet(t, second, 1, "a", "b")
		a := <-first
		mustMeet(t, a, 0, "a", "b")
		if a.ID != second.ID || a.ID == 0 {
			t.Errorf("ids are %v and %v", a.ID, second.ID)
		}
		w.AwaitChildren("/pairs", 0)
	}
}

// Many come at once: they meet in groups, each in one, and all of a group know the same.
func TestRendezvousMany(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			const groups = 4
			var mu sync.Mutex
			byID := map[client.Zxid][]string{}
			var all sync.WaitGroup
			for i := range n * groups {
				r := place(t, w.Other(), n)
				all.Go(func() {
					m := <-meet(w.Ctx, r, fmt.Sprint(i))
					if m.err != nil || string(m.Values[m.Own]) != fmt.Sprint(i) {
						t.Errorf("party %d: %q, %v", i, m.Values, m.err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					byID[m.ID] = append(byID[m.ID], fmt.Sprintf("%q", m.Values))
				})
			}
			all.Wait()
			if len(byID) != groups {
				t.Errorf("there were %d meetings, want %d", len(byID), groups)
			}
			for id, said := range byID {
				if len(said) != n || len(slices.Compact(slices.Clone(said))) != 1 {
					t.Errorf("of meeting %v its parties say %q", id, said)
				}
			}
			w.AwaitChildren("/pairs", 0)
		})
	}
}

// A party that has given up is not met, and leaves nothing.
func TestRendezvousGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	rec := w.Record()
	gone := meet(ctx, place(t, w.C, 2), "gone")
	w.Must(rec.Await(w.Ctx, "a watch", func(e zktest.Traced) bool { return e.Watch })) // it knows that it is there
	cancel(why)
	m := <-gone
	mustBe(t, m.err, why)
	if client.IsAmbiguous(m.err) {
		t.Errorf("error is ambiguous: %v", m.err)
	}
	w.AwaitChildren("/pairs", 0)
	a := meet(w.Ctx, place(t, w.C, 2), "a")
	w.AwaitChildren("/pairs", 1)
	mustMeet(t, <-meet(w.Ctx, place(t, w.Other(), 2), "b"), 1, "a", "b")
	mustMeet(t, <-a, 0, "a", "b")
}

// A party whose own change was not made, and that gives up then, knows that it has not met.
func TestRendezvousGivesUpWhileMeeting(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	others := w.RecordOthers()
	other := meet(w.Ctx, place(t, w.Other(), 2), "other")
	w.Must(others.Await(w.Ctx, "a watch", func(e zktest.Traced) bool { return e.Watch })) // it has listed the parties, and waits for another one
	w.Proxy.CutBefore(func(op client.OpCode, _ string) bool {
		if op == jute.OpMulti {
			cancel(why)
		}
		return op == jute.OpMulti
	})
	m := <-meet(ctx, place(t, w.C, 2), "gone")
	mustBe(t, m.err, why)
	if client.IsAmbiguous(m.err) {
		t.Errorf("error is ambiguous: %v", m.err)
	}
	w.AwaitChildren("/pairs", 1)
	mustMeet(t, <-meet(w.Ctx, place(t, w.Look, 2), "next"), 1, "other", "next")
	mustMeet(t, <-other, 0, "other", "next")
}

// A party that gives up after it was met, without knowing it, has met.
func TestRendezvousGivesUpTooLate(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	cut := w.Proxy.CutAfter(zktest.Op(jute.OpGetData))
	w.Proxy.Refuse()
	late := meet(ctx, place(t, w.C, 2), "late")
	<-cut.Done()
	other := meet(w.Ctx, place(t, w.Other(), 2), "other")
	mustMeet(t, <-other, 1, "late", "other")
	w.Proxy.Accept()
	cancel()
	mustMeet(t, <-late, 0, "late", "other")
}

// A party that has died is not met.
func TestRendezvousDeadIsNotMet(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	dead := meet(w.Ctx, place(t, w.C, 3), "dead")
	w.AwaitChildren("/pairs", 1)
	a := meet(w.Ctx, place(t, w.Other(), 3), "a")
	w.AwaitChildren("/pairs", 2)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	m := <-dead
	mustBe(t, m.err, recipes.ErrLost)
	if !client.IsAmbiguous(m.err) {
		t.Errorf("error is not ambiguous, though one can't know: %v", m.err)
	}
	b := meet(w.Ctx, place(t, w.Other(), 3), "b")
	w.AwaitChildren("/pairs", 2)
	mustMeet(t, <-meet(w.Ctx, place(t, w.Other(), 3), "c"), 2, "a", "b", "c")
	mustMeet(t, <-a, 0, "a", "b", "c")
	mustMeet(t, <-b, 1, "a", "b", "c")
}

// Each party watches its own node, and is woken once.
func TestRendezvousTrace(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/pairs", client.CreateOptions{}))
	rec := w.Record()
	done := meet(w.Ctx, place(t, w.C, 2), "a")
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	_, err := w.C.Exists(w.Ctx, "/") // its reply comes after the one that set the watch
	w.Must(err)
	mustMeet(t, <-meet(w.Ctx, place(t, w.Look, 2), "b"), 1, "a", "b")
	mustMeet(t, <-done, 0, "a", "b")
	want := []string{
		"create2 /pairs/_c_GUID-party-of-2-",
		"getChildren2 /pairs",
		"getData /pairs/_c_GUID-party-of-2-#",
		"getData /pairs/_c_GUID-party-of-2-# watch",
		"exists ", // the test's own
		"event NodeDataChanged /pairs/_c_GUID-party-of-2-#",
		"getData /pairs/_c_GUID-party-of-2-#",
		"delete /pairs/_c_GUID-party-of-2-#",
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q\nwant %q", got, want)
	}
}

func TestRendezvousBadUse(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for _, bad := range []struct {
		path string
		n    int
		says string
	}{{"pairs", 2, "path"}, {"/", 2, "path"}, {"/pairs", 1, "n is 1"}, {"/pairs", -1, "n is -1"}} {
		_, err := barrier.NewRendezvous(w.C, bad.path, bad.n, barrier.Options{})
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("New(%q, %d) = %v, want an error with %q", bad.path, bad.n, err, bad.says)
		}
	}
	if _, err := barrier.NewRendezvous(nil, "/pairs", 2, barrier.Options{}); err == nil {
		t.Error("New without a client has no error")
	}
	of3 := meet(w.Ctx, place(t, w.C, 3), "a")
	w.Must(w.Proxy.AwaitRequests(w.Ctx, jute.OpGetData, 2)) // it has read the parties, and waits
	m := <-meet(w.Ctx, place(t, w.Other(), 2), "b")
	mustBe(t, m.err, recipes.ErrLayout) // parties of three are there
	w.AwaitChildren("/pairs", 1)
	_, err := w.Look.Set(w.Ctx, "/pairs/"+w.Children("/pairs")[0], []byte("?"), 0)
	w.Must(err)
	mustBe(t, (<-of3).err, recipes.ErrLayout)
	w.AwaitChildren("/pairs", 0)
}

func TestRendezvousForbidden(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/pairs", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	mustBe(t, (<-meet(w.Ctx, place(t, w.C, 2), "a")).err, client.ErrNoAuth)
}
