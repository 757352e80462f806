package monitor

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations. An observation costs two atomic additions, takes no lock and
// allocates nothing; there may be any number of observers.
//
// Its buckets are those of Prometheus's native histograms with schema 2, four for each power
// of two of a second, so a quantile is at most a fifth above the truth. Numbers other than
// durations are counted as so many nanoseconds.
type Histogram struct {
	sum, max atomic.Int64
	min      atomic.Int64 // plus one; 0 means none yet
	buckets  [numBuckets]atomic.Int64
}

const (
	bucketsPerOctave = 4
	firstOctave      = -30 // the first bucket has everything up to 2^firstOctave s, about 1 ns
	lastOctave       = 14
	numBuckets       = (lastOctave-firstOctave)*bucketsPerOctave + 1
)

// bucketTops are the largest values of the buckets, in ns. Small ones repeat: no integer
// lies between them.
var bucketTops = func() (tops [numBuckets]int64) {
	for i := range tops {
		tops[i] = int64(1e9 * math.Exp2(firstOctave+float64(i)/bucketsPerOctave))
	}
	return tops
}()

// firstBuckets are, by the number of bits of a value, the first bucket that such a value can
// be in.
var firstBuckets = func() (first [65]uint8) {
	for n := range first {
		i := 0
		for i < numBuckets-1 && n > 0 && bucketTops[i] < 1<<(min(n, 63)-1) {
			i++
		}
		first[n] = uint8(i)
	}
	return first
}()

// bucketOf returns the bucket of a value that is not negative. The last one has all that is
// too large.
func bucketOf(v int64) int {
	i := int(firstBuckets[bits.Len64(uint64(v))])
	for i < numBuckets-1 && v > bucketTops[i] {
		i++
	}
	return i
}

// Observe records n durations of d each.
func (h *Histogram) Observe(d time.Duration, n int64) {
	v := max(int64(d), 0)
	h.sum.Add(v * n)
	h.buckets[bucketOf(v)].Add(n)
	for old := h.max.Load(); v > old && !h.max.CompareAndSwap(old, v); {
		old = h.max.Load()
	}
	for old := h.min.Load(); (old == 0 || v+1 < old) && !h.min.CompareAndSwap(old, v+1); {
		old = h.min.Load()
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() int64 { return Of(h).Count }

// Max returns the largest observation.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// Reset forgets all observations (the four-letter word srst). One that comes at
// the same time may be lost in part.
func (h *Histogram) Reset() {
	h.sum.Store(0)
	h.max.Store(0)
	h.min.Store(0)
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
}

// addTo adds what was observed so far to d.
func (h *Histogram) addTo(d *Distribution) {
	least := h.min.Load() - 1
	if least < 0 {
		return // nothing was observed
	}
	if d.Count == 0 || time.Duration(least) < d.Min {
		d.Min = time.Duration(least)
	}
	d.Max = max(d.Max, h.Max())
	d.Sum += time.Duration(h.sum.Load())
	for i := range h.buckets {
		n := h.buckets[i].Load()
		d.buckets[i] += n
		d.Count += n
	}
}

// Distribution is what one or several histograms had observed at some time.
type Distribution struct {
	Count         int64
	Sum, Min, Max time.Duration // 0 if Count is
	buckets       [numBuckets]int64
}

// Of returns the sum of histograms.
func Of(list ...*Histogram) *Distribution {
	d := &Distribution{}
	for _, h := range list {
		h.addTo(d)
	}
	return d
}

// Quantile returns the duration that a share q of the observations do not
// exceed.
func (d *Distribution) Quantile(q float64) time.Duration {
	want := int64(math.Ceil(q * float64(d.Count)))
	for i, n := range d.buckets {
		if want -= n; want <= 0 {
			return min(time.Duration(bucketTops[i]), d.Max)
		}
	}
	return d.Max
}

// Mean returns the mean, in ns.
func (d *Distribution) Mean() float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.Sum) / float64(d.Count)
}

// since returns what was observed after before, or everything if the histogram was reset
// meanwhile. Min and Max remain those of the whole.
func (d *Distribution) since(before *Distribution) *Distribution {
	if before == nil || d.Count < before.Count {
		return d
	}
	later := &Distribution{Count: d.Count - before.Count, Sum: d.Sum - before.Sum, Min: d.Min, Max: d.Max}
	for i := range later.buckets {
		if d.buckets[i] < before.buckets[i] {
			return d
		}
		later.buckets[i] = d.buckets[i] - before.buckets[i]
	}
	return later
}

// Window turns the distribution of all observations into that of the recent ones: of the
// current interval and the one before. An interval begins with the first look after the end
// of the previous one.
type Window struct {
	began        time.Duration
	before, prev *Distribution // at the beginnings of the previous interval, and of this one
}

// interval is that of Apache's provider of metrics for Prometheus.
const interval = time.Minute

// Recent returns the recent part of d, the distribution at the time now.
func (w *Window) Recent(d *Distribution, now time.Duration) *Distribution {
	if now-w.began >= interval {
		w.before, w.prev, w.began = w.prev, d, now
	}
	return d.since(w.before)
}
