package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// entriesOf makes a history of random creates, sets and deletes, some of which have much data.
func entriesOf(rng *rand.Rand, n int) (list []zab.Entry) {
	for i := range n {
		zxid := jute.Zxid(i + 1)
		op := datatree.Op{Kind: datatree.OpCreate + datatree.OpKind(rng.IntN(3)), Path: fmt.Sprintf("/%d", rng.IntN(100)), Data: make([]byte, rng.IntN(100))}
		if rng.IntN(100) == 0 {
			op.Data = make([]byte, 5*batchBytes)
		}
		for i := range op.Data {
			op.Data[i] = byte(zxid)
		}
		switch op.Kind {
		case datatree.OpCreate:
			op.ACL = []jute.ACL{{Perms: jute.Perms(1 + rng.IntN(3)), ID: jute.WorldAnyone}}
		case datatree.OpDelete:
			op.Data = nil
		}
		txn := datatree.Txn{Zxid: zxid, Session: 1, Ops: []datatree.Op{op}}
		list = append(list, zab.Entry{Zxid: zxid, Prev: zxid - 1, Data: txn.Append(nil)})
	}
	return list
}

// TestLargeCloseIsReplayedInParts checks that the paths of a session's ephemerals are not all in memory when its close is
// replayed.
func TestLargeCloseIsReplayedInParts(t *testing.T) {
	const nodes = 2*atOnce + 10
	s := &State{Tree: datatree.New()}
	zxid, deleted, before := jute.Zxid(0), 0, jute.Zxid(0)
	s.Applied = func(txn *datatree.Txn, out *datatree.Applied) {
		for _, e := range out.Events {
			if e.Type == jute.EventDeleted {
				deleted++
			}
		}
		if len(out.Events) > 2*atOnce || deleted < nodes && s.Tree.LastZxid() == zxid && len(txn.Ops) == 1 && txn.Ops[0].Kind == datatree.OpCloseSession {
			t.Errorf("%d events at a time, and the tree is at %v", len(out.Events), s.Tree.LastZxid())
		}
		before = s.Tree.LastZxid()
	}
	apply := func(ops ...datatree.Op) {
		zxid++
		txn := datatree.Txn{Zxid: zxid, Session: 1, Multi: len(ops) > 1, Ops: ops}
		if err := s.Apply(&zab.Entry{Zxid: zxid, Prev: zxid - 1, Data: txn.Append(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	apply(datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: 1000})
	for i := 0; i < nodes; i += 10 {
		var ops []datatree.Op
		for j := range min(10, nodes-i) {
			ops = append(ops, datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/%05d", i+j), Owner: jute.OwnerSession(1), Cversion: int32(i + j + 1)})
		}
		apply(ops...)
	}
	apply(datatree.Op{Kind: datatree.OpCloseSession})
	if st := s.Tree.Stats(); deleted != nodes || before != zxid || st.Ephemerals+st.Sessions > 0 || st.Skipped > 0 {
		t.Errorf("%d deleted of %d, at %v of %v, %+v", deleted, nodes, before, zxid, st)
	}
}

// TestReplay compares Replay with applying the entries one by one. As the log does, read uses the memory of an
// entry again for the next one.
func TestReplay(t *testing.T) {
	seed := seeds.First(t)
	batches := 20
	if testing.Short() {
		batches = 7 // more than can wait
	}
	list := entriesOf(rand.New(rand.NewPCG(seed, 1)), batches*batchEntries+7)
	type applied struct {
		zxid jute.Zxid
		what string
	}
	run := func(apply func(*State) error) (s *State, seen []applied) {
		s = &State{Tree: datatree.New()}
		s.Applied = func(txn *datatree.Txn, out *datatree.Applied) {
			seen = append(seen, applied{txn.Zxid, fmt.Sprintf("%+v %+v", txn.Ops[0].Path, out.Results)})
		}
		if err := apply(s); err != nil {
			t.Fatalf("seed %#x: %v", seed, err)
		}
		return s, seen
	}
	one, inOrder := run(func(s *State) (err error) {
		for i := range list {
			err = errors.Join(err, s.Apply(&list[i]))
		}
		return err
	})
	two, seen := run(func(s *State) error {
		n, err := s.Replay(func(add func(*zab.Entry) error) error {
			var data []byte
			for _, e := range list {
				data = append(data[:0], e.Data...)
				e.Data = data
				if err := add(&e); err != nil {
					return err
				}
			}
			return nil
		})
		if n != int64(len(list)) {
			t.Errorf("%d entries are applied, not %d", n, len(list))
		}
		return err
	})
	if one.Tree.Digest() != two.Tree.Digest() || one.Tree.LastZxid() != two.Tree.LastZxid() {
		t.Errorf("seed %#x: the trees differ", seed)
	}
	if !slices.Equal(inOrder, seen) {
		t.Errorf("seed %#x: %d transactions were seen, which differ from the %d applied", seed, len(seen), len(inOrder))
	}
}

// TestReplayEnds has Replay meet an entry that can't be decoded or applied, and a log that can't be read.
func TestReplayEnds(t *testing.T) {
	list := entriesOf(rand.New(rand.NewPCG(1, 2)), 10*batchEntries)
	errRead := errors.New("the disk is broken")
	for _, bad := range []int{0, 1, batchEntries - 1, batchEntries, 9*batchEntries + 3} {
		for _, tt := range []struct {
			name  string
			entry zab.Entry
			read  bool // fails there
			want  string
		}{
			{name: "no transaction", entry: zab.Entry{Data: []byte("x")}, want: fmt.Sprintf("transaction %v: decode txn", jute.Zxid(bad+1))},
			{name: "no marker", entry: zab.Entry{Type: zab.EntryMarker, Data: []byte("x")}, want: fmt.Sprintf("marker %v: ", jute.Zxid(bad+1))},
			{name: "not read", read: true, want: errRead.Error()},
		} {
			t.Run(fmt.Sprintf("%s, %d", tt.name, bad), func(t *testing.T) {
				s := State{Tree: datatree.New()}
				n, err := s.Replay(func(add func(*zab.Entry) error) error {
					for i, e := range list {
						if i == bad && tt.read {
							return errRead
						} else if i == bad {
							tt.entry.Zxid, tt.entry.Prev = e.Zxid, e.Prev
							e = tt.entry
						}
						if err := add(&e); err != nil {
							return fmt.Errorf("the reader was told: %w", err)
						}
					}
					return nil
				})
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("the error is %v, want %s", err, tt.want)
				}
				if n != int64(bad) || s.Tree.LastZxid() != jute.Zxid(bad) {
					t.Errorf("%d entries are applied, up to %v, not %d", n, s.Tree.LastZxid(), bad)
				}
			})
		}
	}
}

// TestChangeNamesSessionsAsOthersDo has a session with the highest bit, which is not a negative number.
func TestChangeNamesSessionsAsOthersDo(t *testing.T) {
	c := Change{Session: -2}
	if got := c.JSON().Session; got != "0xfffffffffffffffe" {
		t.Errorf("the session is %s", got)
	}
}
