package feed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Readers yield what concerns them, each change once in its order, and say which ends its transaction. When
// one loses its place, or begins again after such a change, nothing is missed.
func TestReader(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+6; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(200_000)
		path := pickPath(r)
		after, compacted, again := jute.Zxid(0), 0, 0
		reader, err := w.history.Reader(path, after, everybody)
		if err != nil {
			t.Fatal(err)
		}
		var got []jute.Change // not confirmed by the end of a transaction
		read := func() {
			if reader == nil || r.IntN(20) == 0 {
				again++
				if reader, err = w.history.Reader(path, after, everybody); err != nil {
					compacted++
					_, after = w.history.Span()
					return
				}
				got = nil
			}
			err = reader.Next(func(c *jute.Change, ends bool) {
				if got = append(got, *c); !ends {
					return
				}
				want := w.changes(path, after, c.Zxid)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: after %v up to %v:\n%v\nwant\n%v", seed, after, c.Zxid, got, want)
				}
				after, got = c.Zxid, nil
			})
			var gone *jute.CompactedError
			if errors.As(err, &gone) {
				reader = nil
			}
		}
		w.slice = read
		for range 3000 {
			w.randomTxn(r)
			if r.IntN(3) == 0 {
				read()
			}
		}
		for reader == nil || len(w.changes(path, after, w.zxid)) > 0 {
			read()
		}
		if again < 10 {
			t.Errorf("seed %d: began %d times, and lacked changes %d times", seed, again, compacted)
		}
	}
}

func pickPath(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return "/"
	}
	return fmt.Sprintf("/%d", r.IntN(12))
}

func everybody([]jute.ACL) bool { return true }

// changes returns those of a znode, or of all, after a zxid up to another one.
func (w *world) changes(path string, after, last jute.Zxid) (list []jute.Change) {
	for _, c := range w.all[w.upTo(after):w.upTo(last)] {
		if path == "/" || path == c.Path {
			list = append(list, c.Change)
		}
	}
	return list
}

// A transaction that a reader gets in part does not end, whether the rest is published later or never seen.
func TestReaderWithinATransaction(t *testing.T) {
	for _, name := range []string{"published later", "forgotten"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(64 << 10)
			var ops []datatree.Op
			for i := range 10 {
				ops = append(ops, datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/%d", i), Owner: 1})
			}
			w.apply(1, datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: 1000})
			w.apply(1, ops...)
			reader, err := w.history.Reader("/", 2, everybody)
			if err != nil {
				t.Fatal(err)
			}
			var ends []bool
			read := func() error { return reader.Next(func(_ *jute.Change, end bool) { ends = append(ends, end) }) }
			w.slice = func() {
				if err := read(); err != nil || slices.Contains(ends, true) {
					t.Errorf("within the transaction: %v, %v", ends, err)
				}
			}
			w.apply(1, datatree.Op{Kind: datatree.OpCloseSession})
			want := slices.Repeat([]bool{false}, 9)
			if name == "forgotten" {
				for i := range 20 {
					w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/a%d", i), Data: make([]byte, 10_000)})
				}
			} else {
				want = append(want, true)
			}
			var gone *jute.CompactedError
			if err := read(); errors.As(err, &gone) != (name == "forgotten") || !slices.Equal(ends, want) {
				t.Errorf("%v, %v", ends, err)
			}
		})
	}
}
