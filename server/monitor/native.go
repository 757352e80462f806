package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// classicStep and the bounds are those of the classic buckets, in octaves of a second: from
// 61 us to 16 s, each four times the one before.
const (
	classicStep  = 2
	classicFirst = -14
	classicLast  = 4
)

// shown is a distribution as Prometheus's metric: a native histogram that has classic buckets,
// too.
type shown struct {
	prometheus.Metric
	classic []*dto.Bucket
}

// Metric returns the distribution, which is one of durations, for Prometheus.
func (d *Distribution) Metric(desc *prometheus.Desc, created time.Time, labels []string) prometheus.Metric {
	native := make(map[int]int64)
	for i, n := range d.buckets[1:] {
		if n > 0 {
			native[firstOctave*bucketsPerOctave+1+i] = n
		}
	}
	s := shown{Metric: prometheus.MustNewConstNativeHistogram(desc, uint64(d.Count), time.Duration(d.Sum).Seconds(), native, nil,
		uint64(d.buckets[0]), 2, 1.0/(1<<-firstOctave), created, labels...)}
	next, upTo := 0, uint64(0)
	for octave := classicFirst; octave <= classicLast; octave += classicStep {
		for ; next <= (octave-firstOctave)*bucketsPerOctave; next++ {
			upTo += uint64(d.buckets[next])
		}
		top := 1.0
		if octave < 0 {
			top /= float64(int(1) << -octave)
		} else {
			top *= float64(int(1) << octave)
		}
		s.classic = append(s.classic, &dto.Bucket{CumulativeCount: new(upTo), UpperBound: new(top)})
	}
	return s
}

// Write is part of prometheus.Metric.
func (s shown) Write(m *dto.Metric) error {
	err := s.Metric.Write(m)
	m.Histogram.Bucket = s.classic
	return err
}
