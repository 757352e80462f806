package wal

import "slices"

// control collects the entries whose type is not 0 while records are read.
type control struct{ entries []Record }

// apply updates the entries for a record. installed means that a snapshot reference is that
// of another server's snapshot.
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
		c.entries = slices.Clip(c.entries[:n]) // a mark may hold the entries after n
	case r.Kind == Snapshot && installed:
		c.entries = nil
	}
}

// mark returns the entries so far; later calls do not change them.
func (c *control) mark() []Record {
	c.entries = slices.Clip(c.entries)
	return c.entries
}
