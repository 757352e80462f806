package wal

import (
	"encoding/binary"
	"hash/crc32"
)

func crc32cOf(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b, castagnoli))
}
