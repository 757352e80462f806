package zab

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestCommonPoint compares the result of the tables with the longest common prefix of
// random histories that obey log matching: each grows from a prefix of an existing one.
func TestCommonPoint(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		histories := [][]jute.Zxid{nil}
		for epoch := uint32(r.IntN(2)); epoch < 12; epoch++ {
			from := histories[r.IntN(len(histories))]
			led := append(slices.Clone(from), jute.MakeZxid(epoch, 0)) // the leader's history in this epoch
			for c := range uint32(r.IntN(4)) {
				led = append(led, jute.MakeZxid(epoch, c+1))
			}
			for range 3 { // followers have a prefix of it
				histories = append(histories, led[:len(from)+1+r.IntN(len(led)-len(from))])
			}
		}
		for range 100 {
			a, b := histories[r.IntN(len(histories))], histories[r.IntN(len(histories))]
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			want := jute.Zxid(0)
			if n > 0 {
				want = a[n-1]
			}
			if got := commonPoint(table(a), table(b)); got != want {
				t.Fatalf("seed %d: %v and %v have %v in common, got %v", seed, a, b, want, got)
			}
		}
	}
}

func table(history []jute.Zxid) []EpochEnd {
	var s State
	for _, z := range history {
		s.extend(z)
	}
	return s.Epochs
}

// TestQuorumsIntersect: any two quorums of a configuration have a server in common, for any
// weights and groups; and the plain majority is counted as by hand.
func TestQuorumsIntersect(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := Members{Hierarchical: seed%2 == 0}
		for id := range SID(1 + r.IntN(7)) {
			m.List = append(m.List, Member{ID: id + 1, Observer: r.IntN(4) == 0, Weight: uint32(r.IntN(4)), Group: uint32(r.IntN(3))})
		}
		var quorums []uint
		for set := range uint(1) << len(m.List) {
			in := func(id SID) bool { return set>>(id-1)&1 == 1 }
			got := m.Quorum(in)
			if !m.Hierarchical {
				all, have := 0, 0
				for _, one := range m.List {
					if !one.Observer {
						all++
						if in(one.ID) {
							have++
						}
					}
				}
				if want := 2*have > all; got != want {
					t.Fatalf("%+v: %b: got %v", m.List, set, got)
				}
			}
			if got {
				quorums = append(quorums, set)
			}
		}
		for _, a := range quorums {
			for _, b := range quorums {
				common := false
				for i := range m.List {
					common = common || a&b>>i&1 == 1 && m.Voter(m.List[i].ID)
				}
				if !common {
					t.Fatalf("%+v: quorums %b and %b have no voter in common", m.List, a, b)
				}
			}
		}
	}
}

// TestHierarchicalQuorum: the example in ZooKeeper's documentation, three groups of three
// servers each, and one group of weight 0.
func TestHierarchicalQuorum(t *testing.T) {
	m := Members{Hierarchical: true}
	for id := range SID(9) {
		m.List = append(m.List, Member{ID: id + 1, Weight: 1, Group: uint32(id/3) + 1})
	}
	m.List = append(m.List, Member{ID: 10, Group: 4})
	for _, test := range []struct {
		ids  []SID
		want bool
	}{
		{[]SID{1, 2, 4, 5}, true},
		{[]SID{1, 2, 4, 7}, false},
		{[]SID{1, 2, 3, 4, 7, 10}, false},
		{[]SID{1, 2, 3, 8, 9}, true},
		{nil, false},
	} {
		if got := m.Quorum(func(id SID) bool { return slices.Contains(test.ids, id) }); got != test.want {
			t.Errorf("%v: got %v", test.ids, got)
		}
	}
	if m.Voter(10) {
		t.Error("a server without weight may be elected")
	}
}

// TestStateApply: entries must chain; an entry that does not changes nothing.
func TestStateApply(t *testing.T) {
	entries := samples()[4].Entries
	var s State
	s.skipTo(7)
	for i := range entries {
		if i == 2 {
			for _, bad := range []Entry{
				{Zxid: entries[2].Zxid, Prev: 1}, {Zxid: entries[2].Zxid + 1, Prev: entries[1].Zxid},
				{Zxid: jute.MakeZxid(4, 1), Prev: entries[1].Zxid}, {Zxid: jute.MakeZxid(4, 0), Prev: entries[1].Zxid, Type: EntryMarker, Data: []byte{1}},
				{Zxid: entries[2].Zxid, Prev: entries[1].Zxid, Type: 9},
			} {
				before := fmt.Sprint(s)
				if err := s.Apply(&bad); err == nil || fmt.Sprint(s) != before {
					t.Errorf("%+v: error %v, state %v", bad, err, s)
				}
			}
		}
		if err := s.Apply(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	m := sampleMembers()
	m.Version = jute.MakeZxid(3, 5)
	want := State{Zxid: jute.MakeZxid(3, 5), Init: ClusterInit{Cluster: ID{7}, Secret: [32]byte{8}}, Epochs: []EpochEnd{{0, 7}, {3, 5}},
		Members: &m, Admitted: []Admission{{1, ID{1}}, {2, ID{2}}, {3, ID{3}}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// TestCache compares the cache with a dumb twin, a slice.
func TestCache(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var q cache
		var twin []Entry
		last := jute.Zxid(0)
		for range 3000 {
			switch n := r.IntN(100); {
			case n < 90:
				e := Entry{Zxid: last + 1 + jute.Zxid(r.IntN(2)), Prev: last}
				q.append(e)
				twin = append(twin, e)
				last = e.Zxid
			case n < 97 && len(twin) > 0:
				q.drop()
				twin = twin[1:]
			case n < 98 && len(twin) > 0:
				z := twin[r.IntN(len(twin))].Zxid
				held, _ := q.run(q.firstAbove(z-1), last, 1<<20)
				copied := slices.Clone(held)
				q.truncate(z)
				twin = twin[:slices.IndexFunc(twin, func(e Entry) bool { return e.Zxid == z })+1]
				q.append(Entry{Zxid: z + 3, Prev: z})
				twin = append(twin, Entry{Zxid: z + 3, Prev: z})
				last = z + 3
				if !reflect.DeepEqual(held, copied) {
					t.Fatalf("seed %d: what was handed out changed", seed)
				}
			}
			var got []Entry
			most := r.IntN(100 * entryOverhead)
			for i := 0; i < q.n; {
				run, bytes := q.run(i, last, most)
				if bytes != len(run)*entryOverhead || bytes > most && len(run) > 1 {
					t.Fatalf("seed %d: %d entries of %d bytes where %d fit", seed, len(run), bytes, most)
				}
				got = append(got, run...)
				i += len(run)
			}
			same := func(a, b Entry) bool { return a.Zxid == b.Zxid && a.Prev == b.Prev }
			if !slices.EqualFunc(got, twin, same) || q.bytes != len(twin)*entryOverhead {
				t.Fatalf("seed %d: got %d entries of %d bytes, want %d", seed, len(got), q.bytes, len(twin))
			}
		}
	}
}
