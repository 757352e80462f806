package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// Kind is the kind of a record: its effect on the history.
type Kind uint8

// The kinds. The numbers are part of the format: append, never renumber.
const (
	// Append adds the entry Zxid after Prev.
	Append Kind = 1
	// Promise replaces the promise by the payload, of at most 256 bytes. Zxid is ignored.
	Promise Kind = 2
	// Truncate drops the entries after Zxid, none of which may be committed.
	Truncate Kind = 3
	// Snapshot names a snapshot at Zxid; see SnapRef. One that is older than the
	// newest has no effect.
	Snapshot Kind = 4
	// CommitHint says that the entries up to Zxid are committed.
	CommitHint Kind = 5
	// Ident replaces the identity by the payload, of at most 1 KiB.
	Ident Kind = 6
	// Forget drops the references to snapshots before the one at Zxid, so that
	// their files may be removed: see Purge.
	Forget Kind = 7
	// Notes replaces the owner's notes by the payload, of at most 2304 bytes. They are
	// opaque here. Like the promise they survive a purge.
	Notes Kind = 8

	lastKind = Notes
)

var kindNames = [...]string{Append: "append", Promise: "promise", Truncate: "truncate",
	Snapshot: "snapshot", CommitHint: "commithint", Ident: "ident", Forget: "forget", Notes: "notes"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if k.known() {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (k Kind) known() bool { return k >= Append && k <= lastKind }

// Record is one record of the log.
type Record struct {
	Kind Kind
	// Type is set by the owner for an entry, and is opaque here. Entries whose type is not 0 can
	// be found without reading the others: see Recovered.Control. Other kinds have none.
	Type uint8
	Zxid jute.Zxid
	// Prev is the zxid of the last entry before the record. For Append the caller sets it, and
	// the log checks it; for other kinds the log sets it.
	Prev jute.Zxid
	// Payload belongs to the log until the record is durable, and must not change until then.
	Payload []byte
}

const (
	recordMagic  = 0x6b5a // "Zk"
	recordHeader = 48
	align        = 8

	// MaxPayload bounds the payload of any record, in bytes.
	MaxPayload = 256 << 20
	// MaxIdent bounds the identity, in bytes.
	MaxIdent   = 1 << 10
	maxPromise = 256
	// MaxNotes bounds the notes, in bytes.
	MaxNotes = 2304
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a record as encoded in a segment.
type frame struct {
	Record
	seq     uint64
	durable uint64 // highest seq whose fsync had completed when this was written
	prevCRC uint32
	crc     uint32
	size    int // in bytes, padding included
}

// frameSize returns the bytes that a record with n bytes of payload takes.
func frameSize(n int) int { return (recordHeader + n + align - 1) &^ (align - 1) }

// appendFrame encodes r after b and returns its CRC. salt is the CRC of the segment's
// header; the CRC of a record starts from it.
func appendFrame(b []byte, salt uint32, f *frame) ([]byte, uint32) {
	start := len(b)
	var h [recordHeader]byte
	binary.LittleEndian.PutUint16(h[0:], recordMagic)
	h[2], h[3] = byte(f.Kind), f.Type
	binary.LittleEndian.PutUint32(h[4:], uint32(len(f.Payload)))
	binary.LittleEndian.PutUint64(h[8:], f.seq)
	binary.LittleEndian.PutUint64(h[16:], f.durable)
	binary.LittleEndian.PutUint64(h[24:], uint64(f.Zxid))
	binary.LittleEndian.PutUint64(h[32:], uint64(f.Prev))
	binary.LittleEndian.PutUint32(h[40:], f.prevCRC)
	b = append(b, h[:]...)
	b = append(b, f.Payload...)
	for len(b)%align != start%align {
		b = append(b, 0)
	}
	crc := frameCRC(salt, b[start:])
	binary.LittleEndian.PutUint32(b[start+44:], crc)
	return b, crc
}

// frameCRC returns the CRC of the whole frame except the CRC itself.
func frameCRC(salt uint32, b []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, b[:44]), castagnoli, b[recordHeader:])
}

// payloadLen reads the length of the record whose header is h and checks it against the
// room after it, before anything of that length is allocated or read.
func payloadLen(h []byte, room int64) (int, error) {
	if m := binary.LittleEndian.Uint16(h); m != recordMagic {
		return 0, invalidf("magic %#04x", m)
	}
	n := binary.LittleEndian.Uint32(h[4:])
	if n > MaxPayload || int64(frameSize(int(n))) > room {
		return 0, invalidf("length %d, room %d", n, room)
	}
	return int(n), nil
}

// decode reads the record at the start of b, which may be truncated. The payload is a
// part of b. After an error f has no meaning.
func (f *frame) decode(b []byte, salt uint32) error {
	if len(b) < recordHeader {
		return invalidf("%d bytes", len(b))
	}
	n, err := payloadLen(b, int64(len(b)))
	if err != nil {
		return err
	}
	size := frameSize(n)
	b = b[:size]
	*f = frame{
		Record: Record{
			Kind:    Kind(b[2]),
			Type:    b[3],
			Zxid:    jute.Zxid(binary.LittleEndian.Uint64(b[24:])),
			Prev:    jute.Zxid(binary.LittleEndian.Uint64(b[32:])),
			Payload: b[recordHeader : recordHeader+n : recordHeader+n],
		},
		seq:     binary.LittleEndian.Uint64(b[8:]),
		durable: binary.LittleEndian.Uint64(b[16:]),
		prevCRC: binary.LittleEndian.Uint32(b[40:]),
		crc:     binary.LittleEndian.Uint32(b[44:]),
		size:    size,
	}
	if crc := frameCRC(salt, b); crc != f.crc {
		return invalidf("crc %08x, want %08x", f.crc, crc)
	}
	if !f.Kind.known() {
		return &format.VersionError{What: "log record kind", Found: uint32(f.Kind), Least: uint32(Append), Most: uint32(lastKind)}
	}
	if f.Kind != Append && f.Type != 0 {
		return &format.VersionError{What: "type of a " + f.Kind.String() + " record", Found: uint32(f.Type)}
	}
	for _, c := range b[recordHeader+n:] {
		if c != 0 {
			return invalidf("padding not zero")
		}
	}
	if f.seq == 0 || f.durable >= f.seq {
		return invalidf("seq %d with durable seq %d", f.seq, f.durable)
	}
	return nil
}
