package status

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/recipes/group"
)

// workers returns members of a group as workers, sorted.
func workers(lists ...[]group.Member) []Worker {
	var all []Worker
	for _, m := range slices.Concat(lists...) {
		all = append(all, Worker{
			ID: m.ID, Status: string(m.Data), Session: m.Stat.EphemeralOwner,
			Since: time.UnixMilli(m.Stat.Mtime),
		})
	}
	slices.SortFunc(all, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return all
}
