package datatree

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// numbered is a transaction of an exactly-once session.
var numbered = Txn{Zxid: 9, Session: 7, Origin: 70, Number: math.MaxInt64, Confirmed: 5, Ops: []Op{{Kind: OpDelete, Path: "/a"}}}

// exactTree returns a tree in which connection 70 owns the exactly-once session 7.
func exactTree(t *testing.T) (tree *Tree, apply func(number, confirmed int64, code jute.Code, ops ...Op)) {
	tree = New()
	var out Applied
	zxid := jute.Zxid(0)
	write := func(txn Txn) {
		zxid++
		txn.Zxid, txn.Session, txn.Origin = zxid, 7, 70
		tree.Apply(&txn, &out)
		if tree.Digest() != tree.computeDigest() {
			t.Errorf("%v: the digest that is kept differs from the one that is computed", zxid)
		}
	}
	write(Txn{Ops: []Op{{Kind: OpCreateSession, TimeoutMs: 4000}, {Kind: OpSetOwner}, {Kind: OpExactlyOnce}}})
	return tree, func(number, confirmed int64, code jute.Code, ops ...Op) {
		write(Txn{Number: number, Confirmed: confirmed, Err: code, Ops: ops})
	}
}

// TestOutcomes checks that the outcomes of an exactly-once session are kept until they are confirmed,
// and that of the last write in any case; and that they are part of digests, views and snapshots.
func TestOutcomes(t *testing.T) {
	tree, apply := exactTree(t)
	create := func(path string) Op { return Op{Kind: OpCreate, Result: jute.OpCreate, Path: path, ACL: openACL} }
	var digests []Digest
	expect := func(want ...int64) {
		t.Helper()
		var got []int64
		for _, o := range tree.Outcomes(7) {
			got = append(got, o.Number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("outcomes of %d, want %d", got, want)
		}
		if slices.Contains(digests, tree.Digest()) {
			t.Error("the digest is one of before")
		}
		digests = append(digests, tree.Digest())
		again := reloaded(t, tree)
		if !slices.Equal(again.Outcomes(7), tree.Outcomes(7)) || !again.ExactlyOnce(7) || again.Digest() != tree.Digest() || again.computeDigest() != tree.Digest() {
			t.Errorf("a snapshot of %+v has %+v", tree.Outcomes(7), again.Outcomes(7))
		}
	}
	expect()
	apply(3, 0, 0, create("/a"))
	apply(4, 0, jute.ErrNodeExists)
	apply(1<<40, 2, 0, Op{Kind: OpSetData, Path: "/a", Version: 1})
	expect(3, 4, 1<<40)
	if o := tree.Outcomes(7)[0]; o.Body != "\x00\x00\x00\x02/a" || o.Zxid != 2 || o.Code != 0 {
		t.Errorf("outcome of the create: %+v", o)
	}
	if o := tree.Outcomes(7)[1]; o.Body != "" || o.Code != jute.ErrNodeExists {
		t.Errorf("outcome of the refused create: %+v", o)
	}
	if o := tree.Outcomes(7)[2]; len(o.Body) != 68 {
		t.Errorf("outcome of the set: %+v", o)
	}
	view := tree.Freeze()
	before := rowsOfView(view)
	apply(1<<40+1, 4, 0, Op{Kind: OpDelete, Path: "/a"})
	if after := rowsOfView(view); !bytes.Equal(before, after) {
		t.Error("a view changes with the outcomes")
	}
	view.Close()
	expect(1<<40, 1<<40+1)
	apply(1<<40+2, 1<<40+1, jute.ErrNoNode)
	expect(1<<40 + 2)
	apply(0, 0, 0, Op{Kind: OpCloseSession})
	if tree.HasExact() || tree.Outcomes(7) != nil || tree.ExactlyOnce(7) || tree.Digest() != tree.computeDigest() {
		t.Error("a closed session has outcomes")
	}
	apply(1<<40+3, 0, 0, create("/b")) // of no session: no outcome, no harm
	if tree.Stats().Skipped != 0 {
		t.Error("operations were skipped")
	}
}

// rowsOfView returns the row of the session that a view would write.
func rowsOfView(v *View) []byte {
	s, ok := v.savedSessions[v.tree.sessions.byID[7]]
	if !ok {
		s = *v.tree.sessions.get(7)
	}
	return appendOutcomes(nil, s.outcomes)
}

// reloaded returns the tree that a snapshot of another gives.
func reloaded(t *testing.T, tree *Tree) *Tree {
	t.Helper()
	l := NewLoader()
	for _, row := range rowsOf(tree, 1<<20) {
		if err := l.Add(row); err != nil {
			t.Fatal(err)
		}
		if row.Table == TableMeta && row.Value[0] != formatExact {
			t.Errorf("format %d, want %d", row.Value[0], formatExact)
		}
	}
	again, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestNotExact checks that a session is an exactly-once session only if it was opened as one: then
// it has an owner.
func TestNotExact(t *testing.T) {
	tree := New()
	var out Applied
	tree.Apply(&Txn{Zxid: 1, Session: 7, Ops: []Op{{Kind: OpCreateSession}}}, &out)
	tree.Apply(&Txn{Zxid: 2, Session: 7, Number: 1, Err: jute.ErrNoNode}, &out)
	if tree.Outcomes(7) != nil {
		t.Error("another session has outcomes")
	}
	tree.Apply(&Txn{Zxid: 3, Session: 7, Ops: []Op{{Kind: OpExactlyOnce}}}, &out)
	tree.Apply(&Txn{Zxid: 4, Session: 8, Ops: []Op{{Kind: OpExactlyOnce}}}, &out)
	if tree.HasExact() || tree.Stats().Skipped != 2 {
		t.Errorf("a session without an owner became exactly-once; %d skipped", tree.Stats().Skipped)
	}
}

// TestReplies checks the body of the reply to each kind of write.
func TestReplies(t *testing.T) {
	stat := jute.Stat{Version: 3}
	for _, tt := range []struct {
		op   Op
		res  Result
		want []byte
	}{
		{Op{Kind: OpCreate, Result: jute.OpCreate}, Result{Path: "/a", Stat: stat}, jute.AppendString(nil, "/a")},
		{Op{Kind: OpCreate, Result: jute.OpCreate2}, Result{Path: "/a", Stat: stat}, stat.Append(jute.AppendString(nil, "/a"))},
		{Op{Kind: OpSetData}, Result{Stat: stat}, stat.Append(nil)},
		{Op{Kind: OpSetACL}, Result{Stat: stat}, stat.Append(nil)},
		{Op{Kind: OpDelete}, Result{}, nil},
	} {
		got := AppendReply(nil, &Txn{Ops: []Op{tt.op}}, []Result{tt.res})
		if !bytes.Equal(got, tt.want) {
			t.Errorf("%+v: %x, want %x", tt.op, got, tt.want)
		}
	}
	if got := AppendReply(nil, &Txn{}, nil); len(got) > 0 {
		t.Errorf("without operations: %x", got)
	}
}

// TestNumberedTxn checks the form of numbers in a transaction: it has format 6, and one encoding.
func TestNumberedTxn(t *testing.T) {
	b := numbered.Append(nil)
	got, err := DecodeTxn(b)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(numbered) || b[0] != FormatExact || format.History.Range().Most < FormatExact {
		t.Errorf("%+v, %v", got, err)
	}
	opens := Txn{Ops: []Op{{Kind: OpExactlyOnce}}}
	if b := opens.Append(nil); b[0] != FormatExact {
		t.Errorf("opening an exactly-once session has format %d", b[0])
	}
	for _, bad := range []Txn{{Number: 5, Confirmed: 5}, {Number: 5, Confirmed: -1}, {Number: 5, Confirmed: 6}, {Number: -1}, {Confirmed: 1, Ops: opens.Ops}} {
		if txn, err := DecodeTxn(bad.Append(nil)); !refused(err) {
			t.Errorf("%+v is decoded: %+v", bad, txn)
		}
	}
}

// TestOutcomeRows checks that outcomes in a snapshot have one form.
func TestOutcomeRows(t *testing.T) {
	list := []Outcome{{Number: 1, Zxid: 5, Body: "x"}, {Number: 9, Zxid: 6, Code: jute.ErrNoNode}}
	whole := appendOutcomes(nil, list)
	if got, err := decodeOutcomes(whole); err != nil || !slices.Equal(got, list) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range whole {
		if got, err := decodeOutcomes(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are %+v", n, got)
		}
	}
	for _, bad := range [][]byte{
		append(bytes.Clone(whole), 0),
		appendOutcomes(nil, []Outcome{list[1], list[0]}),
		appendOutcomes(nil, []Outcome{list[0], list[0]}),
		appendOutcomes(nil, []Outcome{{Number: 0}}),
		appendOutcomes(nil, []Outcome{{Number: -1}}),
	} {
		if got, err := decodeOutcomes(bad); err == nil {
			t.Errorf("%x is %+v", bad, got)
		}
	}
}

func FuzzOutcomes(f *testing.F) {
	f.Add(appendOutcomes(nil, []Outcome{{Number: 1, Zxid: 5, Body: "x"}, {Number: 1 << 60, Code: jute.ErrNoNode}}))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeOutcomes(b)
		if err != nil {
			return
		}
		if again := appendOutcomes(nil, list); !bytes.Equal(again, b) {
			t.Fatalf("decoded from %x, encodes to %x", b, again)
		}
	})
}
