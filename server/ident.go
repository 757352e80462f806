package server

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// ident is what names this server's data and protects its sessions. It is made
// with the data directory and stands in the header of each segment of the log.
//
//	byte 0       format, 2; 1 is without the last field
//	bytes 1-16   cluster id: names the history
//	bytes 17-32  incarnation: names this copy of it
//	bytes 33-64  secret of the session passwords
//	byte 65      1 if the log took the place of a damaged one, or of one that may be lost: the
//	             server does not count before it is admitted to an ensemble
//	bytes 66-73  bound of the ids that have been given out: see session.IDs; big-endian
//
// Each start writes the identity again, with a higher bound.
//
// Cluster id and secret are those of a server without an ensemble, or what it
// offers to an ensemble that begins with it: an ensemble has its own.
type ident struct {
	cluster, incarnation zab.ID
	secret               [32]byte
	unproven             bool
	ids                  uint64
}

const (
	identFormat = 2
	identSize   = 1 + 16 + 16 + 32 + 1 + 8
	// Format 1.
	oldIdentSize = identSize - 8
)

// newIdent makes the identity of a new data directory.
func newIdent() (id ident) {
	rand.Read(id.cluster[:]) // never fails
	rand.Read(id.incarnation[:])
	rand.Read(id.secret[:])
	return id
}

func (id *ident) encode() []byte {
	b := make([]byte, 0, identSize)
	b = append(b, identFormat)
	b = append(b, id.cluster[:]...)
	b = append(b, id.incarnation[:]...)
	b = append(b, id.secret[:]...)
	unproven := byte(0)
	if id.unproven {
		unproven = 1
	}
	return binary.BigEndian.AppendUint64(append(b, unproven), id.ids)
}

func (id *ident) record() wal.Record {
	return wal.Record{Kind: wal.Ident, Payload: id.encode()}
}

func decodeIdent(b []byte) (id ident, err error) {
	old := len(b) == oldIdentSize && b[0] == 1
	if !old && (len(b) != identSize || b[0] != identFormat) {
		return id, fmt.Errorf("the log's identity has %d bytes in a format that this version does not know: was it written by a newer one?", len(b))
	}
	copy(id.cluster[:], b[1:])
	copy(id.incarnation[:], b[17:])
	copy(id.secret[:], b[33:])
	id.unproven = b[65] != 0
	if !old {
		id.ids = binary.BigEndian.Uint64(b[oldIdentSize:])
	}
	return id, nil
}
