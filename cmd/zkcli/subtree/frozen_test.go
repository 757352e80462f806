package subtree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	. "github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/jute"
)

// bigForest is a subtree of several pages. One of its nodes is too long for a page.
func bigForest(root string) []node {
	nodes := forest(rand.New(rand.NewPCG(1, 0)), root, 100)
	for i := range 100 {
		nodes = append(nodes, node{path: fmt.Sprint(root, "/big-", i), data: bytes.Repeat([]byte{byte(i)}, 20_000)})
	}
	return append(nodes, node{path: root + "/long", data: bytes.Repeat([]byte("l"), 700_000)})
}

// exportWith exports /f, and calls meanwhile when the first node has been written.
func exportWith(t *testing.T, c *client.Client, live bool, meanwhile func()) (string, Exported, error) {
	t.Helper()
	var b bytes.Buffer
	done, err := Export(t.Context(), c, "/f", &b, ExportOptions{Source: "test", Now: time.UnixMilli(1e12), Live: live, Progress: func(n, _ int) {
		if n == 1 {
			meanwhile()
		}
	}})
	return b.String(), done, err
}

// withoutHeader returns the lines of nodes.
func withoutHeader(t *testing.T, file string) string {
	t.Helper()
	header, rest, _ := strings.Cut(file, "\n")
	nodes, _, ok := strings.Cut(rest, `{"end":true`)
	if !ok {
		t.Errorf("no trailer after %s", header)
	}
	return nodes
}

func nothing() {}

// TestExportIsOfOneZxid changes a subtree while it is exported.
func TestExportIsOfOneZxid(t *testing.T) {
	c := zktest.Start(t).Client(t)
	plant(t, c, bigForest("/f")...)
	before := c.Status().LastZxid
	want, live, err := exportWith(t, c, true, nothing)
	if err != nil || live.Zxid != 0 {
		t.Fatalf("live: %+v, %v", live, err)
	}
	got, done, err := exportWith(t, c, false, func() {
		for i := range 100 {
			switch path := fmt.Sprint("/f/big-", i); i % 3 {
			case 0:
				must(t, c.Delete(t.Context(), path, client.AnyVersion))
			case 1:
				_, err := c.Set(t.Context(), path, []byte("new"), client.AnyVersion)
				must(t, err)
			default:
				_, err := c.SetACL(t.Context(), path, client.ReadACL(), client.AnyVersion)
				must(t, err)
				plant(t, c, node{path: path + "-new"})
			}
		}
	})
	if err != nil || done.Zxid != before {
		t.Fatalf("as of %v, and the subtree is of %v: %v", done.Zxid, before, err)
	}
	if withoutHeader(t, got) != withoutHeader(t, want) {
		t.Error("it is not what was there before the changes")
	}
	r, err := NewReader(strings.NewReader(got))
	if err != nil || r.Header().Zxid != before {
		t.Errorf("the header has %+v, %v", r.Header(), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestExportLosesItsState has the connection lost, and long data changed, in the middle. An export that
// has not begun is repeated.
func TestExportLosesItsState(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	plant(t, c, bigForest("/f")...)
	for name, meanwhile := range map[string]func(){
		"connection": s.CutConnections,
		"long data": func() {
			_, err := c.Set(t.Context(), "/f/long", []byte("short"), client.AnyVersion)
			must(t, err)
		},
	} {
		file, done, err := exportWith(t, c, false, meanwhile)
		if lost, ok := errors.AsType[*LostError](err); !ok || lost.Zxid != done.Zxid || strings.Contains(file, `"end"`) {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	for _, cut := range []func(zktest.Match) *zktest.Cut{s.CutBefore, s.CutAfter} {
		first := cut(zktest.Op(jute.OpSubtreePage))
		if _, done, err := exportWith(t, c, false, nothing); err != nil || done.Zxid == 0 || done.Nodes != 201 {
			t.Errorf("the first page was lost: %+v, %v", done, err)
		}
		<-first.Done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Export(ctx, c, "/f", new(bytes.Buffer), ExportOptions{Progress: func(int, int) { cancel() }})
	if _, ok := errors.AsType[*LostError](err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestExportFromOthers exports from a server that has no extensions.
func TestExportFromOthers(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	plant(t, c, forest(rand.New(rand.NewPCG(2, 0)), "/f", 100)...)
	want, _, err := exportWith(t, c, false, nothing)
	must(t, err)
	got, done, err := exportWith(t, s.Client(t, plain), false, nothing)
	if err != nil || done.Zxid != 0 || withoutHeader(t, got) != withoutHeader(t, want) {
		t.Errorf("%+v, %v", done, err)
	}
}

// plain makes servers miss that the client asks for extensions.
func plain(o *client.Options) {
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		return plainConn{nc}, err
	}
}

type plainConn struct{ net.Conn }

func (c plainConn) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.Replace(b, []byte("zkdx"), []byte("none"), 1))
}
