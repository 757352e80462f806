package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// relayServer is a server with exactly-once sessions and feeds that cuts the connections of a session at the worst times.
type relayServer struct {
	t *testing.T

	mu       sync.Mutex
	r        *rand.Rand
	calm     bool // no more cuts
	zxid     Zxid
	versions map[string]int32
	log      []jute.Change
	doubled  []int64
	done     int64            // the number of the session's last write
	replies  map[int64][]byte // to its writes
	conn     *relayConn
	cuts     int
}

// relayConn is a connection with its watches and its feed.
type relayConn struct {
	*fakeConn
	data, persistent, recursive map[string]bool
	fed                         int // changes that the feed has sent; -1 without a feed
	kinds                       jute.ChangeKinds
}

func (s *relayServer) chance(percent int) bool { return !s.calm && s.r.IntN(100) < percent }

func (s *relayServer) run(ctx context.Context, n *fakeNet) {
	for {
		select {
		case c := <-n.accepted:
			go s.serve(&relayConn{c, map[string]bool{}, map[string]bool{}, map[string]bool{}, -1, 0})
		case <-ctx.Done():
			return
		}
	}
}

func (c *relayConn) put(payload []byte) {
	b, mark := jute.BeginFrame(nil)
	c.Write(jute.EndFrame(append(b, payload...), mark))
}

// greetAgain answers the connect request.
func (s *relayServer) greetAgain(c *relayConn, frame []byte) {
	d := jute.NewDecoder(frame)
	var q jute.ConnectRequest
	var ask jute.ExtensionRequest
	if q.Decode(&d); jute.Extended(&d) {
		ask.Decode(&d)
	}
	if q.LastZxidSeen > s.zxid {
		s.t.Errorf("the client has seen %v of %v", q.LastZxidSeen, s.zxid)
	}
	welcomeExactly(c.put, &q, ask.Confirmed, s.done, s.replies)
}

