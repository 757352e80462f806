package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	zk "github.com/zkd-project/zkd/client"
	edgememory "github.com/zkd-project/zkd/edge/memory"
	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// The relays here are those of zkd edge, and the servers are whole ones. A relay has goroutines and the clock of a bubble, so it can't be run by
// the loop of server/sim.

// relayUser is a client of edges: it sends requests without waiting for replies, counts up in a node of its own, and has persistent
// watches on nodes that all clients change.
type relayUser struct {
	rng    *rand.Rand
	dials  *relayDials
	own    string
	key    zk.SessionKey
	stays  []*relayStay
	number int // that it wrote last
	handed int // to other edges, unknown to the user
	wrong  []string
}

// relayStay is the user's time at one edge, which ends with the edge.
type relayStay struct {
	*zk.Relay
	ended bool // the edge

	mu    sync.Mutex
	asked []relayAsked
	told  []relayTold
	seen  zk.Zxid
}

// relayAsked is a request, with the number that its answer must have, or 0.
type relayAsked struct {
	op     jute.OpCode
	path   string
	number int
}

// relayTold is a reply, or an event.
type relayTold struct {
	zk.Forwarded
	event string
}

// relayDials are the connections of relays to servers, which take their time.
type relayDials struct {
	e      *testEnsemble
	pool   *mux.Pool          // nil if each relay has its own connections
	memory *edgememory.Memory // that the relays share, or nil
	mu     sync.Mutex
	conns  []net.Conn
}

// witnessIP is the address of the client that may read everything.
const witnessIP = "10.0.1.9"

// delays returns when bytes arrive that are written now, in one direction of a connection.
func delays(rng *rand.Rand) func(int) time.Time {
	var last time.Time
	return func(int) time.Time {
		if at := time.Now().Add(time.Duration(rng.IntN(20)) * time.Millisecond); at.After(last) {
			last = at
		}
		return last
	}
}

// from returns what connects from an address.
func (d *relayDials) from(ip string) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) { return d.dial(ip, address) }
}

