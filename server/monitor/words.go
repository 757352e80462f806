package monitor

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/fourletter"
)

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
	for _, name := range []string{"disk_full", "writes_refused"} { // as zkd_..., in Prometheus
		i := slices.IndexFunc(ownNumbers, func(m number) bool { return m.name == "zkd_"+name })
		list = append(list, fourletter.Int(name, int64(ownNumbers[i].value(r))))
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
	}
	for i := range r.Limits {
		f := &r.Limits[i]
		name := "limit_" + f.Rule + "_" + strings.TrimSuffix(f.Resource.String(), "/s") + "_"
		list = append(list, fourletter.Int(name+"over", f.Over), fourletter.Int(name+"slowed", f.Slowed), fourletter.Int(name+"refused", f.Refused))
	}
	for i := range summaries {
		list = append(list, summaries[i].words(summaries[i].of(r.Metrics))...)
	}
	return list
}

// words returns what mntr shows of a distribution.
func (m *summary) words(h *Histogram) []fourletter.Metric {
	at := func(v int64) int64 { return int64(float64(v) * m.scale) }
	list := []fourletter.Metric{
		fourletter.Float("avg_"+m.name, h.Mean()*1e6*m.scale),
		fourletter.Int("min_"+m.name, at(max(h.min.Load()-1, 0))),
		fourletter.Int("max_"+m.name, at(h.max.Load())),
		fourletter.Int("cnt_"+m.name, h.count.Load()),
		fourletter.Int("sum_"+m.name, at(h.sum.Load())),
	}
	if !m.advanced {
		return list
	}
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50_", 0.5}, {"p95_", 0.95}, {"p99_", 0.99}, {"p999_", 0.999}} {
		list = append(list, fourletter.Int(q.name+m.name, int64(m.quantile(h, q.q))))
	}
	return list
}