// welcomeExactly greets a client of an exactly-once session: with the answers to those writes that it does not have.
func welcomeExactly(put func([]byte), q *jute.ConnectRequest, confirmed, done int64, replies map[int64][]byte) {
	var numbers []int64
	for number := range replies {
		if number > confirmed {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	welcome := jute.ConnectResponse{TimeoutMs: q.TimeoutMs, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
	granted := jute.ExtensionResponse{Features: jute.FeatureExactlyOnce | jute.FeatureFeed, Done: done, Replies: int32(len(numbers))}
	put(granted.Append(welcome.Append(nil)))
	for _, number := range numbers {
		put(replies[number])
	}
}

func (s *relayServer) serve(c *relayConn) {
	defer c.Close()
	frame, err := c.frame()
	s.mu.Lock()
	if err != nil || s.chance(20) {
		s.mu.Unlock()
		return
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = c
	s.greetAgain(c, frame)
	s.mu.Unlock()
	for {
		b, err := c.frame()
		if err != nil {
			return
		}
		d := jute.NewDecoder(b)
		var h jute.RequestHeader
		h.Decode(&d)
		s.mu.Lock()
		pause := time.Duration(0)
		if s.chance(10) {
			pause = time.Duration(s.r.IntN(30)) * time.Millisecond
		}
		s.mu.Unlock()
		time.Sleep(pause)
		s.mu.Lock()
		ok := s.conn == c && s.answer(c, request{h.Xid, h.Type, d.Rest()})
		s.mu.Unlock()
		if !ok {
			return
		}
	}
}

// answer does a request and answers it, unless it cuts the connection before or after; then it reports false.
func (s *relayServer) answer(c *relayConn, r request) bool {
	if s.chance(2) {
		s.cuts++
		return false
	}
	h := jute.ReplyHeader{Xid: r.xid}
	var body []byte
	d := jute.NewDecoder(r.body)
	switch r.op {
	case jute.OpSetData, jute.OpCreate, jute.OpDelete:
		if int64(r.xid) <= s.done {
			s.doubled = append(s.doubled, int64(r.xid))
		}
		kind := map[jute.OpCode]jute.ChangeKind{jute.OpSetData: jute.ChangeData, jute.OpCreate: jute.ChangeCreated, jute.OpDelete: jute.ChangeDeleted}[r.op]
		s.change(kind, r.path())
		body = fmt.Appendf(nil, "%d", s.versions[r.path()])
		h.Zxid = s.zxid
		s.done = int64(r.xid)
		s.replies[s.done] = append(h.Append(nil), body...)
	case jute.OpGetData:
		var q jute.PathWatchRequest
		if q.Decode(&d); q.Watch {
			c.data[q.Path] = true
		}
		body = fmt.Appendf(nil, "%d", s.versions[q.Path])
	case jute.OpAddWatch:
		var q jute.AddWatchRequest
		if q.Decode(&d); q.Mode == WatchRecursive {
			c.recursive[q.Path] = true
		} else {
			c.persistent[q.Path] = true
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		s.setWatches(c, r.setWatches())
	case jute.OpSubscribe:
		var q jute.SubscribeRequest
		q.Decode(&d)
		c.kinds = q.Kinds
		for c.fed = 0; c.fed < len(s.log) && s.log[c.fed].Zxid <= q.After; c.fed++ {
		}
		body = (&jute.SubscribeResponse{Zxid: q.After}).Append(nil)
	case jute.OpUnsubscribe:
		c.fed = -1
	}
	h.Zxid = s.zxid
	if s.chance(2) {
		s.cuts++
		return false
	}
	c.put(append(h.Append(nil), body...))
	if r.op == jute.OpSubscribe {
		s.feedAll(c)
	}
	return true
}

// feedAll sends what the feed has, at once or with pauses.
func (s *relayServer) feedAll(c *relayConn) {
	for {
		switch {
		case s.chance(3):
			s.cuts++
			c.Close()
			return
		case s.chance(30):
			s.other()
		case s.chance(30):
			time.AfterFunc(20*time.Millisecond, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.conn == c && c.fed >= 0 {
					s.feedAll(c)
				}
			})
			return
		}
		if s.feed(c); c.fed == len(s.log) {
			return
		}
	}
}

// feed sends some changes of the feed.
func (s *relayServer) feed(c *relayConn) {
	end := len(s.log)
	if !s.calm {
		end = min(end, c.fed+1+s.r.IntN(4))
	}
	e := jute.FeedEvent{Feed: resume.Feed, Zxid: s.zxid, Level: end == len(s.log)}
	for _, ch := range s.log[c.fed:end] {
		if !hiddenNode(ch.Path) {
			e.Changes = append(e.Changes, ch)
		}
		if ch.Kind != jute.ChangeData && c.kinds.Has(jute.ChangeChildren) {
			ch.Kind, ch.Path = jute.ChangeChildren, jute.Parent(ch.Path)
			e.Changes = append(e.Changes, ch)
		}
	}
	if end < len(s.log) { // the rest of a transaction may follow
		e.Zxid = s.log[end].Zxid - 1
	}
	c.fed = end
	h := jute.ReplyHeader{Xid: jute.XidFeed, Zxid: e.Zxid}
	c.put(e.Append(h.Append(nil)))
}

func (s *relayServer) setWatches(c *relayConn, q jute.SetWatchesRequest) {
	for _, path := range q.Data {
		if slices.ContainsFunc(s.log, func(ch jute.Change) bool { return ch.Path == path && ch.Zxid > q.RelativeZxid }) {
			c.event(EventDataChanged, path, -1)
		} else {
			c.data[path] = true
		}
	}
	for _, path := range q.Persistent {
		c.persistent[path] = true
	}
	for _, path := range q.PersistentRecursive {
		c.recursive[path] = true
	}
}

func (c *relayConn) event(typ EventType, path string, zxid Zxid) {
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	e := jute.WatcherEvent{Type: jute.EventType(typ), State: jute.StateSyncConnected, Path: path}
	c.put(e.Append(h.Append(nil)))
}

// other is a transaction of another session.
func (s *relayServer) other() {
	kinds := []jute.ChangeKind{jute.ChangeCreated, jute.ChangeDeleted, jute.ChangeData}
	s.change(kinds[s.r.IntN(3)], []string{"/s/a", "/s/b", "/p/x", "/p", "/p/hidden"}[s.r.IntN(5)])
	for s.r.IntN(3) == 0 { // in the same transaction
		s.zxid--
		s.change(jute.ChangeData, []string{"/s/a", "/p"}[s.r.IntN(2)])
	}
}

// change makes a change, and tells it to the session's watches. The connection may end between two events.
func (s *relayServer) change(kind jute.ChangeKind, path string) {
	s.zxid++
	s.versions[path]++
	ch := jute.Change{Zxid: s.zxid, Kind: kind, Path: path}
	if n := len(s.log); n > 0 && s.log[n-1].Zxid == s.zxid {
		ch.Index = s.log[n-1].Index + 1
	}
	s.log = append(s.log, ch)
	c := s.conn
	if c == nil {
		return
	}
	if c.fed >= 0 && s.chance(30) { // the feed is faster than the events
		s.feed(c)
	}
	for _, ev := range relayEvents(&ch) {
		heard := c.persistent[ev.Path] || c.data[ev.Path] && ev.Type != jute.EventChildrenChanged
		for p := ev.Path; p != "" && ev.Type != jute.EventChildrenChanged; p = jute.Parent(p) {
			heard = heard || c.recursive[p]
		}
		if ev.Type != jute.EventChildrenChanged {
			delete(c.data, ev.Path)
		}
		if heard {
			c.event(EventType(ev.Type), ev.Path, s.zxid)
		}
		if s.chance(2) {
			s.cuts++
			c.Close()
		}
	}
}

// hiddenNode reports whether the client may not read a node.
func hiddenNode(path string) bool { return path == "/p/hidden" }

// relayEvents returns the events of a change that the client may see.
func relayEvents(c *jute.Change) (all []jute.WatcherEvent) {
	typ := map[jute.ChangeKind]jute.EventType{
		jute.ChangeCreated: jute.EventCreated, jute.ChangeDeleted: jute.EventDeleted, jute.ChangeData: jute.EventDataChanged,
	}[c.Kind]
	if !hiddenNode(c.Path) {
		all = append(all, jute.WatcherEvent{Type: typ, Path: c.Path})
	}
	if typ != jute.EventDataChanged {
		all = append(all, jute.WatcherEvent{Type: jute.EventChildrenChanged, Path: jute.Parent(c.Path)})
	}
	return all
}

// relayRun is a client of a relay, with what it was told, for a check of that.
type relayRun struct {
	s     *relayServer
	asked []string // what it has asked: the answer that this must have, if that is known
	told  []relayTold
	wrong []string
}

// relayTold is a reply, or an event.
type relayTold struct {
	Forwarded
	event string
}

func (m *relayRun) fails(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// expected returns the events of persistent watches on /p, and on /s with what is below it, with a zxid up to the given one.
func (m *relayRun) expected(since, upto Zxid) (all []string) {
	for i := range m.s.log {
		c := &m.s.log[i]
		if c.Zxid <= since || c.Zxid > upto {
			continue
		}
		for _, ev := range relayEvents(c) {
			if ev.Path == "/p" || ev.Type != jute.EventChildrenChanged && strings.HasPrefix(ev.Path, "/s") {
				all = append(all, fmt.Sprintf("%v %v %s", c.Zxid, ev.Type, ev.Path))
			}
		}
	}
	return all
}

func (m *relayRun) reply(a Forwarded) {
	a.Body = slices.Clone(a.Body)
	m.told = append(m.told, relayTold{Forwarded: a})
}

func (m *relayRun) event(zxid Zxid, ev jute.WatcherEvent) {
	m.told = append(m.told, relayTold{event: fmt.Sprintf("%v %v %s", zxid, ev.Type, ev.Path)})
}

// check holds what the client was told against what one connection shows.
func (m *relayRun) check() {
	var events []string
	var since, shown Zxid
	replies := 0
	for _, a := range m.told {
		if a.event != "" {
			events = append(events, a.event)
			continue
		}
		if replies++; a.Lost != nil || int(a.Xid) != replies {
			m.fails("reply %d is to %d: %v", replies, a.Xid, a.Lost)
			return
		}
		if a.Zxid < shown {
			m.fails("reply %d shows %v after %v", replies, a.Zxid, shown)
		}
		shown = a.Zxid
		switch want := m.asked[a.Xid-1]; {
		case want == "watch":
			since, events = a.Zxid, nil
		case want != "" && want != string(a.Body):
			m.fails("request %d has the answer %s, want %s", a.Xid, a.Body, want)
		}
		if want := m.expected(since, a.Zxid); len(events) < len(want) {
			m.fails("reply %d shows %v: told %d events of %d", a.Xid, a.Zxid, len(events), len(want))
		}
	}
	if want := m.expected(since, m.s.zxid); !slices.Equal(events, want) {
		i := 0
		for i < min(len(want), len(events)) && events[i] == want[i] {
			i++
		}
		m.fails("event %d: %q, want %q", i, events[i:min(i+3, len(events))], want[i:min(i+3, len(want))])
	}
	if replies != len(m.asked) || len(m.s.doubled) > 0 || m.s.cuts == 0 {
		m.fails("%d of %d replies, %d cuts, writes done twice: %v", replies, len(m.asked), m.s.cuts, m.s.doubled)
	}
}

// again makes a relay again from its record, if nothing is under way within a time.
func (n *fakeNet) again(r *Relay, within time.Duration, c *told, o RelayOptions) *Relay {
	ctx, cancel := context.WithTimeout(bg, within)
	defer cancel()
	held, err := r.Hold(ctx)
	if err != nil {
		return r
	}
	d := jute.NewDecoder(held.Append(nil))
	o.Record = new(RelayRecord)
	if o.Record.Decode(&d); d.Err() != nil || len(d.Rest()) > 0 {
		n.t.Fatalf("%v, and %d bytes", d.Err(), len(d.Rest()))
	}
	now := n.startRelay(c, o, uint64(held.number))
	r.Leave()
	return now
}

// runRelay runs a client through cut connections, and returns what was wrong. Now and then the relay is made again from its record.
func runRelay(t *testing.T, seed uint64) []string {
	n := newFakeNet(t)
	s := &relayServer{t: t, r: seeded(seed), calm: true, versions: map[string]int32{}, replies: map[int64][]byte{}}
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	go s.run(ctx, n)
	m := &relayRun{s: s}
	c, o := &told{m.reply, m.event}, RelayOptions{Timeout: time.Hour}
	relay := n.startRelay(c, o, seed)
	if _, err := relay.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	r := &relayed{Relay: relay}
	next := func(want string) int32 {
		m.asked = append(m.asked, want)
		return int32(len(m.asked))
	}
	r.watch(next("watch"), "/s", WatchRecursive)
	r.watch(next("watch"), "/p", WatchPersistent)
	synctest.Wait()
	s.mu.Lock()
	s.calm = false
	s.mu.Unlock()
	random, version := rand.New(rand.NewPCG(seed, 1)), 0
	for range 150 {
		switch random.IntN(8) {
		case 0, 1:
			version++
			r.forward(next(fmt.Sprint(version)), "w/own")
		case 2, 3:
			r.forward(next(fmt.Sprint(version)), "r/own")
		case 4:
			r.forward(next(""), "W/s/a")
		case 5:
			r.forward(next(""), []string{"w/s/b", "n/s/own", "d/p/own"}[random.IntN(3)])
		default:
			s.mu.Lock()
			s.other()
			s.mu.Unlock()
		}
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		if random.IntN(20) == 0 {
			r.Relay = n.again(r.Relay, time.Duration(random.IntN(300))*time.Millisecond, c, o)
		}
	}
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	r.forward(next(""), "r/own")
	time.Sleep(time.Minute)
	r.Abort()
	m.check()
	return m.wrong
}

// TestRelayModel: through connections that are cut at random, a client sees what it would see on one: one answer to each request, in their
// order, with its own writes before it and none after it; and each event of its persistent watches once, in their order, before the replies
// that show the change.
func TestRelayModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, wrong := range runRelay(t, seed) {
					t.Error(wrong)
				}
			})
		})
	}
}
