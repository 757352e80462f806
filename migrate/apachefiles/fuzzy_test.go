package apachefiles

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// world is a server of Apache's as a test imitates it: a state that changes by transactions, and
// snapshots that are written meanwhile.
type world struct {
	r    *rand.Rand
	old  bool  // before 3.6: no digests, and closeSession does not list the ephemerals
	tree *Tree // exact
	log  []byte
}

func newWorld(r *rand.Rand) *world {
	w := &world{r: r, tree: freshTree(), log: logHeader()}
	var sum Summary
	w.tree.Last = 0
	if err := w.tree.finish(&sum); err != nil {
		panic(err)
	}
	return w
}

// step applies a random transaction and logs it.
func (w *world) step() {
	session := jute.SessionID(1 + w.r.IntN(3))
	zxid := w.tree.Last + 1
	b := w.transaction(session, zxid)
	x, err := DecodeTxn(b)
	if err != nil {
		panic(fmt.Sprintf("%x: %v", b, err))
	}
	w.tree.apply(x)
	if !w.old && w.r.IntN(10) > 0 { // else the settings of the server had changed
		b = b.int(2).long(int64(w.tree.digest))
	}
	w.log = appendRecord(w.log, b)
	if w.r.IntN(20) == 0 { // a follower may log a transaction again
		w.log = appendRecord(w.log, b)
	}
}

var testACLs = [][]jute.ACL{openACL, {{Perms: 1, ID: jute.WorldAnyone}}, {{Perms: 31, ID: jute.ID{Scheme: "auth", ID: ""}}},
	{{Perms: 3, ID: jute.ID{Scheme: "digest", ID: "a:b"}}, {Perms: 1, ID: jute.WorldAnyone}}}

// transaction returns a random transaction that is possible in the exact state.
func (w *world) transaction(session jute.SessionID, zxid jute.Zxid) body {
	if _, alive := w.tree.Sessions[session]; !alive {
		return header(session, zxid, txnCreateSession).int(4000)
	}
	path := "/" + string(rune('a'+w.r.IntN(2)))
	for range w.r.IntN(3) {
		path += "/" + string(rune('a'+w.r.IntN(2)))
	}
	dir, _ := split(path)
	n, parent := w.tree.find(path), w.tree.find(dir)
	acl := testACLs[w.r.IntN(len(testACLs))]
	switch data := []byte(fmt.Sprint(zxid)); {
	case w.r.IntN(12) == 0:
		paths := slices.Sorted(maps.Keys(w.tree.ephemerals[session]))
		b := header(session, zxid, txnCloseSession)
		if len(paths) > 0 && !w.old {
			b = append(b, jute.AppendStrings(nil, paths)...)
		}
		return b
	case n == nil && parent != nil && !parent.Owner.Ephemeral():
		b := header(session, zxid, []int32{txnCreate, txnCreate2, txnCreateContainer, txnCreateTTL}[w.r.IntN(4)])
		kind := int32(b[len(b)-1])
		b = b.str(path).bytes(data).acls(acl)
		if kind == txnCreate || kind == txnCreate2 {
			b = b.bool(w.r.IntN(2) == 0)
		}
		if b = b.int(parent.Cversion + 1); kind == txnCreateTTL {
			b = b.long(60000)
		}
		return b
	case n == nil:
		return header(session, zxid, txnError).int(-101)
	case len(n.children) == 0 && w.r.IntN(2) == 0:
		return header(session, zxid, txnDelete).str(path)
	case w.r.IntN(2) == 0:
		return header(session, zxid, txnSetACL).str(path).acls(acl).int(n.Aversion + 1)
	}
	return header(session, zxid, txnSetData).str(path).bytes([]byte(fmt.Sprint(zxid))).int(n.Version + 1)
}

// snapshot writes a snapshot as Apache's server does: the tables first, and then each node with
// the names of its children at that moment, while up to n transactions are applied in between.
func (w *world) snapshot(n int) []byte {
	b := jute.AppendInt64(jute.AppendInt32(jute.AppendInt32([]byte(nil), int32(snapshotMagic)), int32(fileVersion)), int64(-1))
	b = jute.AppendInt32(b, int32(len(w.tree.Sessions)))
	for id, timeout := range w.tree.Sessions {
		b = jute.AppendInt32(jute.AppendInt64(b, id), timeout)
	}
	lists := &aclNumbers{numbers: make(map[string]int64)}
	// fn returns none
	w.tree.Walk(func(_ string, n *Node) error {
		lists.number(n.ACL)
		return nil
	})
	b = append(b, lists.table()...)
	var visit func(path string)
	visit = func(path string) {
		node := w.tree.find(path)
		if node == nil {
			return
		}
		b = appendNode(b, path, node, lists.number(node.ACL))
		for _, name := range slices.Sorted(maps.Keys(node.children)) {
			for ; n > 0 && w.r.IntN(8) > 0; n-- {
				w.step()
			}
			visit(path + "/" + name)
		}
	}
	visit("")
	b = jute.AppendString(b, "/")
	for ; n > 0; n-- {
		w.step()
	}
	last := w.tree.Last
	digest := w.tree.digest
	b = appendSeal(b, checksum(b))
	b = jute.AppendInt64(jute.AppendInt32(jute.AppendInt64(b, last), int32(2)), int64(digest))
	return appendSeal(b, checksum(b))
}

