package datatree

// ExpiryCursor is the place where Expirable continues. The zero value is the beginning.
type ExpiryCursor struct {
	begun bool
	ttls  bool // the containers have been looked at
	left  int  // place in the set being walked
}

// Expirable examines up to n of the znodes that may expire, and calls yield for each
// that the cleanup may delete now:
//
//   - containers without children that once had one, or whose mtime is more than
//     maxNeverUsedMs ago (0: containers that never had one are kept);
//   - znodes with a time to live, without children, whose mtime is longer ago
//     than that time.
//
// It returns false after the last of them. The tree may change between two calls: znodes
// that exist from the first call to the last are examined, others may be, and one may be
// yielded twice. nowMs is the leader's clock in ms since the Unix epoch. The leader
// checks again when it evaluates the delete.
func (t *Tree) Expirable(c *ExpiryCursor, n int, nowMs, maxNeverUsedMs int64, yield func(path string, n Node)) (more bool) {
	if !c.begun {
		*c = ExpiryCursor{begun: true, left: t.containers.len()}
	}
	set, due := &t.containers, func(at *attrs) bool {
		return at.cversion != 0 || maxNeverUsedMs > 0 && at.mtime < nowMs-maxNeverUsedMs
	}
	if c.ttls {
		set, due = &t.ttls, func(at *attrs) bool {
			ttl, _ := at.owner.TTL()
			return at.mtime < nowMs-ttl // an imported time can be any number
		}
	}
	c.left = set.walk(c.left, n, func(id nodeID) {
		r := t.arena.rec(id)
		if at := t.arena.attrs(r); t.arena.more(id).children == 0 && due(&at) {
			yield(t.path(id), t.node(id))
		}
	})
	if c.left == 0 && !c.ttls {
		c.ttls, c.left = true, t.ttls.len()
		return c.left > 0
	}
	return c.left > 0
}
