package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// subscriber is a client with feeds.
type subscriber struct {
	*client
	got map[int32][]jute.Change // by feed
	at  map[int32]jute.Zxid     // up to which everything has come
	// ended are the feeds that the server has ended.
	ended map[int32]bool
	// shown are the replies and the events of watches.
	shown []shown
}

// shown is a reply that shows a zxid, or the event of a change at a path.
type shown struct {
	zxid jute.Zxid
	path string
	came int // how many changes of feed 0 had come before
}

func (s *testServer) subscriber(t testing.TB, old *client) *subscriber {
	t.Helper()
	return &subscriber{
		client: s.asking(t, jute.FeatureFeed, old), got: map[int32][]jute.Change{}, at: map[int32]jute.Zxid{}, ended: map[int32]bool{},
	}
}

// subscribe begins a feed, and returns what the server says of it.
func (c *subscriber) subscribe(r jute.SubscribeRequest) (resp jute.SubscribeResponse) {
	c.t.Helper()
	got := c.take(c.send(jute.OpSubscribe, &r))
	d := jute.NewDecoder(got.body)
	resp.Decode(&d)
	if got.Err != 0 || d.Err() != nil || len(d.Rest()) > 0 {
		c.t.Fatalf("%+v is answered by %v: %v", r, got, d.Err())
	}
	if !resp.Compacted {
		c.at[r.Feed] = resp.Zxid
	}
	return resp
}

// event takes an event of a feed. Changes that came before on another connection are dropped.
func (c *subscriber) event(r reply) (e jute.FeedEvent) {
	c.t.Helper()
	d := jute.NewDecoder(r.body)
	e.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 || r.Err != 0 || r.Zxid != e.Zxid {
		c.t.Fatalf("event %+v in %v: %v", e, r, d.Err())
	}
	list := c.got[e.Feed]
	for _, change := range e.Changes {
		if n := len(list); n > 0 && !follows(&list[n-1], &change) {
			continue
		}
		list = append(list, change)
	}
	c.got[e.Feed] = list
	if c.ended[e.Feed] = e.Compacted; !e.Compacted {
		c.at[e.Feed] = e.Zxid
	}
	return e
}

// follows reports whether b comes after a in a feed.
func follows(a, b *jute.Change) bool {
	return a.Zxid < b.Zxid || a.Zxid == b.Zxid && a.Index < b.Index
}

// take handles all frames up to the reply to xid.
func (c *subscriber) take(xid int32) reply {
	c.t.Helper()
	for {
		r := c.must()
		if r.Xid == jute.XidFeed {
			c.event(r)
			continue
		}
		s := shown{zxid: r.Zxid, came: len(c.got[0])}
		if r.Xid == jute.XidNotification {
			s.path = r.event().Path
		}
		if r.Zxid > 0 {
			c.shown = append(c.shown, s)
		}
		if r.Xid == xid {
			return r
		}
	}
}

// pinged handles all frames up to the answer to a ping.
func (c *subscriber) pinged() {
	c.t.Helper()
	for _, r := range c.events { // set aside by call
		if r.Xid == jute.XidFeed {
			c.event(r)
		}
	}
	c.events = nil
	c.sendFrame(requestFrame(jute.XidPing, jute.OpPing, nil))
	c.take(jute.XidPing)
}

