//go:build compat

package compat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

const (
	quickKills, fullKills = 3, 20
	// inFullSwing is how many writes each writer has to get done before the leader
	// is killed, and after.
	inFullSwing = 20
	// survival is how long an ensemble may take to serve again.
	survival = time.Minute
)

// TestSurvivors runs one program of our client against Apache's servers and the
// target's, and kills the leader, process and all, in the middle of it, time after
// time. No acknowledged write may be lost, no watch that was due may fail to fire,
// no session may expire, and no error may be one that the client's documents don't
// explain: see survivors.
func TestSurvivors(t *testing.T) {
	kills := quickKills
	if *fullFlag {
		kills = fullKills
	}
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			e := startEnsemble(t, k, ourClient)
			p := startSurvivors(t, e)
			for range kills {
				p.awaitWrites()
				marks := p.expectMark()
				roles, ok := e.roles()
				if !ok {
					t.Fatal("the ensemble is not healthy")
				}
				roles[leader].kill()
				p.awaitWrites()
				p.mark(marks)
				p.takeStock()
				if err := e.heal(); err != nil {
					t.Fatal(err)
				}
			}
			p.stop()
			t.Logf("SUITE %s passed=%d failed=%d", t.Name(), p.writes.Load(), p.failures.Load())
			t.Logf("%d writes, of %d the reply was lost; %d events; %d errors, all explained",
				p.writes.Load(), p.resolved.Load(), p.events.Load(), p.explained.Load())
		})
	}
}

// survivors is the program: for each server a client that writes, one that
// watches, and one that has an ephemeral node, each of which begins at that server.
//
// Writer i counts in /count/i and keeps a ledger of nodes /ledger/i-N. Watchers
// look at a node only when a watch of it has fired: one that is lost leaves its
// watcher behind for good.
type survivors struct {
	t     *testing.T
	ctx   context.Context
	stop  func()
	work  sync.WaitGroup
	pause sync.RWMutex // held for reading by a write; for writing, to have none

	writers, watchers, owners []*client.Client
	last                      []atomic.Int64 // by writer: the last count that is known to be done
	seen                      []*sighting
	marks                     int

	writes, resolved, events, explained, failures atomic.Int64
}

// sighting is what one watch loop has seen last.
type sighting struct {
	name string
	at   func(p *survivors) int64 // what there is to see in the end
	now  atomic.Int64
}

func startSurvivors(t *testing.T, e *ensemble) *survivors {
	ctx, cancel := context.WithCancel(context.Background())
	p := &survivors{t: t, ctx: ctx, last: make([]atomic.Int64, len(e.servers))}
	p.stop = sync.OnceFunc(func() {
		cancel()
		p.work.Wait()
		for _, c := range append(append(p.writers, p.watchers...), p.owners...) {
			c.Close(context.Background()) // servers may be down after a failure
		}
	})
	t.Cleanup(p.stop)
	for i := range e.servers {
		p.writers = append(p.writers, p.connect(e, i))
		p.watchers = append(p.watchers, p.connect(e, i))
		p.owners = append(p.owners, p.connect(e, i))
	}
	p.plant()
	for i := range p.watchers {
		p.watch(p.watchers[i])
	}
	for i := range p.writers {
		p.work.Go(func() { p.write(i) })
	}
	return p
}

// connect makes a client that begins at the i-th server.
func (p *survivors) connect(e *ensemble, i int) *client.Client {
	p.t.Helper()
	hosts := strings.Split(e.hosts(), ",")
	hosts = append(hosts[i:], hosts[:i]...)
	ctx, cancel := context.WithTimeout(p.ctx, survival)
	defer cancel()
	c, err := client.Connect(ctx, strings.Join(hosts, ","), client.Options{Timeout: 20 * time.Second, Fixed: true, Logger: client.NoLog})
	if err != nil {
		p.t.Fatal(err)
	}
	changes := c.Session().States(p.ctx)
	go func() {
		for s := range changes {
			if s.To == client.StateExpired {
				p.fail("session %v expired: %v", s.Session, s.Err)
			}
		}
	}()
	return c
}

