package monitor

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/server/limits"
)

// transferNumbers tell how far snapshots on their way have got.
var transferNumbers = []struct {
	done, size *prometheus.Desc
	list       func(*Reading) []Transfer
}{
	{
		prometheus.NewDesc("zkd_snapshot_sent_bytes", "Bytes of the snapshot on its way to a server that have been sent.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_sending_bytes", "Size of the snapshot on its way to a server.", []string{"peer"}, nil),
		func(r *Reading) []Transfer { return r.Sending },
	},
	{
		prometheus.NewDesc("zkd_snapshot_received_bytes", "Bytes of the snapshot on its way from a server that have come.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_receiving_bytes", "Size of the snapshot on its way from a server.", []string{"peer"}, nil),
		func(r *Reading) []Transfer { return r.Arriving },
	},
}

// heldNumbers show what is held, by part: see Holding.
var heldNumbers = []struct {
	desc  *prometheus.Desc
	value func(*Holding) int64
}{
	{prometheus.NewDesc("zkd_held_items", "What is under way, by part.", []string{"part"}, nil), func(h *Holding) int64 { return h.Items }},
	{prometheus.NewDesc("zkd_held_bytes", "Memory of what is under way, by part.", []string{"part"}, nil), func(h *Holding) int64 { return h.Bytes }},
	{prometheus.NewDesc("zkd_held_limit_bytes", "Bound of zkd_held_bytes, by part; 0 where another part bounds it.", []string{"part"}, nil), func(h *Holding) int64 { return h.Limit }},
}

// limitNumbers show what the rules that limit clients have caused.
var limitNumbers = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*limits.Figure) int64
}{
	{limitDesc("zkd_limit_over_total", "Uses above the soft limit of a rule."), prometheus.CounterValue, func(f *limits.Figure) int64 { return f.Over }},
	{limitDesc("zkd_limit_slowed_total", "Requests that had to wait for the hard limit of a rule."), prometheus.CounterValue, func(f *limits.Figure) int64 { return f.Slowed }},
	{limitDesc("zkd_limit_refused_total", "Connections, sessions and requests refused by the hard limit of a rule."), prometheus.CounterValue, func(f *limits.Figure) int64 { return f.Refused }},
	{limitDesc("zkd_limit_subjects", "Identities, addresses or subtrees that a rule counts for now."), prometheus.GaugeValue, func(f *limits.Figure) int64 { return int64(f.Subjects) }},
}

func limitDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"rule", "resource"}, nil)
}

// collector shows what a server's readings have to Prometheus.
type collector struct {
	read      func() *Reading
	table     []number
	metrics   []*prometheus.Desc
	members   []*prometheus.Desc // of memberNumbers
	summaries []*prometheus.Desc
	spaces    []*prometheus.Desc // of namespaceSummaries
	quotas    []*prometheus.Desc // of quotaNumbers
	created   time.Time
	build     []string // values of buildInfo's labels

	mu      sync.Mutex
	windows []window // of summaries
}

var (
	buildInfo     = prometheus.NewDesc("zkd_build_info", "1, with the version in its labels.", []string{"version", "revision", "go_version"}, nil)
	quotaErrorsOf = prometheus.NewDesc(quotaErrors, quotaErrorsHelp, []string{"key"}, nil)
	roleInfo      = prometheus.NewDesc("zkd_role", "1 for the role that this server has, 0 for the others.", []string{"role"}, nil)
)

