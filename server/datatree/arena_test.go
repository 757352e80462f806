package datatree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// TestRecordSize guards the memory that a znode needs.
func TestRecordSize(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size != 56 {
		t.Errorf("a record has %d bytes, want 56", size)
	}
	if size := unsafe.Sizeof(extra{}); size != 88 {
		t.Errorf("an extra has %d bytes, want 88", size)
	}
}

// TestMassDelete checks that a tree that shrinks releases memory and buckets, and keeps
// working.
func TestMassDelete(t *testing.T) {
	const n = 50_000
	tree := New()
	var out Applied
	check := func(present int) {
		t.Helper()
		for i := range n {
			if _, ok := tree.Get(fmt.Sprintf("/%d", i)); ok != (i < present) {
				t.Fatalf("/%d: found %v with %d nodes", i, ok, present)
			}
		}
	}
	for range 2 {
		for i := range n {
			apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/%d", i), ACL: openACL, Cversion: 1})
		}
		check(n)
		for i := n - 1; i >= 100; i-- {
			apply(tree, &out, Op{Kind: OpDelete, Path: fmt.Sprintf("/%d", i)})
		}
		check(100)
		used := 0
		for _, c := range tree.arena.records.chunks {
			if c != nil {
				used++
			}
		}
		if used > 2 || tree.index.size > bucketSize || len(tree.index.buckets) > 1 {
			t.Errorf("with 100 nodes: %d chunks, %d buckets", used, tree.index.size)
		}
		for i := range 100 {
			apply(tree, &out, Op{Kind: OpDelete, Path: fmt.Sprintf("/%d", i)})
		}
		if s := tree.Stats(); s.Nodes != 5 || s.Skipped != 0 {
			t.Errorf("stats %+v", s)
		}
	}
}

// TestChunkIsKept checks that alternating creates and deletes, where the create needs
// another chunk, do not allocate it each time.
func TestChunkIsKept(t *testing.T) {
	tree := New()
	var out Applied
	for i := range chunkSize - tree.numNodes() - 1 { // id 0 is no node
		apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/%d", i), ACL: openACL})
	}
	chunks := map[*[chunkSize]record]bool{}
	for range 10 {
		apply(tree, &out, Op{Kind: OpCreate, Path: "/last", ACL: openACL})
		chunks[tree.arena.records.chunks[len(tree.arena.records.chunks)-1]] = true
		apply(tree, &out, Op{Kind: OpDelete, Path: "/last"})
	}
	if len(tree.arena.records.chunks) != 2 || len(chunks) != 1 {
		t.Errorf("%d chunks, the last of which was allocated %d times", len(tree.arena.records.chunks), len(chunks))
	}
}

// TestIndexInvariant grows and shrinks an index at random.
func TestIndexInvariant(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	tree := New()
	var out Applied
	live := map[string]bool{}
	for _, p := range []int{9, 2, 8, 1} { // creates out of ten
		for range 8000 {
			path := fmt.Sprintf("/%d", rng.IntN(8000))
			if create := rng.IntN(10) < p; create != live[path] {
				op := Op{Kind: OpDelete, Path: path}
				if create {
					op = Op{Kind: OpCreate, Path: path, ACL: openACL}
				}
				apply(tree, &out, op)
				live[path] = create
			}
			x := &tree.index
			if x.size < x.mask+1 || x.size > 2*(x.mask+1) || x.mask&(x.mask+1) != 0 ||
				int(x.size) > len(x.buckets)*bucketSize || int(x.count)+1 != tree.numNodes() {
				t.Fatalf("seed %#x: size %d mask %#x count %d", seed, x.size, x.mask, x.count)
			}
		}
		for path, want := range live {
			if _, ok := tree.Get(path); ok != want {
				t.Fatalf("seed %#x: %s found %v, want %v", seed, path, ok, want)
			}
		}
	}
}

// TestDataOutlivesNode checks that the result of a read is not modified later.
func TestDataOutlivesNode(t *testing.T) {
	tree := New()
	var out Applied
	value := []byte("first")
	apply(tree, &out, Op{Kind: OpCreate, Path: "/a", Data: value, ACL: openACL})
	copy(value, "XXXXX") // the request's buffer is reused
	data, _ := tree.Data("/a")
	var names []string
	for name := range tree.Children("/") {
		names = append(names, name)
	}
	apply(tree, &out, Op{Kind: OpSetData, Path: "/a", Data: []byte("other")})
	apply(tree, &out, Op{Kind: OpDelete, Path: "/a"})
	apply(tree, &out, Op{Kind: OpCreate, Path: "/b", Data: []byte("third"), ACL: openACL})
	if string(data) != "first" || cap(data) != len(data) || strings.Join(names, " ") != "zookeeper a" {
		t.Errorf("data %q of capacity %d, names %q", data, cap(data), names)
	}
}

