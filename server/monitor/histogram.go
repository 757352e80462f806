package monitor

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram is a Durations or a Counts.
type Histogram interface {
	Reset()
	addTo(*Distribution)
}

// Durations is a histogram of durations.
type Durations struct{ histogram }

// Observe records n durations of d each.
func (h *Durations) Observe(d time.Duration, n int64) { h.observe(int64(d), n) }

// Max returns the longest duration.
func (h *Durations) Max() time.Duration { return time.Duration(h.max.Load()) }

// addTo adds what was observed so far to d.
func (h *Durations) addTo(d *Distribution) { h.histogram.addTo(d, Nanoseconds) }

// Counts is a histogram of numbers of things.
type Counts struct{ histogram }

// Observe records one number.
func (h *Counts) Observe(n int) { h.observe(int64(n), 1) }

// Max returns the largest number.
func (h *Counts) Max() int64 { return h.max.Load() }

// addTo adds what was observed so far to d.
func (h *Counts) addTo(d *Distribution) { h.histogram.addTo(d, Things) }

// histogram counts values of one unit. An observation costs two atomic additions, takes no
// lock and allocates nothing; there may be any number of observers.
//
// Its buckets are those of Prometheus's native histograms with schema 2, four for each power
// of two of 1e9, which is a second in nanoseconds, so a quantile is at most a fifth above the
// truth.
type histogram struct {
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

// bucketTops are the largest values of the buckets. Small ones repeat: no integer
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

// observe records a value n times.
func (h *histogram) observe(v, n int64) {
	v = max(v, 0)
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
func (h *histogram) Count() (n int64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// Reset forgets all observations (the four-letter word srst). One that comes at
// the same time may be lost in part.
func (h *histogram) Reset() {
	h.sum.Store(0)
	h.max.Store(0)
	h.min.Store(0)
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
}

// addTo adds what was observed so far, in a unit, to d.
func (h *histogram) addTo(d *Distribution, u Unit) {
	d.Unit = u
	least := h.min.Load() - 1
	if least < 0 {
		return // nothing was observed
	}
	if d.Count == 0 || least < d.Min {
		d.Min = least
	}
	d.Max = max(d.Max, h.max.Load())
	d.Sum += h.sum.Load()
	for i := range h.buckets {
		n := h.buckets[i].Load()
		d.buckets[i] += n
		d.Count += n
	}
}

// Unit is the unit of a distribution's values.
type Unit uint8

const (
	Nanoseconds Unit = iota // of a Durations
	Things                  // of a Counts
)

// Distribution is what one or several histograms of one unit had observed at some time.
type Distribution struct {
	Unit          Unit
	Count         int64
	Sum, Min, Max int64 // 0 if Count is
	buckets       [numBuckets]int64
}

// Of returns the sum of histograms.
func Of(list ...Histogram) *Distribution {
	d := &Distribution{}
	for _, h := range list {
		h.addTo(d)
	}
	return d
}

// Quantile returns the value that a share q of the observations do not exceed.
func (d *Distribution) Quantile(q float64) int64 {
	want := int64(math.Ceil(q * float64(d.Count)))
	for i, n := range d.buckets {
		if want -= n; want <= 0 {
			return min(bucketTops[i], d.Max)
		}
	}
	return d.Max
}

// Mean returns the mean.
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
	later := &Distribution{Unit: d.Unit, Count: d.Count - before.Count, Sum: d.Sum - before.Sum, Min: d.Min, Max: d.Max}
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
