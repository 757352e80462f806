package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func TestSemaphoreNewTellsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		path string
		n    int
		o    hold.Options
		want string // in the error
	}{
		{"sem", 1, hold.Options{}, "path"},
		{"/", 1, hold.Options{}, "path"},
		{"/sem", 0, hold.Options{}, "0 leases"},
		{"/sem", -1, hold.Options{}, "-1 leases"},
		{"/sem", 1, hold.Options{Reserve: -1}, "Reserve is -1ns"},
	} {
		if _, err := lock.NewSemaphore(nil, tt.path, tt.n, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("semaphore %q of %d, %+v: %v, want something with %q", tt.path, tt.n, tt.o, err, tt.want)
		}
	}
	if _, err := lock.NewCountedSemaphore(nil, "/sem", "count", hold.Options{}); err == nil || !strings.Contains(err.Error(), "count") {
		t.Errorf("semaphore with a bad path of the count: %v", err)
	}
}

// Asking for more leases than there are is an error, and leaves no node.
func TestNumbersThatDoNotFit(t *testing.T) {
	w := trial.New(t)
	s := newSemaphore(w, w.C, 2, hold.Options{})
	for _, n := range []int{-1, 0, 3} {
		_, err1 := s.Acquire(w.Ctx, n)
		_, ok, err2 := s.TryAcquire(w.Ctx, n)
		if !errors.Is(err1, lock.ErrLimit) || ok || !errors.Is(err2, lock.ErrLimit) {
			t.Errorf("acquire, try of %d = %v, %v, %v", n, err1, ok, err2)
		}
	}
	empty(w)
}

// Programs that say different numbers get an error, whichever came first.
func TestProgramsThatDisagree(t *testing.T) {
	w := trial.New(t)
	lease, err := newSemaphore(w, w.C, 3, hold.Options{}).Acquire(w.Ctx, 1)
	w.Must(err)
	_, err = w.Look.Create(w.Ctx, "/sem/kept", nil, client.CreateOptions{}) // or the container may be deleted when it is empty
	w.Must(err)
	other := newSemaphore(w, w.Look, 2, hold.Options{})
	_, err1 := other.Acquire(w.Ctx, 1)
	_, _, err2 := other.TryAcquire(w.Ctx, 1)
	for _, err := range []error{err1, err2} {
		if !errors.Is(err, lock.ErrLimit) || !strings.Contains(err.Error(), "2") || !strings.Contains(err.Error(), "3") {
			t.Errorf("acquire of who says 2 = %v", err)
		}
	}
	w.Must(lease.Release(w.Ctx))
	// Data that are no number are not about that; data that are missing are written.
	for data, then := range map[string]string{"about": "about", "": "2"} {
		_, err := w.Look.Set(w.Ctx, "/sem", []byte(data), client.AnyVersion)
		w.Must(err)
		lease, err := other.Acquire(w.Ctx, 2)
		w.Must(err)
		w.Must(lease.Release(w.Ctx))
		if node, err := w.Look.Get(w.Ctx, "/sem"); string(node.Data) != then || err != nil {
			t.Errorf("the data are %q, %v, want %q", node.Data, err, then)
		}
	}
	empty(w)
}

