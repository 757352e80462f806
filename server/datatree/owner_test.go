package datatree

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// TestOwners checks that the owner of a session is part of the state: of the digest, of views
// and of snapshots, whose format is a later one as long as there is an owner. A transaction
// says which format it needs.
func TestOwners(t *testing.T) {
	tree := New()
	var out Applied
	var zxid jute.Zxid
	apply := func(session jute.SessionID, origin uint64, ops ...Op) {
		zxid++
		tree.Apply(&Txn{Zxid: zxid, Session: session, Origin: origin, Ops: ops}, &out)
	}
	opens, owns := Op{Kind: OpCreateSession, TimeoutMs: 4000}, Op{Kind: OpSetOwner}
	reload := func(want byte) {
		t.Helper()
		l := NewLoader()
		for _, row := range rowsOf(tree, 1<<20) {
			if err := l.Add(row); err != nil {
				t.Fatal(err)
			}
			if row.Table == TableMeta && row.Value[0] != want {
				t.Errorf("format %d, want %d", row.Value[0], want)
			}
		}
		again, err := l.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if again.SessionOwner(7) != tree.SessionOwner(7) || again.HasOwners() != tree.HasOwners() || again.Digest() != tree.Digest() || again.computeDigest() != tree.Digest() {
			t.Error("the snapshot has another state")
		}
	}
	apply(6, 50, opens)
	apply(7, 70, opens)
	reload(1)
	unowned := tree.Digest()
	apply(7, 71, owns)
	first := tree.Digest()
	if tree.SessionOwner(7) != 71 || tree.SessionOwner(6) != 0 || first == unowned {
		t.Errorf("session 7 is owned by %d, session 6 by %d", tree.SessionOwner(7), tree.SessionOwner(6))
	}
	reload(formatOwners)
	view := tree.Freeze()
	apply(7, 72, owns)
	if tree.Digest() == first || !view.Meta().Owners || view.savedSessions[tree.sessions.byID[7]].owner != 71 {
		t.Error("another owner changes no digest, or changes the view")
	}
	view.Close()
	if tree.SessionHolder(7) != jute.HolderUnnamed || tree.SessionHolder(6) != 0 {
		t.Errorf("sessions are of the clients %d and %d", tree.SessionHolder(7), tree.SessionHolder(6))
	}
	second := tree.Digest()
	tree.Apply(&Txn{Zxid: zxid, Session: 7, Origin: 72, Cxid: 9, Ops: []Op{owns}}, &out)
	if tree.SessionHolder(7) != 8 || tree.Digest() != second {
		t.Errorf("the session is of client %d, and the digest may have changed", tree.SessionHolder(7))
	}
	apply(9, 90, owns)
	if out.Results[0].Code != jute.ErrSessionExpired || tree.Stats().Skipped != 1 {
		t.Errorf("owner of no session: %+v", out.Results)
	}
	apply(8, 80, Op{Kind: OpAdoptSession, TimeoutMs: 1000}, owns)
	reload(formatOwners) // also with a session of Apache's server
	apply(8, 0, Op{Kind: OpCloseSession})
	apply(7, 0, Op{Kind: OpCloseSession})
	if tree.HasOwners() {
		t.Error("closed sessions have owners")
	}
	reload(1)

	owned := Txn{Ops: []Op{opens, owns}}
	if b := owned.Append(nil); b[0] != FormatOwner || format.History.Range().Most < FormatOwner {
		t.Errorf("a transaction that sets an owner has format %d, want %d", b[0], FormatOwner)
	}
}

// TestOwnerRows checks that sessions in a snapshot have one form.
func TestOwnerRows(t *testing.T) {
	key := make([]byte, 8)
	for _, rest := range [][]byte{
		{0}, {2}, {1, 1}, make([]byte, 9), slices.Concat([]byte{2}, key[:7], []byte{1}), make([]byte, 10), {0, 0, 0, 0, 0, 0, 0, 1},
	} {
		if err := NewLoader().Add(Row{TableSessions, key, append(make([]byte, 4), rest...)}); err == nil {
			t.Errorf("a session with % x is loaded", rest)
		}
	}
}
