package datatree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// TestOffload has another goroutine compute the hashes of a large tree's nodes, while the loader
// adds more of them.
func TestOffload(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	tree, out := New(), Applied{}
	parents, made := []string{""}, []string(nil)
	for i := range 5 * hashedAtOnce {
		path := fmt.Sprintf("%s/%s%d", parents[rng.IntN(len(parents))], strings.Repeat("n", rng.IntN(20)), i)
		op := Op{Kind: OpCreate, Path: path, Data: make([]byte, rng.IntN(40)), ACL: []jute.ACL{{Perms: jute.Perms(1 + rng.IntN(3)), ID: jute.WorldAnyone}}}
		tree.Apply(&Txn{Zxid: jute.Zxid(i + 1), Ops: []Op{op}}, &out)
		made = append(made, path)
		if parents = append(parents, path); rng.IntN(100) == 0 {
			parents = []string{"", path}
		}
	}
	rows := rowsOf(tree, 1<<40)

	l, parts := NewLoader(), make(chan Part, 1)
	l.Offload(func(p Part) { parts <- p })
	var n int
	var hashing sync.WaitGroup
	hashing.Go(func() {
		for p := range parts {
			p.Hash()
			n++
		}
	})
	for _, row := range rows {
		if err := l.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	close(parts)
	hashing.Wait()
	loaded, err := l.Finish() // which compares the digests
	if err != nil {
		t.Fatalf("seed %#x: %v", seed, err)
	}
	if n != 5 {
		t.Errorf("%d parts were passed, want 5", n)
	}
	if a, b := tree.Stats(), loaded.Stats(); a != b {
		t.Errorf("seed %#x: the tree loaded has %+v, not %+v", seed, b, a)
	}
	for _, path := range made {
		want, _ := tree.Get(path)
		if got, ok := loaded.Get(path); !ok || !equalNodes(got, want) {
			t.Fatalf("seed %#x: %s is found: %v, as %+v, not %+v", seed, path, ok, got, want)
		}
	}
}
