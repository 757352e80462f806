package datatree

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// million is the number of znodes in the benchmarks: 100 bytes of data each, at paths of
// 28 bytes.
const million = 1_000_000

func millionPath(i int) string { return fmt.Sprintf("/bench/%021d", i) }

func millionTree() *Tree {
	tree := New()
	var out Applied
	apply(tree, &out, Op{Kind: OpCreate, Path: "/bench", ACL: openACL, Cversion: 1})
	data := make([]byte, 100)
	for i := range million {
		apply(tree, &out, Op{Kind: OpCreate, Path: millionPath(i), Data: data, ACL: openACL, Cversion: int32(i) + 1})
	}
	return tree
}

// apply applies one op at the next zxid.
func apply(tree *Tree, out *Applied, op Op) {
	txn := Txn{Zxid: tree.LastZxid() + 1, Time: 1_700_000_000_000, Ops: []Op{op}}
	tree.Apply(&txn, out)
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpu returns the processor time that the process has used, in ns: on a busy machine it
// is more accurate than elapsed time.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkMillion works on one of a million siblings at a time.
func BenchmarkMillion(b *testing.B) {
	before := heapInUse()
	tree := millionTree()
	perNode := (heapInUse() - before) / million
	rng := rand.New(rand.NewPCG(1, 2))
	paths := make([]string, 1<<16)
	for i := range paths {
		paths[i] = millionPath(rng.IntN(million))
	}
	var out Applied
	run := func(name string, f func(i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i, start := 0, cpu()
			for b.Loop() {
				f(i & (len(paths) - 1))
				i++
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(perNode, "B/znode")
		})
	}
	run("get", func(i int) { tree.Get(paths[i]) })
	run("getData", func(i int) { tree.GetData(paths[i]) })
	txn := Txn{Ops: make([]Op, 1)}
	data := make([]byte, 100)
	write := func(op Op) {
		txn.Zxid, txn.Ops[0] = tree.LastZxid()+1, op
		tree.Apply(&txn, &out)
	}
	run("setData", func(i int) { write(Op{Kind: OpSetData, Path: paths[i], Data: data}) })
	run("setACL", func(i int) { write(Op{Kind: OpSetACL, Path: paths[i], ACL: openACL}) })
	run("delete+create", func(i int) {
		write(Op{Kind: OpDelete, Path: paths[i]})
		write(Op{Kind: OpCreate, Path: paths[i], Data: data, ACL: openACL, Cversion: 1})
	})
	if tree.Stats().Skipped > 0 {
		b.Fatal("operations were skipped")
	}
	run("children", func(int) {
		for name := range tree.Children("/bench") {
			if name == "" {
				b.Fatal("empty name")
			}
		}
	})
	run("gc", func(int) { runtime.GC() })
	runtime.KeepAlive(tree)
}

// BenchmarkSnapshot walks a view of a million znodes, and loads the rows.
func BenchmarkSnapshot(b *testing.B) {
	tree := millionTree()
	var batch Batch
	b.Run("walk", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			v := tree.Freeze()
			for more := true; more; {
				batch.Reset()
				more = v.Step(&batch, 64<<10)
			}
			v.Close()
		}
		b.ReportMetric(float64(cpu()-start)/float64(b.N)/million, "cpu-ns/znode")
	})
	b.Run("load", func(b *testing.B) {
		batch.Reset()
		v := tree.Freeze()
		for v.Step(&batch, 1<<30) {
		}
		v.Close()
		start := cpu()
		for b.Loop() {
			loader := NewLoader()
			for row := range batch.All() {
				if err := loader.Add(row); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := loader.Finish(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpu()-start)/float64(b.N)/million, "cpu-ns/znode")
	})
}

// BenchmarkTxn encodes and decodes the most common transaction.
func BenchmarkTxn(b *testing.B) {
	txn := Txn{Zxid: 0x100000001, Time: 1_700_000_000_000, Session: 0x100000000000001, Cxid: 7, Origin: 1 << 56, Ops: []Op{
		{Kind: OpSetData, Result: jute.OpSetData, Path: millionPath(1), Data: make([]byte, 100), Version: 1},
	}}
	buf := txn.Append(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = txn.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf)), "B")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		var got Txn
		for b.Loop() {
			if err := got.Decode(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := CheckTxn(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// ephemeralsTree has a session with n ephemerals.
func ephemeralsTree(n int) *Tree {
	tree := New()
	var out Applied
	apply(tree, &out, Op{Kind: OpCreate, Path: "/bench", ACL: openACL, Cversion: 1})
	tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{{Kind: OpCreateSession, TimeoutMs: 1000}}}, &out)
	for i := range n {
		apply(tree, &out, Op{Kind: OpCreate, Path: millionPath(i), ACL: openACL, Owner: jute.OwnerSession(1), Cversion: int32(i) + 1})
	}
	return tree
}

// BenchmarkClose closes a session with a million ephemerals, as a whole and in slices,
// and reports the longest time for which the tree is held.
func BenchmarkClose(b *testing.B) {
	for name, slice := range map[string]int{"whole": million, "slices": 1024} {
		b.Run(name, func(b *testing.B) {
			var longest time.Duration
			for range b.N {
				b.StopTimer()
				tree := ephemeralsTree(million)
				txn := Txn{Zxid: tree.LastZxid() + 1, Session: 1, Ops: []Op{{Kind: OpCloseSession}}}
				var out Applied
				b.StartTimer()
				if slice < million {
					tree.List(&txn)
				}
				for more := true; more; {
					begin := time.Now()
					if more = tree.ApplyPart(&txn, &out, slice); !more {
						tree.Apply(&txn, &out)
					}
					longest = max(longest, time.Since(begin))
				}
			}
			b.ReportMetric(float64(longest)/1e6, "longest-ms")
		})
	}
}

// BenchmarkExpirable searches a million znodes with an expired time to live, all at once
// and in slices.
func BenchmarkExpirable(b *testing.B) {
	tree := New()
	var out Applied
	apply(tree, &out, Op{Kind: OpCreate, Path: "/bench", ACL: openACL, Cversion: 1})
	for i := range million {
		apply(tree, &out, Op{Kind: OpCreate, Path: millionPath(i), ACL: openACL, Owner: jute.OwnerTTL(1), Cversion: int32(i) + 1})
	}
	for name, slice := range map[string]int{"whole": million, "slices": 1024} {
		b.Run(name, func(b *testing.B) {
			var longest time.Duration
			for range b.N {
				var cursor ExpiryCursor
				found := 0
				for more := true; more; {
					begin := time.Now()
					more = tree.Expirable(&cursor, slice, 1_800_000_000_000, 0, func(string, Node) { found++ })
					longest = max(longest, time.Since(begin))
				}
				if found != million {
					b.Fatalf("found %d", found)
				}
			}
			b.ReportMetric(float64(longest)/1e6, "longest-ms")
		})
	}
}