func (d *relayDials) dial(ip, address string) (net.Conn, error) {
	var id int
	fmt.Sscanf(address, "10.0.0.%d:2181", &id)
	d.e.mu.Lock()
	s := d.e.servers[id]
	d.e.mu.Unlock()
	if s == nil {
		return nil, syscall.ECONNREFUSED
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	near, far := s.net.pair(ip, 1<<20)
	n := uint64(len(d.conns))
	near.Out.Slow, near.In.Slow = delays(rand.New(rand.NewPCG(n, 0))), delays(rand.New(rand.NewPCG(n, 1)))
	if err := s.net.accept(far); err != nil {
		return nil, err
	}
	d.conns = append(d.conns, near)
	return near, nil
}

// cut closes some of the connections.
func (d *relayDials) cut(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = slices.DeleteFunc(d.conns, func(nc net.Conn) bool {
		cut := rng.IntN(2) == 0
		if cut {
			nc.Close()
		}
		return cut
	})
}

const relayServers = "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"

func (u *relayUser) fails(format string, args ...any) {
	u.wrong = append(u.wrong, u.own+": "+fmt.Sprintf(format, args...))
}

// move begins at another edge, with the session that the user has, and sets the watches. The edge before has ended, or
// has not noticed that the user has left it.
func (u *relayUser) move() bool {
	s := &relayStay{}
	again := len(u.stays) > 0
	unnoticed := again && u.rng.IntN(2) == 0
	o := u.options()
	if again {
		before := u.stays[len(u.stays)-1]
		before.ended = true
		if !unnoticed {
			before.Abort()
			<-before.Done()
		}
		before.mu.Lock()
		o.Seen, s.seen = before.seen, before.seen
		before.mu.Unlock()
	}
	relay := u.relay(s.reply, s.event, o)
	s.Relay = relay
	u.stays = append(u.stays, s)
	hello, err := relay.WaitConnected(context.Background())
	if err != nil {
		u.fails("%v", err)
		return false
	}
	u.key = zk.SessionKey{ID: hello.SessionID, Password: hello.Password}
	if unnoticed && !u.left(u.stays[len(u.stays)-2], s) {
		return false
	}
	if again && u.rng.IntN(2) == 0 {
		q := jute.SetWatchesRequest{RelativeZxid: s.seen, Persistent: []string{"/list"}, PersistentRecursive: []string{"/shared"}}
		u.ask(jute.OpSetWatches2, relayBody(q.Append2(nil)), "watch", 0)
	} else {
		u.ask(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/list", Mode: jute.AddPersistent}, "", 0)
		u.ask(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/shared", Mode: jute.AddPersistentRecursive}, "watch", 0)
	}
	if !again {
		return true
	}
	at := len(s.asked)
	u.ask(jute.OpGetData, get(u.own, false), "", 0)
	for range 600 {
		if a := s.answer(at); a != nil {
			u.found(a)
			return len(u.wrong) == 0
		}
		relay.Ping()
		time.Sleep(100 * time.Millisecond)
	}
	u.fails("no answer within a minute")
	return false
}

// relayHooks is the client of a relay in a test.
type relayHooks struct {
	reply     func(zk.Forwarded)
	event     func(zk.Zxid, jute.WatcherEvent)
	attempted func(err error)
	carry     func(ctx context.Context, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error)
}

func (h *relayHooks) Reply(a zk.Forwarded)                     { h.reply(a) }
func (h *relayHooks) Event(zxid zk.Zxid, ev jute.WatcherEvent) { h.event(zxid, ev) }
func (h *relayHooks) Ended(*zk.Relay)                          {}

func (h *relayHooks) Attempted(_ string, err error) {
	if h.attempted != nil {
		h.attempted(err)
	}
}

func (h *relayHooks) Carry(ctx context.Context, _, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if h.carry == nil {
		return open(ctx)
	}
	return h.carry(ctx, address, open)
}

// startRelay makes a relay to the servers of relayServers.
func startRelay(o zk.Options, c *relayHooks, ro zk.RelayOptions) *zk.Relay {
	o.Logger = zk.NoLog
	m, err := zk.NewRelays(relayServers, o)
	if err != nil {
		panic(err)
	}
	return m.New(c, ro)
}

// options returns those of a relay.
func (u *relayUser) options() zk.RelayOptions {
	o := zk.RelayOptions{Timeout: 40 * time.Second, Session: u.key}
	if m := u.dials.memory; m != nil {
		o.Memory = m
	}
	return o
}

// relay makes one.
func (u *relayUser) relay(reply func(zk.Forwarded), event func(zk.Zxid, jute.WatcherEvent), o zk.RelayOptions) *zk.Relay {
	c := &relayHooks{reply: reply, event: event}
	if p := u.dials.pool; p != nil {
		c.carry = func(ctx context.Context, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
			return p.Dial(ctx, address, u.own, open)
		}
	}
	return startRelay(zk.Options{Dial: u.dials.from("10.0.1.1"), Rand: rand.New(rand.NewPCG(u.rng.Uint64(), 1))}, c, o)
}

// handOver lets another edge continue the stay, if nothing is under way within a second.
func (u *relayUser) handOver(s *relayStay) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	held, err := s.Hold(ctx)
	if err != nil {
		return
	}
	o, d := u.options(), jute.NewDecoder(held.Append(nil))
	o.Record = new(zk.RelayRecord)
	if o.Record.Decode(&d); d.Err() != nil {
		u.fails("%v", d.Err())
		return
	}
	relay := u.relay(s.reply, s.event, o)
	s.Leave()
	s.Relay = relay
	u.handed++
}

// left waits until the edge that the user has left has noticed it.
func (u *relayUser) left(before, now *relayStay) bool {
	for range 600 {
		select {
		case <-before.Done():
			return true
		case <-time.After(100 * time.Millisecond):
		}
		before.Ping()
		now.Ping()
	}
	u.fails("the edge that was left has the session: %v", before.Client().Status())
	return false
}

// found takes what a new stay finds in the user's node: the numbers that were acknowledged, and perhaps some of those that were under way.
func (u *relayUser) found(a *relayTold) {
	before, acknowledged := u.stays[len(u.stays)-2], 0
	for _, t := range before.told {
		if t.event == "" && t.Lost == nil && before.asked[t.Xid].op == jute.OpSetData && before.asked[t.Xid].path == u.own {
			acknowledged = before.asked[t.Xid].number
		}
	}
	number, version := numberOf(a)
	if number < acknowledged || number > u.number || number != version {
		u.fails("number %d of %d, of which %d are acknowledged, after %d writes", number, u.number, acknowledged, version)
	}
	u.number = number
}

// numberOf returns the data and the version of the reply to a get.
func numberOf(a *relayTold) (number, version int) {
	d := jute.NewDecoder(a.Body)
	fmt.Sscan(string(d.Buffer()), &number)
	var stat jute.Stat
	stat.Decode(&d)
	return number, int(stat.Version)
}

// relayBody is a request's body.
type relayBody []byte

func (b relayBody) Append(to []byte) []byte { return append(to, b...) }

// ask sends a request, whose xid is its place.
func (u *relayUser) ask(op jute.OpCode, body record, path string, number int) {
	s := u.stays[len(u.stays)-1]
	s.mu.Lock()
	xid := int32(len(s.asked))
	s.asked = append(s.asked, relayAsked{op, path, number})
	s.mu.Unlock()
	s.Forward(xid, op, body.Append(nil))
}

func (s *relayStay) reply(a zk.Forwarded) {
	a.Body = slices.Clone(a.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.seen = append(s.told, relayTold{Forwarded: a}), max(s.seen, a.Zxid)
}

func (s *relayStay) event(zxid zk.Zxid, ev jute.WatcherEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, relayTold{Forwarded: zk.Forwarded{Zxid: zxid}, event: fmt.Sprintf("%v %v %s", zxid, ev.Type, ev.Path)})
}

// answer returns the reply to a request, or nil.
func (s *relayStay) answer(xid int) *relayTold {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.told, func(t relayTold) bool { return t.event == "" && int(t.Xid) == xid })
	if i < 0 {
		return nil
	}
	return &s.told[i]
}

// work sends random requests until stop is closed, and changes the edge now and then.
func (u *relayUser) work(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		s := u.stays[len(u.stays)-1]
		name := fmt.Sprintf("/list%s-%d", strings.ReplaceAll(u.own, "/", "/x"), u.rng.IntN(3))
		switch u.rng.IntN(9) {
		case 0, 1, 2:
			u.number++
			u.ask(jute.OpSetData, set(u.own, fmt.Sprint(u.number)), u.own, u.number)
		case 3, 4:
			u.ask(jute.OpGetData, get(u.own, false), u.own, u.number)
		case 5:
			q := create(name, "", 0)
			if u.rng.IntN(2) == 0 { // the users may not read it
				q.ACL = []jute.ACL{{Perms: jute.PermAll &^ jute.PermRead, ID: jute.WorldAnyone}, {Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: witnessIP}}}
			}
			u.ask(jute.OpCreate, q, "", 0)
		case 6:
			u.ask(jute.OpDelete, del(name), "", 0)
		case 7:
			m := jute.MultiRequest{}
			for range []int{1, 3, 150}[u.rng.IntN(3)] { // the events of the longest come in several packets
				m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpSetData, Path: []string{"/shared", "/shared/a"}[u.rng.IntN(2)], Version: -1})
			}
			u.ask(jute.OpMulti, &m, "", 0)
		case 8:
			u.ask(jute.OpGetData, get("/shared/a", u.rng.IntN(2) == 0), "", 0)
		}
		s.Ping()
		if u.rng.IntN(3) == 0 {
			time.Sleep(time.Duration(u.rng.IntN(200)) * time.Millisecond)
		}
		select {
		case <-s.Done():
			u.fails("the connection has ended: %v", s.Client().Status().Err)
			return
		default:
		}
		if u.rng.IntN(50) == 0 {
			u.handOver(s)
		}
		if u.rng.IntN(200) == 0 && !u.move() {
			return
		}
	}
}