// The number of leases is that of the shared node, and its changes count at once: a higher one
// wakes a waiter, and after a lower one nobody gets a lease until enough are released.
func TestSharedCount(t *testing.T) {
	w := trial.New(t)
	s := counted(w, w.C)
	if _, err := s.Acquire(w.Ctx, 1); !errors.Is(err, client.ErrNoNode) || !strings.Contains(err.Error(), "/count") {
		t.Errorf("acquire without a count = %v", err)
	}
	shared(w, 1)
	set := func(n int32) {
		_, err := w.Look.Set(w.Ctx, "/count", lock.EncodeCount(n), client.AnyVersion)
		w.Must(err)
	}
	one, err := s.Acquire(w.Ctx, 1)
	w.Must(err)
	rec := w.Record()
	two := acquire(w, w.Ctx, s, 1)
	semaphoreWatching(w, rec, 2)
	set(2)
	lease := two.get()
	set(1)
	w.Must(w.C.Sync(w.Ctx, "/count"))
	w.Must(one.Release(w.Ctx))
	if _, ok, err := s.TryAcquire(w.Ctx, 1); ok || err != nil {
		t.Errorf("try with one lease of one held = %v, %v", ok, err)
	}
	if all, err := s.Contenders(w.Ctx); err != nil || len(all) != 1 || !all[0].Holds {
		t.Errorf("contenders are %+v, %v", all, err)
	}
	w.Must(lease.Release(w.Ctx))
	_, err = w.Look.Set(w.Ctx, "/count", []byte("12"), client.AnyVersion)
	w.Must(err)
	w.Must(w.C.Sync(w.Ctx, "/count"))
	if _, err := s.Acquire(w.Ctx, 1); !errors.Is(err, recipes.ErrLayout) {
		t.Errorf("acquire with a count that is none = %v", err)
	}
	empty(w)
}

// A node of another kind makes every call fail, and no node is left.
func TestSemaphoreForeignChildren(t *testing.T) {
	for _, path := range []string{"/sem/leases/x", "/sem/locks/x"} {
		w := trial.New(t)
		_, err := settle.CreateAll(w.Ctx, w.Look, path, nil, client.CreateOptions{})
		w.Must(err)
		s := newSemaphore(w, w.C, 1, hold.Options{})
		_, err1 := s.Acquire(w.Ctx, 1)
		_, err2 := s.Contenders(w.Ctx)
		for i, err := range []error{err1, err2} {
			if !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("call %d with %s = %v", i, path, err)
			}
		}
		w.Must(w.Look.Delete(w.Ctx, path, client.AnyVersion))
		empty(w)
	}
}

// A client that is not allowed to take part gets an error, and leaves no node.
func TestSemaphoreACL(t *testing.T) {
	w := trial.New(t)
	ours := client.DigestACL(client.PermAll, "ann", "secret")
	seen := client.ACL{Perms: client.PermRead, ID: client.OpenACL()[0].ID}
	w.Must(w.C.Session().AddAuth(w.Ctx, "digest", []byte("ann:secret")))
	lease, err := newSemaphore(w, w.C, 2, hold.Options{ACL: []client.ACL{ours, seen}}).Acquire(w.Ctx, 1)
	w.Must(err)
	stranger := newSemaphore(w, w.Look, 2, hold.Options{})
	all, err := stranger.Contenders(w.Ctx)
	w.Must(err)
	_, err1 := stranger.Acquire(w.Ctx, 1)
	_, _, err2 := stranger.TryAcquire(w.Ctx, 1)
	_, err3 := stranger.Break(w.Ctx, all[0])
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/sem") {
			t.Errorf("call %d of a stranger = %v", i, err)
		}
	}
	w.Must(lease.Err())
	w.Must(lease.Release(w.Ctx))
	empty(w)
}

// A contender that waits in the line notices at once that its place was broken.
func TestBreakOfOneInTheLine(t *testing.T) {
	w := trial.New(t)
	first, err := newSemaphore(w, w.Look, 1, hold.Options{}).Acquire(w.Ctx, 1)
	w.Must(err)
	rec := w.Record()
	next := acquire(w, w.Ctx, newSemaphore(w, w.Other(), 1, hold.Options{}), 1)
	w.AwaitChildren("/sem/leases", 2)
	last := acquire(w, w.Ctx, newSemaphore(w, w.C, 1, hold.Options{}), 1)
	w.Must(rec.Await(w.Ctx, "watch", func(e zktest.Traced) bool { return e.Watch }))
	w.Must(w.C.Sync(w.Ctx, "/")) // it is set, too
	s := newSemaphore(w, w.Look, 1, hold.Options{})
	all, err := s.Contenders(w.Ctx)
	w.Must(err)
	_, err = s.Break(w.Ctx, all[2])
	w.Must(err)
	if <-last.done; !errors.Is(last.err, recipes.ErrLost) {
		t.Errorf("acquire of whose place was broken = %v", last.err)
	}
	w.Must(first.Release(w.Ctx))
	w.Must(next.get().Release(w.Ctx))
	empty(w)
}

