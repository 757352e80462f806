package page_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/cacheview"
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/counter"
	"github.com/zkd-project/zkd/recipes/discovery"
	"github.com/zkd-project/zkd/recipes/doublebarrier"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/event"
	"github.com/zkd-project/zkd/recipes/group"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/idempotent"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/keepalive"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/naming"
	"github.com/zkd-project/zkd/recipes/partitioner"
	"github.com/zkd-project/zkd/recipes/queue"
	"github.com/zkd-project/zkd/recipes/rendezvous"
	"github.com/zkd-project/zkd/recipes/status"
	"github.com/zkd-project/zkd/recipes/twopc"
	"github.com/zkd-project/zkd/recipes/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests of this file hold docs/recipes.md to what it says of all recipes.

// do is what a test does with a recipe at /r.
type do func(w *trial.World, c *client.Client) error

// must returns what a constructor or a call made that can't fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// only returns the error of a call with a result.
func only[T any](_ T, err error) error { return err }

// follow reads an iterator to its end and returns the last error.
func follow[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// ends waits until what a recipe keeps alive has ended, and returns why.
func ends(w *trial.World, v interface {
	Done() <-chan struct{}
	Err() error
}) error {
	select {
	case <-v.Done():
	case <-w.Ctx.Done():
	}
	return v.Err()
}

// waits are calls that wait, after before was called with another client. Without
// client.Options.RenewSession each must fail with recipes.ErrLost when the session ends.
var waits = []struct {
	name         string
	before, wait do
}{
	{"lock", lockIt, lockIt},
	{"lock.Multi", lockIt, func(w *trial.World, c *client.Client) error {
		m := must(lock.NewMutex(c, "/r", lock.Options{}))
		return only(must(lock.NewMulti(lock.Of("/r", m.Lock))).Lock(w.Ctx))
	}},
	{"lock.RWMutex", writeLock, func(w *trial.World, c *client.Client) error {
		return only(must(lock.NewRWMutex(c, "/r", lock.RWOptions{})).RLock(w.Ctx))
	}},
	{"lock.Priority", priorityLock, priorityLock},
	{"lock.Semaphore", acquire, acquire},
	{"election.Run", candidate, func(w *trial.World, c *client.Client) error {
		e := must(election.New(c, "/r", election.Options{}))
		return e.Run(w.Ctx, func(context.Context, *election.Leadership) error { return errors.New("it leads") })
	}},
	{"election.RunAgain", candidate, func(w *trial.World, c *client.Client) error {
		e := must(election.New(c, "/r", election.Options{}))
		return e.RunAgain(w.Ctx, func(context.Context, *election.Leadership) error { return errors.New("it leads") })
	}},
	{"election.WaitAcknowledged", nil, func(w *trial.World, c *client.Client) error {
		return only(must(election.New(c, "/r", election.Options{})).WaitAcknowledged(w.Ctx))
	}},
	{"election.Latch", candidate, func(w *trial.World, c *client.Client) error {
		l := must(election.NewLatch(c, "/r", election.Options{}))
		w.Must(l.Start())
		err := only(l.Await(w.Ctx))
		w.Must(l.Close(w.Ctx))
		return err
	}},
	{"election.Master", node, func(w *trial.World, c *client.Client) error {
		m := must(election.NewMaster(c, "/r", hold.Options{}))
		return m.Run(w.Ctx, func(context.Context, *election.Mastership) error { return errors.New("it is master") })
	}},
	{"barrier", node, func(w *trial.World, c *client.Client) error {
		return must(barrier.New(c, "/r", barrier.Options{})).Wait(w.Ctx)
	}},
	{"doublebarrier", nil, func(w *trial.World, c *client.Client) error {
		return only(must(doublebarrier.New(c, "/r", 2, doublebarrier.Options{})).Enter(w.Ctx))
	}},
	{"rendezvous", nil, func(w *trial.World, c *client.Client) error {
		return only(must(rendezvous.New(c, "/r", 2, rendezvous.Options{})).Meet(w.Ctx, nil))
	}},
	{"event, manual", nil, func(w *trial.World, c *client.Client) error {
		return must(event.New(c, "/r", event.Options{})).Wait(w.Ctx)
	}},
	{"event, automatic", nil, func(w *trial.World, c *client.Client) error {
		return must(event.New(c, "/r", event.Options{AutoReset: true})).Wait(w.Ctx)
	}},
	{"queue", nil, func(w *trial.World, c *client.Client) error {
		return only(must(queue.New(c, "/r", queue.Options{})).Take(w.Ctx))
	}},
	{"queue, all", nil, func(w *trial.World, c *client.Client) error {
		return only(must(queue.New(c, "/r", queue.Options{})).TakeAll(w.Ctx, 10))
	}},
	{"queue, exclusive", exclusive, exclusive},
	{"queue.Priority", nil, func(w *trial.World, c *client.Client) error {
		q := must(queue.NewPriority(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.Delay", nil, func(w *trial.World, c *client.Client) error {
		q := must(queue.NewDelay(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.TwoPhase", nil, func(w *trial.World, c *client.Client) error {
		q := must(queue.NewTwoPhase(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.Bounded", nil, func(w *trial.World, c *client.Client) error {
		return only(must(queue.NewBounded(c, "/r", 1, queue.Options{})).Take(w.Ctx))
	}},
	{"queue.Bounded, full", func(w *trial.World, c *client.Client) error {
		return must(queue.NewBounded(c, "/r", 1, queue.Options{})).Offer(w.Ctx, nil)
	}, func(w *trial.World, c *client.Client) error {
		return must(queue.NewBounded(c, "/r", 1, queue.Options{})).Offer(w.Ctx, nil)
	}},
	{"queue.Leased", nil, func(w *trial.World, c *client.Client) error {
		return only(must(queue.NewLeased(c, "/r", queue.Options{})).Take(w.Ctx))
	}},
	{"group.Membership", nil, func(w *trial.World, c *client.Client) error {
		return ends(w, must(must(group.New(c, "/r", group.Options{})).Join(w.Ctx, "a", nil)))
	}},
	{"group.Follow", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(group.New(c, "/r", group.Options{})).Follow(w.Ctx))
	}},
	{"status.Reporter", nil, func(w *trial.World, c *client.Client) error {
		return ends(w, must(must(status.New(c, "/r", status.Options{})).Register(w.Ctx, "a", "idle")))
	}},
	{"status.Follow", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(status.New(c, "/r", status.Options{})).Follow(w.Ctx))
	}},
	{"discovery.Registration", nil, func(w *trial.World, c *client.Client) error {
		d := must(discovery.New(c, "/r", discovery.Options{}))
		return ends(w, must(d.Register(w.Ctx, discovery.Instance{Name: "web", Address: "a"})))
	}},
	{"discovery.Provider", nil, func(w *trial.World, c *client.Client) error {
		p, err := must(discovery.New(c, "/r", discovery.Options{})).Open(w.Ctx, "web", discovery.ProviderOptions{})
		if err != nil {
			return err
		}
		return errors.Join(follow(p.Follow(w.Ctx)), p.Close(w.Ctx))
	}},
	{"partitioner", nil, func(w *trial.World, c *client.Client) error {
		p := must(partitioner.New(c, "/r", []string{"a"}, partitioner.Options{}))
		return p.Run(w.Ctx, func(ctx context.Context, _ *partitioner.Partition) { <-ctx.Done() })
	}},
	{"keepalive", nil, func(w *trial.World, c *client.Client) error {
		n := must(keepalive.New(c, "/r", keepalive.Options{}))
		w.Must(n.Start(nil))
		return ends(w, n)
	}},
	{"naming", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(naming.New(c, "/r", naming.Options{})).Follow(w.Ctx, "a"))
	}},
	{"config", nil, func(w *trial.World, c *client.Client) error {
		g, err := config.Open(w.Ctx, c, "/r", config.Options[int]{Default: new(int)})
		if err != nil {
			return err
		}
		return errors.Join(follow(g.Follow(w.Ctx)), g.Close(w.Ctx))
	}},
	{"config.Open", nil, func(w *trial.World, c *client.Client) error {
		return only(config.Open(w.Ctx, c, "/r", config.Options[int]{}))
	}},
	{"config.Tree", nil, func(w *trial.World, c *client.Client) error {
		t, err := config.OpenTree(w.Ctx, c, "/r", config.TreeOptions{})
		if err != nil {
			return err
		}
		return errors.Join(follow(t.Follow(w.Ctx)), t.Close(w.Ctx))
	}},
	{"value", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(value.New(c, "/r", value.Options[int]{})).Follow(w.Ctx))
	}},
	{"counter", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(counter.New(c, "/r", counter.Options{})).Follow(w.Ctx))
	}},
	{"cacheview.Node", nil, func(w *trial.World, c *client.Client) error {
		n, err := cacheview.OpenNode(w.Ctx, c, "/r", cacheview.Options[int]{})
		if err != nil {
			return err
		}
		return errors.Join(follow(n.Follow(w.Ctx)), n.Close(w.Ctx))
	}},
	{"cacheview.Children", nil, func(w *trial.World, c *client.Client) error {
		n, err := cacheview.OpenChildren(w.Ctx, c, "/r", cacheview.Options[int]{})
		if err != nil {
			return err
		}
		return errors.Join(follow(n.Follow(w.Ctx)), n.Close(w.Ctx))
	}},
	{"twopc", func(w *trial.World, c *client.Client) error {
		return must(twopc.New(c, "/r", twopc.Options{})).Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}})
	}, func(w *trial.World, c *client.Client) error {
		return only(must(twopc.New(c, "/r", twopc.Options{})).Await(w.Ctx))
	}},
}

