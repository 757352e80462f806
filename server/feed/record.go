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
	case r.Kind() == jute.ChangeACL && allowed(r.Was) && !mutated(lossUntold):
		return Loss
	}
	return Nothing
}

// In a chunk, the change follows the number of its ACL list in the chunk's table, in 4 bytes. The list
// before a jute.ChangeACL precedes that list.

// recordBytes is at least the size of a record without path and data.
const recordBytes = 128

func appendRecord(b []byte, c *jute.Change, acl int) []byte {
	return c.Append(binary.BigEndian.AppendUint32(b, uint32(acl)))
}

// recordAt returns the record that begins at an offset, and the offset after it.
func (at *chunk) recordAt(offset int) (r Record, next int) {
	acl := binary.BigEndian.Uint32(at.buf[offset:])
	r = Record{EncodedChange: jute.CutChange(at.buf[offset+4:]), ACL: at.acls[acl]}
	if r.Kind() == jute.ChangeACL {
		r.Was = at.acls[acl-1]
	}
	return r, offset + 4 + len(r.EncodedChange)
}
