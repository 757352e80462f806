package main

import (
	"strings"
	"testing"
)

// Times are to the mean of what is before and after an attack.
func TestWriteTrials(t *testing.T) {
	var out strings.Builder
	trials := []trial{
		{p99s{2, 1}, p99s{6, 1}, p99s{4, 1}, 10},
		{p99s{4, 1}, p99s{4, 2}, p99s{4, 3}, 30},
	}
	writeTrials(&out, "reads", true, "zkd", trials)
	if got, want := out.String(), "| reads | yes | zkd | 20 | 3.0, **5.0**, 4.0 | 1.50 (1.00 to 2.00) | 1.0, **1.5**, 2.0 | 1.00 (1.00 to 1.00) |\n"; got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	var many []trial
	for n := range manyTrials { // ratios of 1 to 12
		many = append(many, trial{before: p99s{set: 1}, during: p99s{set: float64(n + 1)}, after: p99s{set: 1}})
	}
	ratio := func(t trial) float64 { return 2 * t.during.set / (t.before.set + t.after.set) }
	if got, want := spread(many, ratio), "6.50 (4.00 to 9.00)"; got != want {
		t.Errorf("of many: got %s, want the quartiles, %s", got, want)
	}
}
