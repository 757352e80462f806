package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// snappyReader reads the stream of snappy blocks that Java's snappy library writes:
//
//	header   82 "SNAPPY" 00, version (4), lowest compatible version (4)
//	chunk    length (4), a block of that length
//
// Streams may be concatenated: the next header then stands in the place of a chunk.
type snappyReader struct {
	r      io.Reader
	begun  bool
	chunk  []byte
	block  []byte
	unread []byte // part of block
}

const (
	snappyMagic    = "\x82SNAPPY\x00"
	snappyHeader   = 8 + 4 + 4
	maxSnappyChunk = 16 << 20
	maxSnappyBlock = 64 << 20
)

func (z *snappyReader) Read(b []byte) (int, error) {
	for len(z.unread) == 0 {
		if err := z.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, z.unread)
	z.unread = z.unread[n:]
	return n, nil
}

// fill reads the next header or chunk. It returns io.EOF at the end.
func (z *snappyReader) fill() error {
	var head [snappyHeader]byte
	if _, err := io.ReadFull(z.r, head[:4]); err != nil {
		return err // io.EOF if there is nothing
	}
	if string(head[:4]) == snappyMagic[:4] {
		if _, err := io.ReadFull(z.r, head[4:]); err != nil || string(head[:8]) != snappyMagic || binary.BigEndian.Uint32(head[12:]) > 1 {
			return errors.New("snappy: no header")
		}
		z.begun = true
		return nil
	}
	n := binary.BigEndian.Uint32(head[:])
	if !z.begun || n > maxSnappyChunk {
		return fmt.Errorf("snappy: a chunk of %d bytes", n)
	}
	if uint32(cap(z.chunk)) < n {
		z.chunk = make([]byte, n)
	}
	z.chunk = z.chunk[:n]
	if _, err := io.ReadFull(z.r, z.chunk); err != nil {
		return io.ErrUnexpectedEOF
	}
	size, err := snappy.DecodedLen(z.chunk)
	if err == nil && size > maxSnappyBlock {
		err = fmt.Errorf("a block of %d bytes", size)
	}
	if err == nil {
		z.block, err = snappy.Decode(z.block[:cap(z.block)], z.chunk)
	}
	if err != nil {
		return fmt.Errorf("snappy: %w", err)
	}
	z.unread = z.block
	return nil
}
