package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// The servers here are behind each other, and so is the memory of a relay. memoryHistory is what the ensemble has committed, and what each of them
// shows is a beginning of it.
type memoryHistory []memoryChange

type memoryChange struct {
	zxid Zxid
	typ  EventType // of the event at the path itself
	path string
}

// events are those of a change, in their order.
func (c *memoryChange) events() []jute.WatcherEvent {
	all := []jute.WatcherEvent{{Type: jute.EventType(c.typ), State: jute.StateSyncConnected, Path: c.path}}
	if c.typ != EventDataChanged {
		all = append(all, jute.WatcherEvent{Type: jute.EventChildrenChanged, State: jute.StateSyncConnected, Path: jute.Parent(c.path)})
	}
	return all
}

// memoryPaths are nodes that others change, but for /m/own. The last one is not in the memory.
var memoryPaths = []string{"/m/a", "/m/b", "/m", "/m/own", "/o"}

// node returns a node, and whether there is one. The version of its data counts all that was there.
func (h memoryHistory) node(path string) (s Stat, exists bool) {
	exists = true
	if path == "/m" {
		s.NumChildren = 1
	}
	for i := range h {
		c := &h[i]
		for _, ev := range c.events() {
			if ev.Path != path {
				continue
			}
			switch EventType(ev.Type) {
			case EventCreated:
				exists, s.Czxid, s.Mzxid, s.Pzxid = true, c.zxid, c.zxid, c.zxid
				s.Version++
			case EventDeleted:
				exists = false
			case EventDataChanged:
				s.Mzxid = c.zxid
				s.Version++
			case EventChildrenChanged:
				s.Pzxid = c.zxid
			}
		}
	}
	return s, exists
}

func (h memoryHistory) zxid() Zxid {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].zxid
}

// upTo returns the beginning with what is committed up to a zxid.
func (h memoryHistory) upTo(zxid Zxid) memoryHistory {
	i := slices.IndexFunc(h, func(c memoryChange) bool { return c.zxid > zxid })
	if i < 0 {
		return h
	}
	return h[:i]
}

// fires returns the first change after a zxid whose events fire a watch, or nil.
func (h memoryHistory) fires(path string, kind WatchSet, after Zxid) *memoryChange {
	for i := range h {
		for _, ev := range h[i].events() {
			if h[i].zxid > after && ev.Path == path && kind.Fired(ev.Type) != 0 {
				return &h[i]
			}
		}
	}
	return nil
}

// memoryServer is the ensemble.
type memoryServer struct {
	t *testing.T
	m *memoryModel

	mu        sync.Mutex
	r         *rand.Rand
	calm      bool
	calmSince time.Time
	history   memoryHistory
	done      int64
	doneAt    int // in history
	replies   map[int64][]byte
	doubled   []int64
	conn      *memoryConn
	cuts      int
	heard     time.Time
	resets    []memoryReset
	wrong     []string
}

// memoryReset is what a server has looked at to set watches again: the client had seen one zxid, and the server was at the other.
type memoryReset struct{ seen, at Zxid }

// overlooks returns where to go on after a change that a server which sets watches again can't tell: a node that was created, and is gone
// again. Otherwise it returns 0.
func (s *memoryServer) overlooks(c *memoryChange) Zxid {
	for _, r := range s.resets {
		if _, exists := s.history.upTo(r.at).node(c.path); c.typ == EventCreated && r.seen < c.zxid && c.zxid <= r.at && !exists {
			return r.at
		}
	}
	return 0
}

// fires returns the first change after a zxid of which a server must tell a watch, or nil, and those before it of which it may.
func (s *memoryServer) fires(w memoryWatch, after Zxid) (must *memoryChange, may []*memoryChange) {
	for {
		c := s.history.fires(w.path, w.kind, after)
		if c == nil || c.path != w.path {
			return c, may
		}
		next := s.overlooks(c)
		if next == 0 {
			return c, may
		}
		may, after = append(may, c), next
	}
}

