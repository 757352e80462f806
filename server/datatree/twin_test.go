package datatree

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// twin does the same as Tree in the slowest way: a map of paths, searched completely for
// every question.
type twin struct {
	reader   *Reader // of the tree that was compared last
	nodes    map[string]*twinNode
	sessions map[jute.SessionID]int32
	owners   map[jute.SessionID]uint64
	zxid     jute.Zxid
	skipped  uint64
}

type twinNode struct {
	Node
	data []byte
}

func newTwin() *twin {
	w := &twin{nodes: map[string]*twinNode{}, sessions: map[jute.SessionID]int32{}, owners: map[jute.SessionID]uint64{}}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		w.nodes[path] = &twinNode{Node{ACL: openACL}, []byte{}}
	}
	w.nodes["/zookeeper/config"].Aversion = -1
	w.nodes["/zookeeper/config"].ACL = []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}
	return w
}

func (w *twin) clone() *twin {
	c := &twin{nodes: map[string]*twinNode{}, sessions: maps.Clone(w.sessions), owners: maps.Clone(w.owners), zxid: w.zxid, skipped: w.skipped}
	for path, n := range w.nodes {
		c.nodes[path] = &twinNode{n.Node, n.data}
	}
	return c
}

func twinParent(path string) string {
	i := strings.LastIndex(path, "/")
	if i == 0 {
		return "/"
	}
	return path[:i]
}

func (w *twin) children(path string) []string {
	var names []string
	for p := range w.nodes {
		if p != "/" && twinParent(p) == path {
			names = append(names, p[strings.LastIndex(p, "/")+1:])
		}
	}
	return names
}

// get returns the node with the values that follow from other nodes; it is zero if there
// is none.
func (w *twin) get(path string) Node {
	n, ok := w.nodes[path]
	if !ok {
		return Node{}
	}
	c := n.Node
	c.DataLength = int32(len(n.data))
	c.NumChildren = int32(len(w.children(path)))
	return c
}

func (w *twin) apply(txn *Txn) (results []Result, events []Event) {
	for _, op := range txn.Ops {
		r, e := w.applyOp(txn, op)
		results, events = append(results, r), append(events, e...)
	}
	w.zxid = txn.Zxid
	return results, events
}

func (w *twin) skip(path string, code jute.Code) (Result, []Event) {
	w.skipped++
	return Result{Path: path, Code: code}, nil
}

func (w *twin) applyOp(txn *Txn, op Op) (Result, []Event) {
	n := w.nodes[op.Path]
	switch op.Kind {
	case OpCreate:
		return w.create(txn, op)
	case OpDelete:
		return w.delete(txn, op.Path)
	case OpSetData:
		if n == nil {
			return w.skip("", jute.ErrNoNode)
		}
		grown := len(op.Data) - len(n.data)
		n.data, n.Version, n.Mzxid, n.Mtime = op.Data, op.Version, txn.Zxid, txn.Time
		node := w.get(op.Path)
		if grown != 0 {
			w.charge(op.Path, 0, grown)
		}
		return Result{Stat: node.Stat(), Data: n.data}, []Event{{Type: jute.EventDataChanged, Path: op.Path, ACL: n.ACL}}
	case OpSetACL:
		if n == nil {
			return w.skip("", jute.ErrNoNode)
		}
		was := n.ACL
		n.ACL, n.Aversion = op.ACL, op.Version
		node := w.get(op.Path)
		return Result{Stat: node.Stat(), Was: was}, nil
	case OpError:
		return Result{Code: op.Code}, nil
	case OpCreateSession:
		if _, ok := w.sessions[txn.Session]; ok {
			return w.skip("", jute.ErrRuntimeInconsistency)
		}
		w.sessions[txn.Session] = op.TimeoutMs
	case OpSetTimeout:
		if _, ok := w.sessions[txn.Session]; !ok {
			return w.skip("", jute.ErrSessionExpired)
		}
		w.sessions[txn.Session] = op.TimeoutMs
	case OpSetOwner:
		if _, ok := w.sessions[txn.Session]; !ok {
			return w.skip("", jute.ErrSessionExpired)
		}
		w.owners[txn.Session] = txn.Origin
	case OpCloseSession:
		return w.closeSession(txn, op)
	}
	return Result{}, nil
}

