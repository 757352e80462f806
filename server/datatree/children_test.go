package datatree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// checkOrder checks what the tree says about the children of a znode, whose names are want,
// sorted.
func checkOrder(t *testing.T, tree *Tree, path string, want []string) {
	t.Helper()
	bytes := len(strings.Join(want, ""))
	if got := tree.ChildNameBytes(path); got != bytes {
		t.Fatalf("the names of the children of %s have %d bytes, want %d", path, got, bytes)
	}
	afters := []string{""}
	if n := len(want); n > 0 {
		afters = append(afters, want[0], want[n/2], want[n/2]+"\x00", want[n-1], want[n-1]+"x")
	}
	for _, after := range afters {
		from, found := slices.BinarySearch(want, after)
		if found {
			from++
		}
		if got := namesAfter(tree, path, after); !slices.Equal(got, want[from:]) {
			t.Fatalf("children of %s after %q: got %d of them, %.200q, want %d, %.200q", path, after, len(got), got, len(want)-from, want[from:])
		}
	}
}

func namesAfter(tree *Tree, path, after string) (names []string) {
	for c := range tree.ChildrenAfter(path, after) {
		names = append(names, c.Name)
	}
	return names
}

// checkListings checks the invariants of all listings.
func checkListings(t *testing.T, tree *Tree) {
	t.Helper()
	for id, l := range tree.listings {
		count := 0
		for i, f := range l.leaves {
			count += len(f.ids)
			if cap(f.ids) != leafSize {
				t.Fatalf("leaf %d has room for %d children, want %d", i, cap(f.ids), leafSize)
			}
			if i > 0 && len(f.ids)+len(l.leaves[i-1].ids) <= leafSize/2 {
				t.Fatalf("leaves %d and %d have %d and %d children, and should be one", i-1, i, len(l.leaves[i-1].ids), len(f.ids))
			}
			for _, c := range f.ids {
				name := tree.arena.name(c)
				if i > 0 && name < f.low || i+1 < len(l.leaves) && name >= l.leaves[i+1].low {
					t.Fatalf("%q is in the wrong leaf", name)
				}
			}
		}
		if n := int(tree.arena.more(id).children); count != n || n < listBelow {
			t.Fatalf("a listing has %d children, its znode %d; there is none below %d", count, n, listBelow)
		}
	}
}

// crowd is a znode with many children.
type crowd struct {
	tree  *Tree
	out   Applied
	list  []string       // the names that there should be, in any order
	place map[string]int // in list
}

const crowdPath = "/crowd"

func newCrowd() *crowd {
	c := &crowd{tree: New(), place: map[string]int{}}
	apply(c.tree, &c.out, Op{Kind: OpCreate, Path: crowdPath, ACL: openACL, Cversion: 1})
	return c
}

func (c *crowd) create(name string) {
	if _, ok := c.place[name]; ok {
		return
	}
	c.place[name] = len(c.list)
	c.list = append(c.list, name)
	apply(c.tree, &c.out, Op{Kind: OpCreate, Path: crowdPath + "/" + name, ACL: openACL, Cversion: int32(len(c.list))})
}

func (c *crowd) delete(name string) {
	i, ok := c.place[name]
	if !ok {
		return
	}
	last := len(c.list) - 1
	c.list[i] = c.list[last]
	c.place[c.list[i]] = i
	c.list = c.list[:last]
	delete(c.place, name)
	apply(c.tree, &c.out, Op{Kind: OpDelete, Path: crowdPath + "/" + name})
}

func (c *crowd) check(t *testing.T) {
	t.Helper()
	checkListings(t, c.tree)
	names := slices.Sorted(slices.Values(c.list))
	checkOrder(t, c.tree, crowdPath, names)
	if listed := c.tree.listings[c.tree.find(crowdPath)] != nil; listed && len(names) < listBelow || !listed && len(names) >= listFrom {
		t.Fatalf("%d children, and a listing: %v", len(names), listed)
	}
	if s := c.tree.Stats().Skipped; s > 0 {
		t.Fatalf("%d operations were skipped", s)
	}
}