// text shows changes as zxid, kind and path.
func text(changes []jute.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%v %v %s, ", c.Zxid, c.Kind, c.Path)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// all is a feed of everything.
func all(feed int32, after jute.Zxid) jute.SubscribeRequest {
	return jute.SubscribeRequest{Path: "/", Feed: feed, Recursive: true, After: after, Credit: jute.MaxFeedCredit}
}

// TestSubscribe follows what a client may read with several feeds on a connection.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.subscriber(t, nil)
		c.create("/a", "1")
		for _, r := range []jute.SubscribeRequest{
			all(0, 0),
			{Path: "/a", Feed: 1, After: jute.FromNow, Data: true, Credit: 1 << 20},
			{Path: "/a", Feed: -2, Recursive: true, Kinds: jute.ChangeKindsOf(jute.ChangeCreated, jute.ChangeDeleted), Credit: 1 << 20},
		} {
			if resp := c.subscribe(r); resp.Compacted || resp.Zxid != max(0, r.After) && r.After != jute.FromNow {
				t.Errorf("%+v: %+v", r, resp)
			}
		}
		synctest.Wait()
		other := s.connect(t)
		other.auth("ann:pw")
		secret := create("/a/secret", "2", 0)
		secret.ACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
		other.ok(jute.OpCreate, secret)
		other.set("/a", "3")
		other.create("/a/b", "4")
		other.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/a/b", ACL: openACL[:1], Version: -1})
		c.pinged()
		for feed, want := range map[int32]string{
			0:  "0x2 created /a, 0x5 data /a, 0x6 created /a/b, 0x7 acl /a/b",
			1:  "0x5 data /a",
			-2: "0x2 created /a, 0x6 created /a/b",
		} {
			if got := text(c.got[feed]); got != want || c.at[feed] > 7 || c.at[feed] < 5 {
				t.Errorf("feed %d: %s up to %v", feed, got, c.at[feed])
			}
		}
		if d := c.got[1][0]; string(d.Data) != "3" || d.Stat.Version != 1 || d.Session != other.session || c.got[0][1].Data != nil {
			t.Errorf("a change is %+v", d)
		}
		c.auth("ann:pw") // from here on
		other.ok(jute.OpDelete, del("/a/secret"))
		c.ok(jute.OpUnsubscribe, &jute.UnsubscribeRequest{Feed: 1})
		other.set("/a", "5")
		c.pinged()
		if got := text(c.got[0][4:]); got != "0x8 deleted /a/secret, 0x9 data /a" || len(c.got[1]) != 1 {
			t.Errorf("got %s, and %d of the feed that was ended", got, len(c.got[1]))
		}
		s.noErrors(t)
	})
}

// TestSubscribeRefused makes requests that can't be served, on a connection that lives on.
func TestSubscribeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.feedHistoryKb=1")
		c := s.subscriber(t, nil)
		c.create("/a", "1")
		for range 10 {
			c.set("/a", strings.Repeat("x", 100_000))
		}
		if resp := c.subscribe(all(1, 0)); !resp.Compacted || resp.Zxid == 0 {
			t.Errorf("changes that were forgotten: %+v", resp)
		}
		c.subscribe(all(1, jute.FromNow))
		over := all(2, jute.FromNow)
		over.Credit++
		for i, tt := range []struct {
			op   jute.OpCode
			body record
			want jute.Code
		}{
			{jute.OpSubscribe, new(all(1, jute.FromNow)), jute.ErrBadArguments},
			{jute.OpSubscribe, &over, jute.ErrBadArguments},
			{jute.OpSubscribe, rawBody("short"), jute.ErrMarshalling},
			{jute.OpCredit, &jute.CreditRequest{Feed: 2, Credit: 1}, jute.ErrNoWatcher},
			{jute.OpCredit, &jute.CreditRequest{Feed: 1, Credit: jute.MaxFeedCredit}, jute.ErrBadArguments},
			{jute.OpCredit, &jute.CreditRequest{Feed: 1, Credit: -1}, jute.ErrBadArguments},
			{jute.OpCredit, rawBody("short"), jute.ErrMarshalling},
			{jute.OpUnsubscribe, &jute.UnsubscribeRequest{Feed: 2}, jute.ErrNoWatcher},
			{jute.OpUnsubscribe, rawBody("a"), jute.ErrMarshalling},
		} {
			if r := c.call(tt.op, tt.body); r.Err != tt.want || len(r.body) > 0 {
				t.Errorf("request %d is answered by %v", i, r)
			}
		}
		for feed := int32(2); feed <= 16; feed++ {
			c.subscribe(all(feed, jute.FromNow))
		}
		if r := c.call(jute.OpSubscribe, new(all(17, jute.FromNow))); r.Err != jute.ErrQuotaExceeded {
			t.Errorf("one more feed than there may be: %v", r)
		}
		c.create("/b", "1")
		c.pinged()
		off := startServer(t, "zkd.feedHistoryKb=0").subscriber(t, nil)
		if r := off.call(jute.OpSubscribe, new(all(1, 0))); r.Err != jute.ErrUnimplemented {
			t.Errorf("a server without a history: %v", r)
		}
		s.noErrors(t)
	})
}

