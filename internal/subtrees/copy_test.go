package subtrees

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// keeper is the Keeper of a Copy of which all may be read that was not lost.
type keeper struct{ *Copy }

func (k keeper) Put(path string, data []byte, stat jute.Stat) {
	if n := k.Find(path); n != nil {
		k.Set(n, path, data, stat)
	} else {
		k.Add(path, data, stat)
	}
}

func (k keeper) Set(n *Node, _ string, data []byte, stat jute.Stat) { k.Copy.Set(n, data, stat) }

func (k keeper) Remove(n *Node, path string, _ bool) {
	if n != nil {
		k.Copy.Remove(n, path, func(*Node, string) {})
	}
}

// TestCopy: what is known of paths after each change. A node is as it is since its own last change, or since any ACL has changed, which may have let or kept its
// reader out.
func TestCopy(t *testing.T) {
	c := &Copy{Nodes: Nodes{Path: "/s"}, Version: 1, Lists: 1}
	c.Add("/s", nil, jute.Stat{Czxid: 1, Mzxid: 1, Pzxid: 1})
	known := func(path string) string {
		n, ok := c.Look(path)
		switch {
		case !ok:
			return path + " unknown"
		case !n.Exists:
			return fmt.Sprintf("%s none since %d", path, n.Since)
		}
		return fmt.Sprintf("%s %q %v since %d", path, n.Data, n.Names(nil), n.Since)
	}
	for _, tt := range []struct {
		change  jute.Change
		partial bool
		want    string
	}{
		{jute.Change{Zxid: 2, Kind: jute.ChangeCreated, Path: "/s/a", Data: []byte("1"), Stat: jute.Stat{Czxid: 2, Mzxid: 2, Pzxid: 2}, ParentChildren: 1}, false,
			`/s "" [a] since 2, /s/a "1" [] since 2, /s/b none since 2, /other unknown`},
		{jute.Change{Zxid: 3, Kind: jute.ChangeData, Path: "/s/a", Data: []byte("2"), Stat: jute.Stat{Czxid: 2, Mzxid: 3, Pzxid: 2}}, false,
			`/s "" [a] since 2, /s/a "2" [] since 3, /s/b none since 2, /other unknown`},
		{jute.Change{Zxid: 4, Kind: jute.ChangeACL, Path: "/s/a", Stat: jute.Stat{Czxid: 2, Mzxid: 3, Pzxid: 2, Aversion: 1}}, false,
			`/s "" [a] since 4, /s/a "2" [] since 4, /s/b none since 4, /other unknown`},
		{jute.Change{Zxid: 5, Kind: jute.ChangeChildren, Path: "/s", ParentChildren: 2}, false, // a child that may not be read
			`/s "" [a] since 5, /s/a "2" [] since 4, /s/b unknown, /other unknown`},
		{jute.Change{Zxid: 6, Kind: jute.ChangeACL, Path: "/s/b", Stat: jute.Stat{Czxid: 5, Mzxid: 5, Pzxid: 5}}, true, // now it may
			`/s "" [a] since 6, /s/a "2" [] since 6, /s/b unknown, /other unknown`},
		{jute.Change{Zxid: 7, Kind: jute.ChangeACL, Path: "/s/a"}, false, // and the other one may not
			`/s "" [] since 7, /s/a unknown, /s/b unknown, /other unknown`},
		{jute.Change{Zxid: 8, Kind: jute.ChangeDeleted, Path: "/s/a", ParentChildren: 1}, false,
			`/s "" [] since 8, /s/a unknown, /s/b unknown, /other unknown`},
		{jute.Change{Zxid: 9, Kind: jute.ChangeDeleted, Path: "/s/b", ParentChildren: 0}, false,
			`/s "" [] since 9, /s/a none since 9, /s/b none since 9, /other unknown`},
	} {
		partial := c.Apply(&tt.change, keeper{c})
		c.Version = tt.change.Zxid
		got := strings.Join([]string{known("/s"), known("/s/a"), known("/s/b"), known("/other")}, ", ")
		if got != tt.want || partial != tt.partial {
			t.Errorf("after %d: %s, partial %v\nwant %s, partial %v", tt.change.Zxid, got, partial, tt.want, tt.partial)
		}
	}
}
