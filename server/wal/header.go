package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	headerSize    = 4096
	headerFixed   = 40
	headerCRC     = headerSize - 4
	headerMagic   = "zkdwal\r\n"
	formatVersion = 2 // 1 had no notes in the state
)

// header is the first block of a segment.
type header struct {
	first   uint64 // seq of the first record; what precedes ends at first-1
	size    int64  // of the file, in bytes
	prevCRC uint32 // of the record first-1
	state   state  // as of the record first-1
	crc     uint32 // of the block: the salt of the segment's records
}

// encode returns the block and sets crc.
func (h *header) encode() []byte {
	b := make([]byte, headerFixed, headerSize)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], h.first)
	binary.LittleEndian.PutUint64(b[24:], uint64(h.size))
	binary.LittleEndian.PutUint32(b[32:], h.prevCRC)
	b = h.state.append(b)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-headerFixed))
	b = b[:headerSize]
	h.crc = headerCRCOf(b)
	binary.LittleEndian.PutUint32(b[headerCRC:], h.crc)
	return b
}

// headerCRCOf returns the CRC that the block should have.
func headerCRCOf(b []byte) uint32 { return crc32.Checksum(b[:headerCRC], castagnoli) }

// decodeHeader is the inverse of encode. The crc field is set even if the block
// is not valid, for looking at what is behind it.
func decodeHeader(b []byte) (header, error) {
	if len(b) != headerSize {
		return header{}, invalidf("header of %d bytes", len(b))
	}
	h := header{
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
	format := binary.LittleEndian.Uint32(b[8:])
	if format == 0 || format > formatVersion {
		return h, fmt.Errorf("segment of format %d: %w", format, ErrVersion)
	}
	n := int64(binary.LittleEndian.Uint32(b[12:]))
	if n > headerCRC-headerFixed || h.first == 0 || h.size < headerSize || binary.LittleEndian.Uint32(b[36:]) != 0 {
		return h, invalidf("header fields")
	}
	for _, c := range b[headerFixed+n : headerCRC] {
		if c != 0 {
			return h, invalidf("header padding not zero")
		}
	}
	var err error
	h.state, err = decodeState(b[headerFixed:headerFixed+n], format)
	return h, err
}
