package subtree_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	. "github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/internal/treediff"
)

// node is one that a test creates.
type node struct {
	path string
	data []byte
	acl  []client.ACL
	mode client.CreateMode
}

func plant(t *testing.T, c *client.Client, nodes ...node) {
	t.Helper()
	for _, n := range nodes {
		if _, err := c.Create(t.Context(), n.path, n.data, client.CreateOptions{Mode: n.mode, ACL: n.acl}); err != nil {
			t.Fatal(err)
		}
	}
}

// forest is a random tree below root: names that sort oddly, data of all kinds.
func forest(rng *rand.Rand, root string, size int) []node {
	names := []string{"a", "b", "a-b", "a.b", "A", "ü", "a b", "0", "~", "zookeeper", "lock-0000000003"}
	datas := [][]byte{nil, {}, []byte("text"), []byte("ü \"quoted\"\n"), {0xff, 0, '\n'}, bytes.Repeat([]byte("x"), 5000)}
	acls := [][]client.ACL{nil, client.ReadACL(), {
		{Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}},
		{Perms: client.PermRead, ID: client.ID{Scheme: "ip", ID: "10.0.0.0/8"}},
	}}
	nodes := []node{{path: root, data: datas[rng.IntN(len(datas))]}}
	inner := []string{root} // those that anybody may create children below
	seen := map[string]bool{}
	for len(nodes) < size {
		path := inner[rng.IntN(len(inner))] + "/" + names[rng.IntN(len(names))]
		if seen[path] {
			path += fmt.Sprint(len(nodes))
		}
		seen[path] = true
		n := node{path: path, data: datas[rng.IntN(len(datas))], acl: acls[rng.IntN(len(acls))]}
		if n.acl == nil || len(n.acl) == 2 {
			inner = append(inner, path)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// export returns the bytes of an export.
func export(t *testing.T, c *client.Client, root string) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := Export(t.Context(), c, root, &b, ExportOptions{Source: "test", Now: time.UnixMilli(1e12)})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// from opens an export again and again.
func from(file []byte) func() (io.Reader, error) {
	return func() (io.Reader, error) { return bytes.NewReader(file), nil }
}

// differences compares two subtrees of servers.
func differences(t *testing.T, a *client.Client, rootA string, b *client.Client, rootB string) []string {
	t.Helper()
	o := ReadOptions{Data: true, ACL: true}
	var list []string
	for d, err := range treediff.Diff(Live(t.Context(), a, rootA, o), Live(t.Context(), b, rootB, o), DiffOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s a=%v b=%v data=%v acl=%v kind=%v", d.Path, d.A != nil, d.B != nil, d.Data, d.ACL, d.Kind))
	}
	return list
}

// paths returns the paths of a subtree.
func paths(t *testing.T, c *client.Client, root string) []string {
	t.Helper()
	list := []string{}
	for n, err := range Live(t.Context(), c, root, ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n.Path)
	}
	return list
}

func TestLiveIsInTreeOrder(t *testing.T) {
	c := zktest.Start(t).Client(t)
	seed := seeds.First(t)
	nodes := forest(rand.New(rand.NewPCG(seed, 0)), "/live", 300)
	plant(t, c, nodes...)
	want := make([]string, len(nodes))
	for i, n := range nodes {
		want[i] = "/" + n.path[min(len(n.path), len("/live/")):]
	}
	slices.SortFunc(want, treediff.Compare)
	for _, window := range []int{1, 3, 64} {
		var got []string
		for n, err := range Live(t.Context(), c, "/live", ReadOptions{Window: window}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("window %d:\ngot  %q\nwant %q", window, got, want)
		}
	}
}

func TestLiveToADepth(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, node{path: "/d", data: []byte("d")}, node{path: "/d/a"}, node{path: "/d/a/b"}, node{path: "/d/c"})
	for depth, want := range [][]string{{"/ 1 2"}, {"/ 1 2", "/a 0 1", "/c 0 0"}, {"/ 1 2", "/a 0 1", "/a/b 0 0", "/c 0 0"}} {
		for _, data := range []bool{false, true} {
			var got []string
			for n, err := range Live(t.Context(), c, "/d", ReadOptions{Depth: depth, Limit: true, Data: data}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %d %d", n.Path, n.Stat.DataLength, n.Stat.NumChildren))
			}
			if !slices.Equal(got, want) {
				t.Errorf("depth %d, data %v: got %q, want %q", depth, data, got, want)
			}
		}
	}
}

func TestLiveSurvivesALostConnection(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	nodes := forest(rand.New(rand.NewPCG(1, 0)), "/x", 200)
	plant(t, c, nodes...)
	cuts := []*zktest.Cut{s.CutBefore(zktest.Nth(20, zktest.Op(OpChildren))), s.CutAfter(zktest.Nth(60, zktest.Op(OpChildren)))}
	if got := len(paths(t, c, "/x")); got != len(nodes) {
		t.Errorf("read %d nodes, want %d", got, len(nodes))
	}
	for _, cut := range cuts {
		select {
		case <-cut.Done():
		case <-time.After(time.Minute):
			t.Error("the connection was not cut")
		}
	}
}

func TestCompareAndBelow(t *testing.T) {
	order := []string{"/", "/A", "/a", "/a/z", "/a b", "/a-", "/a.b", "/ab", "/b"}
	for i, a := range order {
		for j, b := range order {
			if got := treediff.Compare(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("treediff.Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
	for _, x := range []struct {
		path, top string
		want      bool
	}{{"/", "/", false}, {"/a", "/", true}, {"/a", "/a", false}, {"/ab", "/a", false}, {"/a/b", "/a", true}, {"/", "/a", false}} {
		if got := treediff.Below(x.path, x.top); got != x.want {
			t.Errorf("treediff.Below(%q, %q) = %v", x.path, x.top, got)
		}
	}
}

func TestKinds(t *testing.T) {
	for owner, want := range map[client.SessionID]Kind{
		0: Persistent, 0x100000a323e0038: Ephemeral, -1 << 63: Container, -1<<56 + 5000: TTL,
	} {
		if got := treediff.KindOf(client.Stat{EphemeralOwner: owner}); got != want {
			t.Errorf("owner %v: %s, want %s", owner, got, want)
		}
	}
	for path, want := range map[string]bool{"/a-0000000001": true, "/0000000001": false, "/a000000001": false, "/a-00000000x1": false} {
		if got := treediff.Sequential(path); got != want {
			t.Errorf("treediff.Sequential(%q) = %v", path, got)
		}
	}
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
