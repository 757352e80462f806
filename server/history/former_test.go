package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// TestFormerIsThePartOfTheTree compares former states of a subtree with that part of the whole tree, and the steps to them with
// what they have changed, in random histories with sessions that end.
func TestFormerIsThePartOfTheTree(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	whole, root := &State{Tree: datatree.New()}, "/a"
	f := NewFormer(Part{Root: root, Most: 1 << 20})
	data := make(map[string]string) // by path, as the steps tell
	f.Changed = func(s *Step) {
		before, existed := data[s.Path]
		if existed != s.Existed || existed && before != string(s.Before) {
			t.Fatalf("seed %#x: %s %s: before it was %q (%v), and the step says %q (%v)", seed, s.Op, s.Path, before, existed, s.Before, s.Existed)
		}
		if len(s.ACL) == 0 {
			t.Fatalf("seed %#x: %s %s: no ACL", seed, s.Op, s.Path)
		}
		if data[s.Path] = string(s.After); s.Op == "delete" || s.Op == "expire" {
			delete(data, s.Path)
		}
	}
	path := func() string {
		p := "/" + string("abc"[rng.IntN(3)])
		for range rng.IntN(3) {
			p += fmt.Sprint("/", rng.IntN(3))
		}
		return p
	}
	open := make(map[jute.SessionID]bool)
	for zxid := jute.Zxid(1); zxid < 1500; zxid++ {
		txn := datatree.Txn{Zxid: zxid, Session: jute.SessionID(1 + rng.IntN(3)), Time: int64(zxid)}
		switch kind := rng.IntN(10); {
		case !open[txn.Session]:
			txn.Ops = []datatree.Op{{Kind: datatree.OpCreateSession, TimeoutMs: 1000}}
			open[txn.Session] = true
		case kind == 0 && rng.IntN(4) == 0:
			op := datatree.Op{Kind: datatree.OpCloseSession}
			if rng.IntN(2) == 0 {
				op.Paths = slices.Sorted(whole.Tree.Ephemerals(txn.Session, ""))
			}
			txn.Ops = []datatree.Op{op}
			open[txn.Session] = false
		default:
			for range 1 + rng.IntN(3) {
				op := datatree.Op{Kind: datatree.OpCreate + datatree.OpKind(rng.IntN(4)), Path: path(), Data: []byte(fmt.Sprint(rng.IntN(100)))}
				_, node, exists := whole.Tree.GetData(op.Path)
				op.ACL = []jute.ACL{{Perms: jute.Perms(1 + rng.IntN(31)), ID: jute.WorldAnyone}}
				if op.Kind == datatree.OpCreate && rng.IntN(4) == 0 {
					op.Owner = jute.OwnerSession(txn.Session)
				}
				if exists {
					op.Version = node.Stat().Version + 1
				}
				txn.Ops = append(txn.Ops, op)
			}
		}
		e := zab.Entry{Zxid: zxid, Prev: zxid - 1, Data: txn.Append(nil)}
		if err := errors.Join(whole.Apply(&e), f.Apply(&e)); err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for n := range f.Nodes() {
			got = append(got, fmt.Sprint(n.Path, " ", string(n.Data), n.ACL, n.Stat))
			if data[join(root, n.Path)] != string(n.Data) {
				t.Fatalf("seed %#x: %s has %q, and the steps lead to %q", seed, n.Path, n.Data, data[join(root, n.Path)])
			}
		}
		for n := range Nodes(whole.Tree, root) {
			want = append(want, fmt.Sprint(n.Path, " ", string(n.Data), n.ACL, n.Stat))
		}
		if !slices.Equal(got, want) || len(data) != len(want) {
			t.Fatalf("seed %#x, zxid %v: %v\nwant %v; the steps lead to %d nodes", seed, zxid, got, want, len(data))
		}
	}
	f.Most = 100
	e := zab.Entry{Zxid: 1500, Data: (&datatree.Txn{Zxid: 1500}).Append(nil)}
	if _, large := errors.AsType[*TooLargeError](f.Apply(&e)); !large {
		t.Error("it takes more memory than it may")
	}
}

func join(root, rel string) string {
	if rel == "/" {
		return root
	}
	return root + rel
}
