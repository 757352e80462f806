package transport

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestWindowOverALongPath has a sender that waits for a reply of 60 ms after each burst, as an
// ensemble over a wide area does: the window stays, and is forgotten after several round trips.
func TestWindowOverALongPath(t *testing.T) {
	const trip = 60 * time.Millisecond
	var base atomic.Int64
	base.Store(int64(trip))
	p := newPacer(10*time.Millisecond, &base)
	now := time.Unix(1000, 0)
	p.window, p.wroteAt = 1<<20, now
	for range 10 {
		if room := p.room(1, now); room < 512<<10 {
			t.Fatalf("there is room for %d bytes only", room)
		}
		p.write(0, 512<<10, now)
		now = now.Add(trip)
		if !p.credit(p.sent, now) {
			t.Fatal("the credit is refused")
		}
	}
	now = now.Add(windowTrips * trip)
	if room := p.room(1, now); room != firstWindow {
		t.Errorf("after a pause there is room for %d bytes, want %d", room, firstWindow)
	}
}

// TestWindowGrowsAsFastAsTCP has a sender with more to send than its window, over a long path
// without a queue: the window doubles in each round trip, and no more, since the path may be full.
func TestWindowGrowsAsFastAsTCP(t *testing.T) {
	const trip = 200 * time.Millisecond
	var base atomic.Int64
	base.Store(int64(trip))
	p := newPacer(100*time.Millisecond, &base)
	now := time.Unix(1000, 0)
	for want := firstWindow; want <= mostWindow; want *= 2 {
		if p.window != want {
			t.Fatalf("the window is %d, want %d", p.window, want)
		}
		p.write(0, p.room(1, now), now)
		if room := p.room(1, now); room != 0 {
			t.Fatalf("there is room for %d bytes in a full window", room)
		}
		now = now.Add(trip)
		if !p.credit(p.sent, now) {
			t.Fatal("the credit is refused")
		}
	}
}
