package feed

import "github.com/zkd-project/zkd/jute"

// Cursor is a position in a history. It yields the changes after a zxid.
type Cursor struct {
	history *History
	zxid    jute.Zxid // everything up to it has been yielded
	current jute.Zxid // of the last record looked at
	chunk   uint64    // number of the chunk of the next record
	offset  int       // of that record
}

// After returns a cursor for the changes after zxid. The history need not have reached it yet.
func (h *History) After(zxid jute.Zxid) *Cursor { return &Cursor{history: h, zxid: zxid} }

// from is After for a zxid after which the history should have all changes. The error is a
// *jute.CompactedError.
func (h *History) from(zxid jute.Zxid) (*Cursor, error) {
	if err := h.lacks(zxid); err != nil {
		return nil, err
	}
	return h.After(zxid), nil
}

// Zxid returns the zxid up to which the cursor has yielded everything. If that is less than the
// zxid of the last record, there is more of its transaction.
func (c *Cursor) Zxid() jute.Zxid { return c.zxid }

// Next calls yield for the records that follow, until there are no more, or yield does not take
// one: the cursor then stays before it. The error is a *jute.CompactedError.
func (c *Cursor) Next(yield func(Record) (taken bool)) error {
	for {
		at, sealed, more, err := c.locate()
		if err != nil || !more {
			return err
		}
		for c.offset < len(at.buf) {
			c.history.steps.Add(1)
			record, next := at.recordAt(c.offset)
			zxid := record.Zxid()
			if zxid != c.current {
				c.zxid = max(c.zxid, c.current)
				c.current = zxid
			}
			after := zxid > c.zxid
			after = after || afterDoubled.Planted() && zxid == c.zxid
			if after && !yield(record) {
				if untakenLost.Planted() {
					c.offset = next
				}
				return nil
			}
			c.offset = next
		}
		if sealed {
			c.chunk, c.offset = c.chunk+1, 0
		}
	}
}

// locate returns what there is of the chunk with the next record, and whether there will be no more of
// it. If there is no next record, more is false.
func (c *Cursor) locate() (at chunk, sealed, more bool, err error) {
	mu := &c.history.mu
	mu.Lock()
	defer mu.Unlock()
	lacking := c.history.lacksLocked(c.zxid)
	lacking = lacking || compactedEarly.Planted() && c.zxid == mu.oldest && c.chunk == 0
	if lacking {
		return at, false, false, &jute.CompactedError{After: c.zxid, Oldest: mu.oldest}
	}
	open := mu.first + uint64(len(mu.chunks)) - 1 // the chunk to which more is added
	if c.chunk < mu.first {                       // a new cursor, or one that has read what was forgotten since
		c.chunk, c.offset = mu.first, 0
		for c.chunk < open && mu.chunks[c.chunk-mu.first].last <= c.zxid {
			c.history.steps.Add(1)
			c.chunk++
		}
	}
	sealed = c.chunk < open
	if c.chunk > open || !sealed && c.offset == len(mu.chunks[c.chunk-mu.first].buf) {
		c.zxid = max(c.zxid, mu.last)
		return at, false, false, nil
	}
	found := mu.chunks[c.chunk-mu.first]
	found.read = true
	return *found, sealed, true, nil
}
