package wal

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/jute"
)

// SnapRef names a snapshot. A snapshot counts only once its reference is durable in the
// log.
type SnapRef struct {
	Zxid   jute.Zxid // the snapshot holds the entries up to and including this one
	Name   string    // of the file, without directory; 1 to 255 bytes
	Size   int64     // of the file, in bytes
	CRC    uint32    // CRC32C of the file
	Digest []byte    // of the content, at most 64 bytes; opaque here
	// Installed marks a snapshot from another server: it replaces the whole history, while a
	// server's own snapshot shortens the history from the front.
	Installed bool
}

const (
	maxSnapName = 255
	maxDigest   = 64
	snapRefMin  = 1 + 8 + 4 + 1 + 1
)

// Record returns the record of the reference.
func (r SnapRef) Record() Record {
	b := make([]byte, 0, snapRefMin+len(r.Digest)+len(r.Name))
	var installed byte
	if r.Installed {
		installed = 1
	}
	b = append(b, installed)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Size))
	b = binary.LittleEndian.AppendUint32(b, r.CRC)
	b = append(b, byte(len(r.Digest)))
	b = append(b, r.Digest...)
	b = append(b, byte(len(r.Name)))
	b = append(b, r.Name...)
	return Record{Kind: Snapshot, Zxid: r.Zxid, Payload: b}
}

// Valid reports whether the fields are within their bounds.
func (r SnapRef) Valid() bool {
	return r.Name != "" && len(r.Name) <= maxSnapName && len(r.Digest) <= maxDigest && r.Size >= 0
}

// SnapRef returns the reference in a record of kind Snapshot.
func (r *Record) SnapRef() (SnapRef, error) { return decodeSnapRef(r.Zxid, r.Payload) }

// decodeSnapRef is the inverse of Record. Its result shares nothing with p.
func decodeSnapRef(zxid jute.Zxid, p []byte) (SnapRef, error) {
	bad := invalidf("snapshot reference of %d bytes", len(p))
	if len(p) < snapRefMin || p[0] > 1 {
		return SnapRef{}, bad
	}
	r := SnapRef{Zxid: zxid, Installed: p[0] == 1,
		Size: int64(binary.LittleEndian.Uint64(p[1:])), CRC: binary.LittleEndian.Uint32(p[9:])}
	nd := int(p[13])
	if len(p) < snapRefMin+nd {
		return SnapRef{}, bad
	}
	if nd > 0 {
		r.Digest = append([]byte(nil), p[14:14+nd]...)
	}
	if nn := int(p[14+nd]); len(p) != snapRefMin+nd+nn {
		return SnapRef{}, bad
	}
	r.Name = string(p[15+nd:])
	if !r.Valid() {
		return SnapRef{}, bad
	}
	return r, nil
}
