package data

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/wal"
)

// LogHistory returns what the log in a dataLogDir says of the znode at a path and, with below, of those
// below it, and the parts of the history that the log has. Like DumpLog it works on the log of a server
// that runs. The last entries may not be committed. Where the log is damaged the error says so, and the
// result lacks what was there.
func LogHistory(dataLogDir, path string, below bool) (changes []history.Change, spans []history.Span, err error) {
	dir := dataLogDir
	if !wal.HasSegments(vfs.OS{}, dir) {
		dir = LogDir(dataLogDir)
	}
	if !wal.HasSegments(vfs.OS{}, dir) {
		return nil, nil, errors.New("there are no segments of a log in " + dataLogDir)
	}
	err = wal.Scan(vfs.OS{}, dir, func(r wal.Record) error {
		spans = addRecord(spans, &r)
		switch r.Kind {
		case wal.Append:
			e := EntryOf(&r)
			more, err := history.ChangesOf(&e, path, below)
			changes = append(changes, more...)
			return err
		case wal.Truncate:
			changes = slices.DeleteFunc(changes, func(c history.Change) bool { return c.Zxid > r.Zxid })
		}
		return nil
	})
	return changes, spans, err
}

// addRecord adds what a record of the log says to the parts of the history that the log has.
func addRecord(spans []history.Span, r *wal.Record) []history.Span {
	last := jute.Zxid(0)
	if n := len(spans); n > 0 {
		last = spans[n-1].Last
	}
	switch {
	case r.Kind == wal.Append && (len(spans) == 0 || r.Prev != last):
		spans = append(spans, history.Span{After: r.Prev, Last: r.Zxid})
	case r.Kind == wal.Append:
		spans[len(spans)-1].Last = r.Zxid
	case r.Kind == wal.Truncate:
		for len(spans) > 0 && spans[len(spans)-1].After >= r.Zxid {
			spans = spans[:len(spans)-1]
		}
		if n := len(spans); n > 0 {
			spans[n-1].Last = min(spans[n-1].Last, r.Zxid)
		}
	}
	return spans
}
