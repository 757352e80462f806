package datatree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// wideTree has n children below /wide, created in no order.
func wideTree(n int) *Tree {
	tree := New()
	var out Applied
	apply(tree, &out, Op{Kind: OpCreate, Path: "/wide", ACL: openACL, Cversion: 1})
	for _, i := range rand.New(rand.NewPCG(5, 5)).Perm(n) {
		apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/wide/%d", i), Data: []byte("x"), ACL: openACL, Cversion: int32(i) + 1})
	}
	return tree
}

func rowsOf(tree *Tree, budget int) []Row { return rowsBetween(tree, budget, func() {}) }

// rowsBetween is rowsOf with a call after each step.
func rowsBetween(tree *Tree, budget int, between func()) []Row {
	v := tree.Freeze()
	defer v.Close()
	var b Batch
	var rows []Row
	for more := true; more; {
		b.Reset()
		more = v.Step(&b, budget)
		for row := range b.All() {
			rows = append(rows, Row{row.Table, bytes.Clone(row.Key), bytes.Clone(row.Value)})
		}
		between()
	}
	return rows
}

func equalRows(a, b Row) bool {
	return a.Table == b.Table && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
}

// TestViewRowsAreCanonical checks that the rows depend neither on the size of steps nor on the
// tree's history.
func TestViewRowsAreCanonical(t *testing.T) {
	tree := wideTree(3*batchSize + 7)
	var out Applied
	txn := Txn{Zxid: tree.LastZxid() + 1, Session: -5, Ops: []Op{{Kind: OpCreateSession, TimeoutMs: 3}}}
	tree.Apply(&txn, &out)
	txn = Txn{Zxid: tree.LastZxid() + 1, Session: 5, Ops: []Op{{Kind: OpCreateSession, TimeoutMs: 3}}}
	tree.Apply(&txn, &out)
	want := rowsOf(tree, 1<<40)
	for _, budget := range []int{1, 1000, 100_000} {
		got := rowsOf(tree, budget)
		if !slices.EqualFunc(got, want, equalRows) {
			t.Errorf("steps of %d give %d rows other than the %d of one step", budget, len(got), len(want))
		}
	}
	loaded := load(t, want)
	if got := rowsOf(loaded, 5000); !slices.EqualFunc(got, want, equalRows) {
		t.Error("the rows of a loaded tree are not those that it was loaded from")
	}
}

// TestStepIsBounded checks that a step visits few nodes, whatever the fan-out.
func TestStepIsBounded(t *testing.T) {
	tree := wideTree(20_000)
	v := tree.Freeze()
	defer v.Close()
	var b Batch
	const budget = 10_000
	steps := 0
	for more := true; more; steps++ {
		b.Reset()
		more = v.Step(&b, budget)
		if b.Size() > budget+100 {
			t.Fatalf("a step of %d wrote %d bytes", budget, b.Size())
		}
	}
	if steps < 20_000*visitCost*2/budget {
		t.Errorf("only %d steps: collecting costs nothing?", steps)
	}
}

// TestViewKeepsWhatChanges checks that a view keeps former versions only of nodes that it shows: of
// those that are created while it is open, their parent's.
func TestViewKeepsWhatChanges(t *testing.T) {
	tree := wideTree(10)
	v := tree.Freeze()
	defer v.Close()
	var out Applied
	for i := range 100 {
		path := fmt.Sprintf("/wide/new%d", i)
		apply(tree, &out, Op{Kind: OpCreate, Path: path, ACL: openACL, Cversion: 100 + int32(i)})
		apply(tree, &out, Op{Kind: OpSetData, Path: path, Data: []byte("y"), Version: 1})
		if i%2 == 0 {
			apply(tree, &out, Op{Kind: OpDelete, Path: path})
		}
	}
	if v.Saved() != 1 {
		t.Errorf("%d nodes are saved, want /wide alone", v.Saved())
	}
	apply(tree, &out, Op{Kind: OpSetData, Path: "/wide/3", Data: []byte("y"), Version: 1})
	apply(tree, &out, Op{Kind: OpDelete, Path: "/wide/4"})
	if v.Saved() != 3 {
		t.Errorf("%d nodes are saved, want /wide and two children", v.Saved())
	}
}

// TestViewPassesNewNodesInSteps checks that a step does not pass over any number of new nodes, under the lock.
func TestViewPassesNewNodesInSteps(t *testing.T) {
	tree := wideTree(10)
	v := tree.Freeze()
	defer v.Close()
	const parts = 5
	var out Applied
	for i := range parts * batchSize {
		apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/wide/new%d", i), ACL: openACL, Cversion: 100 + int32(i)})
	}
	steps, nodes := 0, 0
	var b Batch
	for more := true; more; steps++ {
		b.Reset()
		more = v.Step(&b, visitCost*batchSize/2)
		for row := range b.All() {
			if row.Table == TableNodes {
				nodes++
			}
		}
	}
	if want := v.Meta().Nodes; steps <= parts || nodes != want {
		t.Errorf("%d steps and %d nodes, want more than %d and %d", steps, nodes, parts, want)
	}
}

