package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// frames reads frames from a connection.
type frames struct {
	r      io.Reader
	buf    []byte // [start:end] is unread; nil while nothing is expected
	start  int
	end    int
	full   bool // the last read had as much as there was room for
	most   int
	onPart func(xid int32) // a part of a frame has come
}

// A buffer begins with little, since programs have many idle clients, and grows up to usual where much comes at a time.
const (
	little = 512
	usual  = 64 << 10
)

func newFrames(r io.Reader, most int) *frames {
	return &frames{r: r, most: most, onPart: func(int32) {}}
}

// next returns the payload of the next frame, valid until the next call. At the end of the
// input it returns io.EOF.
func (f *frames) next() ([]byte, error) {
	if err := f.fill(4); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(f.buf[f.start:])))
	if n < 0 || n > f.most {
		if n < 0 || isText(f.buf[f.start:f.start+4]) {
			line, _, _ := bytes.Cut(f.buf[f.start:min(f.start+80, f.end)], []byte("\r"))
			return nil, fmt.Errorf("%w: it says %q", ErrNotZooKeeper, line)
		}
		return nil, &longReply{n, f.most}
	}
	if err := f.fill(4 + n); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	payload := f.buf[f.start+4 : f.start+4+n]
	f.start += 4 + n
	return payload, nil
}

// longReply is a reply that is longer than the client accepts.
type longReply struct{ bytes, limit int }

func (e *longReply) Error() string {
	return fmt.Sprintf("a reply of %d bytes: the limit is %d (Options.MaxReply)", e.bytes, e.limit)
}

// isText reports whether the bytes are letters of a text protocol such as HTTP, not a length.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c > '~' })
}

// littles has buffers of that size, which idle connections need for the time of a ping.
var littles = sync.Pool{New: func() any { return new([little]byte) }}

// rest gives up the buffer, until something comes. It reports false if there is something in it. Payloads are not valid any more.
func (f *frames) rest() bool {
	if f.start < f.end {
		return false
	}
	if len(f.buf) == little {
		littles.Put((*[little]byte)(f.buf))
	}
	f.buf, f.start, f.end, f.full = nil, 0, 0, false
	return true
}

// fill makes n bytes available.
func (f *frames) fill(n int) error {
	if f.end-f.start >= n {
		return nil
	}
	if f.start+n > len(f.buf) || f.start == f.end {
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	switch {
	case f.buf == nil:
		f.buf = littles.Get().(*[little]byte)[:]
	case len(f.buf) > 1<<20 && n < usual && f.end < usual: // do not keep the memory of one large reply
		f.buf = slices.Clone(f.buf[:usual])
	case f.full && len(f.buf) < usual:
		f.grow(2 * len(f.buf))
	}
	for f.end-f.start < n {
		if part := f.buf[f.start:f.end]; len(part) >= 8 {
			f.onPart(int32(binary.BigEndian.Uint32(part[4:])))
		}
		if f.end == len(f.buf) { // at most twice what has arrived, whatever the length says
			f.grow(min(n, 2*len(f.buf)))
		}
		m, err := f.r.Read(f.buf[f.end:])
		f.end += m
		f.full = f.end == len(f.buf)
		if err != nil && f.end-f.start < n {
			return err
		}
	}
	return nil
}

func (f *frames) grow(size int) {
	grown := make([]byte, size)
	copy(grown, f.buf[:f.end])
	f.buf = grown
}
