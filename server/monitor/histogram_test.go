package monitor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramBucketsCoverAllValues(t *testing.T) {
	for i := range histogramBuckets - 1 {
		top := bucketTop(i)
		if got := bucketOf(top); got != i {
			t.Fatalf("bucket %d: its top %d is in bucket %d", i, top, got)
		}
		if got := bucketOf(top + 1); got != i+1 {
			t.Fatalf("bucket %d: %d is in bucket %d", i, top+1, got)
		}
	}
}

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l Histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rng.ExpFloat64() * 1e6)
		all = append(all, d)
		l.Observe(d, 1)
	}
	slices.Sort(all)
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(q*float64(len(all)))-1]
		if got := l.Quantile(q); got < want || float64(got) > 1.25*float64(want)+1 {
			t.Errorf("quantile %v: %v, want %v or up to 25%% more", q, got, want)
		}
	}
	l.Reset()
	if l.Quantile(0.5) != 0 || l.Mean() != 0 || l.Least() != 0 {
		t.Errorf("after reset: p50 %v mean %v min %v", l.Quantile(0.5), l.Mean(), l.Least())
	}
}
