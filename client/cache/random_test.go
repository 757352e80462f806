package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestRandom has a writer change a small subtree at random while the cache's
// connections break and its sessions end. Whenever it is synced the cache must be
// what the server has; its events, put together, must be what it is; and no node
// that a reader sees may go back.
func TestRandom(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		for seed := *firstly; seed < *firstly+uint64(*seeds); seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				attack(newWorld(t, addresses(t)), o, seed, 400)
			})
		}
	})
}

// TestRandomEnsemble is TestRandom with three servers, of which some lag.
func TestRandomEnsemble(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		e := zktest.StartEnsemble(t, 3)
		for seed := *firstly; seed < *firstly+uint64(*seeds)/2; seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				attack(newWorld(t, e.ConnectString()), o, seed, 300)
			})
		}
	})
}

func attack(w *world, o Options, seed uint64, steps int) {
	t := w.t
	rnd := rand.New(rand.NewPCG(seed, 0))
	a := &attacker{world: w, rnd: rnd}
	if rnd.IntN(2) == 0 {
		a.write(40)
	}
	o.Window = []int{1, 2, 16, 0}[rnd.IntN(4)]
	c := w.client()
	k := w.open(c, o)
	r := newReplay(w.ctx, t, k)
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { watchOver(ctx, t, k, rand.New(rand.NewPCG(seed, 1)), w.root) })
	defer wg.Wait()
	defer cancel()
	for n := 0; n < steps; {
		m := 1 + rnd.IntN(30)
		n += m
		a.write(m)
		a.disturb(c)
		if rnd.IntN(4) == 0 {
			a.accept()
			w.check(k)
		}
	}
	a.accept()
	w.check(k)
	want := content(k)
	r.until(w.ctx, "the cache's content", func() bool { return r.types[Ready] == 1 && diff(r.nodes, want) == "" })
}

// attacker writes and disturbs at random.
type attacker struct {
	*world
	rnd     *rand.Rand
	refuses bool
	cut     *zktest.Cut // that waits for its request, or nil
}

// path returns one of few paths: the root, or up to four levels below it.
func (a *attacker) path() string {
	path := a.root
	for range a.rnd.IntN(5) {
		path += "/" + string(rune('a'+a.rnd.IntN(3)))
	}
	return path
}

func (a *attacker) data() []byte {
	if a.rnd.IntN(8) == 0 {
		return nil
	}
	return fmt.Appendf(nil, "%x", a.rnd.Uint32())[:a.rnd.IntN(4)]
}

// write changes the tree n times. What can't be done is as good as what can.
func (a *attacker) write(n int) {
	a.t.Helper()
	var err error
	for range n {
		path := a.path()
		switch a.rnd.IntN(20) {
		case 0, 1, 2, 3, 4, 5, 6, 7, 8:
			_, err = a.w.Create(a.ctx, path, a.data(), client.CreateOptions{})
		case 9, 10, 11, 12:
			_, err = a.w.Set(a.ctx, path, a.data(), client.AnyVersion)
		case 13, 14, 15, 16:
			err = a.w.Delete(a.ctx, path, client.AnyVersion)
		case 17: // deleted and created again, as one change
			_, err = a.w.Multi(a.ctx, client.DeleteOp(path, client.AnyVersion), client.CreateOp(path, a.data(), client.CreateOptions{}))
		case 18:
			err = a.deleteAll(path)
		case 19:
			_, err = a.w.Create(a.ctx, path, a.data(), client.CreateOptions{Mode: client.Ephemeral})
		}
		switch {
		case err == nil, errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrNotEmpty),
			errors.Is(err, client.ErrNoChildrenForEphemerals), errors.Is(err, client.ErrConnectionLoss):
		default:
			a.t.Fatal(err)
		}
	}
}

func (a *attacker) deleteAll(path string) error {
	list, err := a.w.Children(a.ctx, path)
	if err != nil {
		return err
	}
	for _, name := range list.Names {
		if err := a.deleteAll(path + "/" + name); err != nil {
			return err
		}
	}
	return a.w.Delete(a.ctx, path, client.AnyVersion)
}

// disturb does something to the cache's connection or session.
func (a *attacker) disturb(c *client.Client) {
	id := c.Session().ID()
	switch a.rnd.IntN(16) {
	case 0, 1:
		a.proxy.CutSession(id)
	case 2:
		if !a.refuses && id != 0 { // 0 is between two sessions
			a.proxy.ExpireSession(id)
		}
	case 3:
		a.cancel()
		a.cut = a.proxy.CutBefore(zktest.Nth(1+a.rnd.IntN(4), zktest.Any()))
	case 4:
		a.cancel()
		a.cut = a.proxy.CutAfter(zktest.Nth(1+a.rnd.IntN(4), zktest.Any()))
	case 5, 6:
		a.refuses = true
		a.proxy.Refuse()
		a.proxy.CutSession(id)
	}
	if a.rnd.IntN(2) == 0 {
		a.accept()
	}
}

func (a *attacker) cancel() {
	if a.cut != nil {
		a.cut.Cancel()
	}
}

// accept ends the disturbances that last.
func (a *attacker) accept() {
	a.cancel()
	a.refuses = false
	a.proxy.Accept()
}

// watchOver reads nodes of the cache whenever something changes, and fails the test
// if one goes back.
func watchOver(ctx context.Context, t *testing.T, k *Cache, rnd *rand.Rand, root string) {
	a := &attacker{world: &world{root: root}, rnd: rnd}
	seen := map[string]client.Stat{}
	var version client.Zxid
	for range k.Events(ctx) {
		v := k.Version()
		if v < version {
			t.Errorf("version goes back from %v to %v", version, v)
		}
		version = v
		path := a.path()
		n, ok := k.Get(path)
		if !ok {
			continue
		}
		if before, ok := seen[path]; ok && older(n.Stat, before) {
			t.Errorf("%s goes back from %+v to %+v", path, before, n.Stat)
			return
		}
		seen[path] = n.Stat
		if int(n.Stat.DataLength) != len(n.Data) {
			t.Errorf("%s has data of another Stat: %q, %+v", path, n.Data, n.Stat)
			return
		}
	}
}
