package clients

import (
	"runtime"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/watch"
)

// TestTreeIsFreeWhileWatchesAreDropped ends a connection while its watches can't be removed,
// as the table is busy. Meanwhile the applier gets the tree; if it didn't, this would hang.
func TestTreeIsFreeWhileWatchesAreDropped(t *testing.T) {
	s, _ := newTestClients(t)
	c := newTestConn(t, s)
	s.register.Add(&c.line.Line, c.identity.ip(), register.Direct, register.Most{})
	establish(t, c, 1)
	watching(t, c, "/n", "/busy")
	w, _ := c.line.WatchHandle()
	forgotten := make(chan struct{})
	s.state.Watches.Trigger(jute.EventDataChanged, "/busy", func(watch.Watcher) {
		go func() {
			c.forget()
			close(forgotten)
		}()
		for gone := false; !gone; runtime.Gosched() {
			c.line.Lock()
			gone = c.line.Outbox.Gone()
			c.line.Unlock()
		}
		s.state.Lock()
		//lint:ignore SA2001 it is enough to have had the lock
		s.state.Unlock()
		if s.register.Watcher(w) != &c.line.Line {
			t.Error("the handle is free although there are watches of it")
		}
	})
	<-forgotten
	if n := s.state.Watches.Count(); n != 0 || s.register.Watcher(w) != nil {
		t.Errorf("%d watches are left, and the handle is of %v", n, s.register.Watcher(w))
	}
}
