//go:build compat

package compat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/presence"
	"github.com/zkd-project/zkd/recipes/queue"
	"github.com/zkd-project/zkd/recipes/value"
)

// contendRounds is how often each program does its part of a scene.
const contendRounds = 20

// A scene is something that programs in several languages do together, at the nodes
// below /contend/<name>:
//
//	here       has how many programs take part; each begins by making a child of it,
//	           and waits until all have
//	it         what they contend for
//	count      a number that a program increments, by a read and a write, while it is alone
//	inside     is there while somebody is alone
//	holders, taken, seen, entering-<i>, entered-<i>, leaving-<i>: see the scenes
type scene struct {
	name string
	with []string // the other programs that take part: "java", "python"
	ours func(s *stage) error
	// check says what must have come of it; nil is that count has all rounds.
	check func(s *stage) error
}

var scenes = []scene{
	{"curator-lock", java, locking(lock.Curator), nil},
	{"kazoo-lock", kazoo, locking(lock.Kazoo), nil},
	{"apache-lock", java, locking(lock.WriteLock), nil},
	{"curator-write", java, writing, nil},
	// kazoo's readers don't take part: kazoo 2.8's wait for the writers after them, too,
	// which wait for them.
	{"kazoo-write", kazoo, writing, nil},
	{"curator-read-write", java, readingAndWriting, nil},
	{"curator-semaphore", java, sharing, nothing},
	{"curator-latch", java, leading(election.CuratorLatch), nil},
	{"curator-selector", java, leading(election.CuratorSelector), nil},
	{"kazoo-election", kazoo, leading(election.Kazoo), nil},
	{"barrier", both, releasing, nothing},
	{"double-barrier", both, meeting, nothing},
	{"curator-queue", java, queueing(queue.Apache), allTaken},
	{"apache-queue", java, queueing(queue.Apache), allTaken},
	{"kazoo-queue", kazoo, queueing(queue.Kazoo), allTaken},
	{"kazoo-locking-queue", kazoo, leasing, allTaken},
	{"kazoo-party", kazoo, joining, nothing},
	{"curator-counter", java, counting(value.Long), counted(value.Long)},
	{"curator-count", java, counting(value.Int), counted(value.Int)},
	{"kazoo-counter", kazoo, counting(value.Decimal), counted(value.Decimal)},
}

var (
	java  = []string{"java"}
	kazoo = []string{"python"}
	both  = []string{"java", "python"}
)

// TestContend has Curator's, Apache's and kazoo's recipes and ours contend for the same
// locks, elections, barriers, queues and counters.
func TestContend(t *testing.T) {
	t.Parallel()
	needKazoo(t)
	curator := contendProgram(t)
	addr := start(t, target(t), config{}).addr
	ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
	defer cancel()
	c, err := client.Connect(ctx, addr, client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) // it tried
	args := map[string][]string{}
	for _, sc := range scenes {
		if err := (&stage{scene: sc, c: c, ctx: ctx}).prepare(); err != nil {
			t.Fatal(err)
		}
		for _, program := range sc.with {
			args[program] = append(args[program], sc.name)
		}
	}
	var others sync.WaitGroup
	others.Go(func() { curator(t, append([]string{addr, strconv.Itoa(contendRounds)}, args["java"]...)...) })
	others.Go(func() {
		script := filepath.Join("python", "zkd_contend.py")
		runProgram(t, python, append([]string{script, addr, strconv.Itoa(contendRounds)}, args["python"]...)...)
	})
	var ours sync.WaitGroup // a scene may have to wait until its programs are done with those before
	passed, failed := 0, 0
	var mu sync.Mutex
	for _, sc := range scenes {
		ours.Go(func() {
			err := (&stage{scene: sc, c: c, ctx: ctx}).play()
			mu.Lock()
			defer mu.Unlock()
			if passed++; err != nil {
				passed, failed = passed-1, failed+1
				t.Errorf("%s: %v", sc.name, err)
			}
		})
	}
	ours.Wait()
	others.Wait()
	for _, sc := range scenes {
		s := &stage{scene: sc, c: c, ctx: ctx}
		check := sc.check
		if check == nil {
			check = allCounted
		}
		if err := check(s); err != nil && !t.Failed() {
			t.Errorf("%s: %v", sc.name, err)
		}
	}
	summary(t, t.Name(), passed, failed)
}

