package data

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// EntryOf converts a record of the log into an entry.
func EntryOf(rec *wal.Record) zab.Entry {
	return zab.Entry{Zxid: rec.Zxid, Prev: rec.Prev, Type: zab.EntryType(rec.Type), Data: rec.Payload}
}

// EntryRecord converts an entry into a record of the log.
func EntryRecord(e *zab.Entry) wal.Record {
	return wal.Record{Kind: wal.Append, Type: uint8(e.Type), Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data}
}

// IdentityRecord returns the record of an identity.
func IdentityRecord(id *datadirs.Identity) wal.Record {
	return wal.Record{Kind: wal.Ident, Payload: id.Encode()}
}

// PromiseRecord returns the record of a promise: the epoch, and the server to which it was made.
func PromiseRecord(p zab.Promise) wal.Record {
	return wal.Record{Kind: wal.Promise, Payload: append(binary.BigEndian.AppendUint32(nil, p.Epoch), byte(p.To))}
}

func decodePromise(b []byte) (zab.Promise, error) {
	if len(b) != 5 {
		return zab.Promise{}, fmt.Errorf("the log's promise has %d bytes, not 5", len(b))
	}
	return zab.Promise{Epoch: binary.BigEndian.Uint32(b), To: zab.SIDOf(b[4])}, nil
}
