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
}

// In a chunk, the change follows the number of its ACL list in the chunk's table, in 4 bytes.

// recordBytes is at least the size of a record without path and data.
const recordBytes = 128

func appendRecord(b []byte, c *jute.Change, acl int) []byte {
	return c.Append(binary.BigEndian.AppendUint32(b, uint32(acl)))
}

// recordAt returns the record that begins at an offset, and the offset after it.
func (at *chunk) recordAt(offset int) (r Record, next int) {
	acl := at.acls[binary.BigEndian.Uint32(at.buf[offset:])]
	change := jute.CutChange(at.buf[offset+4:])
	return Record{change, acl}, offset + 4 + len(change)
}
