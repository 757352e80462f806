package datatree

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestApacheSessions loads sessions that Apache's server has opened. They stay marked in
// snapshots, whose format is a later one as long as there are some, and are part of the digest.
func TestApacheSessions(t *testing.T) {
	l := NewLoader()
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	add(l.AddSession(7, 4000, true))
	add(l.AddSession(8, 4000, false))
	add(l.AddZnode("", &NodeRow{}, openACL))
	add(l.AddZnode("/e", &NodeRow{Owner: 7}, openACL))
	tree, err := l.FinishAt(5)
	add(err)
	if l := NewLoader(); l.AddSession(7, 1, true) != nil || l.AddSession(7, 1, true) == nil || l.AddZnode("/a/b", &NodeRow{}, openACL) == nil {
		t.Error("a session twice, or a znode without its parent, was taken")
	}
	reload := func(tree *Tree, format byte) *Tree {
		t.Helper()
		l := NewLoader()
		for _, row := range rowsOf(tree, 1<<20) {
			add(l.Add(row))
			if row.Table == TableMeta && row.Value[0] != format {
				t.Errorf("format %d, want %d", row.Value[0], format)
			}
		}
		again, err := l.Finish()
		add(err)
		if again.Digest() != tree.Digest() || again.computeDigest() != tree.Digest() {
			t.Error("another digest")
		}
		return again
	}
	tree = reload(tree, formatApache)
	if !tree.FromApache(7) || tree.FromApache(8) || tree.FromApache(9) || tree.NumEphemerals(7) != 1 {
		t.Error("another session is marked, or none")
	}
	var out Applied
	apply := func(zxid jute.Zxid, session jute.SessionID, op Op) {
		tree.Apply(&Txn{Zxid: zxid, Session: session, Ops: []Op{op}}, &out)
	}
	view := tree.Freeze()
	marked := tree.Digest()
	apply(6, 7, Op{Kind: OpSetTimeout, TimeoutMs: 9000})
	if !tree.FromApache(7) || tree.Digest() == marked {
		t.Error("a resumption takes the mark away")
	}
	apply(7, 7, Op{Kind: OpCloseSession})
	apply(8, 7, Op{Kind: OpCreateSession, TimeoutMs: 4000})
	if tree.FromApache(7) || !view.Meta().Apache {
		t.Error("a new session with the id is marked, or the view has changed")
	}
	view.Close()
	reload(tree, 1)
	view = tree.Freeze()
	apply(9, 10, Op{Kind: OpAdoptSession, TimeoutMs: 5000})
	apply(10, 7, Op{Kind: OpAdoptSession, TimeoutMs: 5000}) // it exists
	if timeout, _ := tree.Session(7); !tree.FromApache(10) || tree.FromApache(7) || timeout != 5000 || tree.Stats().Skipped != 0 {
		t.Error("a session that is adopted is not marked, or another one is")
	}
	view.Close()
	reload(tree, formatApache)
}
