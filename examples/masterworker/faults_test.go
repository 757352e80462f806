package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// atOnce is how many runs there are at a time: they mostly wait.
const atOnce = 8

// faults breaks the connection of each role before and after each request that it
// makes, one run for each. In another run it ends its session there in addition.
func faults(t *testing.T, servers *zktest.Proxy) {
	t.Parallel()
	type run struct {
		who, kind string
		n         int
	}
	runs := make(chan run)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for r := range runs {
				t.Run(fmt.Sprintf("%s-%s-%d", r.who, r.kind, r.n), func(t *testing.T) {
					w := newWorld(t, servers)
					l := w.lane()
					defer harm(l, r.kind, r.n)()
					scene(w, r.who, l)
				})
			}
		})
	}
	for _, who := range []string{"master", "worker", "submit"} {
		for n := range requests(t, servers, who) {
			expired := []string{"expired-before", "expired-after"}[n%2]
			for _, kind := range []string{"cut-before", "cut-after", expired} {
				runs <- run{who, kind, 1 + n}
			}
		}
	}
	close(runs)
	workers.Wait()
}

// requests returns how many requests a role makes without a fault.
func requests(t *testing.T, servers *zktest.Proxy, who string) (n int) {
	t.Run(who+"-unharmed", func(t *testing.T) {
		w := newWorld(t, servers)
		l := w.lane()
		rec := l.Record()
		scene(w, who, l)
		for _, r := range rec.All() {
			if r.Op != 0 {
				n++
			}
		}
	})
	return n
}

// harm arms a fault at the nth request of a lane, and returns what disarms it.
func harm(l *lane, kind string, n int) (disarm func()) {
	m := zktest.Nth(n, zktest.Any())
	var cut *zktest.Cut
	if kind == "cut-after" || kind == "expired-after" {
		cut = l.CutAfter(m)
	} else {
		cut = l.CutBefore(m)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-cut.Done():
			if kind == "expired-before" || kind == "expired-after" {
				l.expire()
			}
		case <-over:
		}
	}()
	return func() {
		cut.Cancel()
		close(over)
		<-done
	}
}

// scene is a short play in which the lane is that of one of the roles.
func scene(w *world, who string, harmed *lane) {
	lane := func(role string) *lane {
		if role == who {
			return harmed
		}
		return w.calm()
	}
	w.master("m1", lane("master"))
	w.worker("w1", lane("worker"), says("w1"))
	s := w.submit(lane("submit"), task("a", "1"), task("", "2"))
	w.equal(s.wait(w), "done: w1 did 1", "done: w1 did 2")
	w.await("all are there", func(s layout.State) bool { return s.Master == "m1" && find(s, "w1").Status == idle })
	names := w.settled().Done
	once := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !layout.IsTask(name, "a") })
	if len(once) != 1 || who != "submit" && len(names) != 2 {
		w.Errorf("two tasks have the results %q", names)
	}
}
