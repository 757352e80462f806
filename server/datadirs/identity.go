package datadirs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/zab"
)

// Identity identifies this server's data and protects its sessions. It is made with the log
// and is stored in the header of each segment.
//
//	byte 0       format (format.Identity)
//	bytes 1-16   cluster id: names the history
//	bytes 17-32  incarnation: names this copy of it
//	bytes 33-64  secret of the session passwords
//	byte 65      bit 0: the log replaced a damaged one, or one that may be lost: the
//	             server does not count before it is admitted to an ensemble
//	             bit 1: the log belongs to server 0
//	byte 66      id of the server that the log belongs to; 0 before it is a member
//	bytes 67-82  incarnation of the log that this one replaced; zero for none
//	bytes 83-90  bound of the ids that have been given out, big-endian: see session.IDs
//
// Format 1 ends after byte 65, and is still read. Each start writes the identity again,
// with a higher bound.
//
// Cluster id and secret are those of a server without an ensemble, or what it offers to
// an ensemble that begins with it: an ensemble has its own.
type Identity struct {
	Format      uint8
	Cluster     zab.ID
	Incarnation zab.ID
	Secret      secret.Key
	Unproven    bool
	Server      zab.SID
	Replaced    zab.ID
	IDs         uint64
}

const (
	isUnproven   = 1
	isServerZero = 2

	identSize1 = 1 + 16 + 16 + 32 + 1
	identSize  = identSize1 + 1 + 16 + 8
)

// Encode returns the identity in the form of its Format.
func (id *Identity) Encode() []byte {
	b := make([]byte, 0, identSize)
	b = append(b, id.Format)
	b = append(b, id.Cluster[:]...)
	b = append(b, id.Incarnation[:]...)
	b = append(b, id.Secret[:]...)
	flags := byte(0)
	if id.Unproven {
		flags |= isUnproven
	}
	if id.Server == zab.Zero {
		flags |= isServerZero
	}
	b = append(b, flags)
	if id.Format == 1 {
		return b
	}
	b = append(b, byte(id.Server))
	b = append(b, id.Replaced[:]...)
	return binary.BigEndian.AppendUint64(b, id.IDs)
}

// DecodeIdentity is the inverse of Encode. For an identity of a later version it returns a
// *format.VersionError.
func DecodeIdentity(b []byte) (id Identity, err error) {
	if len(b) == 0 {
		return id, errors.New("the log has no identity")
	}
	id.Format = b[0]
	if err := format.Identity.Check(uint32(id.Format)); err != nil {
		return id, err
	}
	size := identSize
	if id.Format == 1 {
		size = identSize1
	}
	if len(b) != size {
		return id, fmt.Errorf("the log's identity has %d bytes, not %d", len(b), size)
	}
	copy(id.Cluster[:], b[1:])
	copy(id.Incarnation[:], b[17:])
	copy(id.Secret[:], b[33:])
	id.Unproven = b[65]&isUnproven != 0
	if id.Format > 1 {
		id.Server = zab.SID(b[66])
		if b[65]&isServerZero != 0 {
			id.Server = zab.Zero
		}
		copy(id.Replaced[:], b[67:])
		id.IDs = binary.BigEndian.Uint64(b[83:])
	}
	return id, nil
}

// BelongsTo returns the name of the server that data belongs to, for messages.
func BelongsTo(server zab.SID, incarnation zab.ID) string {
	if server == 0 {
		return fmt.Sprintf("a single server (%s)", ShortID(incarnation))
	}
	return fmt.Sprintf("server %d (%s)", server, ShortID(incarnation))
}

// ShortID returns an incarnation in the form used by messages and by --set-data-aside.
func ShortID(id zab.ID) string { return fmt.Sprintf("%x", id[:4]) }
