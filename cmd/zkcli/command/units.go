package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// bytesText formats a size: 12 B, 3.4 KiB.
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n)/1024, 0
	for x >= 1024 && unit < 3 {
		x, unit = x/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[unit])
}

// ageText formats a time span in its largest unit: 5s, 3m, 4h, 12d.
func ageText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// countText is a number of things: 1 node, 2 nodes.
func countText(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "child"):
		return fmt.Sprintf("%d %sren", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// parseBytes reads a size: 10, 10c, 10k, 10M.
func parseBytes(s string) (int64, error) {
	factor := int64(1)
	for suffix, f := range map[string]int64{"c": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, factor = rest, f
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 40)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size: it should look like 100, 10k or 1M", s)
	}
	return n * factor, nil
}

// parseAge reads a time span: days, as in find(1), or with a unit: 90s, 10m, 2h, 7d.
func parseAge(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	if n, err := strconv.ParseFloat(strings.TrimSuffix(s, "d"), 64); err == nil && n >= 0 && n < 1e5 {
		return time.Duration(n * float64(day)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time span: it should be a number of days, or look like 90s, 10m, 2h", s)
	}
	return d, nil
}
