package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func rwMustTrace(w *trial.World, what string, rec *zktest.Recording, want ...string) {
	w.Helper()
	if got := w.Trace(rec); !slices.Equal(got, want) {
		w.Errorf("%s:\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// What a lock costs that is free.
func TestRWTraceOfAFreeLock(t *testing.T) {
	for kind, name := range map[lock.Kind]string{lock.Read: "/lock/_c_GUID-__READ__", lock.Write: "/lock/_c_GUID-__WRIT__"} {
		w := trial.New(t)
		w.Must(settle.Ensure(w.Ctx, w.Look, "/lock", client.CreateOptions{Mode: client.Container}))
		l, err := lock.NewRWMutex(w.C, "/lock", lock.RWOptions{})
		w.Must(err)
		rec := w.Record()
		h, err := plain{l}.take(w.Ctx, kind, 0)
		w.Must(err)
		watching(w, rec, 1)
		rwMustTrace(w, kind.String(), rec, "create2 "+name, "getChildren2 /lock", "getData "+name+"# watch")
		unlock(w, h)
		rwMustTrace(w, "unlock", rec, "delete "+name+"#", "event NodeDeleted "+name+"#")
	}
}

// What a Priority costs that is free: the grant is a multi, and a writer changes the
// lock's node with it where a reader only checks.
func TestTraceOfAFreePriority(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Read, lock.Write} {
		w := trial.New(t)
		w.Must(settle.Ensure(w.Ctx, w.Look, "/lock", client.CreateOptions{Mode: client.Container}))
		l, err := lock.NewPriority(w.C, "/lock", lock.RWOptions{})
		w.Must(err)
		rec := w.Record()
		h, err := priority{l}.take(w.Ctx, kind, 7)
		w.Must(err)
		watching(w, rec, 2)
		stem := fmt.Sprintf("/lock/_c_GUID-p7-%s-", kind)
		got := w.Trace(rec)
		slices.Sort(got[7:]) // the watches are set at the same time
		want := []string{
			"create2 " + stem, "getChildren2 /lock", "multi " + stem + "#", "multi /lock", "multi " + stem + "held-#",
			"getChildren2 /lock", "exists " + stem + "held-#",
			"getData " + stem + "# watch", "getData " + stem + "held-# watch",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", kind, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		node, err := w.Look.Get(w.Ctx, "/lock")
		w.Must(err)
		if node.Stat.Version != int32(kind) {
			t.Errorf("after a %s lock the version is %d", kind, node.Stat.Version)
		}
		unlock(w, h)
		rwMustTrace(w, "unlock", rec, "delete "+stem+"held-#", "event NodeDeleted "+stem+"held-#",
			"delete "+stem+"#", "event NodeDeleted "+stem+"#")
	}
}

// crowd is clients with a lock of one path that are recorded together.
type crowd struct {
	*trial.World
	rec     *zktest.Recording
	make    func(c *client.Client, path string, o lock.RWOptions) (locker, error)
	clients []*client.Client
}

// client returns one more client.
func (c *crowd) client() *client.Client {
	c.Helper()
	one := c.Proxy.Client(c.T).Namespace(c.Dir())
	c.clients = append(c.clients, one)
	return one
}

// watching waits until n watches have been set.
func (c *crowd) watching(n int) {
	c.Helper()
	watching(c.World, c.rec, n)
	for _, one := range c.clients { // they have been asked for: now they are set, too
		c.Must(one.Sync(c.Ctx, "/"))
	}
}

// want has one more client wait for a lock, until it watches another's node.
func (c *crowd) want(kind lock.Kind, p int32) *wanted {
	c.Helper()
	one := c.client()
	l, err := c.make(one, "/lock", lock.RWOptions{})
	c.Must(err)
	set := len(rwWatches(c.rec))
	a := &wanted{World: c.World, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.held, a.err = l.take(c.Ctx, kind, p)
	}()
	c.watching(set + 1)
	return a
}

// woken returns how many events there were since the last call but for those of holders
// about their own nodes. All that was woken has asked for something since, and has got
// its answer.
func (c *crowd) woken(own int) int {
	events := 0
	for _, e := range c.rec.Take() {
		if e.Op == 0 {
			events++
		}
	}
	return events - own
}

// own is the number of own nodes that a holder watches, all of which Release deletes.
var own = map[string]int{"plain": 1, "priority": 2}

func crowds(t *testing.T, fn func(c *crowd, own int)) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			fn(&crowd{World: w, rec: w.Record(), make: make}, own[name])
		})
	}
}

