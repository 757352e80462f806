package server

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// logWriter is the log's writer with the state that the peer loop needs to follow it.
type logWriter struct {
	*wal.Writer
	log      *wal.Log
	durable  atomic.Uint64 // number of the last durable record
	progress chan struct{} // has a token when durable has grown
	logged   chan struct{} // progress, for the reader of the log for learners
}

func newLogWriter(log *wal.Log, replicated bool, m *monitor.Metrics, fail func(error)) *logWriter {
	w := &logWriter{log: log, progress: make(chan struct{}, 1), logged: make(chan struct{}, 1)}
	o := wal.WriterOptions{
		Durable: func(d wal.Durable) {
			if d.Synced {
				m.Fsync.Observe(d.Took, 1)
			}
			m.Batch.Observe(d.Records)
			w.durable.Store(d.Seq)
			for _, hears := range [...]chan struct{}{w.progress, w.logged} {
				select {
				case hears <- struct{}{}:
				default:
				}
			}
		},
		Fatal: fail,
	}
	if replicated {
		o.Commit = func() jute.Zxid { return 0 } // the core knows, and writes its hints itself
	}
	w.Writer = wal.NewWriter(log, o)
	return w
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
		return data.IdentityRecord(id)
	case zab.LogPromise:
		return data.PromiseRecord(op.Promise)
	case zab.LogTruncate:
		return wal.Record{Kind: wal.Truncate, Zxid: op.Upto}
	case zab.LogCommitHint:
		return wal.Record{Kind: wal.CommitHint, Zxid: op.Upto}
	case zab.LogSnapshot:
		return op.Snap.Ref.(*received).ref.Record()
	}
	return data.EntryRecord(&op.Entry)
}
