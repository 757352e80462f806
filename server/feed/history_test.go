package feed

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// world applies transactions to a tree and a history, and keeps the changes that they make as
// an obvious list.
type world struct {
	tree    *datatree.Tree
	history *History
	zxid    jute.Zxid
	out     datatree.Applied
	all     []change
	told    []change  // what feeds have of them: with those of the parent's children
	listed  int       // how many of all are in told
	root    jute.Stat // with the right numbers of children
	slice   func()    // called when a part of a transaction has been added, if there are more
}

// change is a Record, decoded.
type change struct {
	jute.Change
	ACL, Other []jute.ACL
}

func decoded(r Record) change {
	c := change{r.Change(), r.ACL, r.Other}
	if c.Kind == jute.ChangeData {
		c.Other = nil
	}
	return c
}

// tell notes what feeds have of the changes that are new in all.
func (w *world) tell() {
	for ; w.listed < len(w.all); w.listed++ {
		c := w.all[w.listed]
		w.told = append(w.told, c)
		if c.Kind == jute.ChangeCreated || c.Kind == jute.ChangeDeleted {
			c.Kind, c.Path, c.Stat, c.Data, c.ACL = jute.ChangeChildren, "/", jute.Stat{}, nil, c.Other
			w.told = append(w.told, c)
		}
	}
}

func newWorld(limit int) *world {
	tree := datatree.New()
	root, _ := tree.Get("/")
	return &world{tree: tree, history: New(limit, 0), root: root.Stat()}
}

func (w *world) apply(session jute.SessionID, ops ...datatree.Op) {
	w.zxid++
	txn := &datatree.Txn{Zxid: w.zxid, Time: int64(w.zxid) * 10, Session: session, Ops: ops}
	index := int32(0)
	want := func(kind jute.ChangeKind, path string, data []byte, acl []jute.ACL) *change {
		w.all = append(w.all, change{jute.Change{Zxid: txn.Zxid, Index: index, Kind: kind, Time: txn.Time, Session: session, Path: path, Data: data}, acl, nil})
		index++
		c := &w.all[len(w.all)-1]
		switch kind {
		case jute.ChangeCreated:
			w.root.NumChildren++
			w.root.Cversion-- // Op.Cversion is 0, so that creates are not counted
		case jute.ChangeDeleted:
			w.root.NumChildren--
			w.root.Cversion++
		default:
			return c
		}
		c.ParentCversion, c.ParentChildren = w.root.Cversion, w.root.NumChildren
		return c
	}
	root, _ := w.tree.Get("/")
	var paths []string
	if len(ops) == 1 && ops[0].Kind == datatree.OpCloseSession {
		paths = slices.Sorted(w.tree.Ephemerals(session, ""))
		for _, path := range paths {
			node, _ := w.tree.Get(path)
			want(jute.ChangeDeleted, path, nil, node.ACL).Other = root.ACL
		}
		w.tell()
		w.tree.List(txn)
		for w.tree.ApplyPart(txn, &w.out, 3) {
			w.history.Add(txn, &w.out, w.zxid-1)
			if w.slice != nil {
				w.slice()
			}
		}
	}
	// An op that can't be applied changes nothing. So the list is made of the results.
	acls := map[string][]jute.ACL{"/": root.ACL}
	for i := range ops {
		if node, ok := w.tree.Get(ops[i].Path); ok {
			acls[ops[i].Path] = node.ACL
		}
	}
	w.tree.Apply(txn, &w.out)
	for i := range ops {
		op, result := &ops[i], &w.out.Results[i]
		if result.Code != 0 {
			continue
		}
		switch op.Kind {
		case datatree.OpCreate:
			acls[op.Path] = op.ACL
			c := want(jute.ChangeCreated, op.Path, op.Data, op.ACL)
			c.Stat, c.Other = result.Stat, acls["/"]
		case datatree.OpSetData:
			want(jute.ChangeData, op.Path, op.Data, acls[op.Path]).Stat = result.Stat
		case datatree.OpSetACL:
			c := want(jute.ChangeACL, op.Path, nil, op.ACL)
			c.Stat, c.Other = result.Stat, acls[op.Path]
			acls[op.Path] = op.ACL
		case datatree.OpDelete:
			want(jute.ChangeDeleted, op.Path, nil, acls[op.Path]).Other = acls["/"]
		}
	}
	w.tell()
	w.history.Add(txn, &w.out, w.zxid)
}

