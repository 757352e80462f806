package cache

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/subtrees"
	"github.com/zkd-project/zkd/jute"
)

var (
	firstly = flag.Uint64("seed", 1, "the first seed of the random tests")
	seeds   = flag.Int("seeds", 4, "how many seeds the random tests try")
	verbose = flag.Bool("trace", false, "log the events of the caches")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// patience is how long what should take milliseconds may take.
const patience = 2 * time.Minute

// addresses returns the servers to test on: one of our own, or what
// ZKD_TEST_SERVERS names.
func addresses(t testing.TB) string {
	if servers := os.Getenv("ZKD_TEST_SERVERS"); servers != "" {
		return servers
	}
	return zktest.Start(t).ConnectString()
}

// modes are what every test of correctness runs in.
var modes = map[string]Options{
	"feed":       {},
	"persistent": {noFeed: true},
	"one-shot":   {OneShot: true},
}

func eachMode(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

// world is some servers, a client that writes, a proxy for the cache to be
// disturbed by, and a node to write below.
type world struct {
	t     *testing.T
	ctx   context.Context
	w     *client.Client
	proxy *zktest.Proxy
	root  string
}

func newWorld(t *testing.T, servers string) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	list := strings.Split(servers, ",")
	w := &world{t: t, ctx: ctx, w: zktest.NewProxy(t, list...).Client(t)}
	// A client pauses when it has tried all servers that it knows: let it know many.
	w.proxy = zktest.NewProxy(t, slices.Repeat(list, 24/len(list))...)
	name := strings.NewReplacer("/", "-", "=", "-").Replace(t.Name())
	w.root = fmt.Sprintf("/%s-%d", name, time.Now().UnixNano())
	return w
}

// client returns the client for a cache: one that is renewed.
func (w *world) client() *client.Client {
	return w.proxy.Client(w.t, func(o *client.Options) { o.RenewSession = true })
}

func (w *world) open(c *client.Client, o Options) *Cache {
	w.t.Helper()
	k, err := Open(w.ctx, c, w.root, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(k.Close)
	return k
}

func (w *world) ready(c *client.Client, o Options) *Cache {
	w.t.Helper()
	k := w.open(c, o)
	w.must(k.WaitReady(w.ctx))
	return k
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(path string, data string) {
	w.t.Helper()
	_, err := w.w.Create(w.ctx, w.root+path, []byte(data), client.CreateOptions{})
	w.must(err)
}

func (w *world) set(path string, data string) {
	w.t.Helper()
	_, err := w.w.Set(w.ctx, w.root+path, []byte(data), client.AnyVersion)
	w.must(err)
}

func (w *world) delete(path string) {
	w.t.Helper()
	w.must(w.w.Delete(w.ctx, w.root+path, client.AnyVersion))
}

// treeOf reads a subtree node by node: the slow twin of a cache.
func treeOf(ctx context.Context, t testing.TB, c *client.Client, path string) map[string]Node {
	t.Helper()
	all := map[string]Node{}
	todo := []string{path}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		node2, err := c.Get(ctx, path)
		if err != nil {
			if len(all) == 0 && strings.Contains(err.Error(), client.ErrNoNode.Error()) {
				return all
			}
			t.Fatal(err)
		}
		all[path] = Node{Path: path, Data: node2.Data, Stat: node2.Stat}
		list, err := c.Children(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range list.Names {
			todo = append(todo, jute.Join(path, name))
		}
	}
	return all
}

// content is all that a cache has.
func content(k *Cache) map[string]Node {
	all := map[string]Node{}
	for n := range k.Nodes(k.Path()) {
		all[n.Path] = n
	}
	return all
}

func equal(a, b Node) bool {
	return a.Path == b.Path && string(a.Data) == string(b.Data) && (a.Data == nil) == (b.Data == nil) && a.Stat == b.Stat
}

// diff says where two trees differ, or nothing.
func diff(got, want map[string]Node) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[path]
		switch {
		case !ok:
			fmt.Fprintf(&b, "%s: missing\n", path)
		case !equal(g, want[path]):
			fmt.Fprintf(&b, "%s: got %q %+v\n%s want %q %+v\n", path, g.Data, g.Stat, strings.Repeat(" ", len(path)), want[path].Data, want[path].Stat)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[path]; !ok {
			fmt.Fprintf(&b, "%s: not to be there: %+v\n", path, got[path])
		}
	}
	return b.String()
}

// check syncs the cache and holds it against the servers' tree, and against
// itself.
func (w *world) check(k *Cache) {
	w.t.Helper()
	w.must(k.Sync(w.ctx))
	got := content(k)
	if d := diff(got, treeOf(w.ctx, w.t, w.w.WithRetry(client.DefaultRetry()), w.root)); d != "" {
		w.t.Fatalf("cache and server differ:\n%s", d)
	}
	consistent(w.t, k, got)
}

// consistent holds the ways to read a cache against each other.
func consistent(t *testing.T, k *Cache, all map[string]Node) {
	t.Helper()
	var bytes int64
	for path, n := range all {
		if g, ok := k.Get(path); !ok || !equal(g, n) {
			t.Fatalf("Get(%s) = %+v, %v, Nodes has %+v", path, g, ok, n)
		}
		for _, name := range k.Children(path) {
			if _, ok := all[jute.Join(path, name)]; !ok {
				t.Fatalf("Children(%s) has %s, Nodes doesn't", path, name)
			}
		}
		if len(k.Children(path)) != int(n.Stat.NumChildren) && k.opts.Filter == nil && k.opts.Depth == Whole {
			t.Fatalf("Children(%s) = %q, the Stat has %d", path, k.Children(path), n.Stat.NumChildren)
		}
		bytes += subtrees.NodeBytes + int64(len(n.Data))
		if path != k.Path() {
			_, name := jute.SplitPath(path)
			bytes += int64(len(name))
		}
	}
	if k.Len() != len(all) || k.Bytes() != bytes {
		t.Fatalf("Len, Bytes = %d, %d, want %d, %d", k.Len(), k.Bytes(), len(all), bytes)
	}
}

// replay follows a cache by its events alone, and fails the test at any that does
// not follow from those before.
type replay struct {
	t      *testing.T
	events <-chan Event
	nodes  map[string]Node
	last   map[string]client.Stat // of each path that ever was
	types  map[EventType]int
}

func newReplay(ctx context.Context, t *testing.T, k *Cache) *replay {
	return &replay{t: t, events: k.Events(ctx), nodes: map[string]Node{}, last: map[string]client.Stat{}, types: map[EventType]int{}}
}

func (r *replay) step(ev Event) {
	r.t.Helper()
	if *verbose {
		r.t.Log(ev)
	}
	r.types[ev.Type]++
	path := ev.Node.Path
	held, ok := r.nodes[path]
	switch ev.Type {
	case Added:
		if parent, _ := jute.SplitPath(path); ok || len(r.nodes) > 0 && r.nodes[parent].Path == "" {
			r.t.Fatalf("%v: there already %v, parent %q", ev, ok, r.nodes[parent].Path)
		}
		r.nodes[path] = ev.Node
	case Changed:
		if !ok || !equal(held, ev.Old) {
			r.t.Fatalf("%v: from %+v, have %+v", ev, ev.Old, held)
		}
		r.nodes[path] = ev.Node
	case Removed:
		if !ok || !equal(held, ev.Node) {
			r.t.Fatalf("%v: of %+v, have %+v", ev, ev.Node, held)
		}
		for p := range r.nodes {
			if strings.HasPrefix(p, path+"/") {
				r.t.Fatalf("%v: %s is still there", ev, p)
			}
		}
		delete(r.nodes, path)
		return
	default:
		return
	}
	if before, ok := r.last[path]; ok && older(ev.Node.Stat, before) {
		r.t.Fatalf("%v: goes back from %+v to %+v", ev, before, ev.Node.Stat)
	}
	r.last[path] = ev.Node.Stat
}

// until takes events until done says so.
func (r *replay) until(ctx context.Context, what string, done func() bool) {
	r.t.Helper()
	for !done() {
		select {
		case ev, ok := <-r.events:
			if !ok {
				r.t.Fatalf("events ended before %s", what)
			}
			r.step(ev)
		case <-ctx.Done():
			r.t.Fatalf("no events any more before %s", what)
		}
	}
}

// next takes events until one of the type.
func (r *replay) next(ctx context.Context, typ EventType) {
	r.t.Helper()
	n := r.types[typ]
	r.until(ctx, typ.String(), func() bool { return r.types[typ] > n })
}
