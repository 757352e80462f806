package server

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// latency is a histogram of durations that costs a few atomic additions for
// each observation and takes any number of observers. Its buckets grow by a
// quarter of a power of two, so a quantile is at most 25 % above the truth.
type latency struct {
	count, sum, max atomic.Int64
	min             atomic.Int64 // plus one; 0 means none yet
	buckets         [latencyBuckets]atomic.Int64
}

const latencyBuckets = 4 * 60

// observe records n durations of d each.
func (l *latency) observe(d time.Duration, n int64) {
	v := max(int64(d), 0)
	l.count.Add(n)
	l.sum.Add(v * n)
	l.buckets[bucketOf(v)].Add(n)
	for old := l.max.Load(); v > old && !l.max.CompareAndSwap(old, v); {
		old = l.max.Load()
	}
	for old := l.min.Load(); (old == 0 || v+1 < old) && !l.min.CompareAndSwap(old, v+1); {
		old = l.min.Load()
	}
}

// bucketOf puts the values from 2^k to 2^(k+1) into four buckets.
func bucketOf(v int64) int {
	if v < 4 {
		return int(v)
	}
	k := bits.Len64(uint64(v)) - 1
	return min(4*(k-1)+int(v>>(k-2)&3), latencyBuckets-1)
}

// bucketTop is the largest value of a bucket.
func bucketTop(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	k := i/4 + 1
	return (int64(4+i%4)+1)<<(k-2) - 1
}

// quantile returns the duration that a share q of the observations do not
// exceed.
func (l *latency) quantile(q float64) time.Duration {
	want := int64(math.Ceil(q * float64(l.count.Load())))
	for i := range l.buckets {
		if want -= l.buckets[i].Load(); want <= 0 {
			return time.Duration(min(bucketTop(i), l.max.Load()))
		}
	}
	return time.Duration(l.max.Load())
}

// mean, least and most are in milliseconds, as ZooKeeper shows latencies.
func (l *latency) mean() float64 {
	n := l.count.Load()
	if n == 0 {
		return 0
	}
	return float64(l.sum.Load()) / float64(n) / 1e6
}

func (l *latency) least() int64 { return max(l.min.Load()-1, 0) / 1e6 }
func (l *latency) most() int64  { return l.max.Load() / 1e6 }

// reset forgets all observations (the four-letter word srst). One that comes at
// the same time may be lost in part.
func (l *latency) reset() {
	l.count.Store(0)
	l.sum.Store(0)
	l.max.Store(0)
	l.min.Store(0)
	for i := range l.buckets {
		l.buckets[i].Store(0)
	}
}
