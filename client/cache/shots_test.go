package cache

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/zkd-project/zkd/client"
)

// One-shot watches cost no goroutines, but for some at the end.
func TestShotsCostNoGoroutines(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	for i := range 300 {
		w.create(fmt.Sprintf("/%d", i), "")
	}
	c := w.client()
	w.must(c.WaitConnected(w.ctx))
	before := runtime.NumGoroutine()
	k, err := Open(w.ctx, c, w.root, Options{OneShot: true})
	w.must(err)
	w.must(k.WaitReady(w.ctx))
	if more := runtime.NumGoroutine() - before; more > 100 {
		t.Errorf("%d goroutines for 602 watches", more)
	}
	k.Close()
	if err := c.Session().CheckWatches(w.ctx, w.root+"/7", client.DataWatches); err == nil {
		t.Error("the server has a watch still")
	}
}

// The loop may come to a watch's event before it comes to the read that has set it.
func TestShotThatFiredBeforeItWasTakenOn(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	node2, err := w.client().GetW(w.ctx, w.root)
	w.must(err)
	s := shots{set: map[shot]*client.Watch{}}
	sh := shot{w.root, false}
	if !s.add(sh, node2.Watch) || !s.has(w.root, false) || s.has(w.root, true) {
		t.Error("a watch was not taken on")
	}
	if _, ok := s.fired(node2.Watch); !ok || s.has(w.root, false) {
		t.Error("a watch that has fired is there still")
	}
	w.set("", "")
	<-node2.Watch.Events()
	if s.add(sh, node2.Watch) || s.has(w.root, false) {
		t.Error("a watch that has fired was taken on")
	}
	if _, ok := s.fired(node2.Watch); ok {
		t.Error("it is said to have fired twice")
	}
}
