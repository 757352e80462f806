package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func TestNewTellsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		path string
		o    lock.RWOptions
		want string // in the error
	}{
		{"lock", lock.RWOptions{}, "path"},
		{"/", lock.RWOptions{}, "path"},
		{"/lock/", lock.RWOptions{}, "path"},
		{"/lock", lock.RWOptions{Options: hold.Options{Reserve: -1}}, "Reserve is -1ns"},
		{"/lock", lock.RWOptions{Request: "go away"}, `Request is "go away"`},
		{"/lock", lock.RWOptions{Options: hold.Options{Data: []byte("unlock")}}, `Data is "unlock"`},
	} {
		for name, make := range lockers {
			if _, err := make(nil, tt.path, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s lock of %q, %+v: %v, want something with %q", name, tt.path, tt.o, err, tt.want)
			}
		}
	}
	if _, err := lock.NewRWMutex(nil, "/lock", lock.RWOptions{Ask: true}); err == nil || !strings.Contains(err.Error(), "Ask is set") {
		t.Errorf("lock that asks: %v", err)
	}
	if _, err := lock.NewPriority(nil, "/lock", lock.RWOptions{Ask: true}); err != nil {
		t.Errorf("priority lock that asks: %v", err)
	}
}

// A node of another kind makes every call fail, and no node is left.
func TestRWForeignChildren(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		_, err := settle.CreateAll(w.Ctx, w.Look, "/lock/_c_x-lock-0000000001", nil, client.CreateOptions{})
		w.Must(err)
		l := newLock(w.C, lock.RWOptions{})
		_, err1 := l.take(w.Ctx, lock.Write, 0)
		_, _, err2 := l.try(w.Ctx, lock.Read, 0)
		_, err3 := l.Contenders(w.Ctx)
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), "_c_x-lock-0000000001") {
				t.Errorf("call %d with a foreign child = %v", i, err)
			}
		}
		w.AwaitChildren("/lock", 1)
	})
}

// Each kind of lock refuses the nodes of the other.
func TestOneKindAtOnePath(t *testing.T) {
	w := trial.New(t)
	one, err := lock.NewRWMutex(w.C, "/lock", lock.RWOptions{})
	w.Must(err)
	other, err := lock.NewPriority(w.C, "/lock", lock.RWOptions{})
	w.Must(err)
	h, err := one.Lock(w.Ctx)
	w.Must(err)
	if _, err := other.Lock(w.Ctx, 0); !errors.Is(err, recipes.ErrLayout) {
		t.Errorf("priority lock beside a plain one = %v", err)
	}
	unlock(w, h)
	h, err = other.Lock(w.Ctx, 0)
	w.Must(err)
	if _, err := one.Lock(w.Ctx); !errors.Is(err, recipes.ErrLayout) {
		t.Errorf("plain lock beside a priority one = %v", err)
	}
	unlock(w, h)
}

// What is missing above is made as containers: they go some time after the last lock.
func TestMissingParent(t *testing.T) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			l, err := make(w.C, "/a/b/lock", lock.RWOptions{})
			w.Must(err)
			if all, err := l.Contenders(w.Ctx); len(all) != 0 || err != nil {
				t.Errorf("contenders of what does not exist = %v, %v", all, err)
			}
			h, err := l.take(w.Ctx, lock.Read, 0)
			w.Must(err)
			unlock(w, h)
		})
	}
}

// The ACL is that of the lock's nodes. A client that is not allowed to take part gets an error,
// and leaves no node.
func TestRWACL(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		ours := client.DigestACL(client.PermAll, "ann", "secret")
		seen := client.ACL{Perms: client.PermRead, ID: client.OpenACL()[0].ID}
		w.Must(w.C.Session().AddAuth(w.Ctx, "digest", []byte("ann:secret")))
		h, err := newLock(w.C, lock.RWOptions{Options: hold.Options{ACL: []client.ACL{ours, seen}}}).take(w.Ctx, lock.Write, 0)
		w.Must(err)
		stranger := newLock(w.Look, lock.RWOptions{})
		who := only(w, stranger)
		_, err1 := stranger.take(w.Ctx, lock.Read, 0)
		_, err2 := stranger.Break(w.Ctx, who)
		_, err3 := stranger.Revoke(w.Ctx, who, lock.NoForce)
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/lock") {
				t.Errorf("call %d of a stranger = %v", i, err)
			}
		}
		w.Must(h.Err())
		unlock(w, h)
		w.AwaitChildren("/lock", 0)
	})
}

