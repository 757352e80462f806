package streams

import (
	"encoding/binary"
	"fmt"
)

const (
	// Window is how many bytes of a stream may be sent that the other side has not read.
	Window = 16 << 10
	// Most is how many streams a connection may have.
	Most = 4096
	// MaxWhose is the longest text of an open.
	MaxWhose = 256
)

// The kinds of frames.
const (
	KindOpen byte = iota + 1
	KindData
	KindCredit
	KindEnd
	KindQuit
	KindPings
	KindPongs
	KindUnpinged
)

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 1 + 4 + 4
	idLen     = 4 // of a stream, in a frame about many
)

// Header is what a frame begins with.
type Header struct {
	Kind   byte
	Stream uint32
	Length int // of what follows
}

// Append appends the header as a frame has it.
func (h *Header) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, h.Kind), h.Stream)
	return binary.BigEndian.AppendUint32(b, uint32(h.Length))
}

// DecodeHeader decodes the header of a frame, of HeaderLen bytes. An error means that no frame of this kind has this length.
func DecodeHeader(b []byte) (Header, error) {
	h := Header{Kind: b[0], Stream: binary.BigEndian.Uint32(b[1:])}
	length := binary.BigEndian.Uint32(b[5:])
	least, most := uint32(0), uint32(0)
	switch h.Kind {
	case KindOpen:
		most = MaxWhose
	case KindData:
		least, most = 1, Window
	case KindCredit:
		least, most = 4, 4
	case KindEnd, KindQuit:
	case KindPings, KindPongs, KindUnpinged:
		least, most = idLen, Most*idLen
	default:
		return h, fmt.Errorf("a frame of the unknown kind %d", h.Kind)
	}
	if length < least || length > most || h.Kind >= KindPings && length%idLen != 0 {
		return h, fmt.Errorf("a frame of kind %d with %d bytes, want %d to %d", h.Kind, length, least, most)
	}
	h.Length = int(length)
	return h, nil
}
