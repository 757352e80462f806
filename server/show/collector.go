package show

import (
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
)

// transferNumbers tell how far snapshots on their way have got.
var transferNumbers = []struct {
	done, size *prometheus.Desc
	list       func(*View) []Transfer
}{
	{
		prometheus.NewDesc("zkd_snapshot_sent_bytes", "Bytes of the snapshot on its way to a server that have been sent.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_sending_bytes", "Size of the snapshot on its way to a server.", []string{"peer"}, nil),
		func(v *View) []Transfer { return v.Sending },
	},
	{
		prometheus.NewDesc("zkd_snapshot_received_bytes", "Bytes of the snapshot on its way from a server that have come.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_receiving_bytes", "Size of the snapshot on its way from a server.", []string{"peer"}, nil),
		func(v *View) []Transfer { return v.Arriving },
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
	{limitDesc("zkd_limit_divided", "Those whose limit is used up by the ensemble: this server has a share of it."), prometheus.GaugeValue, func(f *limits.Figure) int64 { return int64(f.Divided) }},
}

func limitDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"rule", "resource"}, nil)
}

// collector shows what views of a server have to Prometheus.
type collector struct {
	view      func() *View
	figures   []*prometheus.Desc
	summaries []*prometheus.Desc
	spaces    []*prometheus.Desc // of namespaceSummaries
	quotas    []*prometheus.Desc // of quotaNumbers
	created   time.Time
	build     []string // values of buildInfo's labels

	mu      sync.Mutex
	windows []monitor.Window // of summaries
}

var (
	buildInfo     = prometheus.NewDesc("zkd_build_info", "1, with the version in its labels.", []string{"version", "revision", "go_version"}, nil)
	quotaErrorsOf = prometheus.NewDesc(quotaErrors, quotaErrorsHelp, []string{"key"}, nil)
	roleInfo      = prometheus.NewDesc("zkd_role", "1 for the role that this server has, 0 for the others.", []string{"role"}, nil)
)

// NewCollector returns a collector that calls view each time that it is asked. version is
// that of the program.
func NewCollector(version string, view func() *View) prometheus.Collector {
	c := &collector{view: view, created: time.Now(), windows: make([]monitor.Window, len(summaries))}
	version, _, _ = strings.Cut(version, ",") // without the date
	c.build = []string{version, revision(), runtime.Version()}
	for _, m := range namespaceSummaries {
		c.spaces = append(c.spaces, prometheus.NewDesc(m.name, m.help, []string{"key"}, nil))
	}
	for _, m := range quotaNumbers {
		c.quotas = append(c.quotas, prometheus.NewDesc(m.name, m.help, []string{"key"}, nil))
	}
	for _, f := range figures {
		c.figures = append(c.figures, prometheus.NewDesc(f.name, f.help, nil, nil))
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
	for _, d := range c.figures {
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
	v := c.view()
	for i := range figures {
		f, kind := &figures[i], prometheus.GaugeValue
		if f.kind == counter {
			kind = prometheus.CounterValue
		}
		if f.of.shows(v) {
			ch <- prometheus.MustNewConstMetric(c.figures[i], kind, f.value(v))
		}
	}
	for _, m := range transferNumbers {
		for _, x := range m.list(v) {
			peer := strconv.Itoa(int(x.Peer))
			ch <- prometheus.MustNewConstMetric(m.done, prometheus.GaugeValue, float64(x.Done), peer)
			ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(x.Size), peer)
		}
	}
	held := v.Held()
	for i := range held {
		for _, m := range heldNumbers {
			h := &held[i]
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(m.value(h)), h.Part)
		}
	}
	for i := range v.Limits {
		for _, m := range limitNumbers {
			f := &v.Limits[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(f)), f.Rule, f.Resource.String())
		}
	}
	for _, q := range v.Quotas() {
		for i, m := range quotaNumbers {
			ch <- prometheus.MustNewConstMetric(c.quotas[i], prometheus.GaugeValue, float64(m.value(&q)), q.Name)
		}
	}
	for _, x := range v.QuotaErrors.All() {
		ch <- prometheus.MustNewConstMetric(quotaErrorsOf, prometheus.CounterValue, float64(x.Count), x.Name)
	}
	c.collectSummaries(v, ch)
	c.collectHistograms(v, ch)
	ch <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, c.build...)
	role := v.RoleName()
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
func (c *collector) collectSummaries(v *View, ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range summaries {
		m := &summaries[i]
		all := m.read(v.Metrics)
		recent := c.windows[i].Recent(all, v.Now)
		at := []float64{0.5}
		if m.advanced {
			at = []float64{0.5, 0.9, 0.95, 0.99, 0.999}
		}
		quantiles := make(map[float64]float64)
		for _, q := range at {
			quantiles[q] = math.NaN()
			if recent.Count > 0 {
				quantiles[q] = inUnit(recent, float64(recent.Quantile(q)))
			}
		}
		ch <- prometheus.MustNewConstSummary(c.summaries[i], uint64(all.Count), inUnit(all, float64(all.Sum)), quantiles)
	}
	for i, m := range namespaceSummaries {
		for _, x := range m.of(v.Metrics).All() {
			ch <- prometheus.MustNewConstSummary(c.spaces[i], uint64(x.Count), float64(x.Sum), nil, x.Name)
		}
	}
}

func (c *collector) collectHistograms(v *View, ch chan<- prometheus.Metric) {
	for i := range histograms {
		m := &histograms[i]
		m.list(v.Metrics, func(h *monitor.Durations, labels ...string) {
			if d := monitor.Of(h); d.Count > 0 || len(labels) == 0 {
				ch <- d.Metric(m.desc, c.created, labels)
			}
		})
	}
}

// inUnit returns a value of a distribution in the unit in which ZooKeeper shows it: durations in ms.
func inUnit(d *monitor.Distribution, v float64) float64 {
	if d.Unit == monitor.Nanoseconds {
		return v * 1e-6
	}
	return v
}
