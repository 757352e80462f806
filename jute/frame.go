package jute

import (
	"encoding/binary"
	"fmt"
	"io"
)

// JavaMaxBuffer is jute.maxbuffer of Java's clients, in bytes, unless they set it: they end the
// connection at a longer reply.
const JavaMaxBuffer = 0xfffff

// BeginFrame starts a frame at the end of b: it appends room for the length, and returns
// its offset for [EndFrame].
func BeginFrame(b []byte) (_ []byte, mark int) {
	return append(b, 0, 0, 0, 0), len(b)
}

// EndFrame writes the length of the frame begun at mark. Its payload is the rest of b
// after the length.
func EndFrame(b []byte, mark int) []byte {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-4))
	return b
}

// ReadFrame reads a frame of at most most bytes, and returns its payload. The error is io.EOF
// only between two frames. It is for tools and tests: servers and clients read many frames at a
// time.
func ReadFrame(r io.Reader, most int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(most) {
		return nil, fmt.Errorf("a frame of %d bytes, and the limit is %d", n, most)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(r, payload)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return payload, err
}