func lockIt(w *trial.World, c *client.Client) error {
	return only(must(lock.NewMutex(c, "/r", lock.Options{})).Lock(w.Ctx))
}

func writeLock(w *trial.World, c *client.Client) error {
	return only(must(lock.NewRWMutex(c, "/r", lock.RWOptions{})).Lock(w.Ctx))
}

func priorityLock(w *trial.World, c *client.Client) error {
	return only(must(lock.NewPriority(c, "/r", lock.RWOptions{})).Lock(w.Ctx, 1))
}

func acquire(w *trial.World, c *client.Client) error {
	return only(must(lock.NewSemaphore(c, "/r", 1, hold.Options{})).Acquire(w.Ctx, 1))
}

// candidate is before all others in the election.
func candidate(w *trial.World, c *client.Client) error {
	w.Must(settle.Ensure(w.Ctx, c, "/r", client.CreateOptions{Mode: client.Container}))
	_, err := settle.Create(w.Ctx, c, "/r/latch-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByPath})
	return err
}

func node(w *trial.World, c *client.Client) error {
	_, err := c.Create(w.Ctx, "/r", nil, client.CreateOptions{Mode: client.Ephemeral})
	return err
}

// exclusive offers an item and takes it as the only consumer.
func exclusive(w *trial.World, c *client.Client) error {
	q := must(queue.New(c, "/r", queue.Options{Exclusive: true}))
	w.Must(q.Offer(w.Ctx, nil))
	return only(q.Take(w.Ctx))
}

func TestWaitsEndWithTheSession(t *testing.T) {
	for _, tt := range waits {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			if tt.before != nil {
				w.Must(tt.before(w, w.Other()))
			}
			asked := w.Record()
			done := make(chan error, 1)
			go func() { done <- tt.wait(w, w.C) }()
			w.Must(asked.Await(w.Ctx, "a watch", func(r zktest.Traced) bool { return r.Watch || r.Op == jute.OpAddWatch }))
			id, _ := w.C.Session()
			w.Proxy.ExpireSession(id)
			if err := <-done; !errors.Is(err, recipes.ErrLost) || !errors.Is(err, client.ErrSessionExpired) {
				t.Errorf("the session ended: %v, want recipes.ErrLost and client.ErrSessionExpired", err)
			}
		})
	}
}

