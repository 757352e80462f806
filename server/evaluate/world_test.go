package evaluate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

var defaults = evaluate.Options{ExtendedTypes: true}

// world is a leader without a log: an evaluator, a tree, and the transactions
// between them.
type world struct {
	tree    *datatree.Tree
	reader  *datatree.Reader // of the evaluator
	ev      *evaluate.Evaluator
	zxid    jute.Zxid
	now     int64
	pending []datatree.Txn
	applied datatree.Applied
}

func newWorld(t testing.TB, opts evaluate.Options) *world {
	t.Helper()
	w := &world{tree: datatree.New(), zxid: 0x100000000, now: 1000}
	w.configure(t, opts)
	return w
}

// configure replaces the evaluator; nothing may be pending.
func (w *world) configure(t testing.TB, opts evaluate.Options) {
	t.Helper()
	schemes, err := auth.New(auth.Config{DigestEnabled: true})
	if err != nil {
		t.Fatal(err)
	}
	w.reader = w.tree.NewReader()
	w.ev = evaluate.New(w.reader, schemes, opts)
}

// do evaluates a request; its transaction is then pending. If there is none the zxid is
// 0.
func (w *world) do(req evaluate.Request) datatree.Txn {
	var txn datatree.Txn
	if !w.ev.Evaluate(&req, w.zxid+1, w.now, &txn) {
		return datatree.Txn{Err: txn.Err}
	}
	w.zxid++
	w.pending = append(w.pending, txn)
	return txn
}

// apply applies the n oldest pending transactions to the tree.
func (w *world) apply(n int) {
	for i := range w.pending[:n] {
		w.tree.Apply(&w.pending[i], &w.applied)
	}
	w.pending = w.pending[n:]
}

// settle applies everything and informs the evaluator.
func (w *world) settle() {
	w.apply(len(w.pending))
	w.ev.Applied(w.zxid)
}

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

func body(op jute.MultiOp) []byte { return op.Append(nil) }

func setACLBody(path string, acl []jute.ACL, version int32) []byte {
	r := jute.SetACLRequest{Path: path, ACL: acl, Version: version}
	return r.Append(nil)
}

func multiBody(ops ...jute.MultiOp) []byte {
	r := jute.MultiRequest{Ops: ops}
	return r.Append(nil)
}

// request wraps an operation that can be a single request.
func request(s jute.SessionID, op jute.MultiOp) evaluate.Request {
	return evaluate.Request{Op: op.Type, Session: s, Body: body(op)}
}

func parseID(s string) jute.ID {
	scheme, name, _ := strings.Cut(s, ":")
	return jute.ID{Scheme: scheme, ID: name}
}

// parseACL reads "31=world:anyone,1=ip:1.1.1.1"; "" is the empty list.
func parseACL(s string) ([]jute.ACL, error) {
	var list []jute.ACL
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		var a jute.ACL
		perms, name, _ := strings.Cut(part, "=")
		if _, err := fmt.Sscan(perms, &a.Perms); err != nil {
			return nil, fmt.Errorf("read ACL %q: %w", s, err)
		}
		a.ID = parseID(name)
		list = append(list, a)
	}
	return list, nil
}

func acl(s string) []jute.ACL {
	list, err := parseACL(s)
	if err != nil {
		panic(err)
	}
	return list
}

func formatACL(list []jute.ACL) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%d=%s:%s", a.Perms, a.ID.Scheme, a.ID.ID))
	}
	return strings.Join(parts, ",")
}

// format renders a transaction, its zxid as the bare counter.
func format(txn *datatree.Txn) string {
	head := fmt.Sprintf("%d:", txn.Zxid.Counter())
	switch {
	case txn.Zxid == 0:
		return fmt.Sprintf("no transaction: %v (%d)", txn.Err, int32(txn.Err))
	case txn.Err != 0:
		return fmt.Sprintf("%s %v (%d)", head, txn.Err, int32(txn.Err))
	case txn.Multi:
		for i := range txn.Ops {
			head += fmt.Sprintf("\n  %v: %s", txn.Ops[i].Result, formatOp(&txn.Ops[i]))
		}
		return strings.Replace(head, ":", ": multi", 1)
	case len(txn.Ops) == 0:
		return head + " nothing"
	}
	var ops []string
	for i := range txn.Ops {
		ops = append(ops, formatOp(&txn.Ops[i]))
	}
	return head + " " + strings.Join(ops, "; ")
}

func formatOp(op *datatree.Op) string {
	switch op.Kind {
	case datatree.OpCreate:
		s := fmt.Sprintf("create %s data=%s cversion=%d", op.Path, formatData(op.Data), op.Cversion)
		if op.Owner != 0 {
			s += fmt.Sprintf(" owner=%#x", uint64(op.Owner))
		}
		if len(op.ACL) != 1 || op.ACL[0] != openACL[0] {
			s += " acl=" + formatACL(op.ACL)
		}
		return s
	case datatree.OpDelete:
		return "delete " + op.Path
	case datatree.OpSetData:
		return fmt.Sprintf("set %s data=%s version=%d", op.Path, formatData(op.Data), op.Version)
	case datatree.OpSetACL:
		return fmt.Sprintf("set ACL of %s acl=%s version=%d", op.Path, formatACL(op.ACL), op.Version)
	case datatree.OpCheck:
		return "holds"
	case datatree.OpError:
		return fmt.Sprint(int32(op.Code))
	case datatree.OpCreateSession:
		return fmt.Sprintf("open session, timeout %d ms", op.TimeoutMs)
	case datatree.OpSetTimeout:
		return fmt.Sprintf("set timeout of session, %d ms", op.TimeoutMs)
	case datatree.OpSetOwner:
		return "set owner of session"
	case datatree.OpCloseSession:
		return strings.TrimSuffix(fmt.Sprintf("close session, delete %s", strings.Join(op.Paths, " ")), ", delete ")
	}
	return fmt.Sprintf("op of kind %d", op.Kind)
}

func formatData(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%q", data)
}
