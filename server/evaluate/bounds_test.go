package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestTransactionsStayWithinTheLog checks that the transaction of a small request fits
// into a record of the log, which would otherwise fail and stop the server, and again at
// each retry.
func TestTransactionsStayWithinTheLog(t *testing.T) {
	tree := datatree.New()
	schemes, err := auth.New(auth.Config{DigestEnabled: true})
	if err != nil {
		t.Fatal(err)
	}
	e := New(tree, schemes, Options{ExtendedTypes: true})
	zxid := jute.Zxid(0)
	run := func(req *Request) *datatree.Txn {
		zxid++
		var txn datatree.Txn
		var out datatree.Applied
		e.Evaluate(req, zxid, 1, &txn)
		if n := len(txn.Append(nil)); n > datatree.MaxTxn {
			t.Fatalf("%v becomes a transaction of %d bytes", req.Op, n)
		}
		tree.Apply(&txn, &out)
		e.Applied(zxid)
		return &txn
	}
	const session = 1
	run(&Request{Op: jute.OpCreateSession, Session: session, TimeoutMs: 1000})

	ids := []jute.ID{{Scheme: "digest", ID: strings.Repeat("u", 60_000) + ":h"}}
	create := jute.CreateRequest{Path: "/a"}
	for i := range 40_000 {
		create.ACL = append(create.ACL, jute.ACL{Perms: jute.Perms(i), ID: jute.ID{Scheme: "auth"}})
	}
	txn := run(&Request{Op: jute.OpCreate, Session: session, Auth: ids, Body: create.Append(nil)})
	if txn.Err != jute.ErrInvalidACL {
		t.Errorf("an ACL of %d entries of 60 kB: %v", len(create.ACL), txn.Err)
	}

	name := strings.Repeat("n", 100_000)
	for i := range 400 {
		create := jute.CreateRequest{Path: fmt.Sprintf("/%s%03d", name, i), Mode: jute.ModeEphemeral,
			ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
		run(&Request{Op: jute.OpCreate, Session: session, Body: create.Append(nil)})
	}
	if n := tree.Stats().Ephemerals; n != 400 {
		t.Fatalf("%d ephemerals, want 400", n)
	}
	run(&Request{Op: jute.OpCloseSession, Session: session})
	if s := tree.Stats(); s.Ephemerals != 0 || s.Sessions != 0 || s.Skipped != 0 {
		t.Errorf("after closing a session with 40 MB of paths: %+v", s)
	}
}

// TestTooLargeTransactions checks that a request whose transaction would be too long is
// rejected, and does not affect later requests.
func TestTooLargeTransactions(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	open := []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
	half := make([]byte, datatree.MaxTxn/2)
	whole := make([]byte, datatree.MaxTxn)
	for _, test := range []struct {
		name string
		op   jute.OpCode
		body []byte
	}{
		{"setData", jute.OpSetData, (&jute.SetDataRequest{Path: "/a", Data: whole, Version: -1}).Append(nil)},
		{"create", jute.OpCreate, (&jute.CreateRequest{Path: "/b", Data: whole, ACL: open}).Append(nil)},
		{"multi", jute.OpMulti, (&jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpSetData, Path: "/a", Data: half, Version: -1},
			{Type: jute.OpCreate, Path: "/b", Data: half, ACL: open},
			{Type: jute.OpCreate, Path: "/e", ACL: open, Mode: jute.ModeEphemeral},
		}}).Append(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := New(datatree.New(), schemes, Options{})
			zxid := jute.Zxid(0)
			run := func(op jute.OpCode, body []byte) (txn datatree.Txn) {
				zxid++
				e.Evaluate(&Request{Op: op, Session: 1, TimeoutMs: 1000, Body: body}, zxid, 1, &txn)
				return txn
			}
			run(jute.OpCreateSession, nil)
			run(jute.OpCreate, (&jute.CreateRequest{Path: "/a", ACL: open}).Append(nil))
			if txn := run(test.op, test.body); txn.Err != jute.ErrBadArguments || len(txn.Ops) != 0 || txn.Multi {
				t.Fatalf("error %v, %d ops, multi %v; want %v and nothing else", txn.Err, len(txn.Ops), txn.Multi, jute.ErrBadArguments)
			}
			set := run(jute.OpSetData, (&jute.SetDataRequest{Path: "/a", Version: 0}).Append(nil))
			create := run(jute.OpCreate, (&jute.CreateRequest{Path: "/b", ACL: open}).Append(nil))
			if set.Err != 0 || set.Ops[0].Version != 1 || create.Err != 0 || create.Ops[0].Cversion != 2 {
				t.Errorf("afterwards the set is %+v, the create %+v", set, create)
			}
			if closed := run(jute.OpCloseSession, nil); len(closed.Ops[0].Paths) != 0 {
				t.Errorf("the session has the ephemerals %q", closed.Ops[0].Paths)
			}
		})
	}
}

