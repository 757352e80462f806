package session_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
)

// TestConcurrent touches sessions from several goroutines while the clock runs and others
// expire and close them. No session may expire before its timeout after a touch that
// succeeded, and each is closed by one caller.
func TestConcurrent(t *testing.T) {
	const (
		sessions, rounds = 4, 100_000
		timeout, tick    = 3, 1
	)
	tracker := session.NewTracker(tick)
	var clock atomic.Int64
	var closed [sessions]atomic.Int32
	var closedAt [sessions]atomic.Int64 // the time that Expire used
	var touchers, wg sync.WaitGroup
	stop := make(chan struct{})
	until := func(f func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	until(func() {
		now := clock.Load()
		for _, id := range tracker.Expire(now, nil) {
			closedAt[id].Store(now)
			closed[id].Add(1) // now its toucher may remove it
		}
	})
	until(func() {
		if tracker.MarkClosing(0) {
			closedAt[0].Store(math.MaxInt64) // regardless of time
			closed[0].Add(1)
		}
		tracker.Buckets()
	})
	for i := range sessions {
		touchers.Go(func() {
			id, heard := jute.SessionID(i), int64(0) // time of the last touch that succeeded
			s, _ := tracker.Add(id, timeout, 0)
			for range rounds {
				now, closes := clock.Add(1), closed[i].Load()
				if s.Touch(now, timeout) {
					heard = now
				}
				if closes == 0 {
					continue
				}
				if at := closedAt[i].Load(); closes != 1 || !s.Closing() || at <= heard+timeout {
					t.Errorf("session %v, heard of at %d, was closed %d times, at %d, and is closing: %v",
						id, heard, closes, at, s.Closing())
				}
				closed[i].Store(0)
				tracker.Remove(id)
				s, _ = tracker.Add(id, timeout, clock.Load())
			}
		})
	}
	touchers.Wait()
	close(stop)
	wg.Wait()
}

// TestLeaderLoop runs the tracker like a leader, with a ticker, in fake time: a session
// that was heard of until 10 s lives for its timeout after that and at most a tick
// longer.
func TestLeaderLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, timeout = 2 * time.Second, 4 * time.Second
		start := time.Now()
		now := func() int64 { return time.Since(start).Milliseconds() }
		tracker := session.NewTracker(tick.Milliseconds())
		s, _ := tracker.Add(1, int32(timeout.Milliseconds()), now())

		go func() {
			for range 10 {
				time.Sleep(time.Second)
				s.Touch(now(), s.TimeoutMs())
			}
		}()
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		var expired time.Duration
		for expired == 0 {
			<-ticker.C
			if len(tracker.Expire(now(), nil)) > 0 {
				expired = time.Since(start)
			}
		}
		lived := expired - 10*time.Second
		if lived <= timeout || lived > timeout+tick {
			t.Errorf("lived %v after the last touch, want more than %v and at most %v", lived, timeout, timeout+tick)
		}
	})
}

// TestTouchAllocatesNothing also covers the tracker's part of a write.
func TestTouchAllocatesNothing(t *testing.T) {
	tracker := session.NewTracker(2000)
	s, _ := tracker.Add(1, 4000, 0)
	now := int64(0)
	calls := map[string]func(){
		"Session.Touch":      func() { now += 500; s.Touch(now, 4000) },
		"Tracker.Touch":      func() { now += 500; tracker.Touch(1, now, 4000) },
		"Tracker.CheckOwner": func() { _ = tracker.CheckOwner(1, 7) },
		"idle Expire":        func() { tracker.Expire(0, nil) },
	}
	for name, call := range calls {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s makes %v allocations, want none", name, n)
		}
	}
}

// TestRemovedSessionIsClosing keeps a session after its removal, as a connection may.
func TestRemovedSessionIsClosing(t *testing.T) {
	tracker := session.NewTracker(2000)
	old, _ := tracker.Add(1, 4000, 0)
	tracker.Remove(1)
	young, _ := tracker.Add(1, 4000, 0)
	if !old.Closing() || old.Touch(1, 4000) || old.CheckOwner(7) != jute.ErrSessionExpired {
		t.Error("a removed session can still be used")
	}
	if young.Closing() || !young.Touch(1, 4000) {
		t.Error("the session that has its id now can't be used")
	}
}

// TestPause: a clock that is looked at a little late has not been stopped.
func TestPause(t *testing.T) {
	for _, tt := range []struct{ since, period, want int64 }{
		{0, 100, 0}, {100, 100, 0}, {199, 100, 0}, {200, 100, 0}, {201, 100, 101}, {5000, 100, 4900},
	} {
		if got := session.Pause(tt.since, tt.period); got != tt.want {
			t.Errorf("looked at %d ms ago, each %d: paused for %d ms, want %d", tt.since, tt.period, got, tt.want)
		}
	}
}
