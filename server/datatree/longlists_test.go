package datatree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestLongLists compares the lengths with those of real replies, in a tree with short and long
// branches.
func TestLongLists(t *testing.T) {
	tree, zxid := New(), jute.Zxid(0)
	create := func(path string) {
		zxid++
		tree.Apply(&Txn{Zxid: zxid, Ops: []Op{{Kind: OpCreate, Path: path}}}, new(Applied))
	}
	create("/a")
	for i := range 10 {
		create(fmt.Sprintf("/a/%d", i))
		create(fmt.Sprintf("/a/%d/%s", i, strings.Repeat("x", 100*i)))
	}
	create("/b")
	for path, want := range map[string]int{"/a": 16 + 4 + 10*5 + 68, "/a/9": 16 + 4 + 4 + 900 + 68} {
		for limit, listed := range map[int]bool{want - 1: true, want: false} {
			got, found := 0, false
			for p, size := range tree.LongLists(limit) {
				if p == path {
					got, found = size, true
				}
			}
			if found != listed || found && got != want {
				t.Errorf("longer than %d: %s is listed: %v, with %d bytes, want %v and %d", limit, path, found, got, listed, want)
			}
		}
	}
	var all []string
	for p := range tree.LongLists(0) {
		all = append(all, p)
	}
	if n := tree.Stats().Nodes - 1; len(all) != n {
		t.Errorf("a walk meets %d znodes, want %d: %q", len(all), n, all)
	}
	for range tree.LongLists(0) {
		break
	}
}