// take has one more client take a lock that is free.
func (c *crowd) take(kind lock.Kind, own int) *hold.Held {
	c.Helper()
	one := c.client()
	l, err := c.make(one, "/lock", lock.RWOptions{})
	c.Must(err)
	set := len(rwWatches(c.rec))
	h, err := l.take(c.Ctx, kind, 0)
	c.Must(err)
	c.watching(set + own)
	return h
}

// The end of a writer wakes all readers after it, once each: that is no herd, as it is the turn
// of each of them. The writer after them, and the readers after that one, are not
// woken.
func TestTraceReadersAreReleasedTogether(t *testing.T) {
	const n = 10
	crowds(t, func(c *crowd, own int) {
		writer := c.take(lock.Write, own)
		var readers, later []*wanted
		for range n {
			readers = append(readers, c.want(lock.Read, 0))
		}
		second := c.want(lock.Write, 0)
		for range n {
			later = append(later, c.want(lock.Read, 0))
		}
		c.rec.Take()
		unlock(c.World, writer)
		var held []*hold.Held
		for _, r := range readers {
			held = append(held, r.get())
		}
		c.watching(n * own)
		if got := c.woken(own); got != n {
			c.Errorf("the writer's end woke %d, want the %d readers behind it", got, n)
		}
		if !second.waits() {
			c.Error("the second writer came in beside readers")
		}
		unlock(c.World, held...)
		unlock(c.World, second.get())
		for _, r := range later {
			unlock(c.World, r.get())
		}
	})
}

// A writer after readers watches the last of them. It is woken once if that is the last to
// release, and once for each if they release in the opposite order, as it then watches each
// in turn. Nobody else is woken.
func TestTraceWriterBehindReaders(t *testing.T) {
	const n = 5
	for _, newestFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("newest first %v", newestFirst), func(t *testing.T) {
			crowds(t, func(c *crowd, own int) {
				var readers []*hold.Held
				for range n {
					readers = append(readers, c.take(lock.Read, own))
				}
				writer := c.want(lock.Write, 0)
				behind := c.want(lock.Read, 0)
				want := 1
				if newestFirst {
					slices.Reverse(readers)
					want = n
				}
				c.rec.Take()
				for i, r := range readers {
					set := len(rwWatches(c.rec))
					unlock(c.World, r)
					if newestFirst && i < n-1 {
						c.watching(set + 1)
					}
				}
				held := writer.get()
				if got := c.woken(n * own); got != want {
					c.Errorf("the ends of %d readers woke %d, want %d", n, got, want)
				}
				if !behind.waits() {
					c.Error("a reader came in beside the writer")
				}
				unlock(c.World, held)
				unlock(c.World, behind.get())
			})
		})
	}
}

// However many writers wait, each hand-over wakes one of them.
func TestRWTraceOfAHerd(t *testing.T) {
	const n = 10
	crowds(t, func(c *crowd, own int) {
		h := c.take(lock.Write, own)
		var writers []*wanted
		for range n {
			writers = append(writers, c.want(lock.Write, 0))
		}
		for _, next := range writers {
			c.rec.Take()
			unlock(c.World, h)
			h = next.get()
			c.watching(own)
			if got := c.woken(own); got != 1 {
				c.Errorf("a hand-over woke %d, want 1", got)
			}
		}
		unlock(c.World, h)
	})
}

// Contenders of higher priority that come later go first. Each costs the writer after it one
// wake-up, when the node that this one watches is deleted.
func TestTraceOfLateArrivals(t *testing.T) {
	const n = 6
	w := trial.New(t)
	c := &crowd{World: w, rec: w.Record(), make: lockers["priority"]}
	h := c.take(lock.Write, 2)
	var writers []*wanted
	for p := range n {
		writers = append(writers, c.want(lock.Write, int32(p)))
	}
	slices.Reverse(writers) // the last one goes first
	wakes := 0
	for i, next := range writers {
		set := n - 1 // all come to watch another one, or their own nodes
		if i > 0 {
			set = 0
		}
		c.rec.Take()
		unlock(w, h)
		h = next.get()
		c.watching(set + 2)
		got := c.woken(2)
		if i == 0 && got != n {
			t.Errorf("the first hand-over woke %d, want all %d, as each has come in front of those before", got, n)
		}
		if i > 0 && got != 1 {
			t.Errorf("hand-over %d woke %d, want 1", i, got)
		}
		wakes += got
	}
	unlock(w, h)
	if wakes != n+n-1 {
		t.Errorf("%d contenders, all but the first of them late, were woken %d times, want %d", n, wakes, n+n-1)
	}
}
