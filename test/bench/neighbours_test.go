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
	if got, want := out.String(), "| reads | yes | zkd | 20 | 3.0, **5.0**, 4.0 | 1.5 (1.0 to 2.0) | 1.0, **1.5**, 2.0 | 1.0 (1.0 to 1.0) |\n"; got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}