// NewCollector returns a collector that calls read each time that it is asked. version is
// that of the program.
func NewCollector(version string, read func() *Reading) prometheus.Collector {
	c := &collector{read: read, created: time.Now(), windows: make([]window, len(summaries))}
	version, _, _ = strings.Cut(version, ",") // without the date
	c.build = []string{version, revision(), runtime.Version()}
	for _, m := range namespaceSummaries {
		c.spaces = append(c.spaces, prometheus.NewDesc(m.name, m.help, []string{"key"}, nil))
	}
	for _, m := range quotaNumbers {
		c.quotas = append(c.quotas, prometheus.NewDesc(m.name, m.help, []string{"key"}, nil))
	}
	c.table = slices.Concat(numbers, ownNumbers)
	for _, m := range memberNumbers {
		c.members = append(c.members, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	for _, m := range c.table {
		c.metrics = append(c.metrics, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	for _, m := range summaries {
		c.summaries = append(c.summaries, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	return c
}

// revision returns the commit that the program was built from, or "unknown".
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.metrics {
		ch <- d
	}
	for _, d := range c.members {
		ch <- d
	}
	for _, d := range c.summaries {
		ch <- d
	}
	for _, d := range c.spaces {
		ch <- d
	}
	for _, d := range c.quotas {
		ch <- d
	}
	for _, m := range histograms {
		ch <- m.desc
	}
	ch <- quotaErrorsOf
	ch <- buildInfo
	ch <- roleInfo
	for _, m := range transferNumbers {
		ch <- m.done
		ch <- m.size
	}
	for _, m := range heldNumbers {
		ch <- m.desc
	}
	for _, m := range limitNumbers {
		ch <- m.desc
	}
}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.read()
	for i, m := range c.table {
		kind := prometheus.GaugeValue
		if m.counter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.metrics[i], kind, m.value(r))
	}
	for i := range memberNumbers {
		if m := &memberNumbers[i]; m.shown(r) {
			ch <- prometheus.MustNewConstMetric(c.members[i], prometheus.GaugeValue, m.value(r))
		}
	}
	for _, m := range transferNumbers {
		for _, x := range m.list(r) {
			peer := strconv.Itoa(int(x.Peer))
			ch <- prometheus.MustNewConstMetric(m.done, prometheus.GaugeValue, float64(x.Done), peer)
			ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(x.Size), peer)
		}
	}
	held := r.Held()
	for i := range held {
		for _, m := range heldNumbers {
			h := &held[i]
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(m.value(h)), h.Part)
		}
	}
	for i := range r.Limits {
		for _, m := range limitNumbers {
			f := &r.Limits[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(f)), f.Rule, f.Resource.String())
		}
	}
	for _, q := range r.Quotas() {
		for i, m := range quotaNumbers {
			ch <- prometheus.MustNewConstMetric(c.quotas[i], prometheus.GaugeValue, float64(m.value(&q)), q.Name)
		}
	}
	for _, x := range r.QuotaErrors.All() {
		ch <- prometheus.MustNewConstMetric(quotaErrorsOf, prometheus.CounterValue, float64(x.Count), x.Name)
	}
	c.collectSummaries(r, ch)
	c.collectHistograms(r, ch)
	ch <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, c.build...)
	role := r.RoleName()
	for _, name := range roles {
		value := 0.0
		if name == role {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(roleInfo, prometheus.GaugeValue, value, name)
	}
}

// collectSummaries shows the distributions with ZooKeeper's names. Their quantiles are those
// of the last minute or two.
func (c *collector) collectSummaries(r *Reading, ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range summaries {
		m := &summaries[i]
		all := m.read(r.Metrics)
		recent := c.windows[i].recent(all, r.Now)
		at := []float64{0.5}
		if m.advanced {
			at = []float64{0.5, 0.9, 0.95, 0.99, 0.999}
		}
		quantiles := make(map[float64]float64)
		for _, q := range at {
			quantiles[q] = math.NaN()
			if recent.Count > 0 {
				quantiles[q] = m.quantile(recent, q)
			}
		}
		ch <- prometheus.MustNewConstSummary(c.summaries[i], uint64(all.Count), float64(all.Sum)*m.scale, quantiles)
	}
	for i, m := range namespaceSummaries {
		for _, x := range m.of(r.Metrics).All() {
			ch <- prometheus.MustNewConstSummary(c.spaces[i], uint64(x.Count), float64(x.Sum), nil, x.Name)
		}
	}
}

func (c *collector) collectHistograms(r *Reading, ch chan<- prometheus.Metric) {
	for i := range histograms {
		m := &histograms[i]
		m.list(r.Metrics, func(h *Histogram, labels ...string) {
			if d := Of(h); d.Count > 0 || len(labels) == 0 {
				ch <- d.metric(m.desc, c.created, labels)
			}
		})
	}
}

func (m *summary) quantile(d *Distribution, q float64) float64 {
	return float64(d.Quantile(q)) * m.scale
}
