package feed

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// reader is the client's end of a feed.
type reader struct {
	t      *testing.T
	feed   *Feed
	ids    []string // which of the users of randomTxn's ACL lists it is
	credit int
	level  bool // it was told that the feed precedes replies
	at     int  // the number of changes, of all, that are past
	events int
}

func (r *reader) mayRead(acl []jute.ACL) bool {
	return slices.ContainsFunc(acl, func(a jute.ACL) bool { return slices.Contains(r.ids, a.ID.ID) })
}

// wants reports the same as the feed has to, in an obvious way.
func (r *reader) wants(c *change) bool {
	q := &r.feed.request
	path, root := c.Path+"/", strings.TrimSuffix(q.Path, "/")+"/"
	if path != root && !(q.Recursive && strings.HasPrefix(path, root)) && !(c.Path == "/" && q.Path == "/") {
		return false
	}
	return (q.Kinds == 0 && c.Kind != jute.ChangeChildren || q.Kinds&jute.ChangeKindsOf(c.Kind) != 0) && (r.mayRead(c.ACL) || c.Kind == jute.ChangeACL && r.mayRead(c.Other))
}

// next takes the next event, and reports whether there was one. It returns an error if that ends
// the feed.
func (r *reader) next(w *world) (some bool, err error) {
	r.t.Helper()
	frame := r.feed.Append([]byte("before"), r.mayRead)[len("before"):]
	if len(frame) == 0 {
		return false, nil
	}
	r.events++
	had := r.credit
	r.credit -= len(frame) - 4
	d := jute.NewDecoder(frame[4:])
	var h jute.ReplyHeader
	var e jute.FeedEvent
	h.Decode(&d)
	e.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 || h != (jute.ReplyHeader{Xid: jute.XidFeed, Zxid: e.Zxid}) || e.Feed != r.feed.ID() {
		r.t.Fatalf("event %+v with header %+v: %v, %d bytes left", e, h, d.Err(), len(d.Rest()))
	}
	if had <= 0 && (!r.level || e.Level || len(e.Changes) > 0) {
		r.t.Fatalf("an event with a credit of %d: %+v", had, e)
	}
	if r.level = e.Level; r.level && r.feed.State() == Current {
		_, last := w.history.Span()
		defer r.past(w, last)
	}
	if e.Compacted {
		return true, &jute.CompactedError{After: r.feed.Zxid(), Oldest: e.Zxid}
	}
	for i := range e.Changes {
		got := &e.Changes[i]
		for r.at < len(w.told) && !r.wants(&w.told[r.at]) {
			r.at++
		}
		if r.at == len(w.told) {
			r.t.Fatalf("got %+v, and there is nothing more", got)
		}
		want := w.told[r.at].Change
		if !r.feed.request.Data {
			want.Data = nil
		}
		if !r.mayRead(w.told[r.at].ACL) {
			want.Stat = jute.Stat{}
		}
		if !reflect.DeepEqual(*got, want) {
			r.t.Fatalf("got\n%+v\nwant\n%+v", *got, want)
		}
		r.at++
	}
	r.past(w, e.Zxid)
	return true, nil
}

// past checks that nothing is wanted up to zxid that has not come.
func (r *reader) past(w *world, zxid jute.Zxid) {
	r.t.Helper()
	for upTo := upTo(w.told, zxid); r.at < upTo; r.at++ {
		if r.wants(&w.told[r.at]) {
			r.t.Fatalf("everything up to %v should have come; %+v lacks", zxid, w.told[r.at])
		}
	}
}

// TestFeeds follows random histories with random feeds, whose clients give little credit now and
// then.
func TestFeeds(t *testing.T) {
	first := seeds.First(t)
	compacted, events := 0, 0
	for seed := first; seed < first+6; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, e := randomFeeds(t, rand.New(rand.NewPCG(seed, 1)))
			compacted, events = compacted+c, events+e
		})
	}
	if compacted == 0 || events < 1800 {
		t.Errorf("%d feeds ended, after %d events", compacted, events)
	}
}

