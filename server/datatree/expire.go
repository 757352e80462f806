package datatree

// ExpiryCursor is where Expirable continues. The zero value is the beginning.
type ExpiryCursor struct {
	begun bool
	ttls  bool // the containers have been looked at
	left  int  // place in the set that is being walked
}

// Expirable looks at up to n of the znodes that may expire, and calls yield for each
// that the cleanup may delete now:
//
//   - containers without children that had one, or that are older than
//     maxNeverUsedMs by their mtime (0: those stay for ever);
//   - znodes with a time to live, without children, whose mtime is longer ago
//     than that.
//
// It returns false when it has been through all of them. The tree may change between
// two calls: what is there from the first to the last is looked at, other znodes may be,
// and one may be yielded twice. nowMs is the leader's clock in ms since the Unix epoch.
// The leader checks again when it evaluates the delete.
func (t *Tree) Expirable(c *ExpiryCursor, n int, nowMs, maxNeverUsedMs int64, yield func(path string, n Node)) (more bool) {
	if !c.begun {
		*c = ExpiryCursor{begun: true, left: t.containers.len()}
	}
	set, due := &t.containers, func(r *record) bool {
		return r.cversion != 0 || maxNeverUsedMs > 0 && nowMs-r.mtime > maxNeverUsedMs
	}
	if c.ttls {
		set, due = &t.ttls, func(r *record) bool {
			ttl, _ := r.owner.TTL()
			return nowMs-r.mtime > ttl
		}
	}
	c.left = set.walk(c.left, n, func(id nodeID) {
		if r := t.arena.rec(id); r.children == 0 && due(r) {
			yield(t.path(id), t.node(id))
		}
	})
	if c.left == 0 && !c.ttls {
		c.ttls, c.left = true, t.ttls.len()
		return c.left > 0
	}
	return c.left > 0
}
