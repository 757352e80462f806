package server

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// entryOf converts a record of the log into an entry.
func entryOf(rec *wal.Record) zab.Entry {
	return zab.Entry{Zxid: rec.Zxid, Prev: rec.Prev, Type: zab.EntryType(rec.Type), Data: rec.Payload}
}

// walRecord converts a record of the core into a record of the log.
func (l *loop) walRecord(op *zab.LogOp) wal.Record {
	switch op.Kind {
	case zab.LogNotes:
		return wal.Record{Kind: wal.Notes, Payload: op.Notes.Append(nil)}
	case zab.LogIncarnation:
		id := &l.identity
		if op.Incarnation != id.Incarnation {
			id.Replaced = id.Incarnation // of dataDir, until the next start
		}
		id.Incarnation, id.Unproven = op.Incarnation, op.Damaged
		return identRecord(id)
	case zab.LogPromise:
		return wal.Record{Kind: wal.Promise, Payload: encodePromise(op.Promise)}
	case zab.LogTruncate:
		return wal.Record{Kind: wal.Truncate, Zxid: op.Upto}
	case zab.LogCommitHint:
		return wal.Record{Kind: wal.CommitHint, Zxid: op.Upto}
	case zab.LogSnapshot:
		return op.Snap.Ref.(*received).ref.Record()
	}
	e := &op.Entry
	return wal.Record{Kind: wal.Append, Type: uint8(e.Type), Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data}
}

// A promise in the log: the epoch, and the server to which it was made.
func encodePromise(p zab.Promise) []byte {
	return append(binary.BigEndian.AppendUint32(nil, p.Epoch), byte(p.To))
}

func identRecord(id *datadirs.Identity) wal.Record {
	return wal.Record{Kind: wal.Ident, Payload: id.Encode()}
}
