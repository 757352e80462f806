package feed

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// send returns a function for a Set that counts the events of each feed.
func send(events map[int32]int) func(*Feed) bool {
	return func(f *Feed) bool {
		if len(f.Append(nil, func([]jute.ACL) bool { return true })) > 0 {
			events[f.ID()]++
		}
		return true
	}
}

func TestSet(t *testing.T) {
	h := New(1<<20, 5)
	const each = 16
	var s Set
	var p Places
	p.SetLimits(each, 0)
	subscribe := func(feed int32, after jute.Zxid) error {
		_, err := s.Subscribe(h, &p, nil, &jute.SubscribeRequest{Path: "/", Feed: feed, After: after, Credit: 1}, 5)
		return err
	}
	for id := range int32(each) {
		if err := subscribe(id, jute.FromNow); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(id int32) error { return s.Unsubscribe(&jute.UnsubscribeRequest{Feed: id}) }
	grant := func(id, credit int32) error { return s.Grant(&jute.CreditRequest{Feed: id, Credit: credit}) }
	for _, tt := range []struct {
		what      string
		got, want error
	}{
		{"one feed too many", subscribe(99, 5), jute.ErrQuotaExceeded},
		{"credit", grant(3, 7), nil},
		{"too much credit", grant(3, jute.MaxFeedCredit), jute.ErrBadArguments},
		{"credit for no feed", grant(99, 7), jute.ErrNoWatcher},
		{"end of no feed", remove(99), jute.ErrNoWatcher},
		{"end", remove(3), nil},
		{"end again", remove(3), jute.ErrNoWatcher},
		{"a number in use", subscribe(4, 5), jute.ErrBadArguments},
		{"a bad request", subscribe(3, -2), jute.ErrBadArguments},
		{"the number again", subscribe(3, 5), nil},
	} {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	if remove(4) != nil || s.Empty() {
		t.Error("there are feeds left")
	}
	if _, ok := errors.AsType[*jute.CompactedError](subscribe(4, 4)); !ok {
		t.Error("a feed that the history lacks begins")
	}
	s.Close()
	s.Close()
	if got, want := p.Usage(), (Usage{Refused: 1, Compacted: 1}); got != want {
		t.Errorf("in the end %+v, want %+v", got, want)
	}
}

// Sets and other readers share the places of a server. A lower limit takes no place away.
func TestPlaces(t *testing.T) {
	w := newWorld(2000)
	var a, b Set
	var p Places
	p.SetLimits(2, 4)
	subscribe := func(s *Set, feed int32) error {
		_, err := s.Subscribe(w.history, &p, []string{"ip"}, &jute.SubscribeRequest{Path: "/", Recursive: true, Feed: feed, After: jute.FromNow, Credit: 10_000}, w.zxid)
		return err
	}
	var reader *Place
	enters := func(key string) error {
		x := p.Enter(key, []string{"ip"}, func() { t.Errorf("%s gives way", key) })
		if x == nil {
			return jute.ErrQuotaExceeded
		}
		reader = x
		return nil
	}
	check := func(what string, got, want error, usage Usage) {
		t.Helper()
		if got != want || p.Usage() != usage {
			t.Errorf("%s: %v and %+v, want %v and %+v", what, got, p.Usage(), want, usage)
		}
	}
	check("a feed", subscribe(&a, 1), nil, Usage{Open: 1})
	check("a second feed", subscribe(&a, 2), nil, Usage{Open: 2})
	check("one too many for the set", subscribe(&a, 3), jute.ErrQuotaExceeded, Usage{Open: 2, Refused: 1})
	check("another set", subscribe(&b, 1), nil, Usage{Open: 3, Refused: 1})
	check("another reader", enters("1"), nil, Usage{Open: 4, Refused: 1})
	check("one too many for all", subscribe(&b, 2), jute.ErrQuotaExceeded, Usage{Open: 4, Refused: 2})
	check("one more reader", enters("1"), jute.ErrQuotaExceeded, Usage{Open: 4, Refused: 3})
	p.SetLimits(1, 2)
	check("a lower limit", b.Unsubscribe(&jute.UnsubscribeRequest{Feed: 1}), nil, Usage{Open: 3, Refused: 3})
	check("no room under it", subscribe(&b, 2), jute.ErrQuotaExceeded, Usage{Open: 3, Refused: 4})
	p.SetLimits(1, 3)
	p.Leave(reader)
	check("room", subscribe(&b, 2), nil, Usage{Open: 3, Refused: 4})
	for range 10 {
		w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/n" + w.zxid.String(), Data: make([]byte, 1000)})
	}
	b.CatchUp(send(make(map[int32]int))) // nothing, since it has not been level
	for _, f := range b.feeds {
		f.Append(nil, func([]jute.ACL) bool { return true })
	}
	check("a feed that was overrun, and begins before the server has removed it", subscribe(&b, 2), nil, Usage{Open: 3, Refused: 4, Compacted: 1})
	a.Next(send(make(map[int32]int)))
	a.Close()
	b.Close()
	check("the end", nil, nil, Usage{Refused: 4, Compacted: 3})
}

// TestDisplaced: the holder of most feeds gives one up to a holder that would have fewer, and its client gets an event.
func TestDisplaced(t *testing.T) {
	w := newWorld(1 << 20)
	var p Places
	told := 0
	p.Displaced = func() { told++ }
	p.SetLimits(3, 4)
	var a, b, c Set
	subscribe := func(s *Set, id int32, address string) error {
		_, err := s.Subscribe(w.history, &p, []string{address}, &jute.SubscribeRequest{Path: "/", Recursive: true, Feed: id, After: jute.FromNow, Credit: 10_000}, w.zxid)
		return err
	}
	check := func(what string, got, want error, usage Usage) {
		t.Helper()
		if got != want || p.Usage() != usage || int64(told) != usage.Displaced {
			t.Errorf("%s: %v and %+v, %d times told; want %v and %+v", what, got, p.Usage(), told, want, usage)
		}
	}
	for id := range int32(3) {
		check("feeds", subscribe(&a, id, "1"), nil, Usage{Open: int64(id) + 1})
	}
	check("one more of the address", subscribe(&b, 0, "1"), nil, Usage{Open: 4})
	a.Next(send(make(map[int32]int)))
	w.apply(0, datatree.Op{Kind: datatree.OpCreate, Path: "/a"})
	check("one of another connection", subscribe(&b, 1, "1"), nil, Usage{Open: 4, Displaced: 1})
	check("it has as many now", subscribe(&b, 2, "1"), jute.ErrQuotaExceeded, Usage{Open: 4, Displaced: 1, Refused: 1})
	events := make(map[int32]jute.FeedEvent)
	a.CatchUp(func(f *Feed) bool {
		d, e := jute.NewDecoder(f.Append(nil, func([]jute.ACL) bool { return true })), jute.FeedEvent{}
		new(jute.ReplyHeader).Decode(skipLength(&d))
		e.Decode(&d)
		events[f.ID()] = e
		return true
	})
	if e := events[0]; !e.Compacted || e.Zxid != 0 || len(events[1].Changes) != 1 || events[2].Compacted {
		t.Errorf("the oldest feed ends with %+v, and the others have %+v, %+v", e, events[1], events[2])
	}
	if a.Next(send(make(map[int32]int))); len(a.feeds) != 2 {
		t.Errorf("%d feeds are left", len(a.feeds))
	}
	check("another address", subscribe(&c, 0, "2"), nil, Usage{Open: 4, Displaced: 2, Refused: 1})
	if err := a.Unsubscribe(&jute.UnsubscribeRequest{Feed: 1}); err != nil { // before it is told
		t.Error(err)
	}
	check("the end of a feed that has given way", nil, nil, Usage{Open: 4, Displaced: 2, Refused: 1})
	x := p.Enter("reader", []string{"3"}, func() { told++ })
	check("a reader", nil, nil, Usage{Open: 4, Displaced: 3, Refused: 1})
	for _, s := range []*Set{&a, &b, &c} {
		s.Close()
	}
	p.Leave(x)
	check("all have ended", nil, nil, Usage{Displaced: 3, Refused: 1})
}

// skipLength skips the length of a frame.
func skipLength(d *jute.Decoder) *jute.Decoder {
	d.Int32()
	return d
}

// A feed that has sent everything precedes replies, however many events that takes, until its credit is
// used up. Others do not.
func TestCatchUp(t *testing.T) {
	w := newWorld(2000) // an event for each change
	var s Set
	places := new(Places)
	places.SetLimits(3, 0)
	for id, credit := range []int32{10_000, 0, 1} {
		if _, err := s.Subscribe(w.history, places, nil, &jute.SubscribeRequest{Path: "/", Recursive: true, Feed: int32(id), Credit: credit}, 0); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, begin func(func(*Feed) bool), want string) {
		t.Helper()
		events := make(map[int32]int)
		if begin(send(events)); fmt.Sprint(events) != want {
			t.Errorf("%s: %v, want %s", what, events, want)
		}
	}
	next := func(send func(*Feed) bool) { s.Next(send) }
	change := func(paths ...string) {
		var ops []datatree.Op
		for _, path := range paths {
			ops = append(ops, datatree.Op{Kind: datatree.OpCreate, Path: path})
		}
		w.apply(0, ops...)
	}
	check("nothing was looked at", s.CatchUp, "map[]")
	check("nothing to send but that they precede replies", next, "map[0:1 2:1]")
	check("nothing to send, and one has no credit any more", next, "map[2:1]")
	change("/a", "/b", "/c")
	check("a first event", next, "map[0:1]")
	check("the rest, as far as there is credit", s.CatchUp, "map[0:2]")
	change("/d")
	if err := s.Grant(&jute.CreditRequest{Feed: 1, Credit: 10_000}); err != nil {
		t.Fatal(err)
	}
	check("one is behind", s.CatchUp, "map[0:1]")
	for s.Next(send(make(map[int32]int))) {
	}
	change("/e")
	check("none is behind", s.CatchUp, "map[0:1 1:1]")
}
