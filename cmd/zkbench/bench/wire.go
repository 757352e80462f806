package bench

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

const (
	frameHeader   = 4  // length of a frame
	requestHeader = 8  // xid, opcode
	replyHeader   = 16 // xid, zxid, error code
	statSize      = 68

	// maxReply is the largest length of a reply that the client accepts. It is far above
	// jute.maxbuffer, which zkd.maxReply may exceed.
	maxReply = 256 << 20
)

// openACL is the ACL of all nodes that a run creates, as it is on the wire.
var openACL = appendACL(nil, jute.ACL{Perms: jute.PermAll, ID: jute.WorldAnyone})

func appendACL(b []byte, acl jute.ACL) []byte {
	b = jute.AppendInt32(b, int32(1))
	b = jute.AppendInt32(b, acl.Perms)
	b = jute.AppendString(b, acl.ID.Scheme)
	return jute.AppendString(b, acl.ID.ID)
}

// beginFrame appends the header of a request; endFrame completes it.
func beginFrame(b []byte, xid int32) []byte {
	b = append(b, 0, 0, 0, 0)
	b = jute.AppendInt32(b, xid)
	return append(b, 0, 0, 0, 0)
}

// endFrame fills in the opcode and the length of the frame that starts at
// b[start] and ends with b.
func endFrame(b []byte, start int, op jute.OpCode) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-frameHeader))
	binary.BigEndian.PutUint32(b[start+8:], uint32(op))
}

// appendPath appends the path that name gives to i, as a ustring.
func appendPath(b []byte, name namer, i int64) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = name(b, i)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// appendMultiHeader appends the header of one operation of a multi.
func appendMultiHeader(b []byte, op jute.OpCode) []byte {
	b = jute.AppendInt32(b, op)
	b = append(b, 0)
	return jute.AppendInt32(b, int32(-1))
}

// appendMultiEnd appends the header that ends a multi.
func appendMultiEnd(b []byte) []byte {
	return append(b, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

// stat gives the fields of a Stat on the wire, which has statSize bytes.
type stat []byte

func (s stat) version() int32        { return int32(binary.BigEndian.Uint32(s[32:])) }
func (s stat) ephemeralOwner() int64 { return int64(binary.BigEndian.Uint64(s[44:])) }
func (s stat) dataLength() int32     { return int32(binary.BigEndian.Uint32(s[52:])) }
func (s stat) numChildren() int32    { return int32(binary.BigEndian.Uint32(s[56:])) }

// checkStat checks b as the Stat of a persistent leaf of the given data length
// and version.
func checkStat(b []byte, size int, version int32) error {
	if len(b) != statSize {
		return fmt.Errorf("stat has %d bytes, want %d", len(b), statSize)
	}
	s := stat(b)
	switch {
	case s.version() != version:
		return fmt.Errorf("version is %d, want %d", s.version(), version)
	case int(s.dataLength()) != size:
		return fmt.Errorf("dataLength is %d, want %d", s.dataLength(), size)
	case s.ephemeralOwner() != 0:
		return fmt.Errorf("ephemeralOwner is %#x, want 0", s.ephemeralOwner())
	case s.numChildren() != 0:
		return fmt.Errorf("numChildren is %d, want 0", s.numChildren())
	}
	return nil
}
