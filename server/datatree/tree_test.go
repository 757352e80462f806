package datatree

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// TestNew is the tree that an Apache server of version 3.8 starts with.
func TestNew(t *testing.T) {
	tree := New()
	worldRead := []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}
	tests := []struct {
		path string
		stat jute.Stat
		acl  []jute.ACL
	}{
		{"/", jute.Stat{Cversion: -1, NumChildren: 1}, openACL},
		{"", jute.Stat{Cversion: -1, NumChildren: 1}, openACL},
		{"/zookeeper", jute.Stat{Cversion: -2, NumChildren: 2}, openACL},
		{"/zookeeper/quota", jute.Stat{}, openACL},
		{"/zookeeper/config", jute.Stat{Aversion: -1}, worldRead},
	}
	for _, tt := range tests {
		data, node, ok := tree.GetData(tt.path)
		if !ok || data == nil || len(data) != 0 {
			t.Errorf("GetData(%q) = %v, %v; want empty data", tt.path, data, ok)
		}
		if node.Stat() != tt.stat || !slices.Equal(node.ACL, tt.acl) {
			t.Errorf("%q: stat %+v, ACL %v; want %+v, %v", tt.path, node.Stat(), node.ACL, tt.stat, tt.acl)
		}
	}
	for _, path := range []string{"/x", "zookeeper", "//", "/zookeeper/", "//zookeeper", "/zookeeper//quota"} {
		if _, ok := tree.Get(path); ok {
			t.Errorf("Get(%q) finds a node", path)
		}
	}
	if n := tree.CountDescendants("/"); n != 3 {
		t.Errorf("CountDescendants(/) = %d, want 3", n)
	}
	want := Stats{Nodes: 5, DataSize: 44}
	if got := tree.Stats(); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
}

// TestPzxidMovesForward checks that a delete with a smaller zxid than the last change of
// the children does not change Pzxid.
func TestPzxidMovesForward(t *testing.T) {
	tree := New()
	var out Applied
	create := Txn{Zxid: 10, Ops: []Op{{Kind: OpCreate, Path: "/a", ACL: openACL, Cversion: 1}}}
	tree.Apply(&create, &out)
	remove := Txn{Zxid: 5, Ops: []Op{{Kind: OpDelete, Path: "/a"}}}
	tree.Apply(&remove, &out)
	if root, _ := tree.Get("/"); root.Pzxid != 10 || tree.LastZxid() != 5 {
		t.Errorf("pzxid %s after zxid %s, want 0xa after 0x5", root.Pzxid, tree.LastZxid())
	}
}

