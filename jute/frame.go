package jute

import "encoding/binary"

// BeginFrame starts a frame at the end of b: it appends room for the length,
// and returns where that is for [EndFrame].
func BeginFrame(b []byte) (_ []byte, mark int) {
	return append(b, 0, 0, 0, 0), len(b)
}

// EndFrame writes the length of the frame begun at mark, whose payload is all
// that b has behind it.
func EndFrame(b []byte, mark int) []byte {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-4))
	return b
}