func (w *twin) create(txn *Txn, op Op) (Result, []Event) {
	if !strings.HasPrefix(op.Path, "/") || strings.HasSuffix(op.Path, "/") {
		return w.skip(op.Path, jute.ErrBadArguments)
	}
	dir := twinParent(op.Path)
	parent := w.nodes[dir]
	s := op.Owner.Session()
	_, live := w.sessions[s]
	switch {
	case parent == nil:
		return w.skip(op.Path, jute.ErrNoNode)
	case w.nodes[op.Path] != nil:
		return w.skip(op.Path, jute.ErrNodeExists)
	case parent.Owner.Ephemeral():
		return w.skip(op.Path, jute.ErrNoChildrenForEphemerals)
	case s != 0 && !live:
		return w.skip(op.Path, jute.ErrSessionExpired)
	}
	n := &twinNode{Node{
		Czxid: txn.Zxid, Mzxid: txn.Zxid, Pzxid: txn.Zxid, Ctime: txn.Time, Mtime: txn.Time,
		Owner: op.Owner, ACL: op.ACL,
	}, op.Data}
	w.nodes[op.Path] = n
	parent.Cversion = max(parent.Cversion, op.Cversion)
	parent.Pzxid = txn.Zxid
	node := w.get(op.Path)
	if strings.HasPrefix(op.Path, "/zookeeper/quota/") && strings.HasSuffix(op.Path, "/zookeeper_stats") {
		if top := twinQuotaTop(op.Path); top != "" {
			n.data = w.usage(top)
		}
	}
	w.charge(op.Path, 1, len(op.Data))
	return Result{Path: op.Path, Stat: node.Stat(), Data: op.Data},
		[]Event{{Type: jute.EventCreated, Path: op.Path, ACL: n.ACL}, w.childrenChanged(dir)}
}

func (w *twin) delete(txn *Txn, path string) (Result, []Event) {
	n := w.nodes[path]
	switch {
	case n == nil:
		r, e := w.skip("", jute.ErrNoNode)
		return r, e
	case path == "/":
		return w.skip("", jute.ErrBadArguments)
	case len(w.children(path)) > 0:
		return w.skip("", jute.ErrNotEmpty)
	}
	delete(w.nodes, path)
	dir := twinParent(path)
	parent := w.nodes[dir]
	parent.Pzxid = max(parent.Pzxid, txn.Zxid)
	w.charge(path, -1, -len(n.data))
	return Result{}, []Event{{Type: jute.EventDeleted, Path: path, ACL: n.ACL}, w.childrenChanged(dir)}
}

func (w *twin) childrenChanged(path string) Event {
	node := w.get(path)
	stat := node.Stat()
	return Event{Type: jute.EventChildrenChanged, Path: path, ACL: node.ACL, Cversion: stat.Cversion, NumChildren: stat.NumChildren}
}

