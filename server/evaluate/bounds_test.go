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
