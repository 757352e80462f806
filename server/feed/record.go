package feed

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/jute"
)

// Record is a change, and the list that says who may read of it: the znode's right after the
// change, or before it if that deleted the znode. It is read only, and stays valid.
type Record struct {
	jute.EncodedChange
	ACL []jute.ACL
	// Other is the list before a jute.ChangeACL, and the parent's of jute.ChangeCreated and jute.ChangeDeleted.
	Other []jute.ACL
}

// Sight says what of a change its reader sees.
type Sight int

// What a reader sees of a change.
const (
	Nothing Sight = iota
	Change        // and so the znode
	Loss          // that the znode can no longer be read
)

// Sight returns what a reader sees who may read if allowed says so.
func (r *Record) Sight(allowed func([]jute.ACL) bool) Sight {
	switch {
	case allowed(r.ACL):
		return Change
	case lossUntold.Planted():
		return Nothing
	case r.Kind() == jute.ChangeACL && allowed(r.Other):
		return Loss
	}
	return Nothing
}

// parentSight reports whether a reader gets the jute.ChangeChildren of the parent.
func (r *Record) parentSight(allowed func([]jute.ACL) bool) bool {
	if childrenHidden.Planted() {
		return allowed(r.ACL)
	}
	return allowed(r.Other)
}

// In a chunk, the head of a change follows the numbers of its ACL list, of the other list and of its data in the chunk's tables, in
// 4 bytes each. A jute.ChangeData has no other list: its number is that of its own. Data without bytes has no place in the table.

// recordBytes is at least the size of a record without path and data.
const recordBytes = 136

// appendRecord appends a record whose lists have these numbers.
func (at *chunk) appendRecord(c *jute.Change, list, other int) {
	at.buf = binary.BigEndian.AppendUint32(at.buf, uint32(list))
	at.buf = binary.BigEndian.AppendUint32(at.buf, uint32(other))
	at.buf = binary.BigEndian.AppendUint32(at.buf, uint32(len(at.data)))
	at.buf = c.AppendHead(at.buf)
	if len(c.Data) > 0 {
		at.data = append(at.data, c.Data)
		at.held += len(c.Data)
	}
	at.last = c.Zxid
}

// recordAt returns the record that begins at an offset, and the offset after it.
func (at *chunk) recordAt(offset int) (r Record, next int) {
	number := func(i int) uint32 { return binary.BigEndian.Uint32(at.buf[offset+4*i:]) }
	head, bytes := jute.CutChangeHead(at.buf[offset+12:])
	r = Record{EncodedChange: jute.EncodedChange{Head: head}, ACL: at.acls[number(0)], Other: at.acls[number(1)]}
	if bytes > 0 {
		r.Data = at.data[number(2)]
	}
	return r, offset + 12 + len(head)
}