// upTo returns how many changes there are up to a zxid.
func (w *world) upTo(zxid jute.Zxid) int { return upTo(w.all, zxid) }

func upTo(all []change, zxid jute.Zxid) int {
	n, _ := slices.BinarySearchFunc(all, zxid+1, func(c change, z jute.Zxid) int { return cmp.Compare(c.Zxid, z) })
	return n
}

// randomTxn applies a random transaction.
func (w *world) randomTxn(r *rand.Rand) {
	session := jute.SessionID(1 + r.IntN(3))
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprint(r.IntN(3))}}}
	switch r.IntN(12) {
	case 0:
		w.apply(session, datatree.Op{Kind: datatree.OpCloseSession})
		return
	case 1:
		w.apply(0) // a transaction without an effect on znodes
		return
	}
	w.apply(session, datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: 1000})
	ops := make([]datatree.Op, 1+r.IntN(4))
	for i := range ops {
		op := datatree.Op{Path: fmt.Sprintf("/%d", r.IntN(12)), Data: make([]byte, r.IntN(300)), ACL: acl, Version: r.Int32N(9)}
		op.Kind = datatree.OpKind(1 + r.IntN(4))
		if op.Kind == datatree.OpCreate && r.IntN(2) == 0 {
			op.Owner = jute.OwnerSession(session)
		}
		if r.IntN(10) == 0 {
			op.Data = nil
		}
		if r.IntN(30) == 0 {
			op.Path, op.Kind = "/", datatree.OpSetACL
		}
		ops[i] = op
	}
	w.apply(session, ops...)
}

// follower is a cursor, with the number of the changes that it has passed.
type follower struct {
	*Cursor
	at int
}

// check makes the follower read, and compares what it gets with the list. It reports whether the
// history has what follows.
func (f *follower) check(t *testing.T, w *world, r *rand.Rand) bool {
	t.Helper()
	before, most := f.Zxid(), r.IntN(40)
	var got []change
	all := true
	err := f.Next(func(rec Record) bool {
		if all = len(got) < most; all {
			got = append(got, decoded(rec))
		}
		return all
	})
	oldest, last := w.history.Span()
	var gone *jute.CompactedError
	switch {
	case errors.As(err, &gone):
		if before >= oldest || gone.Oldest != oldest {
			t.Fatalf("%v, and the oldest is %v", err, oldest)
		}
		return false
	case err != nil:
		t.Fatal(err)
	}
	want := w.all[f.at:min(f.at+len(got), len(w.all))]
	if !slices.EqualFunc(got, want, func(a, b change) bool { return reflect.DeepEqual(a, b) }) {
		t.Fatalf("after %v up to %v: %d changes\n%v\nwant\n%v", before, f.Zxid(), len(got), got, want)
	}
	f.at += len(got)
	if upTo := w.upTo(f.Zxid()); upTo > f.at || all && f.Zxid() < last {
		t.Fatalf("up to %v, of %v, there are %d changes, and %d were yielded", f.Zxid(), last, upTo, f.at)
	}
	return true
}

// Cursors yield what happened after their zxids, each change once in its order, or say that it is
// forgotten.
func TestHistoryTwin(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+6; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(200_000)
		followers := []*follower{{w.history.After(0), 0}}
		compacted := 0
		read := func() {
			i := r.IntN(len(followers))
			if followers[i].check(t, w, r) {
				return
			}
			compacted++
			followers = slices.Delete(followers, i, i+1)
			if len(followers) == 0 {
				_, last := w.history.Span()
				followers = append(followers, &follower{w.history.After(last), w.upTo(last)})
			}
		}
		w.slice = read
		for range 3000 {
			w.randomTxn(r)
			if r.IntN(3) > 0 {
				continue
			}
			if r.IntN(50) == 0 {
				zxid := jute.Zxid(r.Int64N(int64(w.zxid) + 1))
				followers = append(followers, &follower{w.history.After(zxid), w.upTo(zxid)})
			}
			read()
		}
		if compacted == 0 || w.history.mu.bytes > 200_000+2*chunkBytes {
			t.Errorf("seed %d: forgot %d times, and has %d bytes", seed, compacted, w.history.mu.bytes)
		}
	}
}