func randomFeeds(t *testing.T, r *rand.Rand) (compacted, events int) {
	w := newWorld(60_000)
	var readers []*reader
	begin := func(after jute.Zxid) {
		q := jute.SubscribeRequest{
			Path: fmt.Sprintf("/%d", r.IntN(12)), Recursive: r.IntN(2) == 0, After: after, Data: r.IntN(2) == 0,
			Kinds: jute.ChangeKinds(r.IntN(32)), Credit: int32(r.IntN(3000)), Feed: r.Int32(),
		}
		if r.IntN(2) == 0 {
			q.Path, q.Recursive = "/", true
		}
		f, err := w.history.Subscribe(&q, w.zxid)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, &reader{t: t, feed: f, ids: []string{"0", "1"}, credit: int(q.Credit), at: upTo(w.told, f.Zxid())})
	}
	read := func() {
		i := r.IntN(len(readers))
		rd := readers[i]
		if r.IntN(1+i%2*40) == 0 { // every second one is slow
			more := r.Int32N(20_000)
			if rd.feed.Grant(more) == nil {
				rd.credit += int(more)
			}
		}
		some, err := true, error(nil)
		for n := r.IntN(5); n > 0 && some && err == nil; n-- {
			if some, err = rd.next(w); some {
				events++
			}
		}
		switch state := rd.feed.State(); {
		case err != nil:
			if compacted++; state != Ended || len(rd.feed.Append(nil, rd.mayRead)) > 0 {
				t.Fatalf("state %v after the end", state)
			}
			readers = slices.Delete(readers, i, i+1)
			begin(jute.FromNow)
		case !some && state == Current:
			_, last := w.history.Span()
			rd.past(w, last)
		case state == Waiting && rd.credit > 0:
			t.Fatalf("a feed with a credit of %d waits for some", rd.credit)
		}
	}
	for range 4 {
		begin(0)
	}
	w.slice = read
	for range 6000 {
		w.randomTxn(r)
		if r.IntN(3) == 0 {
			read()
		}
	}
	return compacted, events
}

// A feed without changes says from time to time how far it is, so that it can be resumed there.
func TestFeedSaysHowFar(t *testing.T) {
	w := newWorld(1 << 20)
	f, err := w.history.Subscribe(&jute.SubscribeRequest{Path: "/none", Credit: 1 << 20}, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, feed: f, credit: 1 << 20}
	w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	for range 40_000 {
		w.apply(0, datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: make([]byte, 100), Version: -1})
		if _, err := r.next(w); err != nil {
			t.Fatal(err)
		}
	}
	oldest, _ := w.history.Span()
	if oldest == 0 || f.Zxid() != w.zxid || r.events < minParts || r.events > 10*minParts {
		t.Errorf("%d events, the oldest zxid is %v", r.events, oldest)
	}
}

// TestFrameAfterOthers: what a buffer has already does not count for how long a frame may be.
func TestFrameAfterOthers(t *testing.T) {
	w := newWorld(1 << 20)
	for i := range 10 {
		w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprint("/", i)})
	}
	var want []byte
	for _, had := range []int{0, 16 << 20} {
		f, err := w.history.Subscribe(&jute.SubscribeRequest{Path: "/", Recursive: true, Credit: 1 << 20}, 0)
		if err != nil {
			t.Fatal(err)
		}
		frame := f.Append(make([]byte, had), func([]jute.ACL) bool { return true })[had:]
		if want == nil {
			want = frame
		}
		if len(frame) == 0 || !bytes.Equal(frame, want) {
			t.Errorf("after %d bytes: a frame of %d bytes, want %d", had, len(frame), len(want))
		}
	}
}

// A transaction that is longer than an event comes in several, of which the last one has its zxid.
func TestLongTransaction(t *testing.T) {
	w := newWorld(16 << 20)
	ops := make([]datatree.Op, 2000)
	for i := range ops {
		ops[i] = datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/%04d", i), Data: make([]byte, 100), ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{ID: "0"}}}}
	}
	w.apply(0, ops...)
	f, err := w.history.Subscribe(&jute.SubscribeRequest{Path: "/", Recursive: true, Data: true, Credit: jute.MaxFeedCredit}, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, feed: f, credit: jute.MaxFeedCredit, ids: []string{"0"}}
	for f.State() == Behind {
		if f.Zxid() != 0 {
			t.Errorf("the feed is at %v after %d changes", f.Zxid(), r.at)
		}
		if _, err := r.next(w); err != nil {
			t.Fatal(err)
		}
	}
	if r.at != 4000 || f.Zxid() != 1 || r.events < 4 || f.State() != Current {
		t.Errorf("%d changes in %d events, up to %v", r.at, r.events, f.Zxid())
	}
}

