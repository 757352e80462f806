package monitor

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/fourletter"
)

// ownWords are the ownNumbers that mntr shows, without "zkd_" before and "_total" after them.
var ownWords = []string{
	"disk_full", "log_waits", "writes_refused",
	"feeds", "feeds_refused_total", "feeds_displaced_total", "feeds_compacted_total", "feed_history_bytes", "views", "views_refused_total", "views_lost_total",
	"descriptors_clients", "descriptors_http", "descriptors_own",
	"replies_long_total", "replies_refused_total", "memory_live_bytes", "memory_limit_bytes",
}

// Words returns what mntr shows.
func (r *Reading) Words() []fourletter.Metric {
	var list []fourletter.Metric
	for _, m := range numbers {
		if v := m.value(r); m.float {
			list = append(list, fourletter.Float(m.name, v))
		} else {
			list = append(list, fourletter.Int(m.name, int64(v)))
		}
	}
	for _, name := range ownWords {
		i := slices.IndexFunc(ownNumbers, func(m number) bool { return m.name == "zkd_"+name })
		list = append(list, fourletter.Int(strings.TrimSuffix(name, "_total"), int64(ownNumbers[i].value(r))))
	}
	troubles := r.Troubles()
	list = append(list, troubles.words()...)
	for i := range memberNumbers {
		if m := &memberNumbers[i]; m.shown(r) {
			list = append(list, fourletter.Int(m.name, int64(m.value(r))))
		}
	}
	if r.Ensemble {
		list = append(list,
			fourletter.Metric{Name: "members", Value: r.Members},
			fourletter.Metric{Name: "members_of_file", Value: r.FileMembers})
		if r.Unfollowed != "" {
			list = append(list, fourletter.Metric{Name: "members_error", Value: oneLine(r.Unfollowed)})
		}
	}
	for i := range r.Limits {
		f := &r.Limits[i]
		name := "limit_" + f.Rule + "_" + strings.TrimSuffix(f.Resource.String(), "/s") + "_"
		list = append(list, fourletter.Int(name+"over", f.Over), fourletter.Int(name+"slowed", f.Slowed), fourletter.Int(name+"refused", f.Refused))
	}
	for _, q := range r.Quotas() {
		for _, m := range quotaNumbers {
			list = append(list, fourletter.Int(q.Name+"_"+m.name, m.value(&q)))
		}
	}
	for _, x := range r.QuotaErrors.All() {
		list = append(list, fourletter.Int(x.Name+"_"+quotaErrors, x.Count))
	}
	for i := range summaries {
		list = append(list, summaries[i].words(r.Metrics)...)
	}
	for _, m := range namespaceSummaries {
		for _, x := range m.of(r.Metrics).All() {
			name := x.Name + "_" + m.name
			list = append(list,
				fourletter.Float("avg_"+name, float64(x.Sum)/float64(x.Count)),
				fourletter.Int("min_"+name, x.Smallest),
				fourletter.Int("max_"+name, x.Largest),
				fourletter.Int("cnt_"+name, x.Count),
				fourletter.Int("sum_"+name, x.Sum))
		}
	}
	return list
}

// words returns what mntr shows of a distribution: all since the start, or since srst.
func (m *summary) words(from *Metrics) []fourletter.Metric {
	d := m.read(from)
	at := func(v time.Duration) int64 { return int64(float64(v) * m.scale) }
	list := []fourletter.Metric{
		fourletter.Float("avg_"+m.name, d.Mean()*m.scale),
		fourletter.Int("min_"+m.name, at(d.Min)),
		fourletter.Int("max_"+m.name, at(d.Max)),
		fourletter.Int("cnt_"+m.name, d.Count),
		fourletter.Int("sum_"+m.name, at(d.Sum)),
	}
	if !m.advanced {
		return list
	}
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50_", 0.5}, {"p95_", 0.95}, {"p99_", 0.99}, {"p999_", 0.999}} {
		list = append(list, fourletter.Int(q.name+m.name, int64(m.quantile(d, q.q))))
	}
	return list
}
