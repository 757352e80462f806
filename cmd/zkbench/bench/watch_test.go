package bench

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// A watcher that hears of one set twice does not stand in for another that has
// heard nothing.
func TestDoubledEvent(t *testing.T) {
	r := &run{root: "/zb-00000000"}
	f := &fanout{r: r, name: r.dirs(), all: make(chan int64, 1), heard: make([]int64, 2)}
	f.measureEvents()
	f.left.Store(2)
	f.set.Store(5)
	event := jute.AppendInt32(nil, jute.EventDataChanged)
	event = jute.AppendInt32(event, jute.StateSyncConnected)
	event = jute.AppendString(event, r.dir(0))
	for _, watcher := range []int{0, 0} {
		if err := f.event(watcher, 7, event); err != nil {
			t.Fatal(err)
		}
	}
	if extra, left := f.extra.Load(), f.left.Load(); extra != 1 || left != 1 {
		t.Errorf("%d events too many, %d watchers left; want 1 and 1", extra, left)
	}
	if err := f.event(1, 9, event); err != nil {
		t.Fatal(err)
	}
	if last := <-f.all; last != 9 {
		t.Errorf("the last event came at %d, want 9", last)
	}
	if l := f.measureEvents(); l.Count != 2 {
		t.Errorf("%d events are measured, want 2", l.Count)
	}
}
