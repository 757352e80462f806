package line

import "sync"

const (
	bufferPooled = 1 << 20              // larger buffers are left to the garbage collector
	bufferFull   = 3 * bufferPooled / 4 // after that many bytes a new chunk begins
)

// Buffer holds encoded frames on their way to a client. Only lines with unwritten output have one.
// A long one consists of chunks: it is not copied as it grows, and so takes no more memory than its
// contents, whenever the garbage collector runs.
type Buffer struct {
	full     [][]byte // chunks, the oldest first
	fullSize int      // bytes in full
	b        []byte   // the last chunk
	// sizes of the replies in the buffer; all 0 if there are none
	last, least, most int

	Counted int    // of its host: bytes that are counted as unread
	Audited uint64 // of its host: entry of the audit log that must be written before; 0 for none
}

var buffers = sync.Pool{New: func() any { return &Buffer{b: make([]byte, 0, 4<<10)} }}

// Release gives a buffer back that was written, or will not be.
func (o *Buffer) Release() {
	if cap(o.b) <= bufferPooled {
		*o = Buffer{b: o.b[:0]}
		buffers.Put(o)
	}
}

// Len returns the number of bytes.
func (o *Buffer) Len() int { return o.fullSize + len(o.b) }

// Full returns the chunks before the last one. The caller may set them to nil.
func (o *Buffer) Full() [][]byte { return o.full }

// Last returns the last chunk.
func (o *Buffer) Last() []byte { return o.b }

// Written removes the first n bytes of the last chunk.
func (o *Buffer) Written(n int) { o.b = o.b[:copy(o.b, o.b[n:])] }

// Sizes returns the sizes of the last, the shortest and the longest reply. All are 0 if there is none.
func (o *Buffer) Sizes() (last, least, most int) { return o.last, o.least, o.most }

// chunk returns the chunk to append the next frame to.
func (o *Buffer) chunk() []byte {
	if len(o.b) >= bufferFull {
		o.full = append(o.full, o.b)
		o.fullSize += len(o.b)
		o.b = make([]byte, 0, bufferPooled)
	}
	return o.b
}

// observeSize records the size of a reply.
func (o *Buffer) observeSize(size int) {
	o.last, o.most = size, max(o.most, size)
	if o.least == 0 || size < o.least {
		o.least = size
	}
}