// holds return the context of what was got. It must end with recipes.ErrLost when the
// session ends.
var holds = []struct {
	name string
	get  func(w *trial.World, c *client.Client) (held, error)
}{
	{"lock", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(lock.NewMutex(c, "/r", lock.Options{})).Lock(w.Ctx))
	}},
	{"lock.Multi", func(w *trial.World, c *client.Client) (held, error) {
		m := must(lock.NewMutex(c, "/r", lock.Options{}))
		return contextOf(must(lock.NewMulti(lock.Of("/r", m.Lock))).Lock(w.Ctx))
	}},
	{"lock.RWMutex", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(lock.NewRWMutex(c, "/r", lock.RWOptions{})).RLock(w.Ctx))
	}},
	{"lock.Priority", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(lock.NewPriority(c, "/r", lock.RWOptions{})).Lock(w.Ctx, 1))
	}},
	{"lock.Semaphore", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(lock.NewSemaphore(c, "/r", 1, hold.Options{})).Acquire(w.Ctx, 1))
	}},
	{"election.Run", func(w *trial.World, c *client.Client) (held, error) {
		e := must(election.New(c, "/r", election.Options{}))
		return during(w, func(got func(context.Context)) error {
			return e.Run(w.Ctx, func(ctx context.Context, _ *election.Leadership) error { got(ctx); return nil })
		})
	}},
	{"election.Master", func(w *trial.World, c *client.Client) (held, error) {
		m := must(election.NewMaster(c, "/r", hold.Options{}))
		return during(w, func(got func(context.Context)) error {
			return m.Run(w.Ctx, func(ctx context.Context, _ *election.Mastership) error { got(ctx); return nil })
		})
	}},
	{"doublebarrier", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(doublebarrier.New(c, "/r", 1, doublebarrier.Options{})).Enter(w.Ctx))
	}},
	{"queue.Leased", func(w *trial.World, c *client.Client) (held, error) {
		q := must(queue.NewLeased(c, "/r", queue.Options{}))
		w.Must(q.Offer(w.Ctx, nil))
		return contextOf(q.Take(w.Ctx))
	}},
	{"partitioner", func(w *trial.World, c *client.Client) (held, error) {
		p := must(partitioner.New(c, "/r", []string{"a"}, partitioner.Options{}))
		return during(w, func(got func(context.Context)) error {
			return p.Run(w.Ctx, func(ctx context.Context, _ *partitioner.Partition) { got(ctx) })
		})
	}},
}