// memoryConn is a connection to a server, which shows what is committed up to at.
type memoryConn struct {
	*relayConn
	at      int
	watches map[string]WatchSet
}

func (s *memoryServer) chance(percent int) bool { return !s.calm && s.r.IntN(100) < percent }

func (s *memoryServer) run(ctx context.Context, n *fakeNet) {
	for {
		select {
		case c := <-n.accepted:
			go s.serve(&memoryConn{relayConn: &relayConn{fakeConn: c}, watches: map[string]WatchSet{}})
		case <-ctx.Done():
			return
		}
	}
}

const memoryTimeout = 30 * time.Second

func (s *memoryServer) greet(c *memoryConn, frame []byte) {
	d := jute.NewDecoder(frame)
	var q jute.ConnectRequest
	var ask jute.ExtensionRequest
	if q.Decode(&d); jute.Extended(&d) {
		ask.Decode(&d)
	}
	least := max(len(s.history.upTo(q.LastZxidSeen)), s.doneAt) // a server that has the outcome of a write has done it
	c.at = least + s.r.IntN(len(s.history)-least+1)
	welcomeExactly(c.put, &q, ask.Confirmed, s.done, s.replies)
}

func (s *memoryServer) serve(c *memoryConn) {
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
	if s.calm && time.Since(s.calmSince) > memoryTimeout/4 {
		s.wrong = append(s.wrong, "a connection is lost that nobody has cut")
	}
	s.conn, s.heard = c, time.Now()
	s.greet(c, frame)
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
		if quiet := time.Since(s.heard); quiet > memoryTimeout {
			s.wrong = append(s.wrong, fmt.Sprintf("the session was quiet for %v", quiet))
		}
		s.heard = time.Now()
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

// commit commits a change.
func (s *memoryServer) commit(typ EventType, path string) {
	c := memoryChange{s.history.zxid() + 1 + Zxid(s.r.IntN(2)), typ, path}
	s.history = append(s.history, c)
	s.m.commit(c)
}

// other is a change of another session.
func (s *memoryServer) other() {
	path := []string{"/m/a", "/m/a", "/m/b", "/o"}[s.r.IntN(4)]
	typ := EventDataChanged
	if _, exists := s.history.node("/m/b"); path == "/m/b" && s.r.IntN(2) == 0 || path == "/m/b" && !exists {
		if typ = EventDeleted; !exists {
			typ = EventCreated
		}
	}
	s.commit(typ, path)
}

// advance has a connection show more.
func (s *memoryServer) advance(c *memoryConn, to int) {
	for ; c.at < to; c.at++ {
		change := &s.history[c.at]
		for _, ev := range change.events() {
			if fired := c.watches[ev.Path].Fired(ev.Type); fired != 0 {
				c.watches[ev.Path] &^= fired
				c.event(EventType(ev.Type), ev.Path, change.zxid)
			}
		}
	}
}

func memoryReply(op jute.OpCode, s Stat, exists bool, h *jute.ReplyHeader) []byte {
	if !exists {
		h.Err = ErrNoNode
		return nil
	}
	var b []byte
	switch op {
	case jute.OpGetData:
		b = jute.AppendBuffer(b, fmt.Append(nil, s.Version))
	case jute.OpGetChildren2:
		b = jute.AppendStrings(b, memoryNames(s))
	}
	return s.Append(b)
}

// memoryNames are the children of /m, as far as that is of interest.
func memoryNames(s Stat) []string { return []string{fmt.Sprint("since-", s.Pzxid)} }

func (s *memoryServer) answer(c *memoryConn, r request) bool {
	if s.chance(3) {
		s.cuts++
		return false
	}
	switch {
	case s.calm:
		s.advance(c, len(s.history))
	case s.chance(50):
		s.advance(c, c.at+s.r.IntN(len(s.history)-c.at+1))
	}
	h := jute.ReplyHeader{Xid: r.xid}
	var body []byte
	switch r.op {
	case jute.OpPing:
		h.Xid = jute.XidPing
	case jute.OpSync:
		s.advance(c, len(s.history))
	case jute.OpSetData:
		if int64(r.xid) <= s.done {
			s.doubled = append(s.doubled, int64(r.xid))
		}
		s.commit(EventDataChanged, r.path())
		s.done, s.doneAt = int64(r.xid), len(s.history)
		s.advance(c, len(s.history))
		h.Zxid = s.history.zxid()
		s.replies[s.done] = h.Append(nil)
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren2:
		path, watch := r.watched()
		stat, exists := s.history[:c.at].node(path)
		body = memoryReply(r.op, stat, exists, &h)
		if watch && (exists || r.op == jute.OpExists) {
			c.watches[path] |= memoryKind(r.op)
		}
	case jute.OpSetWatches:
		s.setWatches(c, r.setWatches())
	}
	h.Zxid = s.history[:c.at].zxid()
	if s.chance(3) {
		s.cuts++
		return false
	}
	c.put(append(h.Append(nil), body...))
	return true
}

func memoryKind(op jute.OpCode) WatchSet {
	if op == jute.OpGetChildren2 {
		return WatchesChildren
	}
	return WatchesData
}

func (s *memoryServer) setWatches(c *memoryConn, q jute.SetWatchesRequest) {
	s.resets = append(s.resets, memoryReset{q.RelativeZxid, s.history[:c.at].zxid()})
	set := func(paths []string, kind WatchSet, missed func(Stat, bool) EventType) {
		for _, path := range paths {
			stat, exists := s.history[:c.at].node(path)
			if typ := missed(stat, exists); typ != 0 {
				c.event(typ, path, -1)
			} else {
				c.watches[path] |= kind
			}
		}
	}
	changed := func(typ EventType, zxid func(Stat) Zxid) func(Stat, bool) EventType {
		return func(stat Stat, exists bool) EventType {
			switch {
			case !exists:
				return EventDeleted
			case zxid(stat) > q.RelativeZxid:
				return typ
			}
			return 0
		}
	}
	set(q.Data, WatchesData, changed(EventDataChanged, func(s Stat) Zxid { return s.Mzxid }))
	set(q.Child, WatchesChildren, changed(EventChildrenChanged, func(s Stat) Zxid { return s.Pzxid }))
	set(q.Exist, WatchesData, func(_ Stat, exists bool) EventType {
		if exists {
			return EventCreated
		}
		return 0
	})
}

// memoryModel is the memory of a relay.
type memoryModel struct {
	mu      sync.Mutex
	r       *rand.Rand
	history memoryHistory
	at      int
	down    bool
	watches map[*Relay]map[string]WatchSet
	between bool     // it advances after a relay has told what it has heard, and before it looks at a node
	late    []*Relay // that have not told yet what they have heard
	seen    int      // reads that were answered
}

func (m *memoryModel) commit(c memoryChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = append(m.history, c)
}

func (m *memoryModel) Covers(path string) bool { return path[:2] == "/m" }

func (m *memoryModel) See(r *Relay, path string, take func(*Remembered) WatchSet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return false
	}
	if m.between {
		m.advanceLocked(true)
	}
	h := m.history[:m.at]
	stat, exists := h.node(path)
	since := max(stat.Czxid, stat.Mzxid, stat.Pzxid)
	if !exists {
		parent, _ := h.node("/m")
		since = parent.Pzxid
	}
	n := Remembered{
		Exists: exists, Data: fmt.Append(nil, stat.Version), Stat: stat, Whole: true, Since: since, Zxid: h.zxid(),
		Names: func(to []string) []string { return append(to, memoryNames(stat)...) },
	}
	m.seen++
	if set := take(&n); set != 0 {
		if m.watches[r] == nil {
			m.watches[r] = map[string]WatchSet{}
		}
		m.watches[r][path] |= set
	}
	return true
}

