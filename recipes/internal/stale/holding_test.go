package stale_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/presence"
	"github.com/zkd-project/zkd/recipes/queue"
)

// tried returns the result of a Try without what it got.
func tried[H any](try func(ctx context.Context) (H, bool, error)) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { _, ok, err := try(ctx); return ok, err }
}

// What is held is not given to another, though the server does not know of the holder.
func TestHeldElsewhere(t *testing.T) {
	w := newWorld(t)
	m, m2 := both(w, func(c *client.Client) (*lock.Mutex, error) { return lock.NewMutex(c, "/lock", lock.Options{}) })
	s, s2 := both(w, func(c *client.Client) (*lock.Semaphore, error) {
		return lock.NewSemaphore(c, "/s", 1, hold.Options{})
	})
	l, l2 := both(w, func(c *client.Client) (*lock.RWMutex, error) { return lock.NewRWMutex(c, "/rw", lock.RWOptions{}) })
	w.lag()
	held, err := m2.Lock(w.ctx)
	w.must(err)
	lease, err := s2.Acquire(w.ctx, 1)
	w.must(err)
	write, err := l2.Lock(w.ctx)
	w.must(err)
	for name, try := range map[string]func(context.Context) (bool, error){
		"lock":      tried(m.TryLock),
		"read lock": tried(l.TryRLock),
		"semaphore": tried(func(ctx context.Context) (*hold.Held, bool, error) { return s.TryAcquire(ctx, 1) }),
	} {
		if ok, err := behind(w, try); err != nil || ok {
			t.Errorf("%s: got it: %t, %v", name, ok, err)
		}
		w.lag()
	}
	w.must(held.Release(w.ctx)) // which the server does not know, either
	w.must(lease.Release(w.ctx))
	w.must(write.Release(w.ctx))
	again, err := behind(w, m.Lock)
	if w.must(err); again.Token() <= held.Token() {
		t.Errorf("token %v behind %v", again.Token(), held.Token())
	}
	w.must(again.Release(w.ctx))
}

// Two candidates never lead, and a candidate that waits leads when the leader goes.
func TestElection(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*election.Election, error) { return election.New(c, "/e", election.Options{}) })
	w.lag()
	leads, resign := make(chan struct{}), make(chan struct{})
	first := begin(w, nothing(func(ctx context.Context) error {
		return there.Run(ctx, func(context.Context, *election.Leadership) error { close(leads); <-resign; return nil })
	}))
	<-leads
	asks := w.slow.Record()
	second := begin(w, nothing(func(ctx context.Context) error {
		return here.Run(ctx, func(context.Context, *election.Leadership) error {
			select {
			case <-resign:
				return nil
			default:
				return errors.New("two lead")
			}
		})
	}))
	w.must(asks.Await(w.ctx, "a request for the leader", forLeader))
	w.e.CatchUp(w.id)
	w.awaitChildren(w.there, "/e", 2)
	w.lag()
	close(resign)
	w.must((<-first).err)
	w.e.CatchUp(w.id)
	w.must((<-second).err)
}

// Each item is taken once, even if the server still shows it, in each kind of queue.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*queue.Queue, error) { return queue.New(c, "/q", queue.Options{}) })
	defer here.Close(w.ctx)
	defer there.Close(w.ctx)
	for _, item := range []string{"1", "2"} {
		w.must(there.Offer(w.ctx, []byte(item)))
	}
	w.lag()
	data, err := there.Take(w.ctx)
	if w.must(err); string(data) != "1" {
		t.Errorf("took %q first", data)
	}
	data, err = behind(w, here.Take)
	if w.must(err); string(data) != "2" {
		t.Errorf("took %q behind 1", data)
	}

	mine, theirs := both(w, func(c *client.Client) (*queue.Leased, error) { return queue.NewLeased(c, "/leased", queue.Options{}) })
	defer mine.Close(w.ctx)
	defer theirs.Close(w.ctx)
	for _, item := range []string{"1", "2"} {
		w.must(theirs.Offer(w.ctx, []byte(item)))
	}
	w.lag()
	one, err := theirs.Take(w.ctx)
	w.must(err)
	two, err := behind(w, mine.Take)
	w.must(err)
	if string(one.Data()) != "1" || string(two.Data()) != "2" {
		t.Errorf("leased %q and %q", one.Data(), two.Data())
	}
	w.lag()
	w.must(one.Ack(w.ctx))
	w.must(behindErr(w, two.Ack))
	if n, err := mine.Len(w.ctx); err != nil || n != 0 {
		t.Errorf("%d items are left, %v", n, err)
	}
}

// An ID that is taken can't be joined with, though the server does not know of it, and one
// that was released can.
func TestGroup(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*presence.Group, error) { return presence.NewGroup(c, "/g", presence.Options{}) })
	w.lag()
	first, err := there.Join(w.ctx, "a", nil)
	w.must(err)
	_, err = behind(w, func(ctx context.Context) (*presence.Membership, error) { return here.Join(ctx, "a", nil) })
	w.is(err, client.ErrNodeExists)
	w.lag()
	w.must(first.Release(w.ctx))
	second, err := behind(w, func(ctx context.Context) (*presence.Membership, error) { return here.Join(ctx, "a", nil) })
	w.must(err)
	w.must(w.there.Sync(w.ctx, "/g"))
	members, err := there.Members(w.ctx)
	if err != nil || len(members) != 1 {
		t.Errorf("members are %v, %v", members, err)
	}
	w.must(second.Release(w.ctx))
}

// Followers miss nothing that a server hears late.
func TestFollowers(t *testing.T) {
	w := newWorld(t)
	there, err := presence.NewDirectory(w.there, "/d", presence.Options{})
	w.must(err)
	here, err := presence.NewDirectory(w.here, "/d", presence.Options{})
	w.must(err)
	gone, err := there.Register(w.ctx, presence.Instance{Name: "web", ID: "gone"})
	w.must(err)
	p, err := here.Open(w.ctx, "web", presence.ProviderOptions{})
	w.must(err)
	defer p.Close(w.ctx)
	nodes, err := cache.Open(w.ctx, w.here, "/d/web", cache.Options{Depth: cache.ChildrenOnly})
	w.must(err)
	defer nodes.Close()
	w.must(nodes.WaitReady(w.ctx))
	w.lag()
	w.must(gone.Release(w.ctx))
	come, err := there.Register(w.ctx, presence.Instance{Name: "web", ID: "come"})
	w.must(err)
	if one, err := p.Pick(w.ctx); err != nil || one.ID != "gone" {
		t.Errorf("picked %q, %v, while nothing was heard", one.ID, err)
	}
	w.must(behindErr(w, nodes.Sync))
	if names := nodes.Children("/d/web"); !slices.Equal(names, []string{"come"}) {
		t.Errorf("behind a sync there are %q", names)
	}
	for all, err := range p.Follow(w.ctx) {
		if w.must(err); len(all) == 1 && all[0].ID == "come" {
			break
		}
	}
	w.must(come.Release(w.ctx))
}