// TestDeterminism checks that a log applied twice, the second time from its bytes and in
// part to a loaded tree, gives the same state, results and events.
func TestDeterminism(t *testing.T) {
	seed := seeds.First(t)
	g := &generator{rng: rand.New(rand.NewPCG(seed, 6))}
	first, second := New(), New()
	var out, out2 Applied
	for i := range 20_000 {
		txn := g.txn(first)
		first.Apply(&txn, &out)
		decoded, err := DecodeTxn(txn.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if i%5000 == 2500 {
			second = load(t, rowsOf(second, 1000))
		}
		second.Apply(&decoded, &out2)
		if first.Digest() != second.Digest() || !reflect.DeepEqual(out.Results, out2.Results) || !equalEvents(out.Events, out2.Events) {
			t.Fatalf("seed %#x: txn %d %+v differs", seed, i, txn)
		}
	}
	if a, b := rowsOf(first, 1<<40), rowsOf(second, 1<<40); !slices.EqualFunc(a, b, equalRows) {
		t.Errorf("seed %#x: snapshots differ", seed)
	}
}

// TestDigestSeesEachField checks that the digest covers every field of a znode and a
// session.
func TestDigestSeesEachField(t *testing.T) {
	row := NodeRow{1, 2, 3, 4, 5, 0, 7, 8, 9, 0, []byte("data")}
	changes := map[string]func(*NodeRow){
		"nothing":  func(*NodeRow) {},
		"czxid":    func(n *NodeRow) { n.Czxid++ },
		"mzxid":    func(n *NodeRow) { n.Mzxid++ },
		"pzxid":    func(n *NodeRow) { n.Pzxid++ },
		"ctime":    func(n *NodeRow) { n.Ctime++ },
		"mtime":    func(n *NodeRow) { n.Mtime++ },
		"owner":    func(n *NodeRow) { n.Owner = jute.OwnerContainer },
		"version":  func(n *NodeRow) { n.Version++ },
		"cversion": func(n *NodeRow) { n.Cversion++ },
		"aversion": func(n *NodeRow) { n.Aversion++ },
		"acl":      func(n *NodeRow) { n.ACL = 1 },
		"data":     func(n *NodeRow) { n.Data = []byte("dat\x00") },
		"length":   func(n *NodeRow) { n.Data = []byte("dat") },
		"empty":    func(n *NodeRow) { n.Data = []byte{} },
		"null":     func(n *NodeRow) { n.Data = nil },
	}
	seen := map[Digest]string{}
	for _, path := range []string{"/a", "/b"} {
		for _, session := range []Row{{}, {TableSessions, []byte("12345678"), []byte("1234")}, {TableSessions, []byte("12345678"), []byte("1235")}} {
			for name, change := range changes {
				n := row
				change(&n)
				name = fmt.Sprintf("%s %s %q", path, name, session.Value)
				d := digestOf(t, path, n, session)
				if other, ok := seen[d]; ok {
					t.Errorf("%s and %s have the digest %s", name, other, d)
				}
				seen[d] = name
			}
		}
	}
}

// TestIteratorsStop checks that a loop may be left early.
func TestIteratorsStop(t *testing.T) {
	tree := New()
	apply := func(ops ...Op) {
		tree.Apply(&Txn{Zxid: tree.LastZxid() + 1, Session: 7, Ops: ops}, &Applied{})
	}
	apply(Op{Kind: OpCreateSession})
	for _, path := range []string{"/a", "/b", "/zookeeper/quota/a", "/zookeeper/quota/b"} {
		apply(Op{Kind: OpCreate, Path: path, ACL: openACL, Cversion: 1})
	}
	for _, q := range []string{"/zookeeper/quota/a/", "/zookeeper/quota/b/"} {
		apply(Op{Kind: OpCreate, Path: q + LimitsName, Data: []byte("count=0"), ACL: openACL, Cversion: 1},
			Op{Kind: OpCreate, Path: q + StatsName, ACL: openACL, Cversion: 2})
	}
	for _, path := range []string{"/a/e", "/b/e"} {
		apply(Op{Kind: OpCreate, Path: path, ACL: openACL, Owner: 7, Cversion: 1})
	}
	seen := 0
	for range tree.Children("/") {
		seen++
		break
	}
	for range tree.Ephemerals(7, "") {
		seen++
		break
	}
	for range tree.Exceeded() {
		seen++
		break
	}
	if seen != 3 || tree.Stats().Skipped > 0 {
		t.Errorf("%d iterators have something to yield, want 3; %+v", seen, tree.Stats())
	}
}

// nodeKey is the key of the node at path.
func nodeKey(path string) []byte { return []byte(strings.ReplaceAll(path, "/", "\x00")) }

// digestOf is the digest of a tree of a root, a node and a session.
func digestOf(t *testing.T, path string, n NodeRow, session Row) Digest {
	t.Helper()
	l := NewLoader()
	rows := []Row{
		{TableACLs, []byte{0, 0, 0, 1}, appendACL(nil, []jute.ACL{{Perms: 1, ID: jute.WorldAnyone}})},
		{TableNodes, nodeKey("/"), AppendNode(nil, &NodeRow{})},
		{TableNodes, nodeKey(path), AppendNode(nil, &n)},
	}
	if session.Value != nil {
		rows = append(rows, session)
	}
	for _, r := range rows {
		if err := l.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	l.finishHashes()
	return l.tree.Digest()
}

// TestHashSpreads checks that each bit of the input changes about half of the output.
func TestHashSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{1, 8, 15, 16, 17, 100} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		h := newHash(tagPath).string(string(in)).sum()
		for bit := range 8 * n {
			in[bit/8] ^= 1 << (bit % 8)
			o := newHash(tagPath).string(string(in)).sum()
			in[bit/8] ^= 1 << (bit % 8)
			for _, flips := range []int{bits.OnesCount64(h.a ^ o.a), bits.OnesCount64(h.b ^ o.b)} {
				if flips < 8 || flips > 56 {
					t.Errorf("bit %d of %d bytes flips %d bits of 64", bit, n, flips)
				}
			}
		}
	}
}

// TestParseLimits has the texts of Apache's StatsTrack and QuotaLimit forms.
func TestParseLimits(t *testing.T) {
	tests := []struct {
		text string
		want Limits
		ok   bool
	}{
		{"count=5,bytes=100", Limits{5, 100, -1, -1}, true},
		{"count=5,bytes=100=;byteHardLimit=20;countHardLimit=4", Limits{5, 100, 4, 20}, true},
		{"count=5,bytes=100;byteHardLimit=20", Limits{5, 100, -1, 20}, true},
		{",,count=5;;,", Limits{5, -1, -1, -1}, true},
		{"", noLimits, true},
		{"count=,bytes=3", Limits{-1, 3, -1, -1}, true},
		{"other=7", noLimits, true},
		{"count", noLimits, false},
		{"count=x", noLimits, false},
		{"count=1=2", noLimits, false},
		{"count=99999999999999999999", noLimits, false},
		{"count=1,garbage", noLimits, false},
	}
	for _, tt := range tests {
		got, err := parseLimits(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("parseLimits(%q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"count=5,bytes=100", "count=5,bytes=100=;byteHardLimit=20;countHardLimit=4",
		"count=-1,bytes=3=;countHardLimit=4", "count=-1,bytes=3=;byteHardLimit=0"} {
		l, _ := parseLimits(text)
		if got := appendLimits(nil, l); string(got) != text {
			t.Errorf("appendLimits gives %q, want %q", got, text)
		}
	}
}

// FuzzParseLimits checks that formatted limits parse to the same limits.
func FuzzParseLimits(f *testing.F) {
	f.Add("count=5,bytes=100=;byteHardLimit=20;countHardLimit=4")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLimits(text)
		if err != nil {
			return
		}
		if again, err := parseLimits(string(appendLimits(nil, l))); err != nil || again != l {
			t.Fatalf("%q reads as %+v, which written reads as %+v, %v", text, l, again, err)
		}
	})
}