func (m *memoryModel) Behind(Zxid) {}

func (m *memoryModel) Forget(r *Relay) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, r)
}

// tell has relays tell what they have heard.
func (m *memoryModel) tell() {
	m.mu.Lock()
	late := m.late
	m.late = nil
	m.mu.Unlock()
	for _, r := range late {
		r.TellHeard()
	}
}

// advance has the memory show more, or all.
func (m *memoryModel) advance(all bool) {
	m.mu.Lock()
	m.advanceLocked(all)
	m.mu.Unlock()
	m.tell()
}

func (m *memoryModel) advanceLocked(all bool) {
	to := len(m.history)
	if !all {
		to = m.at + m.r.IntN(to-m.at+1)
	}
	for ; m.at < to; m.at++ {
		c := &m.history[m.at]
		for r, watches := range m.watches {
			for _, ev := range c.events() {
				if fired := watches[ev.Path].Fired(ev.Type); fired != 0 {
					watches[ev.Path] &^= fired
					r.Heard(c.zxid, ev)
					m.late = append(m.late, r)
				}
			}
		}
	}
}

// fail has the memory know nothing any more, or again.
func (m *memoryModel) fail(down bool) {
	m.mu.Lock()
	m.down = down
	var told []*Relay
	for r, watches := range m.watches {
		if down && len(watches) > 0 {
			r.Heard(0, jute.WatcherEvent{})
			told = append(told, r)
		}
	}
	m.mu.Unlock()
	for _, r := range told {
		r.TellHeard()
	}
}

