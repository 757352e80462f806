package feed

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/jute"
)

// Change is a change, and the list that says who may read of it: the znode's right after the
// change, or before it if that deleted the znode.
type Change struct {
	jute.Change
	ACL []jute.ACL
}

// A record is a number in the chunk's table of ACL lists, in 4 bytes, and a jute.Change.

// recordBytes is at least the size of a record without path and data.
const recordBytes = 128

func appendRecord(b []byte, c *jute.Change, acl int) []byte {
	return c.Append(binary.BigEndian.AppendUint32(b, uint32(acl)))
}

func zxidOf(record []byte) jute.Zxid { return jute.Zxid(binary.BigEndian.Uint64(record[4:])) }

// decodeRecord returns the change in a record, and the record's length.
func decodeRecord(record []byte, acls [][]jute.ACL) (c Change, n int) {
	d := jute.NewDecoder(record[4:])
	c.Decode(&d)
	c.ACL = acls[binary.BigEndian.Uint32(record)]
	return c, len(record) - len(d.Rest())
}