// TestLargestTransaction: a request whose transaction has exactly as many bytes as one may have is done, and one byte more is refused.
func TestLargestTransaction(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	create := func(bytes int) *datatree.Txn {
		var txn datatree.Txn
		req := jute.CreateRequest{Path: "/a", Data: make([]byte, bytes), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
		e := New(datatree.New(), schemes, Options{})
		e.Evaluate(&Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 1000}, 1, 1, new(datatree.Txn))
		e.Evaluate(&Request{Op: jute.OpCreate, Session: 1, Body: req.Append(nil)}, 2, 1, &txn)
		return &txn
	}
	small := create(1 << 20)
	room := datatree.MaxTxn - (small.MaxSize() - 1<<20)
	if txn := create(room); txn.Err != 0 || txn.MaxSize() != datatree.MaxTxn {
		t.Errorf("a transaction of %d bytes of %d: %v", txn.MaxSize(), datatree.MaxTxn, txn.Err)
	}
	if txn := create(room + 1); txn.Err != jute.ErrBadArguments {
		t.Errorf("one byte more: %v", txn.Err)
	}
}

// TestCostOfOutcome: the outcome of a write of an exactly-once session counts for at least the body of its reply, and that of
// deletes, which have none, for no path.
func TestCostOfOutcome(t *testing.T) {
	long := "/" + strings.Repeat("n", 10_000)
	for _, tt := range []struct {
		name        string
		kinds       []datatree.OpKind
		least, most int64
	}{
		{"create", []datatree.OpKind{datatree.OpCreate}, 10_001, 10_300},
		{"set", []datatree.OpKind{datatree.OpSetData}, 80, 10_300},
		{"delete", []datatree.OpKind{datatree.OpDelete}, 1, 300},
		{"two creates and a delete", []datatree.OpKind{datatree.OpCreate, datatree.OpDelete, datatree.OpCreate}, 20_002, 20_600},
	} {
		var txn datatree.Txn
		for _, kind := range tt.kinds {
			txn.Ops = append(txn.Ops, datatree.Op{Kind: kind, Path: long})
		}
		if got := costOf(&txn); got < tt.least || got > tt.most {
			t.Errorf("%s: %d, want %d to %d", tt.name, got, tt.least, tt.most)
		}
	}
}

// TestNumberedOnce: a write of an exactly-once session that was accepted is refused when it comes again, before it is applied
// and after, and so are earlier ones. One that was not accepted may come again.
func TestNumberedOnce(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tree := datatree.New()
	e := New(tree, schemes, Options{})
	zxid := jute.Zxid(0)
	evaluated := func(req Request) *datatree.Txn {
		zxid++
		var txn datatree.Txn
		req.Session = 1
		e.Evaluate(&req, zxid, 1, &txn)
		return &txn
	}
	apply := func(txn *datatree.Txn) {
		tree.Apply(txn, new(datatree.Applied))
		e.Applied(txn.Zxid)
	}
	set := func(number int64) *datatree.Txn {
		return evaluated(Request{Op: jute.OpSetData, Number: number, Body: (&jute.SetDataRequest{Path: "/", Version: -1}).Append(nil)})
	}
	apply(evaluated(Request{Op: jute.OpCreateSession, TimeoutMs: 1000, Exact: true, Origin: 7}))
	if txn := set(5); txn.Err != 0 || txn.Number != 5 {
		t.Fatalf("write 5: number %d, %v", txn.Number, txn.Err)
	}
	txn := set(5)
	if txn.Err != 0 || txn.Number != 5 {
		t.Fatalf("write 5, which was not accepted: number %d, %v", txn.Number, txn.Err)
	}
	e.Accept(txn)
	for _, applied := range []bool{false, true} {
		if applied {
			apply(txn)
		}
		for _, number := range []int64{4, 5} {
			if txn := set(number); txn.Err != jute.ErrSessionMoved || txn.Number != 0 || len(txn.Ops) != 0 {
				t.Errorf("write %d after 5, applied %v: number %d, %d ops, %v", number, applied, txn.Number, len(txn.Ops), txn.Err)
			}
		}
	}
	if txn := set(6); txn.Err != 0 || txn.Number != 6 {
		t.Errorf("write 6: number %d, %v", txn.Number, txn.Err)
	}
}

// TestLargestClose: the end of a session lists its ephemerals up to a number of bytes of their paths, whether they are applied or not.
func TestLargestClose(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const n, length = 64, maxClosePaths / 64
	for _, applied := range []bool{false, true} {
		for more := range 2 {
			tree := datatree.New()
			e := New(tree, schemes, Options{})
			zxid := jute.Zxid(0)
			run := func(op jute.OpCode, body []byte) (txn datatree.Txn) {
				zxid++
				e.Evaluate(&Request{Op: op, Session: 1, TimeoutMs: 1000, Body: body}, zxid, 1, &txn)
				if applied {
					tree.Apply(&txn, new(datatree.Applied))
					e.Applied(zxid)
				}
				return txn
			}
			run(jute.OpCreateSession, nil)
			for i := range n {
				path := fmt.Sprintf("/%02d%s", i, strings.Repeat("n", length-3))
				if i == 0 {
					path += strings.Repeat("n", more)
				}
				run(jute.OpCreate, (&jute.CreateRequest{Path: path, Mode: jute.ModeEphemeral, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}).Append(nil))
			}
			want := n * (1 - more)
			if got := len(run(jute.OpCloseSession, nil).Ops[0].Paths); got != want {
				t.Errorf("%d bytes more than are listed, applied %v: lists %d of %d paths, want %d", more, applied, got, n, want)
			}
		}
	}
}
