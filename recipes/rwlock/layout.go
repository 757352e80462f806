package rwlock

import (
	"strings"

	"github.com/zkd-project/zkd/recipes/internal/line"
)

// labels are by Kind what a name has before its number: Curator's.
var labels = []string{Read: "__READ__", Write: "__WRIT__"}

// kazoo's are recognised, too.
var kazooLabels = []string{Read: "__rlock__", Write: "__lock__"}

// places is the layout of an RWLock: the kind of a place is its Kind.
func places() *line.Layout {
	return &line.Layout{Labels: labels, Kind: func(stem string) (int, bool) {
		for kind := range labels {
			if strings.HasSuffix(stem, labels[kind]) || strings.HasSuffix(stem, kazooLabels[kind]) {
				return kind, true
			}
		}
		return 0, false
	}}
}
