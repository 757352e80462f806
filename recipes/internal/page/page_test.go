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
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/idempotent"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/naming"
	"github.com/zkd-project/zkd/recipes/presence"
	"github.com/zkd-project/zkd/recipes/queue"
	"github.com/zkd-project/zkd/recipes/twopc"
	"github.com/zkd-project/zkd/recipes/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// do is a use of a recipe at /r.
type do func(w *trial.World, c *client.Client) error

// must returns the result of a call that can't fail here.
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

// ends waits until something that a recipe keeps alive has ended, and returns why.
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

// waits are calls that wait after another client has called before. Without
// client.Options.RenewSession they must fail with recipes.ErrLost when the session ends.
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
	{"barrier.Double", nil, func(w *trial.World, c *client.Client) error {
		return only(must(barrier.NewDouble(c, "/r", 2, barrier.Options{})).Enter(w.Ctx))
	}},
	{"barrier.Rendezvous", nil, func(w *trial.World, c *client.Client) error {
		return only(must(barrier.NewRendezvous(c, "/r", 2, barrier.Options{})).Meet(w.Ctx, nil))
	}},
	{"barrier.Event, manual", nil, func(w *trial.World, c *client.Client) error {
		return must(barrier.NewEvent(c, "/r", barrier.ManualReset, barrier.Options{})).Wait(w.Ctx)
	}},
	{"barrier.Event, automatic", nil, func(w *trial.World, c *client.Client) error {
		return must(barrier.NewEvent(c, "/r", barrier.AutoReset, barrier.Options{})).Wait(w.Ctx)
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
	{"presence.Membership", nil, func(w *trial.World, c *client.Client) error {
		return ends(w, must(must(presence.NewGroup(c, "/r", presence.Options{})).Join(w.Ctx, "a", nil)))
	}},
	{"presence.Group.Follow", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(presence.NewGroup(c, "/r", presence.Options{})).Follow(w.Ctx))
	}},
	{"presence.Reporter", nil, func(w *trial.World, c *client.Client) error {
		return ends(w, must(must(presence.NewBoard(c, "/r", presence.Options{})).Register(w.Ctx, "a", "idle")))
	}},
	{"presence.Board.Follow", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(presence.NewBoard(c, "/r", presence.Options{})).Follow(w.Ctx))
	}},
	{"presence.Registration", nil, func(w *trial.World, c *client.Client) error {
		d := must(presence.NewDirectory(c, "/r", presence.Options{}))
		return ends(w, must(d.Register(w.Ctx, presence.Instance{Name: "web", Address: "a"})))
	}},
	{"presence.Provider", nil, func(w *trial.World, c *client.Client) error {
		p, err := must(presence.NewDirectory(c, "/r", presence.Options{})).Open(w.Ctx, "web", presence.ProviderOptions{})
		if err != nil {
			return err
		}
		return errors.Join(follow(p.Follow(w.Ctx)), p.Close(w.Ctx))
	}},
	{"presence.Partitioner", nil, func(w *trial.World, c *client.Client) error {
		p := must(presence.NewPartitioner(c, "/r", []string{"a"}, presence.PartitionerOptions{}))
		return p.Run(w.Ctx, func(ctx context.Context, _ *presence.Partition) { <-ctx.Done() })
	}},
	{"presence.Node", nil, func(w *trial.World, c *client.Client) error {
		n := must(presence.NewNode(c, "/r", presence.NodeOptions{}))
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
	{"value.Counter", nil, func(w *trial.World, c *client.Client) error {
		return follow(must(value.NewCounter(c, "/r", value.CounterOptions{})).Follow(w.Ctx))
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

// candidate is the first candidate of an election.
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
			id := w.C.Session().ID()
			w.Proxy.ExpireSession(id)
			if err := <-done; !errors.Is(err, recipes.ErrLost) || !errors.Is(err, client.ErrSessionExpired) {
				t.Errorf("the session ended: %v, want recipes.ErrLost and client.ErrSessionExpired", err)
			}
		})
	}
}

// holds return the context of what is held. It must end with recipes.ErrLost when the session
// ends.
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
	{"barrier.Double", func(w *trial.World, c *client.Client) (held, error) {
		return contextOf(must(barrier.NewDouble(c, "/r", 1, barrier.Options{})).Enter(w.Ctx))
	}},
	{"queue.Leased", func(w *trial.World, c *client.Client) (held, error) {
		q := must(queue.NewLeased(c, "/r", queue.Options{}))
		w.Must(q.Offer(w.Ctx, nil))
		return contextOf(q.Take(w.Ctx))
	}},
	{"presence.Partitioner", func(w *trial.World, c *client.Client) (held, error) {
		p := must(presence.NewPartitioner(c, "/r", []string{"a"}, presence.PartitionerOptions{}))
		return during(w, func(got func(context.Context)) error {
			return p.Run(w.Ctx, func(ctx context.Context, _ *presence.Partition) { got(ctx) })
		})
	}},
}

// held is something held. If it is held during a call, over gets the error of the call.
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

// during calls run, which calls got when it holds what it waited for. got returns when its
// context has ended.
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
			id := w.C.Session().ID()
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
// recipes.ErrLayout and name the node.
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
	{"barrier.Double", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(barrier.NewDouble(c, "/r", 1, barrier.Options{})).Enter(w.Ctx))
	}},
	{"barrier.Rendezvous", "/r/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(barrier.NewRendezvous(c, "/r", 2, barrier.Options{})).Meet(w.Ctx, nil))
	}},
	{"barrier.Event", "/r", "intruder", func(w *trial.World, c *client.Client) error {
		return must(barrier.NewEvent(c, "/r", barrier.ManualReset, barrier.Options{})).Wait(w.Ctx)
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
	{"presence.Group", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(presence.NewGroup(c, "/r", presence.Options{})).Members(w.Ctx))
	}},
	{"presence.Board", "/r/%ZZ-intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(presence.NewBoard(c, "/r", presence.Options{})).Workers(w.Ctx))
	}},
	{"presence.Directory", "/r/web/intruder", "", func(w *trial.World, c *client.Client) error {
		return only(must(presence.NewDirectory(c, "/r", presence.Options{})).Find(w.Ctx, "web"))
	}},
	{"presence.Node", "/r", "", func(w *trial.World, c *client.Client) error {
		n := must(presence.NewNode(c, "/r", presence.NodeOptions{}))
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

// gives return the method that gives something back. Its second call must fail with
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
