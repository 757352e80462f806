package server

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// ident identifies this server's data and protects its sessions. It is made with the log
// and is stored in the header of each segment.
//
//	byte 0       format (format.Identity)
//	bytes 1-16   cluster id: names the history
//	bytes 17-32  incarnation: names this copy of it
//	bytes 33-64  secret of the session passwords
//	byte 65      1 if the log replaced a damaged one, or one that may be lost: the
//	             server does not count before it is admitted to an ensemble
//	byte 66      id of the server that the log belongs to; 0 before it is a member
//	bytes 67-82  incarnation of the log that this one replaced; zero for none
//	bytes 83-90  bound of the ids that have been given out, big-endian: see session.IDs
//
// Format 1 ends after byte 65, and is still read. Each start writes the identity again,
// with a higher bound.
//
// Cluster id and secret are those of a server without an ensemble, or what it offers to
// an ensemble that begins with it: an ensemble has its own.
type ident struct {
	format      uint8
	cluster     zab.ID
	incarnation zab.ID
	secret      [32]byte
	unproven    bool
	server      zab.SID
	replaced    zab.ID
	ids         uint64
}

const (
	identSize1 = 1 + 16 + 16 + 32 + 1
	identSize  = identSize1 + 1 + 16 + 8
)

// newIdent makes the identity of a new log.
func newIdent() (id ident) {
	id.format = uint8(format.Identity.Writes())
	rand.Read(id.cluster[:]) // never fails
	rand.Read(id.incarnation[:])
	rand.Read(id.secret[:])
	return id
}

func (id *ident) encode() []byte {
	b := make([]byte, 0, identSize)
	b = append(b, id.format)
	b = append(b, id.cluster[:]...)
	b = append(b, id.incarnation[:]...)
	b = append(b, id.secret[:]...)
	if id.unproven {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	if id.format == 1 {
		return b
	}
	b = append(b, byte(id.server))
	b = append(b, id.replaced[:]...)
	return binary.BigEndian.AppendUint64(b, id.ids)
}

func (id *ident) record() wal.Record {
	return wal.Record{Kind: wal.Ident, Payload: id.encode()}
}

func decodeIdent(b []byte) (id ident, err error) {
	if len(b) == 0 {
		return id, errors.New("the log has no identity")
	}
	id.format = b[0]
	if err := format.Identity.Check(uint32(id.format)); err != nil {
		return id, err
	}
	size := identSize
	if id.format == 1 {
		size = identSize1
	}
	if len(b) != size {
		return id, fmt.Errorf("the log's identity has %d bytes, not %d", len(b), size)
	}
	copy(id.cluster[:], b[1:])
	copy(id.incarnation[:], b[17:])
	copy(id.secret[:], b[33:])
	id.unproven = b[65] != 0
	if id.format > 1 {
		id.server = zab.SID(b[66])
		copy(id.replaced[:], b[67:])
		id.ids = binary.BigEndian.Uint64(b[83:])
	}
	return id, nil
}

// belongsTo returns the name of the server that data belongs to, for messages.
func belongsTo(server zab.SID, incarnation zab.ID) string {
	if server == 0 {
		return fmt.Sprintf("a single server (%s)", shortID(incarnation))
	}
	return fmt.Sprintf("server %d (%s)", server, shortID(incarnation))
}

// shortID returns an incarnation in the form used by messages and by --set-data-aside.
func shortID(id zab.ID) string { return fmt.Sprintf("%x", id[:4]) }
