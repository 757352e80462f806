package queue

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/recipes"
)

// Curator's DistributedQueue and those made of it have several items in a node:
//
//	version    4 bytes: 0x00010001
//	item       1 byte 0x01, 4 bytes length, the data; any number of them
//	end        1 byte 0x02
//
// Numbers are big-endian. Delay queues make nodes of one item.
const (
	frameVersion = 0x00010001
	frameItem    = 1
	frameEnd     = 2
	frameHead    = 4 + 1 + 4
)

// encode returns what the node of an item has in it.
func (n naming) encode(data []byte) []byte {
	if n.flagged {
		return flag(isDraft, data)
	}
	if !n.framed {
		return data
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, frameHead+len(data)+1), frameVersion)
	b = binary.BigEndian.AppendUint32(append(b, frameItem), uint32(len(data)))
	return append(append(b, data...), frameEnd)
}

// decode returns the item in a node. path is for the error, which wraps
// recipes.ErrLayout, or is errDraft.
func (n naming) decode(path string, b []byte) ([]byte, error) {
	if n.flagged {
		return unflag(path, b)
	}
	if !n.framed {
		return b, nil
	}
	if len(b) < frameHead+1 || binary.BigEndian.Uint32(b) != frameVersion || b[4] != frameItem {
		return nil, fmt.Errorf("%w: %s has no item in it as Curator's queues have; delete it", recipes.ErrLayout, path)
	}
	size := int64(binary.BigEndian.Uint32(b[5:]))
	if end := frameHead + size; end != int64(len(b))-1 || b[end] != frameEnd {
		return nil, fmt.Errorf("%w: %s has more than one item in it, or a broken one: use put, not putMulti; delete it", recipes.ErrLayout, path)
	}
	return b[frameHead : frameHead+size], nil
}
