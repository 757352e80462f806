package presence

import (
	"strings"
	"testing"
)

// TestPhase: a member that has as many partitions as it should have, but others, has not got its own. In a storm two
// members said so of one partition, between a change of the members and the end of the tenure that it ended.
func TestPhase(t *testing.T) {
	for _, test := range []struct {
		own, tenures, owned string
		want                Phase
	}{
		{"1 4", "", "", Allocating},
		{"1 4", "1 4", "1", Allocating},
		{"1 4", "1 4", "1 4", Acquired},
		{"1 4", "1 3", "1 3", Releasing},
		{"1 4", "1 3 4", "1 3", Releasing},
		{"1 4", "1 1 4", "1 4", Releasing},
		{"", "3", "3", Releasing},
		{"", "", "", Acquired},
	} {
		p := Partitioner{running: true, members: []string{"m"}, own: strings.Fields(test.own), tenures: strings.Fields(test.tenures), owned: strings.Fields(test.owned)}
		if got := p.phase(); got != test.want {
			t.Errorf("own %q, tenures %q, owned %q: %v, want %v", test.own, test.tenures, test.owned, got, test.want)
		}
	}
}