// TestViewUnderLocks walks under the read lock while another goroutine applies, as the
// server does. It is a test for the race detector.
func TestViewUnderLocks(t *testing.T) {
	tree := wideTree(3000)
	var mu sync.RWMutex
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var out Applied
		g := &generator{rng: rand.New(rand.NewPCG(9, 9)), zxid: tree.LastZxid()}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			txn := g.txn(tree)
			tree.Apply(&txn, &out)
			apply(tree, &out, Op{Kind: OpDelete, Path: fmt.Sprintf("/wide/%d", i%3000)})
			mu.Unlock()
		}
	})
	for range 5 {
		mu.Lock()
		v := tree.Freeze()
		mu.Unlock()
		l := NewLoader()
		var b Batch
		for more := true; more; {
			b.Reset()
			mu.RLock()
			more = v.Step(&b, 2000)
			mu.RUnlock()
			for row := range b.All() {
				if err := l.Add(row); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := l.Finish(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		v.Close()
		mu.Unlock()
	}
	close(stop)
	wg.Wait()
}

// TestViewAfterDeleteAndReuse: the ids of frozen nodes go to other nodes.
func TestViewAfterDeleteAndReuse(t *testing.T) {
	tree := wideTree(5000)
	want := rowsOf(tree, 1<<40)
	v := tree.Freeze()
	defer v.Close()
	var out Applied
	for i := range 5000 {
		apply(tree, &out, Op{Kind: OpDelete, Path: fmt.Sprintf("/wide/%d", i)})
	}
	for i := range 5000 {
		acl := []jute.ACL{{Perms: jute.Perms(i), ID: jute.WorldAnyone}}
		apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/new%d", i), Data: []byte("other"), ACL: acl, Cversion: 1})
	}
	if v.Saved() < 5000 {
		t.Errorf("%d nodes saved, want all that were deleted", v.Saved())
	}
	var b Batch
	for v.Step(&b, 1<<40) {
	}
	i := 0
	for row := range b.All() {
		if i >= len(want) || !equalRows(row, want[i]) {
			t.Fatalf("row %d is %q", i, row.Key)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d rows, want %d", i, len(want))
	}
}

func TestViewClosed(t *testing.T) {
	tree := New()
	v := tree.Freeze()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second view at the same time does not panic")
			}
		}()
		tree.Freeze()
	}()
	v.Close()
	v.Close()
	var b Batch
	if v.Step(&b, 100) || b.Len() != 0 {
		t.Error("a closed view goes on")
	}
	tree.Freeze().Close()
}

// TestLoaderRefuses damages a snapshot in many ways; the loader must detect each.
func TestLoaderRefuses(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	tree := New()
	g := &generator{rng: rng}
	for range 400 {
		txn := g.txn(tree)
		tree.Apply(&txn, &Applied{})
	}
	good := rowsOf(tree, 1<<40)
	load(t, good)
	try := func(what string, rows []Row) {
		t.Helper()
		l := NewLoader()
		for _, row := range rows {
			if err := l.Add(row); err != nil {
				if !refused(err) {
					t.Errorf("seed %#x: %s: error %v neither wraps ErrTxn nor names a version", seed, what, err)
				}
				return
			}
		}
		if _, err := l.Finish(); !refused(err) {
			t.Errorf("seed %#x: %s: %v, want a refusal", seed, what, err)
		}
	}
	for i, row := range good {
		try(fmt.Sprintf("without row %q of %s", row.Key, row.Table), slices.Delete(slices.Clone(good), i, i+1))
		if row.Table != TableMeta {
			try(fmt.Sprintf("row %q of %s twice", row.Key, row.Table), slices.Insert(slices.Clone(good), i, row))
		}
		for range 20 {
			rows := slices.Clone(good)
			rows[i].Key, rows[i].Value = bytes.Clone(row.Key), bytes.Clone(row.Value)
			bit := rng.IntN(8 * (len(row.Key) + len(row.Value)))
			if bit < 8*len(row.Key) {
				rows[i].Key[bit/8] ^= 1 << (bit % 8)
			} else if bit -= 8 * len(row.Key); row.Table != TableMeta || bit/8 > 8 {
				rows[i].Value[bit/8] ^= 1 << (bit % 8)
			} else {
				continue // the zxid of the meta row is not in the digest
			}
			try(fmt.Sprintf("bit %d of row %q of %s", bit, row.Key, row.Table), rows)
		}
	}
	try("nothing", nil)
	none := AppendMeta(nil, &Meta{Nodes: newEmpty().numNodes()})
	try("no root", []Row{{Table: TableMeta, Key: []byte(MetaKey), Value: none}})
	try("no table", []Row{{Table: NumTables}})
}

// FuzzLoader adds arbitrary rows: the result is an error or a tree, never a panic.
func FuzzLoader(f *testing.F) {
	var seed []byte
	for _, row := range rowsOf(New(), 1<<40) {
		seed = append(append(seed, byte(row.Table), byte(len(row.Key)), byte(len(row.Value))), row.Key...)
		seed = append(seed, row.Value...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		l := NewLoader()
		for len(b) >= 3 {
			k, v := int(b[1]), int(b[2])
			if len(b) < 3+k+v {
				return
			}
			if err := l.Add(Row{Table(b[0]), b[3 : 3+k], b[3+k : 3+k+v]}); err != nil {
				return
			}
			b = b[3+k+v:]
		}
		tree, err := l.Finish()
		if err == nil && tree.Digest() != tree.computeDigest() {
			t.Fatal("digest kept differs from digest made")
		}
	})
}