// Readers on other goroutines see each change once, in order, while the history grows.
func TestHistoryConcurrently(t *testing.T) {
	w := newWorld(64 << 20)
	const last = 20000
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			c, n := w.history.After(0), 0
			for n < last {
				if err := c.Next(func(rec Record) bool {
					n++
					if ch := rec.Change(); ch.Zxid != jute.Zxid(n) || len(ch.Data) != n%100 {
						t.Errorf("change %d has zxid %v and %d bytes", n, ch.Zxid, len(ch.Data))
					}
					return true
				}); err != nil {
					t.Error(err)
					return
				}
				<-w.history.More(min(c.Zxid(), last-1))
			}
		})
	}
	for i := range last {
		kind := datatree.OpSetData
		if i == 0 {
			kind = datatree.OpCreate
		}
		w.apply(0, datatree.Op{Kind: kind, Path: "/a", Data: make([]byte, (i+1)%100)})
		if i%7 == 0 || i == last-1 {
			w.history.Wake()
		}
	}
	readers.Wait()
}

// After Reset a history knows nothing of what was before.
func TestReset(t *testing.T) {
	w := newWorld(1 << 20)
	w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	c, ahead := w.history.After(0), w.history.After(100)
	more := w.history.More(1)
	w.history.Reset(100)
	<-more
	var gone *jute.CompactedError
	if err := c.Next(func(Record) bool { t.Error("a change from before"); return true }); !errors.As(err, &gone) || gone.Oldest != 100 {
		t.Errorf("error %v", err)
	}
	w.zxid = 100
	w.apply(0, datatree.Op{Kind: datatree.OpDelete, Path: "/a"})
	n := 0
	if err := ahead.Next(func(Record) bool { n++; return true }); err != nil || n != 1 || ahead.Zxid() != 101 {
		t.Errorf("%d changes up to %v, error %v", n, ahead.Zxid(), err)
	}
}

// TestZxidsOfAnotherHistory asks for what follows zxids that the history has passed without having had them, as
// after a restore, and lets it pass others.
func TestZxidsOfAnotherHistory(t *testing.T) {
	zxid := jute.MakeZxid
	h := New(1<<20, zxid(3, 5))
	add := func(z jute.Zxid) { h.Add(&datatree.Txn{Zxid: z}, &datatree.Applied{}, z) }
	undone, ahead := h.After(zxid(3, 9)), h.After(zxid(1003, 2))
	begin := h.After(zxid(3, 5))
	add(zxid(1003, 0))
	add(zxid(1003, 1))
	for _, c := range []*Cursor{undone, ahead, begin} {
		err := c.Next(func(Record) bool { return true })
		gone, compacted := errors.AsType[*jute.CompactedError](err)
		if compacted != (c == undone) || compacted && gone.Oldest != zxid(3, 5) {
			t.Errorf("after %v: %v", c.zxid, err)
		}
	}
	add(zxid(1003, 2))
	add(zxid(1005, 0))
	for z, has := range map[jute.Zxid]bool{
		zxid(3, 4): false, zxid(3, 5): true, zxid(3, 6): false, zxid(4, 0): false, zxid(1002, 7): false,
		zxid(1003, 0): true, zxid(1003, 2): true, zxid(1003, 3): false, zxid(1004, 0): false, zxid(1005, 0): true, zxid(1005, 1): true,
	} {
		if _, err := h.from(z); (err == nil) != has {
			t.Errorf("after %v: %v", z, err)
		}
	}
	alone := New(1<<20, 7)
	alone.Alone()
	for z, has := range map[jute.Zxid]bool{6: false, 7: true, 8: false} {
		if _, err := alone.from(z); (err == nil) != has {
			t.Errorf("alone, after %v: %v", z, err)
		}
	}
}

// A record keeps the ACL list that a setACL gave, whatever becomes of the transaction's memory.
func TestACLIsCopied(t *testing.T) {
	w := newWorld(1 << 20)
	acl := []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "digest", ID: "ann"}}}
	w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	w.apply(0, datatree.Op{Kind: datatree.OpSetACL, Path: "/a", ACL: acl})
	acl[0].ID.ID = "bob"
	var got []string
	if err := w.history.After(1).Next(func(r Record) bool { got = append(got, r.ACL[0].ID.ID); return true }); err != nil || !slices.Equal(got, []string{"ann"}) {
		t.Errorf("got %v, error %v", got, err)
	}
}

