package show

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/server/monitor"
)

// Words returns what mntr shows after version and state.
func (v *View) Words() (list []Metric) {
	number := func(f *figure) {
		switch word := f.word(); {
		case word == "" || !f.of.shows(v) || v.Copy && f.of != copies:
		case f.kind == fraction:
			list = append(list, Float(word, f.value(v)))
		default:
			list = append(list, Int(word, int64(f.value(v))))
		}
	}
	if v.Copy {
		for i := range figures {
			number(&figures[i])
		}
		return append(list, v.troubles()...)
	}
	ofMembers := slices.IndexFunc(figures, func(f figure) bool { return f.of != all })
	for i := range figures[:ofMembers] {
		number(&figures[i])
	}
	list = append(list, v.troubles()...)
	for i := range figures[ofMembers:] {
		number(&figures[ofMembers+i])
	}
	if v.Ensemble {
		list = append(list, Metric{Name: "members", Value: v.Members}, Metric{Name: "members_of_file", Value: v.FileMembers})
		if v.Unfollowed != "" {
			list = append(list, Metric{Name: "members_error", Value: oneLine(v.Unfollowed)})
		}
	}
	for i := range v.Limits {
		f := &v.Limits[i]
		name := "limit_" + f.Rule + "_" + strings.TrimSuffix(f.Resource.String(), "/s") + "_"
		list = append(list, Int(name+"over", f.Over), Int(name+"slowed", f.Slowed), Int(name+"refused", f.Refused))
	}
	for _, q := range v.Quotas() {
		for _, m := range quotaNumbers {
			list = append(list, Int(console.Line(q.Name)+"_"+m.name, m.value(&q)))
		}
	}
	for _, x := range v.QuotaErrors.All() {
		list = append(list, Int(console.Line(x.Name)+"_"+quotaErrors, x.Count))
	}
	for i := range summaries {
		list = append(list, summaries[i].words(v.Metrics)...)
	}
	for _, m := range namespaceSummaries {
		for _, x := range m.of(v.Metrics).All() {
			name := console.Line(x.Name) + "_" + m.name
			list = append(list,
				Float("avg_"+name, float64(x.Sum)/float64(x.Count)),
				Int("min_"+name, x.Smallest),
				Int("max_"+name, x.Largest),
				Int("cnt_"+name, x.Count),
				Int("sum_"+name, x.Sum))
		}
	}
	return list
}

// troubles returns what mntr shows of Troubles.
func (v *View) troubles() (list []Metric) {
	t := v.Troubles()
	for _, f := range troubles {
		if text := f.text(&t); text != "" {
			list = append(list, Metric{f.name, text})
		}
	}
	return list
}

// words returns what mntr shows of a distribution: all since the start, or since srst.
func (m *summary) words(from *monitor.Metrics) []Metric {
	d := m.read(from)
	at := func(v int64) int64 { return int64(inUnit(d, float64(v))) }
	list := []Metric{
		Float("avg_"+m.name, inUnit(d, d.Mean())),
		Int("min_"+m.name, at(d.Min)),
		Int("max_"+m.name, at(d.Max)),
		Int("cnt_"+m.name, d.Count),
		Int("sum_"+m.name, at(d.Sum)),
	}
	if !m.advanced {
		return list
	}
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50_", 0.5}, {"p95_", 0.95}, {"p99_", 0.99}, {"p999_", 0.999}} {
		list = append(list, Int(q.name+m.name, at(d.Quantile(q.q))))
	}
	return list
}
