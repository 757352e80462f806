package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

const (
	idleBuffer = 512 // size for an idle connection: pings and short requests
	// BusyBuffer is the limit of doubling, except for a larger frame.
	BusyBuffer  = 64 << 10
	largeBuffer = 1 << 20 // a larger one is not kept
)

// A LengthError is the length of a frame that is negative or beyond the limit.
type LengthError struct {
	Bytes, Limit int
	Name         string // of the limit
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("a frame of %d bytes: the limit is %d (%s)", e.Bytes, e.Limit, e.Name)
}

// Cut returns the frame that b begins with, and what follows it. Both share the memory of b. ok is false if not all of the frame is there. limit is
// the name of most, the length of the longest one.
func Cut(b []byte, most int, limit string) (frame, rest []byte, ok bool, err error) {
	n, ok, err := length(b, most, limit)
	if !ok || len(b) < 4+n {
		return nil, b, false, err
	}
	return b[4 : 4+n : 4+n], b[4+n:], true, nil
}

// length returns the length of the frame that b begins with, once known.
func length(b []byte, most int, limit string) (n int, ok bool, err error) {
	if len(b) < 4 {
		return 0, false, nil
	}
	length := int32(binary.BigEndian.Uint32(b))
	if length < 0 || int(length) > most {
		return 0, false, &LengthError{int(length), most, limit}
	}
	return int(length), true, nil
}

// Reader cuts a byte stream into frames: a four-byte big-endian length and that many
// bytes. Reading ahead makes pipelined requests cheap: one read brings many frames.
type Reader struct {
	src   io.Reader
	max   int    // longest frame; a longer or negative one is a LengthError
	limit string // name of max

	buf   []byte // nil: released
	r, w  int    // buf[r:w] is read but not taken
	small int    // consecutive reads that would have fitted into an idle buffer
}

// New returns a Reader of src. A frame has at most maxFrame bytes; limit is the name of the setting that says so.
func New(src io.Reader, maxFrame int, limit string) *Reader {
	return &Reader{src: src, max: maxFrame, limit: limit}
}

// From makes the reader read from src, after what it has read.
func (f *Reader) From(src io.Reader) { f.src = src }

// Put puts bytes before those that will be read. Nothing may be buffered.
func (f *Reader) Put(b []byte) { f.buf, f.r, f.w = b, 0, len(b) }

// Released reports whether the reader has no buffer.
func (f *Reader) Released() bool { return f.buf == nil }

// Next returns the next frame if all of it has been read. The frame shares the
// reader's buffer and is valid until fill.
func (f *Reader) Next() (frame []byte, ok bool, err error) {
	frame, _, ok, err = Cut(f.Ahead(), f.max, f.limit)
	if ok {
		f.r += 4 + len(frame)
	}
	return frame, ok, err
}

// Ahead returns what has been read but not taken. It is valid until fill.
func (f *Reader) Ahead() []byte { return f.buf[f.r:f.w] }

// AwaitWord returns the next four bytes without taking them, once they have been read.
func (f *Reader) AwaitWord() (w [4]byte, err error) {
	for f.Buffered() < 4 {
		if _, err := f.Fill(); err != nil {
			return w, err
		}
	}
	return [4]byte(f.Ahead()), nil
}

// AwaitFrame returns the next frame once it has been read.
func (f *Reader) AwaitFrame() ([]byte, error) {
	for {
		frame, ok, err := f.Next()
		if ok || err != nil {
			return frame, err
		}
		if _, err := f.Fill(); err != nil {
			return nil, err
		}
	}
}

// AwaitBytes consumes the next n bytes once they have been read. It returns nil if they do not come.
func (f *Reader) AwaitBytes(n int) []byte {
	b, ok := f.Take(n)
	for !ok {
		if _, err := f.Fill(); err != nil {
			return nil
		}
		b, ok = f.Take(n)
	}
	return b
}

// AwaitFirst returns the first byte without taking it, once it has been read.
func (f *Reader) AwaitFirst() (byte, error) {
	for f.r == f.w {
		if _, err := f.Fill(); err != nil {
			return 0, err
		}
	}
	return f.buf[f.r], nil
}

// TakeAll consumes a copy of all that has been read.
func (f *Reader) TakeAll() []byte {
	b := append([]byte(nil), f.buf[f.r:f.w]...)
	f.r, f.w = 0, 0
	return b
}

// Rest returns what comes after the bytes that were taken. The reader itself reads no more.
func (f *Reader) Rest() io.Reader { return io.MultiReader(bytes.NewReader(f.TakeAll()), f.src) }

// Buffered returns how many bytes have been read but not taken.
func (f *Reader) Buffered() int { return f.w - f.r }

// Take consumes n bytes that have been read already.
func (f *Reader) Take(n int) (b []byte, ok bool) {
	if f.w-f.r < n {
		return nil, false
	}
	b = f.buf[f.r : f.r+n]
	f.r += n
	return b, true
}

// idle has buffers of idleBuffer bytes, which idle connections need for the time of a ping.
var idle = sync.Pool{New: func() any { return new([idleBuffer]byte) }}

// Release gives up the buffer until the next fill. It returns false if a part of a frame is in it.
// Frames that were taken are not valid any more.
func (f *Reader) Release() bool {
	if f.r != f.w {
		return false
	}
	if cap(f.buf) == idleBuffer {
		idle.Put((*[idleBuffer]byte)(f.buf[:idleBuffer]))
	}
	f.buf, f.r, f.w, f.small = nil, 0, 0, 0
	return true
}

// Fill reads at least one more byte from the source and returns the number of bytes read.
func (f *Reader) Fill() (int, error) {
	f.makeRoom()
	n, err := f.src.Read(f.buf[f.w:])
	f.w += n
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

// makeRoom moves the remaining bytes to the front of a buffer of the right size. A frame
// or a stream that fills the buffer gets one twice as large, up to the size needed, and a
// connection that has been slow for a while gets a small one again. The memory of one very large
// frame is not kept. A length prefix alone, which costs a client nothing, gets no memory.
func (f *Reader) makeRoom() {
	need := 0
	if n, ok, err := length(f.Ahead(), f.max, f.limit); ok && err == nil {
		need = 4 + n
	}
	size, left := len(f.buf), f.w-f.r
	switch {
	case size == 0:
		size = idleBuffer
	case size > largeBuffer && max(need, left) <= BusyBuffer:
		size = BusyBuffer
	case f.w == size && left == size || f.w == size && size < BusyBuffer:
		size = min(size*2, max(need, BusyBuffer))
		f.small = 0
	case f.w <= idleBuffer/2:
		f.small++
	default:
		f.small = 0
	}
	if f.small >= 16 && need <= idleBuffer {
		size, f.small = idleBuffer, 0
	}
	buf := f.buf
	switch {
	case buf == nil && size == idleBuffer:
		buf = idle.Get().(*[idleBuffer]byte)[:]
	case size != len(buf):
		buf = make([]byte, size)
	case f.r == 0:
		return
	}
	f.w = copy(buf, f.buf[f.r:f.w])
	f.r, f.buf = 0, buf
}