// TestACLsStoredOnce checks that equal lists are stored once, and removed with the last
// node.
func TestACLsStoredOnce(t *testing.T) {
	tree := New()
	var out Applied
	list := func() []jute.ACL {
		return []jute.ACL{{Perms: 3, ID: jute.ID{Scheme: "digest", ID: strings.Clone("u:x")}}}
	}
	before := len(tree.acls.ids)
	for i := range 100 {
		apply(tree, &out, Op{Kind: OpCreate, Path: fmt.Sprintf("/%d", i), ACL: list()})
	}
	a, _ := tree.Get("/1")
	b, _ := tree.Get("/2")
	if len(tree.acls.ids) != before+1 || &a.ACL[0] != &b.ACL[0] {
		t.Errorf("%d lists for 100 equal ones", len(tree.acls.ids)-before)
	}
	for i := range 50 {
		apply(tree, &out, Op{Kind: OpDelete, Path: fmt.Sprintf("/%d", i)})
		apply(tree, &out, Op{Kind: OpSetACL, Path: fmt.Sprintf("/%d", 50+i), ACL: openACL})
	}
	if len(tree.acls.ids) != before || len(tree.acls.free) != 1 {
		t.Errorf("%d lists left, %d free ids", len(tree.acls.ids)-before, len(tree.acls.free))
	}
}

// TestDeepPath checks that depth is unlimited and needs no recursion.
func TestDeepPath(t *testing.T) {
	tree := New()
	var out Applied
	path := ""
	for range 2000 {
		path += "/d"
		apply(tree, &out, Op{Kind: OpCreate, Path: path, ACL: openACL})
	}
	if n := tree.CountDescendants("/d"); n != 1999 {
		t.Errorf("%d nodes below, want 1999", n)
	}
	if got := load(t, rowsOf(tree, 500)); got.Digest() != tree.Digest() {
		t.Error("digest differs after loading")
	}
}

func TestAllocs(t *testing.T) {
	tree := wideTree(2000)
	var out Applied
	data := make([]byte, 100)
	acl := []jute.ACL{{Perms: 1, ID: jute.WorldAnyone}}
	apply(tree, &out, Op{Kind: OpCreate, Path: "/keep", ACL: acl, Cversion: 9})
	txn := Txn{Ops: make([]Op, 1)}
	write := func(op Op) {
		txn.Zxid, txn.Ops[0] = tree.LastZxid()+1, op
		tree.Apply(&txn, &out)
	}
	buf := eachKind.Append(nil)
	var decoded Txn
	plain := Txn{Ops: []Op{{Kind: OpSetData, Path: "/a", Data: data}}}
	plainBuf := plain.Append(nil)
	tests := []struct {
		name string
		want float64
		f    func()
	}{
		{"Get", 0, func() { tree.Get("/wide/77") }},
		{"GetData", 0, func() { tree.GetData("/wide/77") }},
		{"Quota", 0, func() { tree.Quota("/wide/77") }},
		{"Children", 0, func() {
			for name := range tree.Children("/wide") {
				buf = append(buf[:0], name...)
			}
		}},
		{"setData", 1, func() { write(Op{Kind: OpSetData, Path: "/wide/77", Data: data}) }},
		{"setACL", 0, func() { write(Op{Kind: OpSetACL, Path: "/wide/77", ACL: acl}) }},
		{"delete and create", 1, func() {
			write(Op{Kind: OpDelete, Path: "/wide/78"})
			write(Op{Kind: OpCreate, Path: "/wide/78", Data: data, ACL: acl, Cversion: 1})
		}},
		{"Append", 0, func() { buf = eachKind.Append(buf[:0]) }},
		{"Decode", 0, func() {
			if err := decoded.Decode(plainBuf); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(100, tt.f); got != tt.want {
			t.Errorf("%s allocates %v times, want %v", tt.name, got, tt.want)
		}
	}
	if n := tree.Stats().Skipped; n > 0 {
		t.Errorf("%d operations were skipped", n)
	}
}