// TestChildrenInOrder grows and shrinks a crowd by names of each kind, over the size from which
// on there is a listing and back to nothing.
func TestChildrenInOrder(t *testing.T) {
	const most = 9 * leafSize
	rng := rand.New(rand.NewPCG(7, seeds.First(t)))
	kinds := map[string]func(i int) string{
		"ascending":  func(i int) string { return fmt.Sprintf("n-%010d", i) },
		"descending": func(i int) string { return fmt.Sprintf("n-%010d", most-i) },
		"random":     func(int) string { return fmt.Sprint(rng.Uint64()) },
		"prefixes":   func(i int) string { return strings.Repeat("a", i+1) },
		"two hills":  func(i int) string { return fmt.Sprintf("%d-%d", i%2, i) },
	}
	for kind, name := range kinds {
		t.Run(kind, func(t *testing.T) {
			c := newCrowd()
			for i := range most {
				c.create(name(i))
				if i%500 == 0 || i == listFrom-1 || i == listFrom {
					c.check(t)
				}
			}
			c.check(t)
			order := slices.Clone(c.list)
			switch rng.IntN(3) {
			case 0:
				slices.Reverse(order)
			case 1:
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			for i, name := range order {
				c.delete(name)
				if i%500 == 0 || len(c.list) == listBelow-1 || len(c.list) == listBelow {
					c.check(t)
				}
			}
			c.check(t)
		})
	}
}

// TestChildrenWander changes a crowd at random around each of the sizes at which something
// happens, beside a view of it, and loads it from the rows of that view.
func TestChildrenWander(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, seeds.First(t)))
	c := newCrowd()
	for range 40 {
		goal := []int{0, listBelow, listFrom, 3 * leafSize, 6 * leafSize}[rng.IntN(5)] + rng.IntN(20)
		for len(c.list) != goal {
			if len(c.list) < goal || rng.IntN(4) == 0 {
				c.create(fmt.Sprint(rng.IntN(100_000)))
			} else {
				c.delete(c.list[rng.IntN(len(c.list))])
			}
		}
		c.check(t)
	}
	want := namesAfter(c.tree, crowdPath, "")
	rows := rowsBetween(c.tree, 10_000, func() {
		for range 20 {
			c.create(fmt.Sprint(rng.IntN(100_000)))
			c.delete(c.list[rng.IntN(len(c.list))])
		}
	})
	c.check(t)
	loaded := load(t, rows)
	checkListings(t, loaded)
	checkOrder(t, loaded, crowdPath, want)
}

// FuzzChildren changes and reads a crowd as the input says, two bytes a step.
func FuzzChildren(f *testing.F) {
	f.Add([]byte("a1b2c3d4e5f6"))
	f.Add([]byte{0, 0, 1, 0xff, 2, 0x80, 3, 3})
	f.Fuzz(func(t *testing.T, steps []byte) {
		c := newCrowd()
		for ; len(steps) >= 2; steps = steps[2:] {
			kind, n := steps[0], int(steps[1])
			kind %= 6
			for i := range 16 * (n + 1) {
				if kind >= 3 && len(c.list) == 0 {
					break
				}
				switch kind {
				case 0:
					c.create(fmt.Sprintf("%d.%06d", kind, i))
				case 1:
					c.create(fmt.Sprintf("%06d", 1_000_000-i*n))
				case 2:
					c.create(fmt.Sprint(i*7919%10_007, kind))
				case 3:
					c.delete(c.list[0])
				case 4:
					c.delete(c.list[len(c.list)-1])
				case 5:
					c.delete(c.list[i*7919%len(c.list)])
				}
			}
			c.check(t)
		}
	})
}

// TestChild reads a child that ChildrenAfter yields.
func TestChild(t *testing.T) {
	c := newCrowd()
	for i := range 3 * listFrom {
		c.create(fmt.Sprintf("%05d", i))
	}
	apply(c.tree, &c.out, Op{Kind: OpSetData, Path: crowdPath + "/00700", Data: []byte("data"), Version: 1})
	for child := range c.tree.ChildrenAfter(crowdPath, "00699") {
		if node := child.Node(); child.Name != "00700" || string(child.Data()) != "data" || node.Version != 1 {
			t.Errorf("got %s with %q, version %d", child.Name, child.Data(), node.Version)
		}
		break
	}
	if got := namesAfter(c.tree, "/none", ""); got != nil {
		t.Errorf("a znode that does not exist has the children %q", got)
	}
}
