package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// Meta describes a snapshot.
type Meta struct {
	// Zxid is the last transaction that the snapshot contains.
	Zxid jute.Zxid `codec:"zxid"`
	// Epoch is the epoch in which it was taken.
	Epoch uint32 `codec:"epoch"`
	// Time is when it was taken, ms since the Unix epoch.
	Time int64 `codec:"time"`
	// Digest is a digest of the content, opaque here. The caller compares it with that of the
	// state that it has loaded.
	Digest []byte `codec:"digest"`
	// Extra is other data that belong to the state, by name: the cluster's id, the ensemble's
	// configuration, the table of epochs.
	Extra map[string][]byte `codec:"extra"`

	// Server is the id of the server that took the snapshot, 0 for one without an ensemble.
	// Incarnation names the log that it was taken from. Snapshots of format 1 have neither.
	Server      uint8  `codec:"server,omitempty"`
	Incarnation []byte `codec:"incarnation,omitempty"`
}

// writer names the server that took the snapshot, for messages.
func (m *Meta) writer() string {
	switch {
	case len(m.Incarnation) == 0:
		return "an unknown server"
	case m.Server == 0:
		return fmt.Sprintf("a single server (incarnation %.4x)", m.Incarnation)
	}
	return fmt.Sprintf("server %d (incarnation %.4x)", m.Server, m.Incarnation)
}

// fits returns an error if the snapshot is not the one that ref names.
func (m *Meta) fits(ref *Ref) error {
	if m.Zxid != ref.Zxid || !slices.Equal(m.Digest, ref.Digest) {
		return fmt.Errorf("it is the snapshot of zxid %v with digest %x, not of %v with %x", m.Zxid, m.Digest, ref.Zxid, ref.Digest)
	}
	return nil
}

// SectionCount is the number of keys of a section, and a checksum of its items.
type SectionCount struct {
	Name  string `codec:"name"`
	Count int64  `codec:"count"`
	Sum   uint64 `codec:"sum,omitempty"` // of the items' itemSum; none in format 1
}

// complete is the value of meta/complete.
type complete struct {
	Sections []SectionCount `codec:"sections"`       // in the order in which they are to be read
	InfoCRC  uint32         `codec:"info,omitempty"` // CRC32C of meta/info; none in format 1
}

// itemSum returns the checksum of an item as it is stored: the CRC32C of key and value, and
// above it the length of the key. The checksum of a section is the sum of these, which does
// not depend on the order in which items are written.
func itemSum(key, value []byte) uint64 {
	crc := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return uint64(len(key))<<32 + uint64(crc)
}

// The value of meta/format is the version in a byte and, since format 2, the CRC32C of
// formatSeal and that byte: a flipped bit must not look like a later version.
const formatSeal = "zkd snapshot"

func encodeFormat(version byte) []byte {
	return binary.LittleEndian.AppendUint32([]byte{version}, crc32.Checksum(append([]byte(formatSeal), version), castagnoli))
}

// decodeFormat returns the version in the value of meta/format.
func decodeFormat(b []byte) (uint32, error) {
	if len(b) == 1 || len(b) == 5 && bytes.Equal(b, encodeFormat(b[0])) {
		return uint32(b[0]), format.Snapshot.Check(uint32(b[0]))
	}
	return 0, fmt.Errorf("meta/format is %x", b)
}

// encode returns the canonical msgpack form of v, which is the same for equal values.
func encode(v any) ([]byte, error) {
	var b []byte
	h := &codec.MsgpackHandle{WriteExt: true}
	h.Canonical = true
	err := codec.NewEncoderBytes(&b, h).Encode(v)
	return b, err
}

// decode reads the output of encode. The decoder allocates at most a small multiple of the
// size of b. It refuses b if it is not exactly what encode would write.
func decode(b []byte, v any) error {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.MaxInitLen = 1024
	if err := codec.NewDecoderBytes(b, h).Decode(v); err != nil {
		return err
	}
	again, err := encode(v)
	if err == nil && !bytes.Equal(again, b) {
		err = errors.New("not in canonical form")
	}
	return err
}

// metaItems returns the items of the bucket meta. It completes done.
func metaItems(meta Meta, done *complete) (iter.Seq2[[]byte, []byte], error) {
	info, err := encode(&meta)
	if err != nil {
		return nil, err
	}
	done.InfoCRC = crc32.Checksum(info, castagnoli)
	sections, err := encode(done)
	if err != nil {
		return nil, err
	}
	return func(yield func(k, v []byte) bool) {
		_ = yield([]byte("complete"), sections) &&
			yield([]byte("format"), encodeFormat(byte(format.Snapshot.Writes()))) &&
			yield([]byte("info"), info)
	}, nil
}

// metaBucket collects the entries of the bucket meta.
type metaBucket map[string][]byte

func (m metaBucket) read() (c contents, err error) {
	if c.version, err = decodeFormat(m["format"]); err != nil {
		return c, err
	}
	if m["complete"] == nil {
		return c, errors.New("meta/complete is missing: the file was never finished")
	}
	if err = decode(m["info"], &c.meta); err != nil {
		return c, fmt.Errorf("decode meta/info: %w", err)
	}
	var done complete
	if err = decode(m["complete"], &done); err != nil {
		return c, fmt.Errorf("decode meta/complete: %w", err)
	}
	if c.version > 1 && done.InfoCRC != crc32.Checksum(m["info"], castagnoli) {
		return c, errors.New("the checksum of meta/info is wrong")
	}
	c.sections = done.Sections
	return c, nil
}
