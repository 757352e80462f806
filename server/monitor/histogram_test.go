package monitor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramBucketsCoverAllValues(t *testing.T) {
	for i := range numBuckets - 1 {
		top := bucketTops[i]
		if got := bucketOf(top); bucketTops[got] != top || got > 0 && bucketTops[got-1] == top {
			t.Fatalf("bucket %d: its top %d is in bucket %d", i, top, got)
		}
		if got := bucketOf(top + 1); bucketTops[got] <= top || bucketTops[got-1] > top {
			t.Fatalf("bucket %d: %d is in bucket %d", i, top+1, got)
		}
	}
	for v, want := range map[int64]int{0: 0, 1e9: -firstOctave * bucketsPerOctave, 2e9: (1 - firstOctave) * bucketsPerOctave, math.MaxInt64: numBuckets - 1} {
		if got := bucketOf(v); bucketTops[got] != bucketTops[want] {
			t.Errorf("%d is in bucket %d, want %d", v, got, want)
		}
	}
}

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l Durations
	var all []int64
	for range 10_000 {
		d := time.Duration(rng.ExpFloat64() * 1e6)
		all = append(all, int64(d))
		l.Observe(d, 1)
	}
	slices.Sort(all)
	d := Of(&l)
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(q*float64(len(all)))-1]
		if got := d.Quantile(q); got < want || float64(got) > 1.2*float64(want)+1 {
			t.Errorf("quantile %v: %v, want %v or up to a fifth more", q, got, want)
		}
	}
	if d.Count != 10_000 || d.Min != all[0] || d.Max != all[len(all)-1] {
		t.Errorf("%d observations from %v to %v, want 10000 from %v to %v", d.Count, d.Min, d.Max, all[0], all[len(all)-1])
	}
	l.Reset()
	if d := Of(&l); *d != (Distribution{}) {
		t.Errorf("after reset: p50 %v mean %v min %v", d.Quantile(0.5), d.Mean(), d.Min)
	}
}

// Numbers are numbers: they are never shown as times.
func TestCounts(t *testing.T) {
	var c Counts
	c.Observe(3)
	c.Observe(5)
	if d := Of(&c); d.Unit != Things || d.Count != 2 || d.Sum != 8 || d.Min != 3 || d.Max != 5 || c.Max() != 5 || c.Count() != 2 {
		t.Errorf("got %d numbers in unit %d, sum %d, %d to %d", d.Count, d.Unit, d.Sum, d.Min, d.Max)
	}
}

func TestSumOfHistograms(t *testing.T) {
	var a, b, empty Durations
	a.Observe(2*time.Millisecond, 3)
	b.Observe(time.Millisecond, 1)
	d := Of(&empty, &a, &b)
	if d.Count != 4 || d.Sum != 7e6 || d.Min != 1e6 || d.Max != 2e6 {
		t.Errorf("got %d observations, sum %v, %v to %v", d.Count, d.Sum, d.Min, d.Max)
	}
}

// A window shows the interval before and this one, so what is older than two minutes goes.
func TestWindowForgets(t *testing.T) {
	var h Durations
	var w Window
	look := func(at time.Duration) int64 { return w.Recent(Of(&h), at).Count }
	h.Observe(time.Second, 1)
	steps := []struct {
		at      time.Duration
		observe int64
		want    int64
	}{
		{10 * time.Second, 0, 1}, // of the first minute
		{60 * time.Second, 2, 3},
		{90 * time.Second, 4, 7},
		{120 * time.Second, 0, 4},  // those before 60 s are forgotten
		{180 * time.Second, 0, 0},  // those before 120 s, too
		{3600 * time.Second, 5, 5}, // nobody looked for an hour
	}
	for _, s := range steps {
		if s.observe > 0 {
			h.Observe(time.Second, s.observe)
		}
		if got := look(s.at); got != s.want {
			t.Errorf("at %v: %d observations, want %d", s.at, got, s.want)
		}
	}
	h.Reset()
	h.Observe(time.Second, 1)
	if got := look(3601 * time.Second); got != 1 {
		t.Errorf("after a reset: %d observations, want 1", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Durations
	b.ReportAllocs()
	for i := range b.N {
		h.Observe(time.Duration(i&0xfffff), 1)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	var h Durations
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
