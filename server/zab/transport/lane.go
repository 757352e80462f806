package transport

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/zkd-project/zkd/server/zab"
)

// Lane is one of the two orders in which a link carries frames. Within a lane they arrive
// in the order sent, without gaps. A control frame may overtake bulk frames; no bulk frame
// overtakes a control frame.
type Lane uint8

const (
	// Control is for urgent messages: heartbeats, acknowledgements, elections.
	Control Lane = iota
	// Bulk is for entries, and for messages that are ordered among them.
	Bulk
)

func laneOf(m *zab.Message) Lane {
	if m.Kind.Bulk() {
		return Bulk
	}
	return Control
}

// recordHead is what precedes a body in the queue of the bulk lane: its length
// (4) and kind (1).
const recordHead = 4 + 1

func beginRecord(b []byte, kind uint8) []byte { return append(b, 0, 0, 0, 0, kind) }

// endRecord completes the record that begins at start.
func endRecord(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-recordHead))
}

// cutter makes frames from records. Its chunks are those that the writer has taken from the
// queue of the bulk lane.
type cutter struct {
	sum   bool
	list  []*chunk
	spent int // number of leading chunks of list that have been cut completely
	at    int // position in the next chunk
	inner int // bytes left of the body that is being cut into pieces
}

// pending reports whether anything is left to cut.
func (c *cutter) pending() bool { return c.spent < len(c.list) }

// remaining returns the rest of the chunk that is being cut.
func (c *cutter) remaining() []byte { return c.list[c.spent].b[c.at:] }

// head returns the kind of the next frame and the size of its body. There must be one.
func (c *cutter) head() (kind uint8, size int) {
	if c.inner > 0 {
		return kindPiece, min(c.inner, pieceSize)
	}
	b := c.remaining()
	if n := int(binary.BigEndian.Uint32(b)); n <= pieceSize {
		return b[4], n
	}
	return kindLong, recordHead
}

// next returns the size of the next frame.
func (c *cutter) next() int {
	_, n := c.head()
	if c.sum {
		n += frameTail
	}
	return frameHead + n
}

// cut appends frames to b, which is empty, as many as fit into room bytes and b's capacity.
// Frames that do not end within the first quiet bytes ask for a credit. It returns b, the
// number of its bytes in frames that do not ask, and the number of bytes of records in all
// frames.
func (c *cutter) cut(b []byte, room, quiet int) (frames []byte, unasked, records int) {
	for c.pending() {
		end := len(b) + c.next()
		if end > min(room, cap(b)) {
			break
		}
		kind, n := c.head()
		body := c.remaining()
		switch {
		case kind == kindLong:
			c.inner = int(binary.BigEndian.Uint32(body))
		case c.inner > 0:
			c.inner -= n
		default:
			body = body[recordHead:]
			records += recordHead
			c.at += recordHead
		}
		kind |= bulk
		if end > quiet {
			kind |= asks
		} else {
			unasked = end
		}
		b = appendFrame(b, kind, body[:n], c.sum)
		records += n
		if c.at += n; c.at == len(c.list[c.spent].b) {
			c.spent, c.at = c.spent+1, 0
		}
	}
	return b, unasked, records
}

// joiner assembles long frames from their pieces.
type joiner struct {
	max  int // maximum size of a body
	kind uint8
	size int // of the whole body; 0 if there is none
	// body is a Builder since that does not clear its memory first, which costs 2 % of a
	// follower's time.
	body strings.Builder
}

// begin handles the head of a long frame.
func (j *joiner) begin(head []byte) error {
	if j.size > 0 || len(head) != recordHead {
		return errFrameKind
	}
	j.size, j.kind = int(binary.BigEndian.Uint32(head)), head[4]
	if j.size <= pieceSize || j.size > j.max {
		return errFrameLength
	}
	j.body.Grow(min(j.size, firstPiece))
	return nil
}

// add handles a piece. With the last one it returns the kind and the body of the frame,
// else a nil body. The caller owns the body.
func (j *joiner) add(piece []byte) (kind uint8, body []byte, err error) {
	have := j.body.Len()
	if j.size == 0 || len(piece) == 0 || len(piece) > j.size-have {
		return 0, nil, errFrameKind
	}
	if have+len(piece) > j.body.Cap() {
		j.body.Grow(min(j.size-have, have))
	}
	j.body.Write(piece)
	if have+len(piece) < j.size {
		return 0, nil, nil
	}
	text := j.body.String() // nobody else has its memory
	kind, body = j.kind, unsafe.Slice(unsafe.StringData(text), len(text))
	*j = joiner{max: j.max}
	return kind, body, nil
}
