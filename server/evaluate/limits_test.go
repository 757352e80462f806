package evaluate_test

import (
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// oneNode is a tree with only a root, whose counters have values that no test could reach
// by requests.
type oneNode struct{ datatree.Node }

func (n oneNode) Get(path string) (datatree.Node, bool)            { return n.Node, path == "/" }
func (oneNode) Data(string) ([]byte, bool)                         { return nil, false }
func (oneNode) Children(string) iter.Seq[string]                   { return func(func(string) bool) {} }
func (oneNode) Ephemerals(jute.SessionID, string) iter.Seq[string] { return func(func(string) bool) {} }
func (oneNode) NumEphemerals(jute.SessionID) int                   { return 0 }
func (oneNode) Session(jute.SessionID) (timeoutMs int32, ok bool)  { return 4000, true }
func (oneNode) SessionOwner(jute.SessionID) uint64                 { return 0 }
func (oneNode) SessionHolder(jute.SessionID) jute.Holder           { return 0 }
func (oneNode) Outcomes(jute.SessionID) []datatree.Outcome         { return nil }
func (oneNode) Quota(string) (datatree.Quota, bool)                { return datatree.Quota{}, false }
func (oneNode) Drifts(string) bool                                 { return false }
func (oneNode) Memory() int64                                      { return 0 }

func TestVersionsWrap(t *testing.T) {
	for have, want := range map[int32]int32{
		0:             1,
		math.MaxInt32: math.MinInt32,
		math.MinInt32: math.MinInt32 + 1,
		-2:            0, // -1 means any version in requests
		-1:            0, // of a system node, whose -1 clients see
	} {
		ev := newEvaluator(t, datatree.Node{Version: have, Aversion: have})
		var txn datatree.Txn
		req := request(1, jute.MultiOp{Type: jute.OpSetData, Path: "/", Version: have})
		ev.Evaluate(&req, 1, 0, &txn)
		if txn.Err != 0 || txn.Ops[0].Version != want {
			t.Errorf("setData at version %d: got %+v, want %d", have, txn, want)
		}
		req = evaluate.Request{Op: jute.OpSetACL, Session: 1, Body: setACLBody("/", openACL, have)}
		ev.Evaluate(&req, 2, 0, &txn)
		if txn.Err != 0 || txn.Ops[0].Version != want {
			t.Errorf("setACL at aversion %d: got %+v, want %d", have, txn, want)
		}
	}
}

func TestSequenceNumbers(t *testing.T) {
	for _, tc := range []struct {
		have  int32
		path  string
		after int32
	}{
		{0, "/s-0000000000", 1},
		{7, "/s-0000000007", 8},
		{1234567890, "/s-1234567890", 1234567891},
		{math.MaxInt32, "/s-2147483647", math.MinInt32},
		{math.MinInt32, "/s--2147483648", math.MinInt32 + 1},
		{-5, "/s--000000005", -4},
		{-1, "/s--000000001", 1}, // 0 means that there was no child
	} {
		ev := newEvaluator(t, datatree.Node{Cversion: tc.have})
		var txn datatree.Txn
		req := request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/s-", ACL: openACL, Mode: jute.ModePersistentSequential})
		ev.Evaluate(&req, 1, 0, &txn)
		if txn.Err != 0 || txn.Ops[0].Path != tc.path || txn.Ops[0].Cversion != tc.after {
			t.Errorf("at %d: got %+v, want %s, then %d", tc.have, txn, tc.path, tc.after)
		}
	}
}

func newEvaluator(t *testing.T, root datatree.Node) *evaluate.Evaluator {
	t.Helper()
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return evaluate.New(oneNode{root}, schemes, defaults)
}

// A rejected request must not show operations of the previous one, whose memory is
// reused.
func TestTxnIsReused(t *testing.T) {
	w := newWorld(t, defaults)
	var txn datatree.Txn
	open := evaluate.Request{Op: jute.OpCreateSession, Session: 1, Cxid: 5, Origin: 6, TimeoutMs: 4000}
	w.ev.Evaluate(&open, 1, 10, &txn)
	fail := request(1, jute.MultiOp{Type: jute.OpDelete, Path: "/none"})
	fail.Cxid, fail.Origin = 7, 8
	w.ev.Evaluate(&fail, 2, 11, &txn)
	if txn.Zxid != 2 || txn.Time != 11 || txn.Session != 1 || txn.Cxid != 7 || txn.Origin != 8 ||
		txn.Err != jute.ErrNoNode || txn.Multi || len(txn.Ops) != 0 {
		t.Errorf("got %+v", txn)
	}
	multi := evaluate.Request{Op: jute.OpMulti, Session: 1, Body: multiBody(
		jute.MultiOp{Type: jute.OpCreate, Path: "/x", Data: []byte("secret"), ACL: openACL},
		jute.MultiOp{Type: jute.OpCheck, Path: "/none"})}
	w.ev.Evaluate(&multi, 3, 12, &txn)
	for i := range txn.Ops {
		op := &txn.Ops[i]
		if op.Kind != datatree.OpError || op.Path != "" || op.Data != nil || op.ACL != nil {
			t.Errorf("operation %d of a failed multi: %+v", i, op)
		}
	}
}

// A burst, such as a rack's ephemerals that are deleted at once, must not cost memory
// permanently.
func TestMemoryAfterBurst(t *testing.T) {
	w := newWorld(t, defaults)
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
	create := request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/e", ACL: openACL, Mode: jute.ModeEphemeralSequential})
	for range 10_000 {
		w.do(create)
	}
	closed := w.do(evaluate.Request{Op: jute.OpCloseSession, Session: 1})
	if len(closed.Ops) != 1 || len(closed.Ops[0].Paths) != 10_000 {
		t.Fatalf("closing deletes %d of 10000", len(closed.Ops[0].Paths))
	}
	w.apply(len(w.pending) - 1)
	w.ev.Applied(w.tree.LastZxid())
	if tr := w.ev.Trace(); len(tr.Nodes) != 10_001 {
		t.Errorf("%d nodes are pending, want those of closeSession and the root", len(tr.Nodes))
	}
	w.settle()
	if tr := w.ev.Trace(); !tr.Empty() || w.ev.Capacity() > 1000 {
		t.Errorf("nothing is pending, but there is memory for %d touches", w.ev.Capacity())
	}
}

// TestHolderEntriesAreBounded has an ACL with many entries of the scheme holder, and many pending ephemerals
// elsewhere: a request does not look through all of these for each entry, and is refused.
func TestHolderEntriesAreBounded(t *testing.T) {
	for entries, want := range map[int]jute.Code{1: 0, 1000: jute.ErrNoAuth} {
		w := newWorld(t, evaluate.Options{})
		w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
		create := func(path string, mode jute.CreateMode, acl []jute.ACL) {
			t.Helper()
			if txn := w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: path, Mode: mode, ACL: acl})); txn.Err != 0 {
				t.Fatalf("create %s: %v", path, txn.Err)
			}
		}
		for _, path := range []string{"/locks", "/places", "/elsewhere"} {
			create(path, jute.ModePersistent, openACL)
		}
		create("/locks/c-", jute.ModeEphemeralSequential, openACL)
		var acl []jute.ACL
		for i := range entries - 1 {
			acl = append(acl, jute.ACL{Perms: jute.PermWrite, ID: jute.ID{Scheme: "holder", ID: fmt.Sprintf("/places/p%d-*", i)}})
		}
		acl = append(acl, jute.ACL{Perms: jute.PermWrite, ID: jute.ID{Scheme: "holder", ID: "/locks/*"}})
		create("/n", jute.ModePersistent, acl)
		w.settle()
		for range 300 {
			create("/elsewhere/c-", jute.ModeEphemeralSequential, openACL)
		}
		if txn := w.do(request(1, jute.MultiOp{Type: jute.OpSetData, Path: "/n", Version: -1})); txn.Err != want {
			t.Errorf("%d entries: %v, want %v", entries, txn.Err, want)
		}
	}
}