// Contenders are listed in order: holders, the next one, the others in the line.
func TestContendersAndBreak(t *testing.T) {
	w := trial.New(t)
	s := func(data string) *lock.Semaphore {
		return newSemaphore(w, w.Other(), 1, hold.Options{Data: []byte(data)})
	}
	if all, err := s("").Contenders(w.Ctx); len(all) != 0 || err != nil {
		t.Errorf("contenders of what does not exist = %v, %v", all, err)
	}
	holder, err := s("holder").Acquire(w.Ctx, 1)
	w.Must(err)
	next := acquire(w, w.Ctx, s("next"), 1)
	w.AwaitChildren("/sem/leases", 2)
	last := acquire(w, w.Ctx, s("last"), 1)
	w.AwaitChildren("/sem/locks", 2)
	look := s("look")
	w.Must(w.Look.Sync(w.Ctx, "/"))
	all, err := look.Contenders(w.Ctx)
	w.Must(err)
	var got []string
	for _, who := range all {
		got = append(got, string(who.Data))
		if who.Holds != (string(who.Data) == "holder") || who.Session == 0 || who.Since.IsZero() {
			t.Errorf("contender %+v", who)
		}
	}
	if strings.Join(got, " ") != "holder next last" {
		t.Fatalf("contenders are %q", got)
	}
	broken, err := look.Break(w.Ctx, all[0])
	if err != nil || broken.Path != holder.Path() || !broken.Holds {
		t.Errorf("break = %+v, %v", broken, err)
	}
	<-holder.Context().Done()
	if err := holder.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("release of a broken lease = %v", err)
	}
	if _, err := look.Break(w.Ctx, all[0]); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("second break = %v", err)
	}
	for _, path := range []string{"", "/sem", "/sem/leases/x", "/sem/locks/" + broken.Path[len("/sem/leases/"):], "/x" + broken.Path} {
		if _, err := look.Break(w.Ctx, hold.Contender{Path: path}); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("break of %q = %v", path, err)
		}
	}
	w.Must(next.get().Release(w.Ctx))
	w.Must(last.get().Release(w.Ctx))
	empty(w)
}

// A lease outlives the end of the context of the wait, but has its values.
func TestSemaphoreContextOfTheWait(t *testing.T) {
	w := trial.New(t)
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(w.Ctx, key{}, "value"))
	lease, err := newSemaphore(w, w.C, 2, hold.Options{}).Acquire(hold.WaitOnly(ctx, w.Ctx), 2)
	w.Must(err)
	cancel()
	w.Must(lease.Err())
	w.Must(lease.Context().Err())
	if lease.Context().Value(key{}) != "value" {
		t.Error("the lease's context has not the values of that of the wait")
	}
	// The loss of one of several is that of all.
	w.Must(w.Look.Delete(w.Ctx, lease.Nodes()[0], client.AnyVersion))
	<-lease.Context().Done()
	if err := lease.Err(); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("Err of which one is gone = %v", err)
	}
	if err := lease.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("release of which one is gone = %v", err)
	}
	empty(w)
}

// The path of a Namespace need not exist, and is made as all that is missing.
func TestNamespaceThatDoesNotExist(t *testing.T) {
	w := trial.New(t)
	s := newSemaphore(w, w.C.Namespace("/app"), 1, hold.Options{})
	l, err := s.Acquire(w.Ctx, 1)
	w.Must(err)
	if node, err := w.Look.Get(w.Ctx, "/app/sem"); err != nil || string(node.Data) != "1" {
		t.Errorf("the semaphore's node has %q, %v", node.Data, err)
	}
	w.Must(l.Release(w.Ctx))
}