// memoryRun is a client of a relay with a memory.
type memoryRun struct {
	s     *memoryServer
	asked []memoryAsked
	mu    sync.Mutex
	told  []memoryTold
	wrong []string
}

type memoryAsked struct {
	op    jute.OpCode
	path  string
	watch bool
}

type memoryTold struct {
	Forwarded
	event *jute.WatcherEvent
}

func (m *memoryRun) fails(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

func (m *memoryRun) reply(a Forwarded) {
	a.Body = slices.Clone(a.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, memoryTold{Forwarded: a})
}

func (m *memoryRun) event(zxid Zxid, ev jute.WatcherEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, memoryTold{Forwarded: Forwarded{Zxid: zxid}, event: &ev})
}

// memoryWatch is a one-shot watch of the client.
type memoryWatch struct {
	path string
	kind WatchSet
}

// check holds what the client was told against what one server shows.
func (m *memoryRun) check() {
	h := m.s.history
	armed := map[memoryWatch]Zxid{} // what the read that set it has shown
	missed := func(upto Zxid) (w memoryWatch, c *memoryChange) {
		for w, since := range armed {
			if c, _ := m.s.fires(w, since); c != nil && c.zxid <= upto {
				return w, c
			}
		}
		return w, nil
	}
	var seen Zxid
	replies := 0
	for i, t := range m.told {
		if t.event != nil {
			fired, shown := false, t.Zxid
			for _, kind := range []WatchSet{WatchesData, WatchesChildren} {
				w := memoryWatch{t.event.Path, kind}
				if since, ok := armed[w]; ok && kind.Fired(t.event.Type) != 0 {
					if first := h.fires(w.path, w.kind, since); first != nil { // it shows this one, or a later one
						shown = max(shown, first.zxid)
					}
					c, may := m.s.fires(w, since)
					told := func(c *memoryChange) bool { return c != nil && (t.Zxid < 0 || c.zxid == t.Zxid) }
					if !told(c) && !slices.ContainsFunc(may, told) {
						m.fails("%d: %v is told at %v, and the first change after %v is %v", i, *t.event, t.Zxid, since, c)
					}
					delete(armed, w)
					fired = true
				}
			}
			again := false // of another kind of watch, which a server that sets them again tells by itself
			for j := i - 1; j >= 0 && m.told[j].event != nil; j-- {
				again = again || t.Zxid < 0 && *m.told[j].event == *t.event
			}
			if !fired && !again {
				m.fails("%d: %v is told at %v, and there is no watch", i, *t.event, t.Zxid)
			}
			if w, c := missed(t.Zxid - 1); c != nil {
				m.fails("%d: %v is told at %v, before %v of the watch %v", i, *t.event, t.Zxid, c, w)
			}
			seen = max(seen, shown)
			continue
		}
		if replies++; t.Lost != nil || int(t.Xid) != replies {
			m.fails("reply %d is to %d: %v", replies, t.Xid, t.Lost)
			return
		}
		q := m.asked[t.Xid-1]
		if w, c := missed(t.Zxid); c != nil {
			m.fails("%d: the reply to %v shows %v, before %v of the watch %v", i, q, t.Zxid, c, w)
		}
		if q.op == jute.OpSetData {
			seen = max(seen, t.Zxid)
			continue
		}
		if t.Zxid < seen {
			m.fails("%d: the reply to %v shows %v, and the client has seen %v", i, q, t.Zxid, seen)
		}
		seen = max(seen, t.Zxid)
		stat, exists := h.upTo(t.Zxid).node(q.path)
		want := jute.ReplyHeader{}
		if body := memoryReply(q.op, stat, exists, &want); want.Err != t.Err || string(body) != string(t.Body) {
			m.fails("%d: the reply to %v (remembered: %v) is %v %q, want %v %q of %v", i, q, t.Remembered, t.Err, t.Body, want.Err, body, t.Zxid)
		}
		if q.watch && (exists || q.op == jute.OpExists) {
			w := memoryWatch{q.path, memoryKind(q.op)}
			if _, ok := armed[w]; !ok {
				armed[w] = t.Zxid
			}
		}
	}
	if w, c := missed(h.zxid()); c != nil {
		m.fails("%v of the watch %v is not told", c, w)
	}
	if replies != len(m.asked) || len(m.s.doubled) > 0 {
		m.fails("%d of %d replies, writes done twice: %v", replies, len(m.asked), m.s.doubled)
	}
}