// check holds what the user was told against the history.
func (u *relayUser) check(history []string, zxids []zk.Zxid) {
	upTo := func(z zk.Zxid) int { n, _ := slices.BinarySearch(zxids, z+1); return n }
	for stay, s := range u.stays {
		s.mu.Lock()
		told := slices.Clone(s.told)
		s.mu.Unlock()
		next, replies := -1, 0 // next is the place of the next event in history, once there are watches
		for _, t := range told {
			if t.event != "" {
				switch {
				case next < 0:
				case next == len(history) || history[next] != t.event:
					u.fails("stay %d: told %s, and the next event is %s", stay, t.event, strings.Join(history[next:min(next+1, len(history))], ""))
					return
				default:
					next++
				}
				continue
			}
			if t.Lost != nil {
				if !s.ended {
					u.fails("stay %d: request %d has no reply: %v", stay, t.Xid, t.Lost)
				}
				break
			}
			q := s.asked[t.Xid]
			if int(t.Xid) != replies {
				u.fails("stay %d: reply %d is to request %d", stay, replies, t.Xid)
				return
			}
			replies++
			if next >= 0 && next < upTo(t.Zxid) {
				u.fails("stay %d: the reply to %v shows %v, before %s", stay, q, t.Zxid, history[next])
				return
			}
			u.checkReply(&t, q)
			if q.path == "watch" {
				next = upTo(t.Zxid)
			}
		}
		if !s.ended && (replies != len(s.asked) || next != len(history)) {
			u.fails("stay %d: %d replies to %d requests, %d events of %d", stay, replies, len(s.asked), next, len(history))
		}
	}
}

