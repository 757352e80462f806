package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteJSON writes v, a Result or a Comparison, as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteTable writes the figures of one run for people.
func (r *Result) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	row("workload", "%s, values of %s bytes, %s connections with windows of %d", r.Workload,
		group(int64(r.ValueSize)), group(int64(r.Connections)), r.Window)
	row("servers", "%s", strings.Join(r.Servers, ", "))
	if r.Root != "" {
		row("left", "%s", r.Root)
	}
	row("operations", "%s in %.2f s, %s/s; %d wrong", group(r.Ops), r.Seconds, group(int64(r.Rate)), r.Wrong)
	if r.FirstWrong != "" {
		row("first wrong", "%s", r.FirstWrong)
	}
	row("latency", "%s", r.Latency)
	if r.Notifications != nil {
		row("notifications", "%s, %s", group(r.Notifications.Count), r.Notifications)
	}
	if r.Server != nil {
		row("server", "%.2f s CPU, %s per operation", r.Server.CPUSeconds, micros(r.Server.CPUPerThousand*1e3))
		row("", "%s resident, %s before", mebi(r.Server.RSSAfter), mebi(r.Server.RSSBefore))
		if r.Server.RSSPerOperation != 0 {
			row("", "%s bytes more for each operation", group(int64(r.Server.RSSPerOperation)))
		}
	}
	if r.Outage != nil {
		r.Outage.write(row)
	}
	if r.Idle != nil {
		row("held", "%.1f s", r.Idle.Seconds)
		if r.Server != nil {
			row("", "%.2f s of server CPU meanwhile", r.Idle.CPUSeconds)
		}
	}
	row("generator", "%.2f s CPU, %s per operation", r.Generator.CPUSeconds, micros(r.Generator.CPUPerThousand*1e3))
	return tw.Flush()
}

// write gives the longest gaps in the order in which they came.
func (o *Outage) write(row func(name, format string, args ...any)) {
	row("without a write", "%s at the longest", micros(o.Longest().Long*1e6))
	for _, g := range slices.SortedFunc(slices.Values(o.Gaps), func(a, b Gap) int { return cmp.Compare(a.At, b.At) }) {
		row("", "%s from %.3f s on", micros(g.Long*1e6), g.At)
	}
	row("connections", "%d replaced, %d attempts failed; %d sessions expired", o.Reconnects, o.Attempts, o.Expired)
	row("other writes", "%d without a reply, %d refused", o.Unknown, o.Refused)
}

// String gives the percentiles on one line.
func (l *Latency) String() string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s",
		micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.Max))
}

// micros renders a number of microseconds with three digits and a fitting unit.
func micros(us float64) string {
	switch {
	case us >= 1e6:
		return Digits(us/1e6) + " s"
	case us >= 1e3:
		return Digits(us/1e3) + " ms"
	}
	return Digits(us) + " us"
}

// Digits renders v with three significant digits, and all digits before the point.
func Digits(v float64) string {
	switch {
	case v >= 100 || v <= -100 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func mebi(bytes int64) string { return Digits(float64(bytes)/(1<<20)) + " MiB" }

// group renders n with commas between groups of three digits.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for at := len(s) - 3; at > start; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
