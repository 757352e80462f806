package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/bench"
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
		fmt.Fprintf(&t, "| %s (%s) | %s | %s | %s |\n", r.Name, r.Unit, cell(r.A, number), cell(r.B, number), last)
	}
	_, err := w.Write(t.Bytes())
	return err
}

// cell gives the median, and the range in brackets if there is one.
func cell(s bench.Spread, format func(float64) string) string {
	if s.Min == s.Max {
		return format(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Min), format(s.Max))
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// number gives three digits, and all before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

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