// start connects a relay with a memory to an ensemble, until ctx ends.
func (m *memoryRun) start(ctx context.Context, t *testing.T, seed uint64) (*fakeNet, *Relay, *told, RelayOptions) {
	n := newFakeNet(t)
	model := &memoryModel{r: seeded(seed + 1000), watches: map[*Relay]map[string]WatchSet{}}
	m.s = &memoryServer{t: t, m: model, r: seeded(seed), replies: map[int64][]byte{}}
	m.s.commit(EventDataChanged, "/o")
	go m.s.run(ctx, n)
	c, o := &told{m.reply, m.event}, RelayOptions{Timeout: memoryTimeout, Memory: model}
	r := n.startRelay(c, o, seed)
	if _, err := r.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	return n, r, c, o
}

// ask has the client ask.
func (m *memoryRun) ask(r *Relay, q memoryAsked) {
	m.asked = append(m.asked, q)
	body := jute.AppendBool(jute.AppendString(nil, q.path), q.watch)
	if q.op == jute.OpSetData {
		body = (&jute.SetDataRequest{Path: q.path, Version: -1}).Append(nil)
	}
	r.Forward(int32(len(m.asked)), q.op, body)
}

// runHeard has a memory advance just before it is looked at, and returns what was wrong.
func runHeard(t *testing.T, seed uint64) (wrong []string) {
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	m := &memoryRun{}
	_, r, _, _ := m.start(ctx, t, seed)
	s, model := m.s, m.s.m
	s.mu.Lock()
	s.calm, s.calmSince = true, time.Now()
	s.commit(EventDataChanged, "/m/a")
	s.mu.Unlock()
	m.ask(r, memoryAsked{jute.OpGetData, "/o", false}) // the server is up to date
	synctest.Wait()
	model.advance(true)
	m.ask(r, memoryAsked{jute.OpGetData, "/m/a", true})
	s.mu.Lock()
	s.commit(EventDataChanged, "/m/a")
	s.mu.Unlock()
	model.between = true
	m.ask(r, memoryAsked{jute.OpGetData, "/m/a", false})
	model.tell()
	synctest.Wait()
	r.Abort()
	if last := m.told[len(m.told)-1]; len(m.told) != 4 {
		m.fails("%d replies and events, the last %+v", len(m.told), last)
	}
	m.check()
	return m.wrong
}

