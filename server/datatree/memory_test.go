package datatree

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// grower fills a tree with transactions of one operation.
type grower struct {
	tree *Tree
	zxid jute.Zxid
	out  Applied
}

func (g *grower) apply(session jute.SessionID, ops ...Op) {
	g.zxid++
	g.tree.Apply(&Txn{Zxid: g.zxid, Time: 1, Session: session, Ops: ops}, &g.out)
}

func (g *grower) create(path string, data []byte) {
	g.apply(0, Op{Kind: OpCreate, Path: path, Data: data, ACL: openACL, Cversion: 1})
}

// memoryShapes are ways to fill a tree.
var memoryShapes = []struct {
	name string
	fill func(g *grower)
}{
	{"empty leaves", func(g *grower) {
		for i := range 100_000 {
			g.create(fmt.Sprintf("/n%06d", i), nil)
		}
	}},
	{"leaves of 100 bytes, changed", func(g *grower) {
		for i := range 50_000 {
			path := fmt.Sprintf("/n%06d", i)
			g.create(path, nil)
			g.apply(0, Op{Kind: OpSetData, Path: path, Data: make([]byte, 100), Version: 1})
		}
	}},
	{"leaves of 1 KiB", func(g *grower) {
		for i := range 20_000 {
			g.create(fmt.Sprintf("/n%06d", i), make([]byte, 1024))
		}
	}},
	{"leaves of 1100 bytes", func(g *grower) { // a size class wastes 10 % on these
		for i := range 20_000 {
			g.create(fmt.Sprintf("/n%06d", i), make([]byte, 1153))
		}
	}},
	{"leaves of 1 MB", func(g *grower) {
		for i := range 50 {
			g.create(fmt.Sprintf("/n%06d", i), make([]byte, 1_000_000))
		}
	}},
	{"parents of one", func(g *grower) {
		for i := range 30_000 {
			path := fmt.Sprintf("/n%06d", i)
			g.create(path, nil)
			g.create(path+"/child", nil)
		}
	}},
	{"a deep path", func(g *grower) {
		path := bytes.NewBufferString("")
		for range 2000 {
			path.WriteString("/abcdefghijklmnopqrstuvwxyz")
			g.create(path.String(), nil)
		}
	}},
	{"a list for each", func(g *grower) {
		for i := range 20_000 {
			acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:0123456789abcdefghijklmnop=", i)}}}
			g.apply(0, Op{Kind: OpCreate, Path: fmt.Sprintf("/n%06d", i), ACL: acl, Cversion: 1})
		}
	}},
	{"sessions with an ephemeral", func(g *grower) {
		for i := range 20_000 {
			s := jute.SessionID(i + 1)
			g.apply(s, Op{Kind: OpCreateSession, TimeoutMs: 1000})
			g.apply(s, Op{Kind: OpCreate, Path: fmt.Sprintf("/n%06d", i), ACL: openACL, Owner: jute.OwnerSession(s), Cversion: 1})
		}
	}},
	{"exactly-once sessions", func(g *grower) {
		for i := range 5_000 {
			s := jute.SessionID(i + 1)
			g.apply(s, Op{Kind: OpCreateSession, TimeoutMs: 1000}, Op{Kind: OpSetOwner}, Op{Kind: OpExactlyOnce})
			for n := range 5 {
				g.zxid++
				g.tree.Apply(&Txn{Zxid: g.zxid, Session: s, Number: int64(n + 1), Origin: 1, Ops: []Op{{Kind: OpCreate, Path: fmt.Sprintf("/n%06d-%d", i, n), ACL: openACL, Cversion: 1}}}, &g.out)
			}
		}
	}},
	{"one of 16 is left", func(g *grower) {
		for i := range 50_000 {
			g.create(fmt.Sprintf("/n%06d", i), make([]byte, 100))
		}
		for i := range 50_000 {
			if i%16 != 0 {
				g.apply(0, Op{Kind: OpDelete, Path: fmt.Sprintf("/n%06d", i)})
			}
		}
	}},
	{"changed while a view is open", func(g *grower) {
		for i := range 20_000 {
			g.create(fmt.Sprintf("/n%06d", i), make([]byte, 1024))
		}
		g.tree.Freeze()
		for i := range 20_000 {
			if i%2 == 0 {
				g.apply(0, Op{Kind: OpSetData, Path: fmt.Sprintf("/n%06d", i), Data: make([]byte, 1024), Version: 1})
			} else {
				g.apply(0, Op{Kind: OpDelete, Path: fmt.Sprintf("/n%06d", i)})
			}
		}
	}},
}

// TestMemory compares the account of a tree's memory with the heap.
func TestMemory(t *testing.T) {
	for _, shape := range memoryShapes {
		t.Run(shape.name, func(t *testing.T) {
			before := int64(heapInUse())
			g := &grower{tree: New()}
			shape.fill(g)
			heap, account := int64(heapInUse())-before, g.tree.Memory()+g.tree.Retained()
			runtime.KeepAlive(g)
			t.Logf("the heap has %d bytes, the account %d: %.2f", heap, account, float64(account)/float64(heap))
			const other = 500_000 // which the tree does not have
			if float64(account) < 0.9*float64(heap)-other || float64(account) > 1.7*float64(heap)+other {
				t.Errorf("the account is %d bytes, the heap has %d", account, heap)
			}
		})
	}
}

// TestACLsInTheAccount: a list counts once, however many znodes have it, until the last of them goes or gets another one.
func TestACLsInTheAccount(t *testing.T) {
	g := &grower{tree: New()}
	list := func(user string) []jute.ACL {
		return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: user + ":" + strings.Repeat("h", 1000)}}}
	}
	create := func(path string) {
		g.apply(0, Op{Kind: OpCreate, Path: path, ACL: list("ann"), Cversion: 1})
	}
	before, one := g.tree.acls.bytes, ACLMemory(list("ann"))
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"one znode", func() { create("/a") }, one},
		{"two", func() { create("/b") }, one},
		{"one of them gets another list", func() { g.apply(0, Op{Kind: OpSetACL, Path: "/a", ACL: list("bob"), Version: 1}) }, 2 * one},
		{"the other one goes", func() { g.apply(0, Op{Kind: OpDelete, Path: "/b"}) }, one},
		{"all go", func() { g.apply(0, Op{Kind: OpDelete, Path: "/a"}) }, 0},
	} {
		step.do()
		if got := g.tree.acls.bytes - before; got != step.want {
			t.Errorf("%s: lists of %d bytes, want %d", step.name, got, step.want)
		}
	}
}

// TestRetained: changes wait for a snapshot by this figure, so it must not count what subtrees keep, for which
// nothing is waited.
func TestRetained(t *testing.T) {
	g := &grower{tree: New()}
	g.create("/a", make([]byte, 1000))
	if _, ok := g.tree.FreezeBelow("/", 1<<20); !ok {
		t.Fatal("no subtree")
	}
	set := func() { g.apply(0, Op{Kind: OpSetData, Path: "/a", Data: make([]byte, 1000), Version: 1}) }
	set()
	if n := g.tree.Retained(); n != 0 || g.tree.Saved() == 0 {
		t.Errorf("%d bytes are kept for no view, and %d nodes for the subtree", n, g.tree.Saved())
	}
	view := g.tree.Freeze()
	set()
	if n := g.tree.Retained(); n < 1000 || n > 2000 {
		t.Errorf("%d bytes are kept for a view", n)
	}
	view.Close()
	if n := g.tree.Retained(); n != 0 {
		t.Errorf("%d bytes are kept for a view that is closed", n)
	}
}
