package wal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/zkd-project/zkd/internal/format"
)

const (
	headerSize  = 4096
	headerFixed = 48
	// headerFixed1 is the size of the fixed fields in format 1, which has no prev.
	headerFixed1 = 40
	headerCRC    = headerSize - 4
	headerMagic  = "zkdwal\r\n"
)

// header is the first block of a segment.
type header struct {
	version uint32 // of the format
	first   uint64 // seq of the first record; earlier records end at first-1
	size    int64  // of the file, in bytes
	prevCRC uint32 // of the record first-1
	prev    uint64 // first seq of the previous segment; 0 if there was none, or in format 1
	state   state  // as of the record first-1
	crc     uint32 // of the block: the salt of the segment's records
}

// newHeader returns a header in the current write format.
func newHeader() header { return header{version: format.Segment.Writes()} }

// fixed returns the size of the fixed fields.
func (h *header) fixed() int64 {
	if h.version == 1 {
		return headerFixed1
	}
	return headerFixed
}

// encode returns the block and sets crc.
func (h *header) encode() []byte {
	b := make([]byte, h.fixed(), headerSize)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], h.version)
	binary.LittleEndian.PutUint64(b[16:], h.first)
	binary.LittleEndian.PutUint64(b[24:], uint64(h.size))
	binary.LittleEndian.PutUint32(b[32:], h.prevCRC)
	if h.version > 1 {
		binary.LittleEndian.PutUint64(b[40:], h.prev)
	}
	b = h.state.append(b, h.version)
	binary.LittleEndian.PutUint32(b[12:], uint32(int64(len(b))-h.fixed()))
	b = b[:headerSize]
	h.crc = headerCRCOf(b)
	binary.LittleEndian.PutUint32(b[headerCRC:], h.crc)
	return b
}

// headerCRCOf returns the CRC that the block should have.
func headerCRCOf(b []byte) uint32 { return crc32.Checksum(b[:headerCRC], castagnoli) }

// sealed reports whether a block is a header with the right checksum, which is no damage, whatever is in it.
func (h *header) sealed(b []byte) bool {
	return string(b[:8]) == headerMagic && headerCRCOf(b) == h.crc
}

// decodeHeader is the inverse of encode. It sets crc even if the block is not valid, so
// that the records after it can be examined.
func decodeHeader(b []byte) (header, error) {
	if len(b) != headerSize {
		return header{}, invalidf("header of %d bytes", len(b))
	}
	h := header{
		version: binary.LittleEndian.Uint32(b[8:]),
		first:   binary.LittleEndian.Uint64(b[16:]),
		size:    int64(binary.LittleEndian.Uint64(b[24:])),
		prevCRC: binary.LittleEndian.Uint32(b[32:]),
		crc:     binary.LittleEndian.Uint32(b[headerCRC:]),
	}
	if string(b[:8]) != headerMagic {
		return h, invalidf("header magic %q", b[:8])
	}
	if crc := headerCRCOf(b); crc != h.crc {
		return h, invalidf("header crc %08x, want %08x", h.crc, crc)
	}
	if err := format.Segment.Check(h.version); err != nil {
		return h, err
	}
	if h.version > 1 {
		h.prev = binary.LittleEndian.Uint64(b[40:])
	}
	n, fixed := int64(binary.LittleEndian.Uint32(b[12:])), h.fixed()
	if n > headerCRC-fixed || h.first == 0 || h.prev >= h.first || h.size < headerSize || binary.LittleEndian.Uint32(b[36:]) != 0 {
		return h, invalidf("header fields")
	}
	for _, c := range b[fixed+n : headerCRC] {
		if c != 0 {
			return h, invalidf("header padding not zero")
		}
	}
	var err error
	h.state, err = decodeState(b[fixed:fixed+n], h.version)
	return h, err
}
