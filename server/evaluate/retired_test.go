package evaluate

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestLookRetired looks at a retirement while it lasts, one that ends before that is applied, and one that begins and ends between two looks.
func TestLookRetired(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := New(datatree.New(), schemes, Options{})
	e.AllowRetirement(true)
	zxid := jute.Zxid(0)
	run := func(op jute.OpCode, body []byte) {
		t.Helper()
		zxid++
		var txn datatree.Txn
		e.Evaluate(&Request{Op: op, Session: 1, TimeoutMs: 1000, Auth: []jute.ID{{Scheme: "super"}}, Body: body}, zxid, 1, &txn)
		if txn.Err != 0 {
			t.Fatal(txn.Err)
		}
		e.Accept(&txn)
	}
	retire := func() {
		run(jute.OpCreate, (&jute.CreateRequest{Path: jute.RetiredPath, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}).Append(nil))
	}
	serve := func() { run(jute.OpDelete, (&jute.DeleteRequest{Path: jute.RetiredPath, Version: -1}).Append(nil)) }
	applied := jute.Zxid(0)
	look := func(when string, wantNow, wantWas bool) {
		t.Helper()
		if now, was := e.LookRetired(applied); now != wantNow || was != wantWas {
			t.Errorf("%s: retired now %t, before %t", when, now, was)
		}
	}
	run(jute.OpCreateSession, nil)
	look("never", false, false)
	retire()
	look("since just now", true, true)
	look("still", true, true)
	serve()
	look("until it is known that it serves", true, true)
	applied = zxid
	look("until just now", false, true)
	look("not any more", false, false)
	retire()
	serve()
	applied = zxid
	look("briefly", false, true)
	look("and not any more", false, false)
}
