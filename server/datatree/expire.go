package datatree

import (
	"slices"
	"strings"
)

// Expirable calls yield for each znode that the cleanup may delete, sorted by
// path, until yield returns false:
//
//   - containers without children that had one, or that are older than
//     maxNeverUsedMs by their mtime (0: those stay for ever);
//   - znodes with a time to live, without children, whose mtime is longer ago
//     than that.
//
// nowMs is the leader's clock in ms since the Unix epoch. The cost is that of
// the containers and TTL znodes there are, not of the tree. The leader checks
// again when it evaluates the delete.
func (t *Tree) Expirable(nowMs, maxNeverUsedMs int64, yield func(path string, n Node) bool) {
	type candidate struct {
		path string
		id   nodeID
	}
	var found []candidate
	for id := range t.containers {
		r := t.arena.rec(id)
		unused := maxNeverUsedMs > 0 && nowMs-r.mtime > maxNeverUsedMs
		if r.children == 0 && (r.cversion != 0 || unused) {
			found = append(found, candidate{t.path(id), id})
		}
	}
	for id := range t.ttls {
		r := t.arena.rec(id)
		ttl, _ := r.owner.TTL()
		if r.children == 0 && nowMs-r.mtime > ttl {
			found = append(found, candidate{t.path(id), id})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.path, b.path) })
	for _, c := range found {
		if !yield(c.path, t.node(c.id)) {
			return
		}
	}
}
