package clients

import (
	"runtime"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/watch"
)

// TestTreeIsFreeWhileWatchesAreDropped ends a connection while its watches can't be removed,
// as the table is busy. Meanwhile the applier gets the tree; if it didn't, this would hang.
func TestTreeIsFreeWhileWatchesAreDropped(t *testing.T) {
	s, _ := newTestClients(t)
	c := newTestConn(t, s)
	s.conns.Add(&c.line, c.ip(), 0, 0)
	establish(t, c, 1)
	watching(t, c, "/n", "/busy")
	w, _ := c.line.WatchHandle()
	forgotten := make(chan struct{})
	s.state.Watches.Trigger(jute.EventDataChanged, "/busy", func(watch.Watcher) {
		go func() {
			s.forget(c)
			close(forgotten)
		}()
		for gone := false; !gone; runtime.Gosched() {
			c.mu.Lock()
			gone = c.line.Gone()
			c.mu.Unlock()
		}
		s.state.Lock()
		//lint:ignore SA2001 it is enough to have had the lock
		s.state.Unlock()
		if s.conns.Watcher(w) != &c.line {
			t.Error("the handle is free although there are watches of it")
		}
	})
	<-forgotten
	if n := s.state.Watches.Count(); n != 0 || s.conns.Watcher(w) != nil {
		t.Errorf("%d watches are left, and the handle is of %v", n, s.conns.Watcher(w))
	}
}
