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
	Was []jute.ACL // of jute.ChangeACL: the list before
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
	case r.Kind() == jute.ChangeACL && allowed(r.Was):
		return Loss
	}
	return Nothing
}

// In a chunk, the head of a change follows the numbers of its ACL list and of its data in the chunk's tables, in
// 4 bytes each. The list before a jute.ChangeACL precedes that list. Data without bytes has no place in the table.

// recordBytes is at least the size of a record without path and data.
const recordBytes = 132

// appendRecord appends a record whose list has this number.
func (at *chunk) appendRecord(c *jute.Change, list int) {
	at.buf = binary.BigEndian.AppendUint32(at.buf, uint32(list))
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
	acl, data := binary.BigEndian.Uint32(at.buf[offset:]), binary.BigEndian.Uint32(at.buf[offset+4:])
	head, bytes := jute.CutChangeHead(at.buf[offset+8:])
	r = Record{EncodedChange: jute.EncodedChange{Head: head}, ACL: at.acls[acl]}
	if bytes > 0 {
		r.Data = at.data[data]
	}
	if r.Kind() == jute.ChangeACL {
		r.Was = at.acls[acl-1]
	}
	return r, offset + 8 + len(head)
}