// runMemory runs a client of a relay with a memory, and returns what was wrong, and how many reads the memory has answered.
func runMemory(t *testing.T, seed uint64) (wrong []string, remembered int) {
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	m := &memoryRun{}
	n, r, c, o := m.start(ctx, t, seed)
	s, model := m.s, m.s.m
	random := rand.New(rand.NewPCG(seed, 1))
	ask := func(q memoryAsked) { m.ask(r, q) }
	uncached := 1 + random.IntN(8) // in so many, the client asks for what is not in the memory
	for range 200 {
		switch random.IntN(8) {
		case 0:
			if random.IntN(uncached) == 0 {
				ask(memoryAsked{jute.OpSetData, []string{"/m/own", "/o"}[random.IntN(2)], false})
			}
		case 1, 2, 3, 4:
			path := memoryPaths[random.IntN(4)]
			if random.IntN(2*uncached) == 0 {
				path = "/o"
			}
			op := []jute.OpCode{jute.OpGetData, jute.OpExists, jute.OpGetChildren2}[random.IntN(3)]
			ask(memoryAsked{op, path, random.IntN(2) == 0})
		default:
			s.mu.Lock()
			s.other()
			s.mu.Unlock()
		}
		if random.IntN(2) == 0 {
			model.advance(random.IntN(2) == 0)
		}
		if random.IntN(20) == 0 {
			model.fail(random.IntN(2) == 0)
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		if random.IntN(30) == 0 {
			r = n.again(r, time.Duration(random.IntN(300))*time.Millisecond, c, o)
		}
	}
	model.fail(false)
	model.advance(true)
	s.mu.Lock()
	s.calm, s.calmSince = true, time.Now()
	s.mu.Unlock()
	for range 10 { // reads alone keep the session
		time.Sleep(memoryTimeout / 4)
		ask(memoryAsked{jute.OpGetData, "/m/a", false})
	}
	ask(memoryAsked{jute.OpSetData, "/m/own", false})
	model.advance(true)
	time.Sleep(memoryTimeout / 4)
	r.Abort()
	for _, t := range m.told {
		if t.Remembered {
			remembered++
		}
	}
	m.check()
	return append(m.wrong, s.wrong...), remembered
}

// TestRelayMemory: a client whose reads and watches a memory answers, as far as it can, sees what one server would show it: each reply shows the state at its
// zxid, which is never older than what the client has seen; each watch has the event of the first change after what its read has shown, once, before
// any reply that shows the change and before the events of later changes; but a node that is created and deleted again may go unnoticed where the watch is set again. The memory and the servers are behind each other, connections are
// cut, and the relay is made again from its record.
func TestRelayMemory(t *testing.T) {
	all := 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wrong, remembered := runMemory(t, seed)
				for _, w := range wrong {
					t.Error(w)
				}
				all += remembered
			})
		})
	}
	if all < 500 {
		t.Errorf("the memory has answered %d reads", all)
	}
}

// TestRelayMemoryTellsFirst: what the memory learns between what a relay tells and what it looks at is told before the reply that shows it.
func TestRelayMemoryTellsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, w := range runHeard(t, 1) {
			t.Error(w)
		}
	})
}
