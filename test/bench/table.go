package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// writeTable writes the rows as a Markdown table.
func writeTable(w io.Writer, rows []bench.Figure, a, b string) error {
	var t bytes.Buffer
	fmt.Fprintf(&t, "| | %s | %s | ratio |\n|---|---|---|---|\n", a, b)
	for _, r := range rows {
		last := cell(r.Ratio, ratio)
		if r.Unit == unitTimes {
			last = ""
		}
		fmt.Fprintf(&t, "| %s (%s) | %s | %s | %s |\n", r.Name, r.Unit, cell(r.A, bench.Digits), cell(r.B, bench.Digits), last)
	}
	_, err := w.Write(t.Bytes())
	return err
}

// writeCurve writes what was measured of all lines: throughput and CPU time by
// share of reads, programs a and b beside each other, and what syncing costs.
func writeCurve(w io.Writer, lines []*line, a, b string) error {
	var t bytes.Buffer
	synced := slices.DeleteFunc(slices.Clone(lines), func(l *line) bool { return l.unsynced })
	t.WriteString("Operations per second\n\n")
	writePoints(&t, synced, func(l *line) [][]float64 { return l.rates })
	t.WriteString("\nCPU time of all servers for each operation (us)\n\n")
	writePoints(&t, synced, func(l *line) [][]float64 { return l.cpu })

	beside, sync := curvePairs(lines)
	t.WriteString("\nThe programs beside each other\n\n")
	if err := writeTable(&t, beside, a, b); err != nil {
		return err
	}
	t.WriteString("\nSets only, synced and not\n\n")
	if err := writeTable(&t, sync, "forceSync=yes", "forceSync=no"); err != nil {
		return err
	}
	_, err := w.Write(t.Bytes())
	return err
}

// curvePairs compares ensembles of one size: of both programs, for each share,
// and of one program synced and not.
func curvePairs(lines []*line) (beside, sync []bench.Figure) {
	for i, l := range lines {
		for _, m := range lines[i+1:] {
			switch {
			case l.size != m.size || l.unsynced:
			case l.side != m.side && !m.unsynced:
				for j, reads := range shares {
					what := fmt.Sprintf("size %d, %s", l.size, percent(reads))
					beside = append(beside, bench.NewFigure(what, "/s", l.rates[j], m.rates[j]))
				}
			case l.side == m.side:
				sync = append(sync, bench.NewFigure(l.String(), "/s", l.rates[0], m.rates[0]))
			}
		}
	}
	return beside, sync
}

// writePoints writes a column for each line and a row for each share.
func writePoints(t *bytes.Buffer, lines []*line, of func(*line) [][]float64) {
	t.WriteString("|")
	for _, l := range lines {
		fmt.Fprintf(t, " | %s", l)
	}
	fmt.Fprintf(t, " |\n|---|%s\n", strings.Repeat("---|", len(lines)))
	for i, reads := range shares {
		fmt.Fprintf(t, "| %s", percent(reads))
		for _, l := range lines {
			fmt.Fprintf(t, " | %s", cell(bench.NewSpread(of(l)[i]), bench.Digits))
		}
		t.WriteString(" |\n")
	}
}

// cell gives the median, and the range in brackets if there is one.
func cell(s bench.Spread, format func(float64) string) string {
	if s.Min == s.Max {
		return format(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Min), format(s.Max))
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// machine describes what the figures were measured on.
func machine() string {
	parts := []string{fmt.Sprintf("%d CPUs", runtime.NumCPU())}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				parts[0] += " (" + strings.TrimSpace(value) + ")"
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(b)))
	}
	if b, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		first, _, _ := strings.Cut(string(b), "\n")
		parts = append(parts, first)
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}
