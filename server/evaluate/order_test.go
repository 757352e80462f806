package evaluate_test

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
)

// orderWorld has the obstacles for the requests of TestCheckOrder, as session 1 without
// any identity:
//
//	/open        everything is allowed; child /open/x, version 1
//	/shut        nothing is allowed; child /shut/x, which has a child
//	/eph         ephemeral of session 1
//	/full        at its quota: 1 node, 4 bytes
//	/shutfull    likewise, and nothing is allowed
//
// Session 2 is closing.
func orderWorld(t *testing.T) *world {
	w := newWorld(t, evaluate.Options{ExtendedTypes: true, EnforceQuota: true})
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 2, TimeoutMs: 4000})
	shut := acl("0=world:anyone")
	limits := []byte("count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=1")
	for _, op := range []jute.MultiOp{
		{Type: jute.OpCreate, Path: "/open", ACL: openACL},
		{Type: jute.OpCreate, Path: "/open/x", ACL: openACL},
		{Type: jute.OpCreate, Path: "/open/x/y", ACL: openACL},
		{Type: jute.OpSetData, Path: "/open/x", Version: -1},
		{Type: jute.OpCreate, Path: "/shut", ACL: openACL},
		{Type: jute.OpCreate, Path: "/shut/x", ACL: shut},
		{Type: jute.OpCreate, Path: "/eph", ACL: openACL, Mode: jute.ModeEphemeral},
		{Type: jute.OpCreate, Path: "/ephshut", ACL: shut, Mode: jute.ModeEphemeral},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/full", ACL: openACL},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/full/zookeeper_limits", Data: limits, ACL: openACL},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/full/zookeeper_stats", ACL: openACL},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/shutfull", ACL: openACL},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/shutfull/zookeeper_limits", Data: limits, ACL: openACL},
		{Type: jute.OpCreate, Path: "/zookeeper/quota/shutfull/zookeeper_stats", ACL: openACL},
		{Type: jute.OpCreate, Path: "/full", Data: []byte("1234"), ACL: openACL},
		{Type: jute.OpCreate, Path: "/shutfull", Data: []byte("1234"), ACL: shut},
	} {
		if txn := w.do(request(1, op)); txn.Err != 0 {
			t.Fatalf("set up %s: %v", op.Path, txn.Err)
		}
	}
	w.do(evaluate.Request{Op: jute.OpSetACL, Session: 1, Body: setACLBody("/shut", shut, -1)})
	w.settle()
	w.do(evaluate.Request{Op: jute.OpCloseSession, Session: 2})
	return w
}