// A record stays valid when the history has forgotten it, but the memory of chunks that nobody has read is used again.
func TestChunksUsedAgain(t *testing.T) {
	w := newWorld(minParts * chunkBytes)
	w.apply(1, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	var kept []Record
	cursor := w.history.After(0)
	if err := cursor.Next(func(r Record) bool { kept = append(kept, r); return true }); err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	want := decoded(kept[0])
	for range 2 * minParts * chunkBytes / 100 {
		w.apply(1, datatree.Op{Kind: datatree.OpSetData, Path: "/a"})
	}
	if !reflect.DeepEqual(decoded(kept[0]), want) {
		t.Errorf("the record became %+v", decoded(kept[0]))
	}
	if w.history.mu.spare == nil {
		t.Error("the memory of chunks that nobody has read is not used again")
	}
}

// However large the data of znodes is, the history keeps to its limit, and uses most of it.
func TestLargeDataCounts(t *testing.T) {
	const limit, size = 1 << 20, 50_000
	w := newWorld(limit)
	w.apply(1, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	for range 100 {
		w.apply(1, datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: make([]byte, size)})
		if got, most := w.history.Bytes(), limit+2*(limit/minParts+size+chunkBytes); got > most {
			t.Fatalf("%d bytes, and %d are allowed", got, most)
		}
	}
	if oldest, last := w.history.Span(); int(last-oldest)*size < limit/4 {
		t.Errorf("%d changes are kept", last-oldest)
	}
}

// A chunk counts its references to lists and data, too, which can be many.
func TestReferencesCount(t *testing.T) {
	at := chunk{held: 1000, acls: make([][]jute.ACL, 10), data: make([][]byte, 30)}
	if got := at.bytes(); got != 1000+40*24 {
		t.Errorf("%d bytes", got)
	}
}

// So it does however large the ACL lists of znodes are, which the tree may have given up, and it keeps a list once.
func TestLargeListsCount(t *testing.T) {
	const limit, entries = 1 << 20, 500
	w := newWorld(limit)
	list := func(n, entries int) (acl []jute.ACL) {
		for i := range entries {
			acl = append(acl, jute.ACL{Perms: jute.Perms(n), ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("user-%d:and-a-hash-of-the-password", i)}})
		}
		return acl
	}
	size := bytesOf(list(1, entries))
	w.apply(1, datatree.Op{Kind: datatree.OpCreate, Path: "/a", ACL: list(0, entries)})
	for i := range 100 {
		w.apply(1, datatree.Op{Kind: datatree.OpSetACL, Path: "/a", ACL: list(i, entries)})
		kept := 0
		for _, c := range w.history.mu.chunks {
			for _, list := range c.acls {
				kept += bytesOf(list)
			}
		}
		if got, most := w.history.Bytes(), limit+2*(limit/minParts+2*size+chunkBytes); got > most || got < kept {
			t.Fatalf("%d bytes, with lists of %d; %d are allowed", got, kept, most)
		}
	}
	if oldest, last := w.history.Span(); int(last-oldest)*2*size < limit/4 {
		t.Errorf("%d changes are kept", last-oldest)
	}

	w = newWorld(limit)
	for i := range 4 {
		w.apply(1, datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/%d", i), ACL: list(i, 10)})
	}
	before := w.history.Bytes()
	for i := range 40 {
		w.apply(1, datatree.Op{Kind: datatree.OpSetData, Path: fmt.Sprintf("/%d", i%4)})
	}
	if grown := w.history.Bytes() - before; grown > bytesOf(list(1, 10)) {
		t.Errorf("40 changes of 4 znodes take %d bytes more, which has their lists again", grown)
	}
}

func BenchmarkAdd(b *testing.B) {
	w := newWorld(16 << 20)
	w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/jobs/report-000001"})
	txn := &datatree.Txn{Zxid: 2, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: make([]byte, 100)}}}
	out := datatree.Applied{Results: []datatree.Result{{Data: txn.Ops[0].Data}}, Events: []datatree.Event{{Type: jute.EventDataChanged, Path: "/a"}}}
	b.ReportAllocs()
	for b.Loop() {
		txn.Zxid++
		w.history.Add(txn, &out, txn.Zxid)
	}
}

// TestSpareChunkHoldsNothing: an old chunk that will be filled again keeps none of the tree's data.
func TestSpareChunkHoldsNothing(t *testing.T) {
	at := &chunk{acls: [][]jute.ACL{{{Perms: 1}}}, data: [][]byte{{1}, {2}}}
	at.emptied()
	for _, b := range at.data[:cap(at.data)] {
		if b != nil {
			t.Errorf("it holds %v", b)
		}
	}
	if acls := at.acls[:cap(at.acls)]; acls[0] != nil {
		t.Errorf("it holds %v", acls)
	}
}
