package data

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/wal"
)

// TestLogHistory reads the changes of a node from the log of a server that runs, and of one that does not.
func TestLogHistory(t *testing.T) {
	w := newLogged(t)
	w.add(datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	w.add(datatree.Op{Kind: datatree.OpCreate, Path: "/a/b"})
	zxid := w.add(datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: []byte("12345"), Version: 1})
	w.sync()
	look := func() {
		t.Helper()
		changes, spans, err := LogHistory(w.dir, "/a", false)
		check(t, err)
		if len(changes) != 2 || changes[0].Op != "create" || changes[1].Zxid != zxid || changes[1].Bytes != 5 || changes[1].Session != loggedSession {
			t.Errorf("%+v", changes)
		}
		if len(spans) != 1 || spans[0].After != w.first || spans[0].Last < zxid {
			t.Errorf("%+v", spans)
		}
		if changes, _, err = LogHistory(w.dir, "/a", true); err != nil || len(changes) != 3 {
			t.Errorf("%+v, %v", changes, err)
		}
	}
	look()
	w.close()
	look()
	if _, _, err := LogHistory(t.TempDir(), "/a", false); err == nil {
		t.Error("no log, and no error")
	}
}

// TestAddRecord finds the parts of a history with gaps and with entries that were dropped.
func TestAddRecord(t *testing.T) {
	var spans []history.Span
	for _, step := range []struct {
		kind       wal.Kind
		prev, zxid jute.Zxid
		want       string
	}{
		{wal.Append, 4, 5, "[{0x4 0x5}]"},
		{wal.Append, 5, 6, "[{0x4 0x6}]"},
		{wal.Truncate, 6, 5, "[{0x4 0x5}]"},
		{wal.CommitHint, 5, 5, "[{0x4 0x5}]"},
		{wal.Append, 9, 10, "[{0x4 0x5} {0x9 0xa}]"}, // after a snapshot of another server
		{wal.Truncate, 10, 9, "[{0x4 0x5}]"},
		{wal.Truncate, 9, 4, "[]"},
	} {
		spans = addRecord(spans, &wal.Record{Kind: step.kind, Prev: step.prev, Zxid: step.zxid})
		if got := fmt.Sprint(spans); got != step.want {
			t.Errorf("%v %v: %s, want %s", step.kind, step.zxid, got, step.want)
		}
	}
}
