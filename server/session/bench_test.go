package session_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
)

func filled(n int) *session.Tracker {
	tracker := session.NewTracker(2000)
	for i := range n {
		tracker.Add(jute.SessionID(1<<56+i), int32(4000+i%30_000), 0)
	}
	return tracker
}

// BenchmarkTouch touches one session for each goroutine, with a clock that advances at
// 100,000 packets per second.
func BenchmarkTouch(b *testing.B) {
	tracker := filled(10_000)
	var next atomic.Int64
	b.Run("session", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			s := tracker.Get(jute.SessionID(1<<56 + next.Add(1)))
			for i := int64(0); pb.Next(); i++ {
				s.Touch(i/100, 10_000)
			}
		})
	})
	b.Run("id", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			id := jute.SessionID(1<<56 + next.Add(1))
			for i := int64(0); pb.Next(); i++ {
				tracker.Touch(id, i/100, 10_000)
			}
		})
	})
}

// BenchmarkExpire moves every session to a later bucket once each tick, as when all are
// alive.
func BenchmarkExpire(b *testing.B) {
	const n, timeout = 10_000, 2000
	tracker := session.NewTracker(2000)
	var all []*session.Session
	for i := range n {
		s, _ := tracker.Add(jute.SessionID(i), timeout, 0)
		all = append(all, s)
	}
	b.ReportAllocs()
	for now := int64(2000); b.Loop(); now += 2000 {
		for _, s := range all {
			s.Touch(now, timeout)
		}
		if expired := tracker.Expire(now, nil); len(expired) > 0 {
			b.Fatalf("%d expired", len(expired))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			var used float64
			for b.Loop() {
				before := heap()
				tracker := filled(n)
				used = float64(heap() - before)
				runtime.KeepAlive(tracker)
			}
			b.ReportMetric(used/float64(n), "B/session")
			b.ReportMetric(used/1e6, "MB")
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