func (w *twin) owned(s jute.SessionID) []string {
	var paths []string
	for path, n := range w.nodes {
		if s != 0 && n.Owner.Session() == s {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func (w *twin) closeSession(txn *Txn, op Op) (Result, []Event) {
	if _, ok := w.sessions[txn.Session]; !ok {
		return Result{}, nil
	}
	var events []Event
	for _, path := range op.Paths {
		if !slices.Contains(w.owned(txn.Session), path) {
			w.skipped++
			continue
		}
		_, e := w.delete(txn, path)
		events = append(events, e...)
	}
	for _, path := range w.owned(txn.Session) {
		if len(op.Paths) > 0 {
			w.skipped++
		}
		_, e := w.delete(txn, path)
		events = append(events, e...)
	}
	delete(w.sessions, txn.Session)
	delete(w.owners, txn.Session)
	return Result{}, events
}

func twinQuotaTop(path string) string {
	return strings.TrimPrefix(twinParent(path), "/zookeeper/quota")
}

func (w *twin) usage(top string) []byte {
	count, size := 0, 0
	for path, n := range w.nodes {
		if path == top || strings.HasPrefix(path, top+"/") {
			count++
			size += len(n.data)
		}
	}
	return fmt.Appendf(nil, "count=%d,bytes=%d", count, size)
}

// charge recounts if a client wrote a text that does not parse as a usage into the stats
// node.
func (w *twin) charge(path string, count, size int) {
	for top := path; top != "/"; top = twinParent(top) {
		if w.nodes["/zookeeper/quota"+top+"/zookeeper_limits"] == nil {
			continue
		}
		stats := w.nodes["/zookeeper/quota"+top+"/zookeeper_stats"]
		if stats == nil || count == 0 && size == 0 {
			return
		}
		var c, s int
		if n, _ := fmt.Sscanf(string(stats.data), "count=%d,bytes=%d", &c, &s); n != 2 || c == -1 || s == -1 {
			stats.data = w.usage(top)
			return
		}
		stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", c+count, s+size)
		return
	}
}

// compare fails the test unless tree and twin are the same.
func (w *twin) compare(t *testing.T, tree *Tree) {
	t.Helper()
	size := int64(0)
	if w.reader == nil || w.reader.Tree != tree {
		w.reader = tree.NewReader()
	}
	reader := w.reader
	counts := Stats{Nodes: len(w.nodes) + 1, Sessions: len(w.sessions), Skipped: tree.skipped}
	for path, n := range w.nodes {
		data, got, ok := tree.GetData(path)
		want := w.get(path)
		if !ok || !equalNodes(got, want) || !bytes.Equal(data, n.data) || (data == nil) != (n.data == nil) {
			t.Fatalf("%s: got %v %+v %q, want %+v %q", path, ok, got, data, want, n.data)
		}
		names := slices.Sorted(slices.Values(w.children(path)))
		if got := slices.Sorted(tree.Children(path)); !slices.Equal(got, names) {
			t.Fatalf("children of %s: got %q, want %q", path, got, names)
		}
		checkOrder(t, tree, path, names)
		if a, b, c := tree.find(path), tree.last.find(path), reader.finder.find(path); a != b || a != c {
			t.Fatalf("%s is found as %d, %d and %d", path, a, b, c)
		}
		below, bytes := 0, int64(0)
		for p, n := range w.nodes {
			if p != path && strings.HasPrefix(p, strings.TrimSuffix(path, "/")+"/") {
				below++
				bytes += int64(len(n.data))
			}
		}
		if got := tree.arena.more(tree.find(path)).below; got != bytes {
			t.Fatalf("bytes below %s: got %d, want %d", path, got, bytes)
		}
		if got := tree.CountDescendants(path); got != below {
			t.Fatalf("descendants of %s: got %d, want %d", path, got, below)
		}
		size += int64(len(path) + len(n.data))
		_, ttl := n.Owner.TTL()
		counts.Containers += btoi(n.Owner.Container())
		counts.TTLs += btoi(ttl)
		counts.Ephemerals += btoi(n.Owner.Ephemeral())
	}
	counts.DataSize = size
	if got := tree.Stats(); got != counts {
		t.Fatalf("stats: got %+v, want %+v", got, counts)
	}
	if got := maps.Collect(tree.Sessions()); !maps.Equal(got, w.sessions) {
		t.Fatalf("sessions: got %v, want %v", got, w.sessions)
	}
	for s := range w.sessions {
		if got, want := slices.Sorted(tree.Ephemerals(s, "")), w.owned(s); !slices.Equal(got, want) {
			t.Fatalf("ephemerals of %s: got %q, want %q", s, got, want)
		}
		if n := len(w.owned(s)); tree.NumEphemerals(s) != n {
			t.Fatalf("%s has %d ephemerals, want %d", s, tree.NumEphemerals(s), n)
		}
	}
	owners := 0
	for s, n := range tree.EphemeralOwners() {
		if owners++; n == 0 || n != len(w.owned(s)) {
			t.Fatalf("%s owns %d, want %d", s, n, len(w.owned(s)))
		}
	}
	for s := range w.sessions {
		if timeout, ok := tree.Session(s); !ok || timeout != w.sessions[s] {
			t.Fatalf("session %s: %d, %v", s, timeout, ok)
		}
		if got := tree.SessionOwner(s); got != w.owners[s] {
			t.Fatalf("session %s is owned by %d, want %d", s, got, w.owners[s])
		}
		owners -= btoi(len(w.owned(s)) > 0)
	}
	owned := slices.ContainsFunc(slices.Collect(maps.Values(w.owners)), func(o uint64) bool { return o != 0 })
	if _, ok := tree.Session(0x7777); ok || owners != 0 || tree.SessionOwner(0x7777) != 0 || tree.HasOwners() != owned {
		t.Fatalf("a session that is not there, or %d owners too many", owners)
	}
	if got, want := tree.Digest(), tree.computeDigest(); got != want {
		t.Fatalf("digest kept %s, from scratch %s", got, want)
	}
	if tree.LastZxid() != w.zxid {
		t.Fatalf("last zxid %s, want %s", tree.LastZxid(), w.zxid)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func equalNodes(a, b Node) bool {
	acls := slices.Equal(a.ACL, b.ACL)
	a.ACL, b.ACL = nil, nil
	return acls && fmt.Sprint(a) == fmt.Sprint(b)
}

func equalEvents(a, b []Event) bool {
	return slices.EqualFunc(a, b, func(a, b Event) bool {
		return a.Type == b.Type && a.Path == b.Path && slices.Equal(a.ACL, b.ACL) && a.Cversion == b.Cversion && a.NumChildren == b.NumChildren
	})
}

// generator generates transactions most of which apply.
type generator struct {
	rng  *rand.Rand
	zxid jute.Zxid
}

func (g *generator) path() string {
	if g.rng.IntN(8) == 0 {
		return g.quotaPath()
	}
	var b strings.Builder
	for range 1 + g.rng.IntN(3) {
		fmt.Fprintf(&b, "/%c", 'a'+rune(g.rng.IntN(6)))
	}
	switch g.rng.IntN(300) {
	case 0:
		return b.String() + "/"
	case 1:
		return b.String()[1:]
	case 2:
		return "/"
	}
	return b.String()
}

func (g *generator) quotaPath() string {
	paths := []string{"", "/a", "/a/b", "/a/zookeeper_limits", "/a/zookeeper_stats", "/a/b/zookeeper_limits",
		"/a/b/zookeeper_stats", "/zookeeper_limits", "/zookeeper_stats"}
	return "/zookeeper/quota" + paths[g.rng.IntN(len(paths))]
}

func (g *generator) data() []byte {
	switch g.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte("count=3,bytes=5")
	}
	return bytes.Repeat([]byte{byte(g.rng.Uint32())}, g.rng.IntN(40))
}

func (g *generator) acl() []jute.ACL {
	if g.rng.IntN(2) == 0 {
		return []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
	}
	return []jute.ACL{{Perms: jute.Perms(g.rng.IntN(4)), ID: jute.ID{Scheme: "digest", ID: "u:x"}}, openACL[0]}
}

func (g *generator) owner() jute.Owner {
	switch g.rng.IntN(6) {
	case 0, 1:
		return jute.OwnerSession(g.session())
	case 2:
		return jute.OwnerContainer
	case 3:
		return jute.OwnerTTL(1 + g.rng.Int64N(1000))
	}
	return jute.OwnerNone
}

func (g *generator) session() jute.SessionID { return jute.SessionID(0x1000 + g.rng.IntN(5)) }

func (g *generator) op(tree *Tree, session jute.SessionID) Op {
	op := Op{Path: g.path(), Data: g.data(), ACL: g.acl(), Version: int32(g.rng.IntN(5))}
	switch p := g.rng.IntN(100); {
	case p < 45:
		op.Kind, op.Owner = OpCreate, g.owner()
		parent, _ := tree.Get(parentOf(op.Path))
		op.Cversion = parent.Cversion + 1 - int32(g.rng.IntN(20)/19)
	case p < 70:
		op.Kind = OpDelete
	case p < 82:
		op.Kind = OpSetData
	case p < 88:
		op.Kind = OpSetACL
	case p < 89:
		op.Kind = OpCheck
	case p < 90:
		op.Kind, op.Code = OpError, jute.ErrBadVersion
	case p < 95:
		op.Kind, op.TimeoutMs = OpCreateSession, int32(g.rng.IntN(40000))
	case p < 96:
		op.Kind, op.TimeoutMs = OpSetTimeout, int32(g.rng.IntN(40000))
	case p < 97:
		op.Kind = OpSetOwner
	default:
		op.Kind = OpCloseSession
		op.Paths = slices.Sorted(tree.Ephemerals(session, ""))
		if g.rng.IntN(5) == 0 {
			op.Paths = append(op.Paths[len(op.Paths)/2:], "/a")
		}
	}
	return op
}

func (g *generator) txn(tree *Tree) Txn {
	g.zxid += jute.Zxid(1 + g.rng.IntN(2))
	txn := Txn{Zxid: g.zxid, Time: g.rng.Int64N(1 << 40), Session: g.session(), Cxid: g.rng.Int32(), Origin: g.rng.Uint64N(4)}
	if g.rng.IntN(50) == 0 { // as the leader closes sessions
		txn.Ops = []Op{{Kind: OpCloseSession}}
		if g.rng.IntN(2) == 0 {
			txn.Ops[0].Paths = slices.Sorted(tree.Ephemerals(txn.Session, ""))
		}
		return txn
	}
	for range max(1, g.rng.IntN(10)-6) {
		txn.Ops = append(txn.Ops, g.op(tree, txn.Session))
	}
	return txn
}

// parts sometimes applies the first parts of a transaction, and returns the events.
// Everything that is not reported as changing must equal the twin, to which the
// transaction is not applied yet.
func (w *twin) parts(t *testing.T, tree *Tree, txn *Txn, out *Applied, g *generator) (events []Event) {
	t.Helper()
	if g.rng.IntN(4) == 0 {
		return nil
	}
	n := 1 + g.rng.IntN(3)
	tree.List(txn)
	rest := g.rng.IntN(2) == 0
	part := func() bool {
		if tree.ApplyPart(txn, out, n) {
			return true
		}
		last := rest
		if rest = false; last {
			tree.ApplyRest(txn, out)
		}
		return last
	}
	for part() {
		if closeOf(txn) != nil && rest && len(out.Events) > 2*n {
			t.Fatalf("%d events of a part of %d nodes", len(out.Events), n)
		}
		events = append(events, out.Events...)
		if tree.LastZxid() != w.zxid || tree.Digest() != tree.computeDigest() {
			t.Fatalf("between two slices the tree is at %v with digest %v, want %v and %v", tree.LastZxid(), tree.Digest(), w.zxid, tree.computeDigest())
		}
		for range 5 {
			path := g.path()
			if tree.Changing(path) || strings.HasSuffix(path, "/zookeeper_stats") {
				continue
			}
			got, ok := tree.Get(path)
			_, want := w.nodes[path]
			if ok != want || ok && !equalNodes(got, w.get(path)) {
				t.Fatalf("%s is not said to be changing: %v %+v, was %v %+v", path, ok, got, want, w.get(path))
			}
		}
	}
	return events
}

const twinRounds, twinTxns = 40, 4000

// TestApplyRestOfAWholeClose: the end of a session whose ephemerals nobody has listed deletes all of them at once.
func TestApplyRestOfAWholeClose(t *testing.T) {
	tree, out := New(), new(Applied)
	tree.Apply(&Txn{Zxid: 1, Session: 7, Ops: []Op{{Kind: OpCreateSession, TimeoutMs: 1000}}}, out)
	for i, path := range []string{"/a", "/b"} {
		tree.Apply(&Txn{Zxid: jute.Zxid(2 + i), Session: 7, Ops: []Op{{Kind: OpCreate, Path: path, ACL: openACL, Owner: 7}}}, out)
	}
	end := &Txn{Zxid: 4, Session: 7, Ops: []Op{{Kind: OpCloseSession}}}
	tree.ApplyRest(end, out)
	if _, there := tree.NewReader().Get("/a"); there || len(out.Events) == 0 {
		t.Errorf("the rest has %d events, and /a is there: %v", len(out.Events), there)
	}
	tree.Apply(end, out)
	if tree.LastZxid() != 4 || tree.Digest() != tree.computeDigest() {
		t.Errorf("at %v the digest is wrong", tree.LastZxid())
	}
}

// TestTwin applies random transactions to a tree and its twin.
func TestTwin(t *testing.T) {
	first := seeds.First(t)
	rounds := uint64(twinRounds)
	if testing.Short() {
		rounds /= 4
	}
	for i := range rounds {
		seed := first + i
		tree, w := New(), newTwin()
		g := &generator{rng: rand.New(rand.NewPCG(seed, 0))}
		var out Applied
		for i := range twinTxns {
			txn := g.txn(tree)
			before := w.parts(t, tree, &txn, &out, g)
			tree.Apply(&txn, &out)
			results, events := w.apply(&txn)
			if !reflect.DeepEqual(out.Results, results) {
				t.Fatalf("seed %#x, txn %d %+v: results %+v, want %+v", seed, i, txn, out.Results, results)
			}
			if !equalEvents(append(before, out.Events...), events) {
				t.Fatalf("seed %#x, txn %d %+v: events %+v, want %+v", seed, i, txn, out.Events, events)
			}
			if tree.skipped != w.skipped {
				t.Fatalf("seed %#x, txn %d %+v: %d skipped, want %d", seed, i, txn, tree.skipped, w.skipped)
			}
			if i%(twinTxns/10) == 0 {
				w.compare(t, tree)
			}
		}
		w.compare(t, tree)
		if t.Failed() {
			t.Fatalf("seed %#x", seed)
		}
	}
}

// drain walks a view to its end in steps of random size, with a change of the
// tree between steps, and returns a loader that has all rows.
func drain(t *testing.T, v *View, rng *rand.Rand, change func()) []Row {
	var b Batch
	var rows []Row
	for more := true; more; {
		b.Reset()
		more = v.Step(&b, 1+rng.IntN(600))
		for row := range b.All() {
			rows = append(rows, Row{row.Table, bytes.Clone(row.Key), bytes.Clone(row.Value)})
		}
		change()
		if len(rows) > 1e6 {
			t.Fatal("the walk does not end")
		}
	}
	return rows
}

func load(t *testing.T, rows []Row) *Tree {
	t.Helper()
	l := NewLoader()
	for _, row := range rows {
		if err := l.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestViewIsFrozen walks a view while the tree changes, and compares the result with the
// earlier state of the twin.
func TestViewIsFrozen(t *testing.T) {
	first := seeds.First(t)
	rounds := uint64(20)
	if testing.Short() {
		rounds = 6
	}
	for i := range rounds {
		seed := first + i
		rng := rand.New(rand.NewPCG(seed, 1))
		tree, w := New(), newTwin()
		g := &generator{rng: rng}
		var out Applied
		step := func() {
			txn := g.txn(tree)
			w.parts(t, tree, &txn, &out, g)
			tree.Apply(&txn, &out)
			w.apply(&txn)
		}
		for range 500 {
			step()
		}
		for range 10 {
			frozen := w.clone()
			digest := tree.Digest()
			v := tree.Freeze()
			if got := v.Meta().LastTime; got != tree.LastTime() {
				t.Fatalf("seed %#x: the view's last time is %d, the tree's %d", seed, got, tree.LastTime())
			}
			rows := drain(t, v, rng, func() {
				for range rng.IntN(20) {
					step()
				}
			})
			v.Close()
			if !slices.IsSortedFunc(nodeRows(rows), func(a, b Row) int { return bytes.Compare(a.Key, b.Key) }) {
				t.Fatalf("seed %#x: keys out of order", seed)
			}
			loaded := load(t, rows)
			if loaded.Digest() != digest {
				t.Fatalf("seed %#x: digest %s, want %s", seed, loaded.Digest(), digest)
			}
			frozen.compare(t, loaded)
		}
		w.compare(t, tree)
	}
}

func nodeRows(rows []Row) []Row {
	var nodes []Row
	for _, r := range rows {
		if r.Table == TableNodes {
			nodes = append(nodes, r)
		}
	}
	return nodes
}

// TestLoadedGoesOn checks that a loaded tree and the original stay equal.
func TestLoadedGoesOn(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	tree := New()
	g := &generator{rng: rng}
	var out, out2 Applied
	for round := range 50 {
		v := tree.Freeze()
		loaded := load(t, drain(t, v, rng, func() {}))
		v.Close()
		for range 300 {
			txn := g.txn(tree)
			tree.Apply(&txn, &out)
			loaded.Apply(&txn, &out2)
			if !reflect.DeepEqual(out.Results, out2.Results) || !equalEvents(out.Events, out2.Events) {
				t.Fatalf("seed %#x round %d: %+v: %+v and %+v", seed, round, txn, out, out2)
			}
			if tree.Digest() != loaded.Digest() {
				t.Fatalf("seed %#x round %d: digests differ after %+v", seed, round, txn)
			}
		}
	}
}
