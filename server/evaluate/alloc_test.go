package evaluate_test

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// hotWorld has 1,000 nodes and a session.
func hotWorld(t testing.TB) *world {
	w := newWorld(t, defaults)
	w.do(evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 4000})
	w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: "/bench", ACL: openACL}))
	for i := range 1000 {
		w.do(request(1, jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/bench/node-%04d", i), ACL: openACL}))
	}
	w.settle()
	return w
}

func setRequests(n int) []evaluate.Request {
	reqs := make([]evaluate.Request, n)
	for i := range reqs {
		reqs[i] = request(1, jute.MultiOp{
			Type: jute.OpSetData, Path: fmt.Sprintf("/bench/node-%04d", i), Data: make([]byte, 1024), Version: -1})
	}
	return reqs
}

func createRequests(n int, mode jute.CreateMode) []evaluate.Request {
	reqs := make([]evaluate.Request, n)
	for i := range reqs {
		reqs[i] = request(1, jute.MultiOp{
			Type: jute.OpCreate, Path: fmt.Sprintf("/bench/new-%05d", i), Data: make([]byte, 100), ACL: openACL, Mode: mode})
	}
	return reqs
}

// TestAllocs checks the allocations: a setData keeps a copy of its path; a create keeps
// that and the decoded ACL list.
func TestAllocs(t *testing.T) {
	w := hotWorld(t)
	var txn datatree.Txn
	next := func(reqs []evaluate.Request) func() {
		i := 0
		return func() {
			w.zxid++
			w.ev.Evaluate(&reqs[i%len(reqs)], w.zxid, w.now, &txn)
			w.ev.Applied(w.zxid)
			i++
		}
	}
	for _, tc := range []struct {
		name string
		reqs []evaluate.Request
		want float64
	}{
		{"setData", setRequests(10), 1},
		{"create", createRequests(10, jute.ModePersistent), 2},
		{"create sequential", createRequests(10, jute.ModePersistentSequential), 2},
	} {
		if got := testing.AllocsPerRun(1000, next(tc.reqs)); got > tc.want {
			t.Errorf("%s: %v allocations, want %v", tc.name, got, tc.want)
		}
	}
}

// benchmark evaluates reqs in turn with lag transactions pending. Nothing is applied,
// which the overlay hides.
func benchmark(b *testing.B, reqs []evaluate.Request, lag jute.Zxid) {
	w := hotWorld(b)
	var txn datatree.Txn
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w.zxid++
		w.ev.Evaluate(&reqs[i], w.zxid, w.now, &txn)
		if txn.Err != 0 {
			b.Fatal(txn.Err)
		}
		w.ev.Applied(w.zxid - lag)
		if i++; i == len(reqs) {
			i = 0
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, lag := range []jute.Zxid{0, 100, 900} {
		b.Run(fmt.Sprintf("setData/pending=%d", lag), func(b *testing.B) { benchmark(b, setRequests(1000), lag) })
		b.Run(fmt.Sprintf("create/pending=%d", lag), func(b *testing.B) {
			benchmark(b, createRequests(1000, jute.ModePersistent), lag)
		})
		b.Run(fmt.Sprintf("create/mode=sequential/pending=%d", lag), func(b *testing.B) {
			benchmark(b, createRequests(1000, jute.ModePersistentSequential), lag)
		})
	}
	b.Run("multi/ops=10", func(b *testing.B) {
		var reqs []evaluate.Request
		for i := range 10 {
			var ops []jute.MultiOp
			for j := range 10 {
				ops = append(ops, jute.MultiOp{Type: jute.OpSetData, Path: fmt.Sprintf("/bench/node-%04d", 10*i+j), Version: -1})
			}
			reqs = append(reqs, evaluate.Request{Op: jute.OpMulti, Session: 1, Body: multiBody(ops...)})
		}
		benchmark(b, reqs, 0)
	})
}

// BenchmarkCloseSession closes sessions with 10 pending ephemerals each.
func BenchmarkCloseSession(b *testing.B) {
	w := hotWorld(b)
	create := createRequests(10, jute.ModeEphemeralSequential)
	var txn datatree.Txn
	b.ReportAllocs()
	for s := jute.SessionID(2); b.Loop(); s++ {
		evaluateFor := func(req evaluate.Request) {
			req.Session = s
			w.zxid++
			w.ev.Evaluate(&req, w.zxid, w.now, &txn)
			if txn.Err != 0 {
				b.Fatal(txn.Err)
			}
		}
		evaluateFor(evaluate.Request{Op: jute.OpCreateSession, TimeoutMs: 4000})
		for _, req := range create {
			evaluateFor(req)
		}
		evaluateFor(evaluate.Request{Op: jute.OpCloseSession})
		w.ev.Applied(w.zxid - 1000)
	}
}
