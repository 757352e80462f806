package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what one run measured. Its JSON is an interface: fields are added,
// not renamed.
type Result struct {
	Workload    Workload `json:"workload"`
	Servers     []string `json:"servers"`
	Connections int      `json:"connections"`
	Window      int      `json:"window"`
	ValueSize   int      `json:"value_bytes"`
	Root        string   `json:"root,omitempty"` // node that was left, with Config.Keep
	Last        string   `json:"last,omitempty"` // Load: path of the last node, with Config.Keep
	Ops         int64    `json:"operations"`
	Seconds     float64  `json:"seconds"` // from the first request to the last reply
	Rate        float64  `json:"operations_per_second"`
	Wrong       int64    `json:"wrong_replies"`
	FirstWrong  string   `json:"first_wrong_reply,omitempty"`
	Latency     *Latency `json:"latency,omitempty"`
	// Watch: from the write of a set to the arrival of each watcher's event.
	Notifications *Latency `json:"notifications,omitempty"`
	Server        *Usage   `json:"server,omitempty"` // with Target.Pids
	Generator     Usage    `json:"generator"`
	Idle          *Hold    `json:"idle,omitempty"`
	Outage        *Outage  `json:"outage,omitempty"`
}

// Latency is a distribution in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// Usage is what processes used during a measurement.
type Usage struct {
	CPUSeconds      float64 `json:"cpu_seconds"`
	CPUPerThousand  float64 `json:"cpu_seconds_per_1000_operations"`
	RSSBefore       int64   `json:"rss_before_bytes,omitempty"`
	RSSAfter        int64   `json:"rss_after_bytes,omitempty"`
	RSSPerOperation float64 `json:"rss_growth_per_operation_bytes,omitempty"` // Idle, Load
}

// Hold is what the idle sessions cost while they were held.
type Hold struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"server_cpu_seconds,omitempty"`
}

// summarize turns a histogram of ns into a Latency, nil if it is empty.
func summarize(h *hdrhistogram.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(ns float64) float64 { return ns / 1e3 }
	at := func(percent float64) float64 { return us(float64(h.ValueAtPercentile(percent))) }
	return &Latency{
		Count: h.TotalCount(),
		Mean:  us(h.Mean()),
		P50:   at(50),
		P90:   at(90),
		P99:   at(99),
		P999:  at(99.9),
		Max:   us(float64(h.Max())),
	}
}

// meter measures what is used between its start and its end.
type meter struct {
	pids   []int
	began  int64
	server usage
	own    time.Duration
}

func startMeter(cl clock, pids []int) (*meter, error) {
	u, err := processUsage(pids)
	if err != nil {
		return nil, err
	}
	return &meter{pids: pids, server: u, own: ownCPU(), began: cl.now()}, nil
}

// finish writes the figures of the operations of s into r.
func (m *meter) finish(r *Result, s *span) error {
	own := ownCPU() - m.own
	after, err := processUsage(m.pids)
	if err != nil {
		return err
	}
	r.Ops = s.ops
	r.Latency = summarize(s.latency)
	if s.ops > 0 {
		r.Seconds = time.Duration(s.last - m.began).Seconds()
		r.Rate = float64(s.ops) / r.Seconds
	}
	r.Generator = newUsage(own, s.ops)
	if len(m.pids) > 0 {
		u := newUsage(after.cpu-m.server.cpu, s.ops)
		u.RSSBefore, u.RSSAfter = m.server.rss, after.rss
		r.Server = &u
	}
	return nil
}

func newUsage(cpu time.Duration, ops int64) Usage {
	u := Usage{CPUSeconds: cpu.Seconds()}
	if ops > 0 {
		u.CPUPerThousand = cpu.Seconds() / float64(ops) * 1000
	}
	return u
}

// growth notes how much resident memory each operation cost.
func (r *Result) growth() {
	if r.Server != nil && r.Ops > 0 {
		r.Server.RSSPerOperation = float64(r.Server.RSSAfter-r.Server.RSSBefore) / float64(r.Ops)
	}
}
