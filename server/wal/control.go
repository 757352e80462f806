package wal

import "slices"

// control gathers the entries whose type is not 0 while records are read in.
type control struct{ entries []Record }

// apply follows the history over a record. installed tells of a snapshot
// reference that it is one of another server's.
func (c *control) apply(r *Record, installed bool) {
	switch {
	case r.Kind == Append && r.Type != 0:
		e := *r
		e.Payload = slices.Clone(r.Payload)
		c.entries = append(c.entries, e)
	case r.Kind == Truncate:
		n := len(c.entries)
		for n > 0 && c.entries[n-1].Zxid > r.Zxid {
			n--
		}
		c.entries = slices.Clip(c.entries[:n]) // a mark may hold those behind
	case r.Kind == Snapshot && installed:
		c.entries = nil
	}
}

// mark returns the entries up to now; what follows leaves them alone.
func (c *control) mark() []Record {
	c.entries = slices.Clip(c.entries)
	return c.entries
}
