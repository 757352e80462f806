package client

import (
	"fmt"
	"testing"
)

// TestWatchPending shows that a watch has events pending until all have been
// received, those included that have overflowed the channel.
func TestWatchPending(t *testing.T) {
	for _, n := range []int{0, 1, persistentBuffer, persistentBuffer + 1, 10 * persistentBuffer} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := (&Client{}).newWatch("/a", watchRecursive)
			for range n {
				w.fire(Event{Type: EventCreated, Path: "/a/b"})
			}
			got := 0
			for w.Pending() {
				select {
				case <-w.Events():
					got++
				default: // on its way into the channel
				}
			}
			if got != n {
				t.Errorf("%d events received when none was pending, want %d", got, n)
			}
			if w.Fired() {
				t.Error("a persistent watch counts as fired")
			}
		})
	}
}

func TestWatchFired(t *testing.T) {
	w := (&Client{}).newWatch("/a", watchData)
	if w.Fired() {
		t.Error("fired before its event")
	}
	w.fire(Event{Type: EventDataChanged, Path: "/a"})
	if !w.Fired() || !w.Pending() {
		t.Errorf("after its event: fired %v, pending %v", w.Fired(), w.Pending())
	}
	<-w.Events()
	if !w.Fired() || w.Pending() {
		t.Errorf("after it was received: fired %v, pending %v", w.Fired(), w.Pending())
	}
}