// TestCheckOrder has for each check of each operation a request that fails it, passes the
// checks before it and, as far as possible, fails all checks after it. So each row gives
// another code if its check is moved.
func TestCheckOrder(t *testing.T) {
	const wrong = 77 // version
	bad := acl("31=nis:bob")
	full := []byte("12345")
	create := func(path string, mode jute.CreateMode, acl []jute.ACL) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpCreate, Path: path, Data: full, ACL: acl, Mode: mode}
	}
	ttl := func(path string, mode jute.CreateMode, ms int64, acl []jute.ACL) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpCreateTTL, Path: path, Data: full, ACL: acl, Mode: mode, TTL: ms}
	}
	del := func(path string, v int32) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpDelete, Path: path, Version: v}
	}
	set := func(path string, v int32) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpSetData, Path: path, Data: full, Version: v}
	}
	check := func(path string, v int32) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpCheck, Path: path, Version: v}
	}
	const gone, live = 2, 1 // sessions
	for _, tc := range []struct {
		name    string
		session jute.SessionID
		op      jute.MultiOp
		want    jute.Code
	}{
		{"create: mode", gone, create("x", 7, bad), jute.ErrBadArguments},
		{"create: mode that needs a ttl", gone, create("x", 5, bad), jute.ErrBadArguments},
		{"create: ttl", gone, ttl("x", 5, 0, bad), jute.ErrBadArguments},
		{"create: session", gone, create("x", 0, bad), jute.ErrSessionExpired},
		{"create: session, ephemeral", gone, create("x", 1, bad), jute.ErrSessionExpired},
		{"create: path without slash", live, create("x", 0, bad), jute.ErrBadArguments},
		{"create: path with NUL", live, create("/none/\x00", 0, bad), jute.ErrBadArguments},
		{"create: ACL", live, create("/none/./x", 0, bad), jute.ErrInvalidACL},
		{"create: empty ACL", live, create("/none/.", 0, nil), jute.ErrInvalidACL},
		{"create: parent", live, create("/none/.", 0, openACL), jute.ErrNoNode},
		{"create: permission on parent", live, create("/shut/.", 0, openACL), jute.ErrNoAuth},
		{"create: permission on ephemeral parent", live, create("/ephshut/x", 0, openACL), jute.ErrNoAuth},
		{"create: permission on parent of what exists", live, create("/shut/x", 0, openACL), jute.ErrNoAuth},
		{"create: permission on parent at its quota", live, create("/shutfull/x", 0, openACL), jute.ErrNoAuth},
		{"create: strict path", live, create("/eph/.", 0, openACL), jute.ErrBadArguments},
		{"create: strict path at quota", live, create("/full/\x01", 0, openACL), jute.ErrBadArguments},
		{"create: existing", live, create("/full", 0, openACL), jute.ErrNodeExists},
		{"create: parent ephemeral", live, create("/eph/x", 0, openACL), jute.ErrNoChildrenForEphemerals},
		{"create: quota", live, create("/full/x", 0, openACL), jute.ErrQuotaExceeded},

		{"delete: session", gone, del("x", wrong), jute.ErrSessionExpired},
		{"delete: path without slash", live, del("x", wrong), jute.ErrBadArguments},
		{"delete: path with NUL", live, del("/none/x\x00", wrong), jute.ErrBadArguments},
		{"delete: root", live, del("/", wrong), jute.ErrBadArguments},
		{"delete: system node", live, del("/zookeeper", wrong), jute.ErrBadArguments},
		{"delete: quota node", live, del("/zookeeper/quota", wrong), jute.ErrBadArguments},
		{"delete: config node", live, del("/zookeeper/config", wrong), jute.ErrBadArguments},
		{"delete: parent", live, del("/none/x", wrong), jute.ErrNoNode},
		{"delete: permission on parent", live, del("/shut/x", wrong), jute.ErrNoAuth},
		{"delete: permission on parent, nothing there", live, del("/shut/none", wrong), jute.ErrNoAuth},
		{"delete: existing", live, del("/open/none", wrong), jute.ErrNoNode},
		{"delete: invalid path is one that is not there", live, del("/open/x/", wrong), jute.ErrNoNode},
		{"delete: version", live, del("/open/x", wrong), jute.ErrBadVersion},
		{"delete: children", live, del("/open/x", 1), jute.ErrNotEmpty},
		{"delete: the node's own ACL does not count", live, del("/ephshut", 0), 0},

		{"setData: session", gone, set("x", wrong), jute.ErrSessionExpired},
		{"setData: path", live, set("/none/", wrong), jute.ErrBadArguments},
		{"setData: empty path", live, set("", wrong), jute.ErrBadArguments},
		{"setData: existing", live, set("/none", wrong), jute.ErrNoNode},
		{"setData: permission", live, set("/shutfull", wrong), jute.ErrNoAuth},
		{"setData: quota", live, set("/full", wrong), jute.ErrQuotaExceeded},
		{"setData: version", live, set("/open", wrong), jute.ErrBadVersion},

		{"check: session", gone, check("x", wrong), jute.ErrSessionExpired},
		{"check: path", live, check("/none/.", wrong), jute.ErrBadArguments},
		{"check: existing", live, check("/none", wrong), jute.ErrNoNode},
		{"check: permission", live, check("/shut", wrong), jute.ErrNoAuth},
		{"check: version", live, check("/open", wrong), jute.ErrBadVersion},
		{"check: version 0", live, check("/open", 0), 0},
		{"check: any version", live, check("/open/x", -1), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.op.Type != jute.OpCheck {
				txn := orderWorld(t).do(request(tc.session, tc.op))
				if txn.Err != tc.want {
					t.Errorf("alone: got %v, want %v", txn.Err, tc.want)
				}
			}
			if !tc.op.Mode.Valid() || tc.op.Mode.TTL() && tc.op.Type != jute.OpCreateTTL {
				return // a multi with it can't be decoded
			}
			txn := orderWorld(t).do(evaluate.Request{Op: jute.OpMulti, Session: tc.session, Body: multiBody(tc.op)})
			if txn.Err != 0 || !txn.Multi || len(txn.Ops) != 1 || txn.Ops[0].Code != tc.want {
				t.Errorf("in a multi: got %+v, want %v", txn, tc.want)
			}
		})
	}
}

func TestCheckOrderSetACL(t *testing.T) {
	const wrong = 77
	bad := acl("31=nis:bob")
	for _, tc := range []struct {
		name    string
		session jute.SessionID
		path    string
		acl     []jute.ACL
		want    jute.Code
	}{
		{"session", 2, "x", bad, jute.ErrSessionExpired},
		{"path", 1, "x", bad, jute.ErrBadArguments},
		{"ACL", 1, "/none", bad, jute.ErrInvalidACL},
		{"empty ACL", 1, "/none", nil, jute.ErrInvalidACL},
		{"existing", 1, "/none", openACL, jute.ErrNoNode},
		{"permission", 1, "/shut", openACL, jute.ErrNoAuth},
		{"version", 1, "/open", openACL, jute.ErrBadVersion},
	} {
		t.Run(tc.name, func(t *testing.T) {
			txn := orderWorld(t).do(evaluate.Request{
				Op: jute.OpSetACL, Session: tc.session, Body: setACLBody(tc.path, tc.acl, wrong)})
			if txn.Err != tc.want {
				t.Errorf("got %v, want %v", txn.Err, tc.want)
			}
		})
	}
}