// checkReply checks the answer to a request about the user's own node, whose version is the number of its writes.
func (u *relayUser) checkReply(t *relayTold, q relayAsked) {
	number, version := q.number, q.number
	switch {
	case q.path != u.own:
		return
	case q.op == jute.OpGetData:
		number, version = numberOf(t)
	case t.Err == 0:
		var stat jute.Stat
		d := jute.NewDecoder(t.Body)
		stat.Decode(&d)
		version = int(stat.Version)
	}
	if t.Err != 0 || number != q.number || version != q.number {
		u.fails("%v: %v, number %d, version %d", q, t.Err, number, version)
	}
}

// relaysRun has users work at edges of an ensemble whose servers and links fail, and returns what was wrong.
func relaysRun(t *testing.T, seed uint64) (wrong []string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := startEnsemble(t, 3, "zkd.interlude=1000")
	e.leader()
	time.Sleep(2 * time.Second) // all are admitted
	dials := &relayDials{e: e}
	if seed%2 == 1 {
		dials.pool = mux.NewPool(2, slog.New(slog.DiscardHandler))
		defer dials.pool.Close()
	}
	ctx := t.Context()
	witness, err := zk.Connect(ctx, relayServers, zk.Options{Dial: dials.from(witnessIP), Logger: zk.NoLog, Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(seed, 2))})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/list", "/shared", "/shared/a", "/u0", "/u1", "/u2"} {
		if _, err := witness.Create(ctx, path, nil, zk.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var glancers []*glancer
	var remembered atomic.Int64 // events
	if seed/2%2 == 1 {
		if dials.memory, err = openMemory(dials, seed, &remembered); err != nil {
			t.Fatal(err)
		}
		defer dials.memory.Close()
		for i := range 3 {
			glancers = append(glancers, &glancer{rng: rand.New(rand.NewPCG(seed, uint64(20+i))), u: &relayUser{rng: rand.New(rand.NewPCG(seed, uint64(30+i))), dials: dials}})
		}
	}
	feed := witness.Follow("/", zk.FeedOptions{After: zk.FromNow})
	stop := make(chan struct{})
	var working sync.WaitGroup
	var users []*relayUser
	for i := range 3 {
		u := &relayUser{rng: rand.New(rand.NewPCG(seed, uint64(10+i))), own: fmt.Sprintf("/u%d", i), dials: dials}
		users = append(users, u)
		if !u.move() {
			return u.wrong
		}
		working.Go(func() { u.work(stop) })
	}
	for _, g := range glancers {
		if err := g.begin(); err != nil {
			return []string{err.Error()}
		}
		working.Go(func() { g.work(stop) })
	}
	var story []string
	carried := false // at times: a server that has cut off a greeting has plain connections for a minute
	for range 20 {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		carried = carried || dials.pool != nil && dials.pool.Len() > 0
		story = append(story, relayTrouble(e, dials, rng))
	}
	e.net.heal()
	for id := range e.servers[1:] {
		if e.servers[id+1] == nil {
			e.start(id + 1)
		}
	}
	e.leader()
	close(stop)
	working.Wait()
	e.settled()
	for range 300 { // until all has come, but for what is lost
		for _, u := range users {
			u.stays[len(u.stays)-1].Ping()
		}
		for _, g := range glancers {
			g.Ping()
		}
		time.Sleep(100 * time.Millisecond)
	}
	history, zxids, err := eventsOfFeed(feed)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, u := range users {
		u.check(history, zxids)
		wrong = append(wrong, u.wrong...)
		u.stays[len(u.stays)-1].Abort()
		<-u.stays[len(u.stays)-1].Done()
	}
	reads := 0
	for _, g := range glancers {
		g.mu.Lock()
		reads += g.check(history, zxids)
		g.mu.Unlock()
		wrong = append(wrong, g.wrong...)
		g.Abort()
	}
	if glancers != nil && (reads == 0 || remembered.Load() == 0) {
		wrong = append(wrong, fmt.Sprintf("the memory has answered %d reads, and told %d events", reads, remembered.Load()))
	}
	if glancers != nil {
		t.Logf("the memory has answered %d reads of those who glance, and told %d events", reads, remembered.Load())
	}
	if dials.pool != nil && !carried {
		wrong = append(wrong, "no connection carries sessions")
	}
	if n := users[0].handed + users[1].handed + users[2].handed; n == 0 {
		wrong = append(wrong, "no handover")
	}
	if len(history) < 50 {
		wrong = append(wrong, fmt.Sprintf("only %d events", len(history)))
	}
	if len(wrong) > 0 {
		wrong = append(wrong, fmt.Sprint(story))
	}
	feed.Close()
	witness.Close(ctx)
	return wrong
}

