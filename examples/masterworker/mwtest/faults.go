package mwtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// faults breaks the connection of each role before and after each request that it
// makes, one run for each, and the same with its session ended in addition.
func faults(t *testing.T, sys program.System, servers *zktest.Proxy) {
	for _, who := range []string{"master", "worker", "submit"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			requests := 0
			t.Run("unharmed", func(t *testing.T) {
				w := newWorld(t, sys, servers)
				l := w.lane()
				rec := l.Record()
				scene(w, who, l)
				requests = len(rec.All())
			})
			for n := 1; n <= requests; n++ {
				for _, kind := range []string{"cut-before", "cut-after", "expired-before", "expired-after"} {
					t.Run(fmt.Sprintf("%s-%d", kind, n), func(t *testing.T) {
						t.Parallel()
						w := newWorld(t, sys, servers)
						l := w.lane()
						defer harm(l, kind, n)()
						scene(w, who, l)
					})
				}
			}
		})
	}
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
		return w.lane()
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