// A connection with very many feeds gets a change for each, and gives all places back.
func TestManyFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const feeds = 1000
		s := startServer(t, "zkd.maxFeedsPerConnection=1000", "zkd.maxFeeds=1000")
		c := s.subscriber(t, nil)
		for id := range int32(feeds) {
			c.subscribe(all(id, jute.FromNow))
		}
		if r := c.call(jute.OpSubscribe, new(all(feeds, jute.FromNow))); r.Err != jute.ErrQuotaExceeded {
			t.Errorf("one more feed: %v", r)
		}
		s.connect(t).create("/a", "")
		synctest.Wait()
		c.pinged()
		if len(c.got) != feeds || len(c.got[feeds-1]) != 1 {
			t.Errorf("%d feeds have changes, the last one %v", len(c.got), c.got[feeds-1])
		}
		c.nc.Close()
		synctest.Wait()
		if n := s.clients.Places().Usage().Open; n != 0 {
			t.Errorf("%d feeds of a connection that has ended", n)
		}
	})
}

// A feed sends no more than its credit allows, which holds nobody up. When the history has forgotten
// what it would send, it ends.
func TestFeedCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.feedHistoryKb=512")
		c := s.subscriber(t, nil)
		c.create("/a", "1")
		slow := all(1, jute.FromNow)
		slow.Data, slow.Credit = true, 100 // which it uses to say that it precedes replies
		c.subscribe(slow)
		c.subscribe(all(0, jute.FromNow))
		synctest.Wait()
		for i := range 4 { // the first one costs more than there is
			c.set("/a", strings.Repeat("x", 1000+i))
		}
		c.pinged()
		if len(c.got[0]) != 4 || len(c.got[1]) != 1 {
			t.Fatalf("feeds have %d and %d changes", len(c.got[0]), len(c.got[1]))
		}
		c.ok(jute.OpCredit, &jute.CreditRequest{Feed: 1, Credit: 100}) // it is still in debt
		synctest.Wait()
		c.quiet("a feed without credit")
		c.ok(jute.OpCredit, &jute.CreditRequest{Feed: 1, Credit: 10_000})
		synctest.Wait()
		if e := c.event(c.must()); len(e.Changes) != 3 || e.Feed != 1 {
			t.Errorf("event %+v", e)
		}
		slow.Feed, slow.Credit = 2, 0
		c.subscribe(slow)
		for range 20 {
			c.set("/a", strings.Repeat("x", 100_000))
		}
		c.pinged()
		c.ok(jute.OpCredit, &jute.CreditRequest{Feed: 2, Credit: 1})
		synctest.Wait()
		e := c.event(c.must())
		if oldest, _ := s.changes.Span(); !e.Compacted || e.Feed != 2 || e.Zxid != oldest || len(e.Changes) > 0 {
			t.Errorf("the end of a feed: %+v", e)
		}
		if r := c.call(jute.OpCredit, &jute.CreditRequest{Feed: 2, Credit: 1}); r.Err != jute.ErrNoWatcher {
			t.Errorf("a feed that has ended: %v", r)
		}
		s.noErrors(t)
	})
}

