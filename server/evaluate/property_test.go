package evaluate_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// TestPipelined compares an evaluator whose tree lags, by varying amounts, and which
// learns of applied transactions even later, with one whose overlay is always empty: each
// request must become the same transaction, and the trees must end up the same.
//
// It also checks that rejected requests do not change the overlay, that a transaction can
// always be applied, that a request's body may be overwritten once its transaction is
// applied, and that the overlay is empty at the end.
func TestPipelined(t *testing.T) {
	const requests = 2000
	accepted, total := 0, 0
	first := seeds.First(t)
	rounds := uint64(12)
	if testing.Short() {
		rounds = 4
	}
	for seed := first; seed < first+rounds; seed++ {
		g := newGenerator(seed)
		lone, piped := newWorld(t, defaults), newWorld(t, defaults)
		var bodies [][]byte // of piped.pending
		total += requests
		for i := range requests {
			req := g.request(lone.tree)
			lone.now += int64(g.IntN(3))
			piped.now = lone.now
			want := lone.do(req)
			lone.settle()

			req.Body = bytes.Clone(req.Body)
			bodies = append(bodies, req.Body)
			before := piped.ev.Trace()
			got := piped.do(req)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, request %d, %v:\npipelined %s\nalone     %s", seed, i, req.Op, format(&got), format(&want))
			}
			switch rejected := got.Err != 0 || failedMulti(&got); {
			case !rejected:
				accepted++
			case !reflect.DeepEqual(piped.ev.Trace(), before):
				t.Fatalf("seed %d, request %d: rejected %s left a trace:\nbefore %v\nafter  %v",
					seed, i, format(&got), before, piped.ev.Trace())
			}
			if g.IntN(4) == 0 {
				bodies = applySome(g, piped, bodies)
			}
			if g.IntN(8) == 0 {
				told := piped.tree.LastZxid()
				piped.ev.Applied(told - min(told, jute.Zxid(g.IntN(4))))
			}
		}
		piped.settle()
		if lone.tree.Digest() != piped.tree.Digest() {
			t.Errorf("seed %d: the trees differ", seed)
		}
		if n := lone.tree.Stats().Skipped + piped.tree.Stats().Skipped; n != 0 {
			t.Errorf("seed %d: %d operations could not be applied", seed, n)
		}
		if tr := piped.ev.Trace(); !tr.Empty() {
			t.Errorf("seed %d: all is applied, but pending are %v", seed, tr)
		}
	}
	if accepted < total/6 || accepted > total*5/6 {
		t.Errorf("%d of %d requests were accepted: a poor mixture", accepted, total)
	}
}

// TestBesideAPart evaluates requests while the tree has a part of a multi, or all but its end: they become the same as
// after it.
func TestBesideAPart(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+8; seed++ {
		g := newGenerator(seed)
		lone, piped := newWorld(t, defaults), newWorld(t, defaults)
		path := func() string { return fmt.Sprintf("/n%d", g.IntN(6)) }
		op := func(path string, version int32) jute.MultiOp {
			n, exists := lone.tree.Get(path)
			if version != -1 && exists {
				version += n.DataVersion()
			}
			if exists == (g.IntN(8) > 0 || version == -1) {
				typ := []jute.OpCode{jute.OpDelete, jute.OpSetData, jute.OpSetData}[g.IntN(3)]
				return jute.MultiOp{Type: typ, Path: path, Version: version}
			}
			return jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: openACL}
		}
		for i := range 200 {
			do := func(req evaluate.Request) {
				want := lone.do(req)
				lone.settle()
				if got := piped.do(req); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, multi %d, %v:\nbeside a part %s\nalone         %s", seed, i, req.Op, format(&got), format(&want))
				}
			}
			var ops []jute.MultiOp
			for len(ops) < 4 {
				if p := path(); !slices.ContainsFunc(ops, func(op jute.MultiOp) bool { return op.Path == p }) {
					ops = append(ops, op(p, -1))
				}
			}
			do(evaluate.Request{Op: jute.OpMulti, Body: multiBody(ops...)})
			multi := &piped.pending[0]
			if failedMulti(multi) || !piped.tree.ApplyPart(multi, &piped.applied, 1+g.IntN(3)) {
				t.Fatalf("seed %d, multi %d has no part: %s", seed, i, format(multi))
			}
			if g.IntN(4) == 0 {
				piped.tree.ApplyRest(multi, &piped.applied)
			}
			piped.ev.Applied(piped.tree.LastZxid())
			for range 4 {
				one := op(path(), int32(g.IntN(2)))
				do(evaluate.Request{Op: one.Type, Body: body(one)})
			}
			piped.settle()
		}
		if lone.tree.Digest() != piped.tree.Digest() {
			t.Errorf("seed %d: the trees differ", seed)
		}
	}
}

