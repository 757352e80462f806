package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestTransactionsStayWithinTheLog: what a small request stands for must fit
// into a record of the log, which would fail otherwise and stop the server, and
// again at each attempt.
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
		if n := len(txn.Append(nil)); n > 64<<20 {
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
