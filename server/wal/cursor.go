package wal

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// cursor follows the history over the records from a place on.
type cursor struct {
	at   jute.Zxid // the last entry passed
	dead []span    // records out of the history that are not passed yet
}

// pass moves the cursor over a record and reports whether it is an entry of the history.
// Each such entry must follow the previous one.
func (c *cursor) pass(f *frame) (bool, error) {
	for len(c.dead) > 0 && c.dead[0].to <= f.seq {
		c.dead = c.dead[1:]
	}
	if f.Kind != Append || len(c.dead) > 0 && c.dead[0].from <= f.seq {
		return false, nil
	}
	if f.Prev != c.at {
		return false, fmt.Errorf("entry %s follows %s, not %s: %w", f.Zxid, f.Prev, c.at, ErrDiscontinuous)
	}
	c.at = f.Zxid
	return true, nil
}