// held is what was got. If a call has it until it returns, over gets the call's error.
type held struct {
	context.Context
	over <-chan error
}

func contextOf[T interface{ Context() context.Context }](v T, err error) (held, error) {
	if err != nil {
		return held{}, err
	}
	return held{Context: v.Context()}, nil
}

// during calls run, which calls got when it has what it waited for. got returns when
// its context has ended.
func during(w *trial.World, run func(got func(context.Context)) error) (held, error) {
	ctxs, over := make(chan context.Context, 1), make(chan error, 1)
	go func() {
		over <- run(func(ctx context.Context) {
			ctxs <- ctx
			<-ctx.Done()
		})
	}()
	select {
	case ctx := <-ctxs:
		return held{ctx, over}, nil
	case err := <-over:
		return held{}, err
	}
}

func TestWhatIsHeldIsLostWithTheSession(t *testing.T) {
	for _, tt := range holds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			held, err := tt.get(w, w.C)
			w.Must(err)
			w.Must(context.Cause(held))
			id, _ := w.C.Session()
			w.Proxy.ExpireSession(id)
			select {
			case <-held.Done():
			case <-w.Ctx.Done():
			}
			if err := context.Cause(held); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("the session ended: %v, want recipes.ErrLost", err)
			}
			if held.over == nil {
				return
			}
			if err := <-held.over; !errors.Is(err, recipes.ErrLost) {
				t.Errorf("the call returned %v, want recipes.ErrLost", err)
			}
		})
	}
}