// relayTrouble does something to the servers or to connections, and leaves a majority.
func relayTrouble(e *testEnsemble, dials *relayDials, rng *rand.Rand) string {
	e.net.heal()
	for id := 1; id < len(e.servers); id++ {
		if e.servers[id] == nil {
			e.start(id)
			return fmt.Sprint("start ", id)
		}
	}
	id := 1 + rng.IntN(len(e.servers)-1)
	switch rng.IntN(8) {
	case 0, 1:
		id = e.leader()
		e.kill(id)
		return fmt.Sprint("kill the leader, ", id)
	case 2:
		e.leader()
		e.kill(id)
		return fmt.Sprint("kill ", id)
	case 3:
		e.leader()
		e.stop(id)
		return fmt.Sprint("stop ", id)
	case 4:
		for other := 1; other < len(e.servers); other++ {
			if other != id {
				e.net.sever(id, other, true)
			}
		}
		return fmt.Sprint("isolate ", id)
	case 5:
		id = e.leader()
		e.servers[id].HandOver()
		return fmt.Sprint("hand over, ", id)
	}
	dials.cut(rng)
	return "cut clients"
}

// eventsOfFeed returns the events of what a feed has, as the users' watches get them.
func eventsOfFeed(feed *zk.Follower) (events []string, zxids []zk.Zxid, err error) {
	add := func(zxid zk.Zxid, typ jute.EventType, path string) {
		events, zxids = append(events, fmt.Sprintf("%v %v %s", zxid, typ, path)), append(zxids, zxid)
	}
	types := map[zk.ChangeKind]jute.EventType{zk.ChangeCreated: jute.EventCreated, zk.ChangeDeleted: jute.EventDeleted, zk.ChangeData: jute.EventDataChanged}
	for idle := 0; idle < 50; idle++ {
		changes, err := feed.Next()
		if err != nil {
			return nil, nil, err
		}
		for _, c := range changes {
			typ := types[c.Kind]
			if typ != 0 && strings.HasPrefix(c.Path, "/shared") {
				add(c.Zxid, typ, c.Path)
			}
			if c.Kind != zk.ChangeData && strings.HasPrefix(c.Path, "/list/") {
				add(c.Zxid, jute.EventChildrenChanged, "/list")
			}
		}
		if len(changes) > 0 {
			idle = 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return events, zxids, nil
}

// TestRelaysOverAnEnsemble: clients at edges that replace each other, whose servers are killed, stopped and cut off, see what one connection shows: their
// writes once, and in their order, one reply to each request, and each event of their watches once, before the replies that show it.
func TestRelaysOverAnEnsemble(t *testing.T) {
	if testing.Short() {
		return // a seed does not say in which order goroutines run: for make nightly
	}
	first := seeds.First(t)
	for seed := first; seed < first+6; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, wrong := range relaysRun(t, seed) {
					t.Error(wrong)
				}
			})
		})
	}
}