// TestFuzzySnapshots replays logs over snapshots that were written meanwhile. The result is the
// state of the server, whatever the snapshot has caught.
func TestFuzzySnapshots(t *testing.T) {
	repaired := 0
	first := seeds.First(t)
	for seed := first; seed < first+600; seed++ {
		w := newWorld(rand.New(rand.NewPCG(seed, 1)))
		for range 40 {
			w.step()
		}
		label := w.tree.Last
		meanwhile := w.r.IntN(80)
		if w.old = seed%8 == 0; w.old {
			meanwhile = 0 // such a log can't repair each Pzxid
		}
		snap := w.snapshot(meanwhile)
		for range w.r.IntN(10) {
			w.step()
		}
		d := newDir(t)
		d.write(fmt.Sprintf("snapshot.%x", int64(label)), snap)
		d.write("log.1", w.log)
		got, sum, err := d.load(Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var want Summary
		if err := w.tree.finish(&want); err != nil {
			t.Fatal(err)
		}
		if got, want := got.String(), w.tree.String(); got != want {
			t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
		}
		if sum.Digests > 0 {
			repaired++
		}
	}
	if repaired == 0 {
		t.Error("no digest was ever compared")
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("got\n%s\nwant\n%s", g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestFuzzyState reads states as a leader sends them, applies what it sends after them, and
// compares the result with the leader's state. Some of the transactions are in the state already.
func TestFuzzyState(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+300; seed++ {
		w := newWorld(rand.New(rand.NewPCG(seed, 2)))
		for range 40 {
			w.step()
		}
		label, before := w.tree.Last, len(w.log)
		b := w.snapshot(w.r.IntN(80))
		body := b[fileHeader : len(b)-(8+4+8)-2*sealSize]
		sent := append(slices.Clone(body), jute.AppendString(nil, stateEnd)...)
		f, rest, err := ReadFuzzy(bytes.NewReader(append(sent, "and more"...)), label)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if more, err := io.ReadAll(rest); err != nil || string(more) != "and more" {
			t.Fatalf("seed %d: %q follows, %v", seed, more, err)
		}
		for at := before; at < len(w.log); {
			n := int(binary.BigEndian.Uint32(w.log[at+8:]))
			x, err := DecodeTxn(w.log[at+recordHeader:][:n])
			if err != nil {
				t.Fatal(err)
			}
			f.Apply(x)
			at += recordHeader + n + 1
		}
		got, _, err := f.Finish()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := w.tree.finish(&Summary{}); err != nil {
			t.Fatal(err)
		}
		if got, want := got.String(), w.tree.String(); got != want {
			t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
		}
		for _, n := range []int{0, 3, len(sent) / 2, len(sent) - 1} {
			if _, _, err := ReadFuzzy(bytes.NewReader(sent[:n]), label); err == nil {
				t.Fatalf("seed %d: a state that was cut to %d bytes is accepted", seed, n)
			}
		}
	}
}

// TestTail reads the end of a log, after each of its transactions.
// TestFilesThatChange checks that a server whose files change while they are read is refused: it runs.
func TestFilesThatChange(t *testing.T) {
	w := newWorld(rand.New(rand.NewPCG(1, 3)))
	for range 30 {
		w.step()
	}
	snap := w.snapshot(0)
	half := len(w.log)
	for range 30 {
		w.step()
	}
	for name, read := range map[string]func(*Server) error{
		"load": func(s *Server) error { _, _, err := s.Load(Options{}); return err },
		"tail": func(s *Server) error { return s.Tail(40, func(*Txn) error { return nil }) },
	} {
		for file, more := range map[string][]byte{"log.1f": append(logHeader(), w.log[half:]...), "log.100000001": logHeader(), "snapshot.100000000": snap} {
			d := newDir(t)
			d.write("snapshot.1e", snap)
			d.write("log.1", w.log[:half])
			d.write("log.1f", append(logHeader(), w.log[half:]...))
			s, err := Find(d.path, "")
			d.check(err)
			d.check(read(s))
			d.write(file, append(more, 0))
			if err := read(s); err == nil || !strings.Contains(err.Error(), "have changed while they were read") {
				t.Errorf("%s, when %s is written: %v", name, file, err)
			}
		}
	}
}

func TestTail(t *testing.T) {
	w := newWorld(rand.New(rand.NewPCG(1, 3)))
	for range 30 {
		w.step()
	}
	snap := w.snapshot(0)
	half := len(w.log)
	for range 30 {
		w.step()
	}
	d := newDir(t)
	d.write("snapshot.1e", snap)
	d.write("log.1", w.log[:half])
	d.write("log.1f", append(logHeader(), w.log[half:]...))
	s, err := Find(d.path, "")
	d.check(err)
	if s.Last() != 60 {
		t.Fatalf("the last transaction is %v", s.Last())
	}
	for after := jute.Zxid(0); after <= 60; after++ {
		next := after + 1
		err := s.Tail(after, func(x *Txn) error {
			if x.Zxid != next {
				t.Errorf("after %v: %v instead of %v", after, x.Zxid, next)
			}
			next++
			return nil
		})
		if err != nil || next != 61 {
			t.Errorf("after %v: up to %v, %v", after, next-1, err)
		}
	}
	d.check(os.Remove(filepath.Join(d.path, "version-2", "log.1")))
	s, err = Find(d.path, "")
	d.check(err)
	if err := s.Tail(20, func(*Txn) error { return nil }); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a log that does not reach back: %v", err)
	}
	if err := s.Tail(30, func(*Txn) error { return nil }); err != nil {
		t.Error(err)
	}
}