// applySome applies some of the pending transactions and spoils their bodies.
func applySome(g generator, w *world, bodies [][]byte) [][]byte {
	n := g.IntN(len(w.pending) + 1)
	w.apply(n)
	for _, b := range bodies[:n] {
		for i := range b {
			b[i] = 0xee
		}
	}
	return bodies[n:]
}

func failedMulti(txn *datatree.Txn) bool {
	return txn.Multi && len(txn.Ops) > 0 && txn.Ops[0].Kind == datatree.OpError
}

// TestFailedMulti puts a failing operation after arbitrary operations that would succeed,
// on top of an overlay with every kind of record.
func TestFailedMulti(t *testing.T) {
	undone, total := 0, 0 // multis that failed after their first operation, and all
	first := seeds.First(t)
	for seed := first; seed < first+8; seed++ {
		g := newGenerator(seed)
		w := newWorld(t, defaults)
		for i := range 500 {
			w.do(g.request(w.tree))
			if g.IntN(10) == 0 {
				w.apply(g.IntN(len(w.pending) + 1))
				w.ev.Applied(w.tree.LastZxid())
			}
			var ops []jute.MultiOp
			for range 1 + g.IntN(8) {
				ops = append(ops, g.inMulti())
			}
			ops = append(ops, jute.MultiOp{Type: jute.OpCheck, Path: "/none/such", Version: -1})
			req := evaluate.Request{Op: jute.OpMulti, Auth: g.identities(), Session: g.session(), Body: multiBody(ops...)}
			before := w.ev.Trace()
			txn := w.do(req)
			if !failedMulti(&txn) {
				t.Fatalf("seed %d, multi %d: accepted: %s", seed, i, format(&txn))
			}
			if after := w.ev.Trace(); !reflect.DeepEqual(after, before) {
				t.Fatalf("seed %d, multi %d left a trace:\nbefore %v\nafter  %v", seed, i, before, after)
			}
			at := slices.IndexFunc(txn.Ops, func(op datatree.Op) bool { return op.Code != 0 })
			if total++; at > 0 {
				undone++
			}
		}
	}
	if undone < total/10 {
		t.Errorf("only %d of %d multis had something to undo: a poor mixture", undone, total)
	}
}

// FuzzEvaluate evaluates arbitrary bodies for any operation. It must not panic, and every
// resulting transaction must be applicable.
func FuzzEvaluate(f *testing.F) {
	g := newGenerator(1)
	tree := datatree.New()
	for range 200 {
		req := g.request(tree)
		f.Add(int32(req.Op), req.Body)
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		w := newWorld(t, evaluate.Options{ExtendedTypes: true, EnforceQuota: true})
		w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
		for _, path := range []string{"/a", "/b", "/a/a"} {
			w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: openACL}))
		}
		for range 2 {
			txn := w.do(evaluate.Request{Op: jute.OpCode(op), Session: 1, Body: body})
			if txn.Err != 0 && len(txn.Ops) > 0 {
				t.Errorf("error %v with %d operations", txn.Err, len(txn.Ops))
			}
			w.apply(len(w.pending) - 1)
		}
		w.settle()
		if n := w.tree.Stats().Skipped; n != 0 {
			t.Errorf("%d operations could not be applied", n)
		}
		if tr := w.ev.Trace(); !tr.Empty() {
			t.Errorf("all is applied, but pending are %v", tr)
		}
	})
}
