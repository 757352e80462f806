package monitor

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations, in a way that costs a few atomic additions for
// each observation and takes any number of observers. Its buckets grow by a
// quarter of a power of two, so a quantile is at most 25 % above the truth.
type Histogram struct {
	count, sum, max atomic.Int64
	min             atomic.Int64 // plus one; 0 means none yet
	buckets         [histogramBuckets]atomic.Int64
}

const histogramBuckets = 4 * 60

// Observe records n durations of d each.
func (h *Histogram) Observe(d time.Duration, n int64) {
	v := max(int64(d), 0)
	h.count.Add(n)
	h.sum.Add(v * n)
	h.buckets[bucketOf(v)].Add(n)
	for old := h.max.Load(); v > old && !h.max.CompareAndSwap(old, v); {
		old = h.max.Load()
	}
	for old := h.min.Load(); (old == 0 || v+1 < old) && !h.min.CompareAndSwap(old, v+1); {
		old = h.min.Load()
	}
}

// bucketOf puts the values from 2^k to 2^(k+1) into four buckets.
func bucketOf(v int64) int {
	if v < 4 {
		return int(v)
	}
	k := bits.Len64(uint64(v)) - 1
	return min(4*(k-1)+int(v>>(k-2)&3), histogramBuckets-1)
}

// bucketTop is the largest value of a bucket.
func bucketTop(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	k := i/4 + 1
	return (int64(4+i%4)+1)<<(k-2) - 1
}

// Quantile returns the duration that a share q of the observations do not
// exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := int64(math.Ceil(q * float64(h.count.Load())))
	for i := range h.buckets {
		if want -= h.buckets[i].Load(); want <= 0 {
			return time.Duration(min(bucketTop(i), h.max.Load()))
		}
	}
	return time.Duration(h.max.Load())
}

// Mean, Least and Most are in milliseconds, as ZooKeeper shows latencies.
func (h *Histogram) Mean() float64 {
	n := h.count.Load()
	if n == 0 {
		return 0
	}
	return float64(h.sum.Load()) / float64(n) / 1e6
}

// Least is 0 before the first observation.
func (h *Histogram) Least() int64 { return max(h.min.Load()-1, 0) / 1e6 }

// Most is the largest observation.
func (h *Histogram) Most() int64 { return h.max.Load() / 1e6 }

// Reset forgets all observations (the four-letter word srst). One that comes at
// the same time may be lost in part.
func (h *Histogram) Reset() {
	h.count.Store(0)
	h.sum.Store(0)
	h.max.Store(0)
	h.min.Store(0)
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() int64 { return h.count.Load() }

// Sum returns the sum of all observations.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }

// Max returns the largest observation.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }
