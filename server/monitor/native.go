package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/zkd-project/zkd/jute"
)

// histograms are zkd's own distributions, in seconds. Prometheus takes them as native
// histograms where it scrapes those, and with a few classic buckets otherwise.
var histograms = []struct {
	desc *prometheus.Desc
	list func(m *Metrics, show func(h *Histogram, labels ...string))
}{
	{ownHistogram("zkd_request_seconds", "Time from the arrival of a request to its reply.", "op", "result"), func(m *Metrics, show func(*Histogram, ...string)) {
		for i, x := range ops {
			name := x.op.String()
			if x.op == jute.OpError {
				name = "other"
			}
			show(&m.Requests[i].ok, name, "ok")
			show(&m.Requests[i].failed, name, "error")
		}
	}},
	{ownHistogram("zkd_stage_seconds", "Time of a write in each stage: see docs/operations.md.", "stage"), func(m *Metrics, show func(*Histogram, ...string)) {
		show(&m.QueueTime, "queue")
		show(&m.Evaluation, "evaluate")
		show(&m.Logged, "log")
		show(&m.Committed, "commit")
		show(&m.AppliedOwn, "apply")
		show(&m.AppliedOthers, "apply_others")
	}},
	{ownHistogram("zkd_quorum_ack_seconds", "Time from the creation of a proposal until a quorum has it, at a leader."), one(func(m *Metrics) *Histogram { return &m.QuorumAck })},
	{ownHistogram("zkd_propagation_seconds", "Time from the leader's evaluation of a write until it is applied here, by both servers' wall clocks."), one(func(m *Metrics) *Histogram { return &m.Propagation })},
	{ownHistogram("zkd_apply_seconds", "Time under the tree's write lock to apply a batch of transactions."), one(func(m *Metrics) *Histogram { return &m.Applying })},
	{ownHistogram("zkd_election_seconds", "Time of an election."), one(func(m *Metrics) *Histogram { return &m.Election })},
	{ownHistogram("zkd_unavailable_seconds", "Time for which this server served no clients for want of a leader."), one(func(m *Metrics) *Histogram { return &m.Unavailable })},
}

func ownHistogram(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func one(of func(*Metrics) *Histogram) func(*Metrics, func(*Histogram, ...string)) {
	return func(m *Metrics, show func(*Histogram, ...string)) { show(of(m)) }
}

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

func (d *Distribution) metric(desc *prometheus.Desc, created time.Time, labels []string) prometheus.Metric {
	native := make(map[int]int64)
	for i, n := range d.buckets[1:] {
		if n > 0 {
			native[firstOctave*bucketsPerOctave+1+i] = n
		}
	}
	s := shown{Metric: prometheus.MustNewConstNativeHistogram(desc, uint64(d.Count), d.Sum.Seconds(), native, nil,
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