// What a connection shows has come in its feeds before: TestFeedOrder has clients with feeds at all
// servers do what they like, also while large sessions end, and move at random moments. All get all
// changes once, in one order.
func TestFeedOrder(t *testing.T) {
	first := seeds.First(t)
	for seed := first; seed < first+2; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) { feedOrder(t, e, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func feedOrder(t *testing.T, e *testEnsemble, r *rand.Rand) {
	setup := e.servers[1].connect(t)
	for _, path := range []string{"/a", "/b"} {
		setup.create(path, "")
	}
	e.settled()
	kinds := jute.ChangeKindsOf(jute.ChangeData, jute.ChangeDeleted)
	begin := func(c *subscriber) {
		for id, after := range c.at {
			r := all(id, after)
			if id == 1 {
				r.Path, r.Kinds = "/a", kinds
			}
			c.subscribe(r)
		}
		synctest.Wait() // until then it catches up
		c.pinged()
		c.shown = nil
	}
	var cs []*subscriber
	for _, s := range e.servers[1:] {
		c := s.subscriber(t, nil)
		c.at[0], c.at[1] = jute.FromNow, jute.FromNow
		begin(c)
		cs = append(cs, c)
	}
	for n := range 150 {
		i := r.IntN(len(cs))
		c := cs[i]
		for range r.IntN(8) {
			path := fmt.Sprintf("/%c/%d", 'a'+r.IntN(2), r.IntN(5))
			switch r.IntN(8) {
			case 0, 1:
				c.send(jute.OpCreate, create(path, "", jute.CreateMode(r.IntN(2))))
			case 2:
				c.send(jute.OpDelete, del(path))
			case 3:
				c.send(jute.OpSetData, set(path, "x"))
			case 4:
				c.send(jute.OpGetData, get(path, true))
			case 5:
				c.send(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			case 6:
				c.send(jute.OpSync, &jute.SyncRequest{Path: "/"})
			case 7:
				m := &jute.MultiRequest{}
				for k := range 1 + r.IntN(4) {
					m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpSetData, Path: []string{"/a", "/b"}[k%2], Version: -1})
				}
				c.send(jute.OpMulti, m)
			}
		}
		switch r.IntN(12) {
		case 0:
			large := e.servers[1+r.IntN(3)].connect(t)
			dir := fmt.Sprintf("/large%d", n)
			large.create(dir, "")
			large.ephemerals(dir, 200)
			large.send(jute.OpCloseSession, nil)
		case 1: // it moves, without having read everything
			at := e.servers[1+r.IntN(3)]
			c.nc.Close()
			next := at.subscriber(t, c.client)
			next.got, next.at = c.got, c.at
			if next.session == 0 {
				t.Fatal("the session is lost")
			}
			cs[i] = next
			c.check(t, cs)
			begin(next)
		default:
			c.pinged()
		}
	}
	e.settled()
	for _, c := range cs {
		c.pinged()
		c.check(t, cs)
		want := cs[0].got[0]
		if got := c.got[0]; text(got) != text(want) || len(got) < 500 {
			t.Errorf("got %d changes\n%s\nwant %d\n%s", len(got), text(got), len(want), text(want))
		}
		var some []jute.Change
		for _, change := range want {
			if kinds.Has(change.Kind) && strings.HasPrefix(change.Path+"/", "/a/") {
				some = append(some, change)
			}
		}
		if got := c.got[1]; text(got) != text(some) {
			t.Errorf("below /a got\n%s\nwant\n%s", text(got), text(some))
		}
	}
	for _, s := range e.servers[1:] {
		s.noErrors(t)
	}
}

// check checks that each reply was preceded by all changes that it may have shown, and each event of
// a watch by its change. The client with the most changes knows which there were.
func (c *subscriber) check(t *testing.T, cs []*subscriber) {
	t.Helper()
	most := slices.MaxFunc(cs, func(a, b *subscriber) int { return len(a.got[0]) - len(b.got[0]) }).got[0]
	for _, s := range c.shown {
		lacks := slices.IndexFunc(most[min(s.came, len(most)):], func(c jute.Change) bool {
			return s.path == "" && c.Zxid <= s.zxid || c.Zxid < s.zxid || c.Zxid == s.zxid && c.Path == s.path
		})
		if lacks >= 0 {
			t.Fatalf("%+v came before %s", s, text(most[s.came+lacks:][:1]))
		}
	}
	c.shown = nil
}