// contendProgram compiles java/contend and returns what runs it.
func contendProgram(t *testing.T) func(t *testing.T, args ...string) {
	t.Helper()
	needRecipes(t)
	return compileJava(t, "contend", "ContendProgram", recipeJars()...)
}

func needRecipes(t testing.TB) {
	t.Helper()
	needJavac(t)
	require(t,
		need{filepath.Join(javaDir, "curator-recipes.jar"), "libcurator-recipes-java"},
		need{filepath.Join(javaDir, "guava.jar"), "libguava-java"})
}

// recipeJars are those that java/contend stands on.
func recipeJars() []string {
	return []string{"zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "zookeeper-recipes-queue",
		"curator-client", "curator-framework", "curator-recipes", "guava", "slf4j-simple"}
}

// stage is a scene being played.
type stage struct {
	scene
	c   *client.Client
	ctx context.Context
}

func (s *stage) at(name string) string { return "/contend/" + s.name + "/" + name }

// all is how many programs take part.
func (s *stage) all() int { return len(s.with) + 1 }

func (s *stage) prepare() error {
	nodes := map[string]string{"here": strconv.Itoa(s.all()), "count": "0", "holders": "", "taken": "", "seen": ""}
	if s.name == "barrier" {
		nodes["it"] = ""
	}
	if s.name == "apache-queue" {
		nodes["it"] = "" // two that make it at once is more than Apache's queue can take
	}
	if s.name == "double-barrier" {
		for i := range contendRounds {
			for _, phase := range []string{"entering", "entered", "leaving"} {
				nodes[fmt.Sprintf("%s-%d", phase, i)] = ""
			}
		}
	}
	for name, data := range nodes {
		if _, err := settle.CreateAll(s.ctx, s.c, s.at(name), []byte(data), client.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// play meets the others and does our part.
func (s *stage) play() error {
	if _, err := s.c.Create(s.ctx, s.at("here/go"), nil, client.CreateOptions{}); err != nil {
		return err
	}
	if err := s.await("here", s.all()); err != nil {
		return err
	}
	return s.ours(s)
}

// await waits until a node has n children.
func (s *stage) await(name string, n int) error {
	for {
		list, err := s.c.ChildrenW(s.ctx, s.at(name))
		if err != nil {
			return err
		}
		if len(list.Names) >= n {
			return list.Watch.Close(s.ctx)
		}
		if _, err := list.Watch.Next(s.ctx); err != nil {
			return fmt.Errorf("only %q: %w", list.Names, err)
		}
	}
}

// alone does what must not be done by two at a time.
func (s *stage) alone() error {
	if _, err := s.c.Create(s.ctx, s.at("inside"), nil, client.CreateOptions{}); err != nil {
		return err
	}
	n, err := s.count()
	if err != nil {
		return err
	}
	if _, err := s.c.Set(s.ctx, s.at("count"), []byte(strconv.Itoa(n+1)), client.AnyVersion); err != nil {
		return err
	}
	return s.c.Delete(s.ctx, s.at("inside"), client.AnyVersion)
}

func (s *stage) count() (int, error) {
	node, err := s.c.Get(s.ctx, s.at("count"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(node.Data))
}

func allCounted(s *stage) error {
	n, err := s.count()
	if want := s.all() * contendRounds; err == nil && n != want {
		return fmt.Errorf("%d rounds were counted, want %d: two were in at once", n, want)
	}
	return err
}

func nothing(*stage) error { return nil }

// times does fn for each round.
func times(fn func(i int) error) error {
	for i := range contendRounds {
		if err := fn(i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// holding does fn while it has what l gives.
func holding(s *stage, l func(context.Context) (*hold.Held, error), fn func() error) error {
	held, err := l(s.ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(), held.Release(s.ctx))
}

func locking(layout lock.Layout) func(s *stage) error {
	return func(s *stage) error {
		m, err := lock.NewMutex(s.c, s.at("it"), lock.Options{Layout: layout})
		if err != nil {
			return err
		}
		return times(func(int) error { return holding(s, m.Lock, s.alone) })
	}
}

func writing(s *stage) error {
	rw, err := lock.NewRWMutex(s.c, s.at("it"), lock.RWOptions{})
	if err != nil {
		return err
	}
	return times(func(int) error { return holding(s, rw.Lock, s.alone) })
}

func readingAndWriting(s *stage) error {
	rw, err := lock.NewRWMutex(s.c, s.at("it"), lock.RWOptions{})
	if err != nil {
		return err
	}
	return times(func(int) error {
		if err := holding(s, rw.Lock, s.alone); err != nil {
			return err
		}
		return holding(s, rw.RLock, s.readTwice)
	})
}

// readTwice fails if somebody writes meanwhile.
func (s *stage) readTwice() error {
	before, err := s.count()
	if err != nil {
		return err
	}
	writing, err := s.c.Exists(s.ctx, s.at("inside"))
	if err != nil {
		return err
	}
	after, err := s.count()
	if err == nil && (writing.Exists || before != after) {
		return fmt.Errorf("somebody writes while we read: %d, %d, inside %t", before, after, writing.Exists)
	}
	return err
}

func leading(layout election.Layout) func(s *stage) error {
	return func(s *stage) error {
		e, err := election.New(s.c, s.at("it"), election.Options{Options: hold.Options{Data: []byte("go")}, Layout: layout})
		if err != nil {
			return err
		}
		return times(func(int) error {
			return e.Run(s.ctx, func(context.Context, *election.Leadership) error { return s.alone() })
		})
	}
}

// sharing has at most two inside.
func sharing(s *stage) error {
	sem, err := lock.NewSemaphore(s.c, s.at("it"), 2, hold.Options{})
	if err != nil {
		return err
	}
	return times(func(int) error {
		lease, err := sem.Acquire(s.ctx, 1)
		if err != nil {
			return err
		}
		return errors.Join(s.oneOfTwo(), lease.Release(s.ctx))
	})
}

func (s *stage) oneOfTwo() error {
	made, err := s.c.Create(s.ctx, s.at("holders/h-"), nil, client.CreateOptions{Mode: client.EphemeralSequential})
	if err != nil {
		return err
	}
	list, err := s.c.Children(s.ctx, s.at("holders"))
	if err == nil && len(list.Names) > 2 {
		return fmt.Errorf("%q hold two leases", list.Names)
	}
	return errors.Join(err, s.c.Delete(s.ctx, made.Path, client.AnyVersion))
}

// releasing removes the barrier before which the others wait.
func releasing(s *stage) error {
	b, err := barrier.New(s.c, s.at("it"), barrier.Options{})
	if err != nil {
		return err
	}
	return errors.Join(b.Remove(s.ctx), b.Wait(s.ctx))
}

// meeting enters and leaves with all others: none is in before all have said that they
// come, and none is out before all have said that they go.
// Nobody leaves before all have been let in: kazoo's lists the participants only some time after
// it has joined, and waits forever if some have left again by then.
func meeting(s *stage) error {
	return times(func(i int) error {
		b, err := barrier.NewDouble(s.c, s.at(fmt.Sprintf("it-%d", i)), s.all(), barrier.Options{})
		if err != nil {
			return err
		}
		if err := s.mark(fmt.Sprintf("entering-%d/go", i)); err != nil {
			return err
		}
		in, err := b.Enter(s.ctx)
		if err != nil {
			return err
		}
		if err := s.marked(fmt.Sprintf("entering-%d", i)); err != nil {
			return err
		}
		if err := s.mark(fmt.Sprintf("entered-%d/go", i)); err != nil {
			return err
		}
		if err := s.await(fmt.Sprintf("entered-%d", i), s.all()); err != nil {
			return err
		}
		if err := s.mark(fmt.Sprintf("leaving-%d/go", i)); err != nil {
			return err
		}
		if err := in.Release(s.ctx); err != nil {
			return err
		}
		return s.marked(fmt.Sprintf("leaving-%d", i))
	})
}

func (s *stage) mark(name string) error {
	_, err := s.c.Create(s.ctx, s.at(name), nil, client.CreateOptions{})
	return err
}

// marked fails unless all have marked.
func (s *stage) marked(name string) error {
	list, err := s.c.Children(s.ctx, s.at(name))
	if err == nil && len(list.Names) != s.all() {
		return fmt.Errorf("%s: only %q are there", name, list.Names)
	}
	return err
}

func queueing(layout queue.Layout) func(s *stage) error {
	return func(s *stage) error {
		q, err := queue.New(s.c, s.at("it"), queue.Options{Layout: layout})
		if err != nil {
			return err
		}
		defer q.Close(s.ctx) // the items are what counts
		offer := func(i int) error { return q.Offer(s.ctx, fmt.Appendf(nil, "go-%d", i)) }
		if err := times(offer); err != nil {
			return err
		}
		return times(func(int) error {
			item, err := q.Take(s.ctx)
			if err != nil {
				return err
			}
			return s.mark("taken/" + string(item)) // fails if it has been taken before
		})
	}
}

func leasing(s *stage) error {
	q, err := queue.NewLeased(s.c, s.at("it"), queue.Options{})
	if err != nil {
		return err
	}
	defer q.Close(s.ctx) // the items are what counts
	err = times(func(i int) error { return q.Offer(s.ctx, fmt.Appendf(nil, "go-%d", i)) })
	if err != nil {
		return err
	}
	return times(func(int) error {
		lease, err := q.Take(s.ctx)
		if err != nil {
			return err
		}
		return errors.Join(s.mark("taken/"+string(lease.Data())), lease.Ack(s.ctx))
	})
}

// joining stays until all have seen all.
func joining(s *stage) error {
	g, err := presence.NewGroup(s.c, s.at("it"), presence.Options{Layout: presence.Party})
	if err != nil {
		return err
	}
	m, err := g.Join(s.ctx, "go", nil)
	if err != nil {
		return err
	}
	for view, err := range g.Follow(s.ctx) {
		if err != nil {
			return err
		}
		if len(view.Members) == s.all() {
			break
		}
	}
	return errors.Join(s.mark("seen/go"), s.await("seen", s.all()), m.Release(s.ctx))
}

func allTaken(s *stage) error {
	list, err := s.c.Children(s.ctx, s.at("taken"))
	if want := s.all() * contendRounds; err == nil && len(list.Names) != want {
		return fmt.Errorf("%d items were taken, want %d", len(list.Names), want)
	}
	return err
}

func counting(layout value.Layout) func(s *stage) error {
	return func(s *stage) error {
		n, err := value.NewCounter(s.c, s.at("it"), value.CounterOptions{Layout: layout})
		if err != nil {
			return err
		}
		return times(func(int) error {
			_, err := n.Increment(s.ctx)
			return err
		})
	}
}

func counted(layout value.Layout) func(s *stage) error {
	return func(s *stage) error {
		n, err := value.NewCounter(s.c, s.at("it"), value.CounterOptions{Layout: layout})
		if err != nil {
			return err
		}
		got, err := n.Get(s.ctx)
		if want := int64(s.all() * contendRounds); err == nil && got.Value != want {
			return fmt.Errorf("the count is %d, want %d", got.Value, want)
		}
		return err
	}
}