func TestSubscribeRefuses(t *testing.T) {
	h := New(1<<20, 100)
	good := jute.SubscribeRequest{Path: "/a", After: 100, Kinds: 31, Credit: jute.MaxFeedCredit}
	f, err := h.Subscribe(&good, 200)
	if err != nil || f.Zxid() != 100 {
		t.Fatalf("%+v: %v", good, err)
	}
	if f.Grant(1) != jute.ErrBadArguments || f.Grant(-1) != jute.ErrBadArguments || f.Grant(0) != nil {
		t.Error("more credit than there may be")
	}
	for name, change := range map[string]func(*jute.SubscribeRequest){
		"no path":         func(r *jute.SubscribeRequest) { r.Path = "" },
		"relative path":   func(r *jute.SubscribeRequest) { r.Path = "a" },
		"path with an /":  func(r *jute.SubscribeRequest) { r.Path = "/a/" },
		"before now":      func(r *jute.SubscribeRequest) { r.After = -2 },
		"unknown kinds":   func(r *jute.SubscribeRequest) { r.Kinds = 32 },
		"too much credit": func(r *jute.SubscribeRequest) { r.Credit++ },
		"negative credit": func(r *jute.SubscribeRequest) { r.Credit = -1 },
	} {
		r := good
		change(&r)
		if _, err := h.Subscribe(&r, 200); err != jute.ErrBadArguments {
			t.Errorf("%s: error %v", name, err)
		}
	}
	now := good
	now.After = jute.FromNow
	if f, err := h.Subscribe(&now, 200); err != nil || f.Zxid() != 200 {
		t.Errorf("from now: %v", err)
	}
	old := good
	old.After = 99
	var gone *jute.CompactedError
	if _, err := h.Subscribe(&old, 200); !errors.As(err, &gone) || gone.Oldest != 100 {
		t.Errorf("compacted: %v", err)
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		path, changed string
		node, below   bool
	}{
		{"/", "/", true, true}, {"/", "/a", false, true}, {"/", "/a/b", false, true},
		{"/a", "/a", true, true}, {"/a", "/a/b", false, true}, {"/a", "/ab", false, false}, {"/a", "/", false, false}, {"/a/b", "/a", false, false},
	} {
		if Below(tt.path, []byte(tt.changed), false) != tt.node || Below(tt.path, []byte(tt.changed), true) != tt.below {
			t.Errorf("%s of %s", tt.changed, tt.path)
		}
	}
}

// BenchmarkFeed shows what a feed costs for each change that it does not want, and for each that it
// sends.
func BenchmarkFeed(b *testing.B) {
	for _, path := range []string{"/none", "/jobs"} {
		b.Run("path="+path[1:], func(b *testing.B) {
			w := newWorld(64 << 20)
			f, err := w.history.Subscribe(&jute.SubscribeRequest{Path: path, Recursive: true, Data: true}, 0)
			if err != nil {
				b.Fatal(err)
			}
			stat, acl := jute.Stat{}, []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
			txn := &datatree.Txn{Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/jobs/report-000001", Data: make([]byte, 100)}}}
			events := []datatree.Event{{Type: jute.EventDataChanged, Path: txn.Ops[0].Path, ACL: acl}}
			out := datatree.Applied{Results: []datatree.Result{{Stat: stat}}, Events: events}
			var frame []byte
			b.ReportAllocs()
			for b.Loop() {
				txn.Zxid++
				w.history.Add(txn, &out, txn.Zxid)
				f.credit = 1 << 20
				frame = f.Append(frame[:0], func([]jute.ACL) bool { return true })
			}
		})
	}
}
