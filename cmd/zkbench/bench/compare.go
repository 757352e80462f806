package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Comparison is a number of pairs of runs, one on each of two targets. The runs of a
// pair follow each other, and the target that goes first changes from pair to pair, so
// that a drift of the machine affects both.
//
// The figures are medians, ranges, and the ratios within the pairs. benchstat does not
// replace them: it compares two samples without regard to pairs, and gives no interval
// for fewer than six runs, while five pairs are the default here.
type Comparison struct {
	Workload Workload `json:"workload"`
	A        []Result `json:"a"`
	B        []Result `json:"b"`
	Figures  []Figure `json:"figures"`
}

// Figure is one measured quantity over all pairs.
type Figure struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	A     Spread `json:"a"`
	B     Spread `json:"b"`
	Ratio Spread `json:"ratio_b_to_a"` // of the pairs' own ratios; zeros if all of A are 0
}

// Spread is the median and the range of some values.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// NewSpread summarizes vs, which must not be empty.
func NewSpread(vs []float64) Spread {
	s := slices.Sorted(slices.Values(vs))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// Compare runs cfg on both targets, pairs times. After each run it calls seen,
// with "A" or "B", unless seen is nil. It stops at the first error.
func Compare(ctx context.Context, a, b Target, cfg Config, pairs int, seen func(which string, r Result)) (*Comparison, error) {
	if pairs < 1 {
		return nil, &ConfigError{fmt.Errorf("pairs: %d, want at least 1", pairs)}
	}
	c := &Comparison{Workload: cfg.Workload}
	one := func(which string, t Target, to *[]Result) error {
		r, err := Run(ctx, t, cfg)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", which, err)
		}
		*to = append(*to, r)
		if seen != nil {
			seen(which, r)
		}
		return nil
	}
	for i := range pairs {
		runs := []func() error{
			func() error { return one("A", a, &c.A) },
			func() error { return one("B", b, &c.B) },
		}
		if i%2 == 1 {
			slices.Reverse(runs)
		}
		for _, run := range runs {
			if err := run(); err != nil {
				return nil, err
			}
		}
	}
	c.Figures = figures(c.A, c.B)
	return c, nil
}

// quantity reads one figure of a result; ok reports whether the run has it.
type quantity struct {
	name, unit string
	of         func(r *Result) (v float64, ok bool)
}

func latencyOf(at func(*Latency) float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if r.Latency == nil {
			return 0, false
		}
		return at(r.Latency), true
	}
}

func serverOf(at func(*Usage) float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if r.Server == nil {
			return 0, false
		}
		return at(r.Server), true
	}
}

var quantities = []quantity{
	{"operations", "/s", func(r *Result) (float64, bool) { return r.Rate, true }},
	{"latency p50", "us", latencyOf(func(l *Latency) float64 { return l.P50 })},
	{"latency p90", "us", latencyOf(func(l *Latency) float64 { return l.P90 })},
	{"latency p99", "us", latencyOf(func(l *Latency) float64 { return l.P99 })},
	{"latency p99.9", "us", latencyOf(func(l *Latency) float64 { return l.P999 })},
	{"latency max", "us", latencyOf(func(l *Latency) float64 { return l.Max })},
	{"longest time without a write", "ms", func(r *Result) (float64, bool) {
		if r.Outage == nil {
			return 0, false
		}
		return r.Outage.Longest().Long * 1e3, true
	}},
	{"server CPU per operation", "us", serverOf(func(u *Usage) float64 { return u.CPUPerThousand * 1e3 })},
	{"server resident", "MiB", serverOf(func(u *Usage) float64 { return float64(u.RSSAfter) / (1 << 20) })},
	{"generator CPU per operation", "us", func(r *Result) (float64, bool) { return r.Generator.CPUPerThousand * 1e3, true }},
}

// NewFigure summarizes the values of pairs: a[i] belongs to b[i]. There must be
// one pair at least.
func NewFigure(name, unit string, a, b []float64) Figure {
	f := Figure{Name: name, Unit: unit, A: NewSpread(a), B: NewSpread(b)}
	var ratios []float64
	for i := range a {
		if a[i] != 0 {
			ratios = append(ratios, b[i]/a[i])
		}
	}
	if len(ratios) > 0 {
		f.Ratio = NewSpread(ratios)
	}
	return f
}

// figures compares the results of pairs: a[i] belongs to b[i].
func figures(a, b []Result) []Figure {
	var fs []Figure
	for _, q := range quantities {
		var va, vb []float64
		for i := range a {
			x, okA := q.of(&a[i])
			y, okB := q.of(&b[i])
			if okA && okB {
				va, vb = append(va, x), append(vb, y)
			}
		}
		if len(va) > 0 {
			fs = append(fs, NewFigure(q.name, q.unit, va, vb))
		}
	}
	return fs
}

// Figure returns the figure of that name; ok reports whether the runs have it.
func (c *Comparison) Figure(name string) (f Figure, ok bool) {
	i := slices.IndexFunc(c.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return c.Figures[i], true
}

// WriteTable writes the figures for people.
func (c *Comparison) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s, %d pairs\tA\tmin\tmax\tB\tmin\tmax\tB/A\tmin\tmax\t\n", c.Workload, len(c.A))
	for _, f := range c.Figures {
		fmt.Fprintf(tw, "%s (%s)\t", f.Name, f.Unit)
		for _, s := range []Spread{f.A, f.B} {
			fmt.Fprintf(tw, "%s\t%s\t%s\t", Digits(s.Median), Digits(s.Min), Digits(s.Max))
		}
		fmt.Fprintf(tw, "%.2f\t%.2f\t%.2f\t\n", f.Ratio.Median, f.Ratio.Min, f.Ratio.Max)
	}
	return tw.Flush()
}