// plant makes the nodes.
func (p *survivors) plant() {
	p.t.Helper()
	ops := []client.Op{}
	for _, path := range []string{"/count", "/ledger", "/marks", "/owned"} {
		ops = append(ops, client.CreateOp(path, nil, client.CreateOptions{}))
	}
	for i := range p.writers {
		ops = append(ops, client.CreateOp(fmt.Sprintf("/count/%d", i), []byte("0"), client.CreateOptions{}))
	}
	if _, err := p.writers[0].Multi(p.ctx, ops...); err != nil {
		p.t.Fatal(err)
	}
	for i, c := range p.owners {
		if err := c.Sync(p.ctx, "/"); err != nil {
			p.t.Fatal(err)
		}
		if _, err := c.Create(p.ctx, fmt.Sprintf("/owned/%d", i), nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, c := range p.watchers {
		if err := c.Sync(p.ctx, "/"); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *survivors) fail(format string, args ...any) {
	p.failures.Add(1)
	p.t.Errorf(format, args...)
}

// expected reports whether an operation is to be tried again because of err: the
// connection broke. All else is a failure, but for the end of the program. Only a
// change may be ambiguous, and the text must say what failed.
func (p *survivors) expected(err error, what string, change bool) (again, ambiguous bool) {
	ambiguous = client.IsAmbiguous(err)
	switch {
	case err == nil || p.ctx.Err() != nil:
		return false, false
	case !errors.Is(err, client.ErrConnectionLoss) || ambiguous && !change || !strings.HasPrefix(err.Error(), what+": "):
		p.fail("%s: an error that is not explained: %v (ambiguous: %v)", what, err, ambiguous)
		return false, false
	}
	p.explained.Add(1)
	return true, ambiguous
}

// --- Writers

// write counts, and keeps the ledger, until the program ends.
func (p *survivors) write(i int) {
	c := p.writers[i]
	for n := int64(1); p.ctx.Err() == nil; n++ {
		p.pause.RLock()
		count := fmt.Sprintf("/count/%d", i)
		entry := fmt.Sprintf("/ledger/%d-%d", i, n)
		value := []byte(strconv.FormatInt(n, 10))
		p.once("setData "+count, client.ErrBadVersion,
			func() error { _, err := c.Set(p.ctx, count, value, int32(n-1)); return err },
			func() (bool, error) { node, err := c.Get(p.ctx, count); return string(node.Data) == string(value), err }, c)
		p.once("create "+entry, client.ErrNodeExists,
			func() error { _, err := c.Create(p.ctx, entry, value, client.CreateOptions{}); return err },
			func() (bool, error) { found, err := c.Exists(p.ctx, entry); return found.Exists, err }, c)
		if p.ctx.Err() == nil {
			p.last[i].Store(n)
		}
		p.pause.RUnlock()
	}
}

// once does a change until it is done, and exactly once. Where an attempt is
// ambiguous it looks whether it was done; done is the error of a repetition of
// what was done, which may come only then.
func (p *survivors) once(what string, done error, change func() error, look func() (bool, error), c *client.Client) {
	maybe := false
	for p.ctx.Err() == nil {
		err := change()
		if maybe && errors.Is(err, done) {
			p.resolved.Add(1)
			err = nil
		}
		again, ambiguous := p.expected(err, what, true)
		if !again {
			p.writes.Add(1)
			return
		}
		if !ambiguous {
			continue
		}
		maybe = true
		if p.wasDone(c, look) {
			p.resolved.Add(1)
			p.writes.Add(1)
			return
		}
	}
}

// wasDone looks at what every server has by now.
func (p *survivors) wasDone(c *client.Client, look func() (bool, error)) bool {
	for p.ctx.Err() == nil {
		if err := c.Sync(p.ctx, "/"); err != nil {
			p.expected(err, "sync /", false)
			continue
		}
		done, err := look()
		if err == nil {
			return done
		}
		if !errors.Is(err, client.ErrConnectionLoss) || client.IsAmbiguous(err) {
			p.expected(err, "a read", false)
			return false
		}
	}
	return false
}

// --- Watchers

// watch starts the loops of one watching client.
func (p *survivors) watch(c *client.Client) {
	for i := range p.writers {
		path := fmt.Sprintf("/count/%d", i)
		s := p.sighting("data watch of "+path, func(p *survivors) int64 { return p.last[i].Load() })
		p.work.Go(func() {
			p.follow(c, s, "getData "+path, func() (int64, *client.Watch, error) { return p.readCount(c, path) })
		})
	}
	s := p.sighting("child watch of /ledger", (*survivors).entries)
	p.work.Go(func() {
		p.follow(c, s, "getChildren2 /ledger", func() (int64, *client.Watch, error) {
			list, err := c.ChildrenW(p.ctx, "/ledger")
			return int64(len(list.Names)), list.Watch, err
		})
	})
	persistent := p.sighting("persistent watch of /ledger", (*survivors).entries)
	p.work.Go(func() {
		p.stay(c, "/ledger", client.WatchPersistent, func(client.Event) {
			if names, ok := p.children(c, "/ledger"); ok {
				persistent.now.Store(int64(len(names)))
			}
		})
	})
	recursive := p.sighting("recursive watch of /count", func(p *survivors) int64 {
		sum := int64(0)
		for i := range p.last {
			sum += p.last[i].Load()
		}
		return sum
	})
	p.work.Go(func() { p.stay(c, "/count", client.WatchRecursive, p.adder(c, recursive)) })
}

func (p *survivors) sighting(name string, at func(*survivors) int64) *sighting {
	s := &sighting{name: name, at: at}
	p.seen = append(p.seen, s)
	return s
}

// entries is how long the ledger is.
func (p *survivors) entries() int64 {
	n := int64(0)
	for i := range p.last {
		n += p.last[i].Load()
	}
	return n
}

func (p *survivors) readCount(c *client.Client, path string) (int64, *client.Watch, error) {
	node, err := c.GetW(p.ctx, path)
	if err != nil {
		return 0, nil, err
	}
	n, err := strconv.ParseInt(string(node.Data), 10, 64)
	if err != nil {
		p.fail("%s has %q", path, node.Data)
	}
	return n, node.Watch, nil
}

// follow reads with a one-shot watch, and again when that has fired.
func (p *survivors) follow(c *client.Client, s *sighting, what string, read func() (int64, *client.Watch, error)) {
	for p.ctx.Err() == nil {
		n, w, err := read()
		if again, _ := p.expected(err, what, false); again {
			continue
		} else if err != nil {
			return
		}
		if before := s.now.Swap(n); n < before {
			p.fail("%s: %d after %d", s.name, n, before)
		}
		if _, err := w.Next(p.ctx); err != nil {
			if p.ctx.Err() == nil {
				p.fail("%s: %v", s.name, err)
			}
			return
		}
		p.events.Add(1)
	}
}

// stay sets a persistent watch and calls seen for each event, and once before.
func (p *survivors) stay(c *client.Client, path string, mode client.WatchMode, seen func(client.Event)) {
	var w *client.Watch
	for p.ctx.Err() == nil {
		var err error
		if w, err = c.AddWatch(p.ctx, path, mode); err == nil {
			break
		}
		if again, _ := p.expected(err, "addWatch "+path, false); !again {
			return
		}
	}
	ev := client.Event{Type: client.EventRearmed, Path: path}
	for p.ctx.Err() == nil {
		seen(ev)
		var err error
		if ev, err = w.Next(p.ctx); err != nil {
			if p.ctx.Err() == nil {
				p.fail("persistent watch of %s: %v", path, err)
			}
			return
		}
		p.events.Add(1)
	}
}

// adder returns what keeps the sum of all counts by a recursive watch.
func (p *survivors) adder(c *client.Client, s *sighting) func(client.Event) {
	counts := map[string]int64{}
	return func(ev client.Event) {
		var paths []string
		switch ev.Type {
		case client.EventRearmed: // what has changed meanwhile was not seen
			for i := range p.writers {
				paths = append(paths, fmt.Sprintf("/count/%d", i))
			}
		case client.EventDataChanged:
			paths = []string{ev.Path}
		default:
			p.fail("recursive watch of /count: %v", ev)
		}
		for _, path := range paths {
			for p.ctx.Err() == nil {
				node, err := c.Get(p.ctx, path)
				if again, _ := p.expected(err, "getData "+path, false); again {
					continue
				}
				counts[path], _ = strconv.ParseInt(string(node.Data), 10, 64)
				break
			}
		}
		sum := int64(0)
		for _, n := range counts {
			sum += n
		}
		s.now.Store(sum)
	}
}

func (p *survivors) children(c *client.Client, path string) ([]string, bool) {
	for p.ctx.Err() == nil {
		list, err := c.Children(p.ctx, path)
		if again, _ := p.expected(err, "getChildren2 "+path, false); !again {
			return list.Names, err == nil
		}
	}
	return nil, false
}

// --- What must hold

// eventually waits until f is true, which it must be within survival.
func (p *survivors) eventually(what func() string, f func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(survival)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !f() {
		if time.Now().After(deadline) {
			p.failures.Add(1)
			p.t.Fatalf("not within %v: %s", survival, what())
		}
		<-poll.C
	}
}

// awaitWrites waits until every writer has got on.
func (p *survivors) awaitWrites() {
	p.t.Helper()
	for i := range p.last {
		from := p.last[i].Load()
		p.eventually(func() string { return fmt.Sprintf("writer %d gets on from %d", i, from) },
			func() bool { return p.last[i].Load() >= from+inFullSwing })
	}
}

// expectMark has every watcher wait for a node that there is not yet.
func (p *survivors) expectMark() []*client.Watch {
	p.t.Helper()
	p.marks++
	var all []*client.Watch
	for _, c := range p.watchers {
		found, err := c.ExistsW(p.ctx, fmt.Sprintf("/marks/%d", p.marks))
		if err != nil || found.Exists {
			p.t.Fatalf("exists = %v, %v", found.Exists, err)
		}
		all = append(all, found.Watch)
	}
	return all
}

// mark makes the node.
func (p *survivors) mark(watches []*client.Watch) {
	p.t.Helper()
	path := fmt.Sprintf("/marks/%d", p.marks)
	c := p.owners[0]
	p.once("create "+path, client.ErrNodeExists,
		func() error { _, err := c.Create(p.ctx, path, nil, client.CreateOptions{}); return err },
		func() (bool, error) { found, err := c.Exists(p.ctx, path); return found.Exists, err }, c)
	ctx, cancel := context.WithTimeout(p.ctx, survival)
	defer cancel()
	for i, w := range watches {
		if ev, err := w.Next(ctx); err != nil || ev.Type != client.EventCreated || ev.Path != path {
			p.fail("watcher %d of %s: %v, %v", i, path, ev, err)
		}
		p.events.Add(1)
	}
}

// takeStock stops the writers for a moment. Every watcher must come to see all
// that was written, and every client must find the ledger complete.
func (p *survivors) takeStock() {
	p.t.Helper()
	p.pause.Lock()
	defer p.pause.Unlock()
	for _, s := range p.seen {
		p.eventually(func() string {
			return fmt.Sprintf("%s: it has seen %d of %d", s.name, s.now.Load(), s.at(p))
		}, func() bool { return s.now.Load() == s.at(p) })
	}
	for _, c := range p.owners {
		p.checkLedger(c)
	}
}

func (p *survivors) checkLedger(c *client.Client) {
	p.t.Helper()
	p.wasDone(c, func() (bool, error) { return true, nil }) // a sync
	names, _ := p.children(c, "/ledger")
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for i := range p.last {
		for n := int64(1); n <= p.last[i].Load(); n++ {
			if name := fmt.Sprintf("%d-%d", i, n); !there[name] {
				p.fail("entry %s of the ledger is lost", name)
			}
		}
	}
	if extra := int64(len(names)) - p.entries(); extra != 0 {
		p.fail("the ledger has %d entries that nobody made", extra)
	}
	owned, _ := p.children(c, "/owned")
	if len(owned) != len(p.owners) {
		p.fail("of the ephemeral nodes there are %q", owned)
	}
}
