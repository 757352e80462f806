package jute

import "encoding/binary"

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
