package transport

import (
	"sync"

	"github.com/zkd-project/zkd/server/zab"
)

const (
	chunkSize   = 128 << 10
	chunkPooled = 4 << 20 // larger ones are left to the garbage collector
)

// chunk holds outgoing frames, or records of the bulk lane.
type chunk struct{ b []byte }

var chunks = sync.Pool{New: func() any { return &chunk{b: make([]byte, 0, chunkSize)} }}

// newChunk returns an empty chunk with room for n bytes.
func newChunk(n int) *chunk {
	c := chunks.Get().(*chunk)
	if cap(c.b) < n {
		chunks.Put(c)
		return &chunk{b: make([]byte, 0, n)}
	}
	return c
}

func (c *chunk) release() {
	if cap(c.b) <= chunkPooled {
		c.b = c.b[:0]
		chunks.Put(c)
	}
}

// outQueue is the queue of one lane, in chunks, so that a long queue is not copied as it
// grows.
type outQueue struct {
	chunks []*chunk
	bytes  int    // in chunks, and in those that the writer has taken and not written yet
	spare  *chunk // empty, or nil: reused by a link with little traffic
}

// begin returns the chunk to which a frame of about n bytes is to be appended.
func (q *outQueue) begin(n int) *chunk {
	if k := len(q.chunks); k > 0 {
		if c := q.chunks[k-1]; cap(c.b)-len(c.b) >= n {
			return c
		}
	}
	c := q.spare
	if q.spare = nil; c == nil || cap(c.b) < n {
		c = newChunk(n)
	}
	q.chunks = append(q.chunks, c)
	return c
}

// recycle takes back a chunk whose bytes are no longer needed.
func (q *outQueue) recycle(c *chunk) {
	if q.spare == nil && cap(c.b) <= 2*chunkSize {
		c.b = c.b[:0]
		q.spare = c
		return
	}
	c.release()
}

// sizeOf estimates the size of a message's frame. It is never much too low.
func sizeOf(m *zab.Message) int {
	n := 256 + 12*len(m.Epochs)
	for i := range m.Entries {
		n += 24 + len(m.Entries[i].Data)
	}
	return n
}