func TestRevokeOfAnothersNode(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Write, 0)
		w.Must(err)
		for _, path := range []string{"", "/lock", "/x", h.Path() + "/x", "/other" + h.Path(), "/lock/x"} {
			who := hold.Contender{Path: path}
			_, err1 := l.Revoke(w.Ctx, who, 0)
			_, err2 := l.Break(w.Ctx, who)
			if !errors.Is(err1, client.ErrBadArguments) || !errors.Is(err2, client.ErrBadArguments) {
				t.Errorf("revoke, break of %q = %v, %v", path, err1, err2)
			}
		}
		unlock(w, h)
	})
}

// A contender that gives up leaves no node, and its error is the cause; nor does a client that
// asks in vain.
func TestContextEnds(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		h, err := newLock(w.Look, lock.RWOptions{}).take(w.Ctx, lock.Write, 0)
		w.Must(err)
		there := len(w.Children("/lock"))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(w.Ctx)
		rec := w.Record()
		a := &wanted{World: w, done: make(chan struct{})}
		go func() {
			defer close(a.done)
			a.held, a.err = newLock(w.C, lock.RWOptions{}).take(ctx, lock.Write, 0)
		}()
		watching(w, rec, 1)
		who, err := newLock(w.Look, lock.RWOptions{}).Contenders(w.Ctx)
		w.Must(err)
		asked := make(chan error)
		go func() {
			_, err := newLock(w.C, lock.RWOptions{}).Revoke(ctx, who[0], lock.NoForce)
			asked <- err
		}()
		watching(w, rec, 2)
		cancel(why)
		<-a.done
		if err := <-asked; !errors.Is(a.err, why) || !errors.Is(err, why) {
			t.Errorf("lock, revoke until the context ends = %v, %v", a.err, err)
		}
		w.AwaitChildren("/lock", there)
		unlock(w, h)
		w.AwaitChildren("/lock", 0)
	})
}

// A lock outlives the end of the context of the wait, but has its values.
func TestContextOfTheWait(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(w.Ctx, key{}, "value"))
		h, err := newLock(w.C, lock.RWOptions{}).take(hold.WaitOnly(ctx, w.Ctx), lock.Read, 0)
		w.Must(err)
		cancel()
		w.Must(h.Err())
		w.Must(h.Context().Err())
		if h.Context().Value(key{}) != "value" {
			t.Error("the lock's context has not the values of that of the wait")
		}
		unlock(w, h)
		if h.Context().Err() == nil {
			t.Error("the lock's context goes on after release")
		}
	})
}

// kazoo's nodes are known: its writers exclude, its readers share.
func TestKazooTakesPart(t *testing.T) {
	w := trial.New(t)
	l, err := lock.NewRWMutex(w.C, "/lock", lock.RWOptions{})
	w.Must(err)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/lock", client.CreateOptions{}))
	reader, err := w.Look.Create(w.Ctx, "/lock/0d6a5c0be0b84b8f9d0e7c1b2a394857__rlock__", nil, client.CreateOptions{Mode: client.EphemeralSequential})
	w.Must(err)
	r, ok, err := l.TryRLock(w.Ctx)
	if !ok || err != nil {
		t.Fatalf("read lock beside kazoo's = %v, %v", ok, err)
	}
	if _, ok, err := l.TryLock(w.Ctx); ok || err != nil {
		t.Errorf("write lock beside kazoo's reader = %v, %v", ok, err)
	}
	unlock(w, r)
	w.Must(w.Look.Delete(w.Ctx, reader.Path, -1))
	writer, err := w.Look.Create(w.Ctx, "/lock/0d6a5c0be0b84b8f9d0e7c1b2a394857__lock__", []byte("py"), client.CreateOptions{Mode: client.EphemeralSequential})
	w.Must(err)
	if _, ok, err := l.TryRLock(w.Ctx); ok || err != nil {
		t.Errorf("read lock beside kazoo's writer = %v, %v", ok, err)
	}
	all, err := l.Contenders(w.Ctx)
	w.Must(err)
	if len(all) != 1 || all[0].Shared || !all[0].Holds || string(all[0].Data) != "py" || all[0].Path != writer.Path {
		t.Errorf("contenders are %+v", all)
	}
	w.Must(w.Look.Delete(w.Ctx, writer.Path, -1))
}