// strangers are calls that find a node which is not the recipe's. They must fail with
// recipes.ErrLayout, and name the node.
var strangers = []struct {
	name string
	node string // is made before, with the nodes above it
	data string
	call do
}{
	{"lock", "/r/intruder", "", lockIt},
	{"lock.RWMutex", "/r/intruder", "", writeLock},
	{"lock.Priority", "/r/intruder", "", priorityLock},
	{"lock.Semaphore", "/r/leases/intruder", "", acquire},
	{"lock.NewCountedSemaphore", "/r-count", "intruder", func(w *trial.World, c *client.Client) error {
		return only(must(lock.NewCountedSemaphore(c, "/r", "/r-count", hold.Options{})).Acquire(w.Ctx, 1))
	}},
	{"election", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		e := must(election.New(c, "/r", election.Options{}))
		return e.Run(w.Ctx, func(context.Context, *election.Leadership) error { return nil })
	}},
	{"barrier", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return must(barrier.New(c, "/r", barrier.Options{})).Remove(w.Ctx)
	}},
	{"doublebarrier", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(doublebarrier.New(c, "/r", 1, doublebarrier.Options{})).Enter(w.Ctx))
	}},
	{"rendezvous", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(rendezvous.New(c, "/r", 2, rendezvous.Options{})).Meet(w.Ctx, nil))
	}},
	{"event", "/r", "intruder", func(w *trial.World, c *client.Client) error {
		return must(event.New(c, "/r", event.Options{})).Wait(w.Ctx)
	}},
	{"queue", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(queue.New(c, "/r", queue.Options{})).Take(w.Ctx))
	}},
	{"queue.Priority", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		q := must(queue.NewPriority(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.Delay", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		q := must(queue.NewDelay(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.TwoPhase", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		q := must(queue.NewTwoPhase(c, "/r", queue.Options{}))
		return errors.Join(only(q.Take(w.Ctx)), q.Close(w.Ctx))
	}},
	{"queue.Bounded", "/r/items/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(queue.NewBounded(c, "/r", 1, queue.Options{})).Take(w.Ctx))
	}},
	{"queue.Leased", "/r/entries/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(queue.NewLeased(c, "/r", queue.Options{})).Take(w.Ctx))
	}},
	{"group", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(group.New(c, "/r", group.Options{})).Members(w.Ctx))
	}},
	{"status", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(status.New(c, "/r", status.Options{})).Workers(w.Ctx))
	}},
	{"discovery", "/r/web/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(discovery.New(c, "/r", discovery.Options{})).Find(w.Ctx, "web"))
	}},
	{"keepalive", "/r", "", func(w *trial.World, c *client.Client) error {
		n := must(keepalive.New(c, "/r", keepalive.Options{}))
		w.Must(n.Start(nil))
		return n.WaitThere(w.Ctx)
	}},
	{"naming", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(naming.New(c, "/r", naming.Options{})).List(w.Ctx, ""))
	}},
	{"idempotent", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(idempotent.New(c, "/r", idempotent.Options{})).Prune(w.Ctx, 1))
	}},
	{"twopc", "/r/decision", "intruder", func(w *trial.World, c *client.Client) error {
		return only(must(twopc.New(c, "/r", twopc.Options{})).Await(w.Ctx))
	}},
}

func TestStrangersNodesAreNamed(t *testing.T) {
	for _, tt := range strangers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			_, err := settle.CreateAll(w.Ctx, w.Look, tt.node, []byte(tt.data), client.CreateOptions{})
			w.Must(err)
			named := tt.node[strings.LastIndexByte(tt.node, '/')+1:]
			if err := tt.call(w, w.C); !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), named) {
				t.Errorf("got %v, want recipes.ErrLayout and the name %q", err, named)
			}
		})
	}
}

// gives are what was got, to give back twice. The second time must fail with
// recipes.ErrNotHeld.
var gives = []struct {
	name string
	get  func(w *trial.World, c *client.Client) (giveBack func(context.Context) error)
}{
	{"lock", func(w *trial.World, c *client.Client) func(context.Context) error {
		return must(must(lock.NewMutex(c, "/r", lock.Options{})).Lock(w.Ctx)).Release
	}},
	{"lock.RWMutex", func(w *trial.World, c *client.Client) func(context.Context) error {
		return must(must(lock.NewRWMutex(c, "/r", lock.RWOptions{})).Lock(w.Ctx)).Release
	}},
	{"lock.Semaphore", func(w *trial.World, c *client.Client) func(context.Context) error {
		return must(must(lock.NewSemaphore(c, "/r", 1, hold.Options{})).Acquire(w.Ctx, 1)).Release
	}},
	{"election", func(w *trial.World, c *client.Client) func(context.Context) error {
		l := must(election.NewLatch(c, "/r", election.Options{}))
		w.Must(l.Start())
		w.Cleanup(func() { w.Must(l.Close(context.Background())) })
		return must(l.Await(w.Ctx)).Release
	}},
	{"queue.Leased", func(w *trial.World, c *client.Client) func(context.Context) error {
		q := must(queue.NewLeased(c, "/r", queue.Options{}))
		w.Must(q.Offer(w.Ctx, nil))
		return must(q.Take(w.Ctx)).Ack
	}},
}

func TestGivingBackTwice(t *testing.T) {
	for _, tt := range gives {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			giveBack := tt.get(w, w.C)
			w.Must(giveBack(w.Ctx))
			if err := giveBack(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
				t.Errorf("the second time: %v, want recipes.ErrNotHeld", err)
			}
		})
	}
}
