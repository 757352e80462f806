package sim

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
)

// Feeds: clients follow the changes of znodes over all their connections, give little credit or none for
// a while, and begin again where they were. A node has the history of changes and the feeds of servers.
// The ghost makes its own list of changes from the committed transactions: see C1 to C5.

// record is a change of a committed transaction.
type record struct {
	jute.Change
	hidden bool // nobody may read the znode at that moment, nor could right before
}

// hiddenACL allows everything but reading.
var hiddenACL = []jute.ACL{{Perms: jute.PermAll &^ jute.PermRead, ID: jute.WorldAnyone}}

// noteRecords records the changes of a committed transaction, whose events are given.
func (g *ghost) noteRecords(txn *datatree.Txn, events []pathEvent) {
	index := int32(0)
	add := func(kind jute.ChangeKind, path string, data []byte, stat jute.Stat) {
		c := jute.Change{
			Zxid: txn.Zxid, Index: index, Kind: kind, Time: txn.Time, Session: txn.Session, Stat: stat, Path: strings.Clone(path), Data: bytes.Clone(data),
		}
		g.countChild(&c)
		g.records = append(g.records, record{c, g.hidden[path]})
		index++
	}
	for i := range txn.Ops {
		op, result := &txn.Ops[i], &g.applied.Results[i]
		if result.Code != 0 {
			continue
		}
		switch op.Kind {
		case datatree.OpCreate:
			g.hide(op)
			add(jute.ChangeCreated, op.Path, op.Data, result.Stat)
		case datatree.OpSetData:
			add(jute.ChangeData, op.Path, op.Data, result.Stat)
		case datatree.OpSetACL:
			was, stat := g.hidden[op.Path], result.Stat
			if g.hide(op); g.hidden[op.Path] {
				stat = jute.Stat{} // the loss of it is shown
			}
			add(jute.ChangeACL, op.Path, nil, stat)
			g.records[len(g.records)-1].hidden = was && g.hidden[op.Path]
		case datatree.OpDelete:
			add(jute.ChangeDeleted, op.Path, nil, jute.Stat{})
		case datatree.OpCloseSession:
			for _, e := range events {
				if e.typ == jute.EventDeleted {
					add(jute.ChangeDeleted, e.path, nil, jute.Stat{})
				}
			}
		}
	}
}

// family is what the ghost knows of the children of a znode.
type family struct {
	changes int32 // how many were created or deleted
	count   int32
}

// countChild counts a znode that was created or deleted, and completes the change.
func (g *ghost) countChild(c *jute.Change) {
	if c.Kind != jute.ChangeCreated && c.Kind != jute.ChangeDeleted {
		return
	}
	dir := jute.Parent(c.Path)
	f := g.families[dir]
	f.changes++
	if c.Kind == jute.ChangeCreated {
		f.count++
	} else {
		f.count--
	}
	g.families[dir] = f
	delete(g.families, c.Path)
	c.ParentCversion, c.ParentChildren = f.changes, f.count
}

// hide notes whether the ACL that an operation sets hides the znode.
func (g *ghost) hide(op *datatree.Op) {
	g.hidden[strings.Clone(op.Path)] = hides(op.ACL)
}

// hides reports whether an ACL list keeps clients from reading.
func hides(acl []jute.ACL) bool {
	return !slices.ContainsFunc(acl, func(a jute.ACL) bool { return a.Perms&jute.PermRead != 0 && a.ID == jute.WorldAnyone })
}

// recordsAfter returns the index of the first record after a zxid.
func (g *ghost) recordsAfter(z jute.Zxid) int {
	return sort.Search(len(g.records), func(i int) bool { return g.records[i].Zxid > z })
}

// feedState is what a client knows of its feed.
type feedState uint8

const (
	feedOff  feedState = iota // this connection does not have it
	feedOn                    // this connection has it
	feedGone                  // changes are missed: the client has to read the state
)

// clientFeed is a feed of a client, over all its connections.
type clientFeed struct {
	state   feedState
	begun   bool                  // it is to be begun again after the zxid where it was
	request jute.SubscribeRequest // the last one
	after   jute.Zxid             // everything up to it has come
	next    int                   // in ghost.records: what has not come on this connection
	listed  bool                  // of that, there may be only the change of the parent's children
	credit  int                   // without what is on its way
	level   bool                  // the server says that it precedes replies
	window  int                   // roughly the credit that the client wants it to have
	rests   uint64                // until then the client gives no credit
}

// wants reports whether a record belongs to the feed.
func (f *clientFeed) wants(r *record) bool {
	path := f.request.Path
	below := f.request.Recursive && (path == "/" || strings.HasPrefix(r.Path, path+"/"))
	return (r.Path == path || below) && f.request.Kinds.Has(r.Kind) && !r.hidden
}

// children returns the change of the parent's children that comes with a record, if one does.
func (r *record) children() (c record, ok bool) {
	c.Change = r.Change
	c.Kind, c.Path, c.Stat, c.Data = jute.ChangeChildren, jute.Parent(r.Path), jute.Stat{}, nil
	return c, r.Kind == jute.ChangeCreated || r.Kind == jute.ChangeDeleted
}

// following returns the next change of the feed, up to z, or nil.
func (f *clientFeed) following(g *ghost, z jute.Zxid) *record {
	for ; f.next < len(g.records) && g.records[f.next].Zxid <= z; f.seek(f.next + 1) {
		r := &g.records[f.next]
		if !f.listed && f.wants(r) {
			return r
		}
		f.listed = true
		if c, ok := r.children(); ok && f.wants(&c) {
			return &c
		}
	}
	return nil
}

// seek makes a record the next one.
func (f *clientFeed) seek(next int) { f.next, f.listed = next, false }

// took is called when the change that following returns has come.
func (f *clientFeed) took() {
	if f.listed {
		f.seek(f.next + 1)
	} else {
		f.listed = true
	}
}

// begin is called when a server has the feed.
func (f *clientFeed) begin(g *ghost, after jute.Zxid) {
	f.state, f.begun, f.after, f.credit, f.level = feedOn, true, after, int(f.request.Credit), false
	f.seek(g.recordsAfter(after))
}

// newFeeds returns the feeds of a client. The one with an odd number is the second one.
func (s *Sim) newFeeds(id int) []*clientFeed {
	if s.cfg.Feeds == 0 || id%s.cfg.Feeds != 0 || s.cfg.Edges > 0 && id%s.cfg.Edges == 0 {
		return nil
	}
	return []*clientFeed{{}, {request: jute.SubscribeRequest{Feed: 1}}}
}

// chooseFeed makes a request be about a feed, if there is something to do for one.
func (s *Sim) chooseFeed(c *client, req *request) bool {
	if len(c.feeds) == 0 || !s.percent(40) {
		return false
	}
	f := c.feeds[s.rng.IntN(len(c.feeds))]
	if slices.ContainsFunc(c.inFlight, func(r request) bool { return r.feed == f }) {
		return false
	}
	calm := s.phase != phaseChaos
	switch {
	case f.state == feedGone:
		req.kind = reqRead
	case f.state == feedOff:
		s.chooseSubscribe(f)
		req.kind, req.op, req.body = reqFeed, jute.OpSubscribe, f.request.Append(nil)
	case !calm && s.percent(5):
		f.begun = false
		req.kind, req.op, req.body = reqFeed, jute.OpUnsubscribe, (&jute.UnsubscribeRequest{Feed: f.request.Feed}).Append(nil)
	case !calm && s.percent(5):
		f.rests = s.now + s.between(0, s.cfg.SessionMs*4000)
		return false
	case f.credit >= f.window || !calm && s.now < f.rests:
		return false
	default:
		more := max(0, -f.credit) + 1 + s.rng.IntN(f.window)
		req.kind, req.op, req.body = reqFeed, jute.OpCredit, (&jute.CreditRequest{Feed: f.request.Feed, Credit: int32(more)}).Append(nil)
	}
	req.feed = f
	return true
}

// chooseSubscribe draws the request for a feed, or makes the one with which it is begun again.
func (s *Sim) chooseSubscribe(f *clientFeed) {
	r := &f.request
	r.Feed += 2
	r.Credit = int32(pick(s.rng, 0, 50, 1000, 20000))
	f.window = pick(s.rng, 50, 1000, 20000)
	if r.After = f.after; f.begun {
		return
	}
	s.drawSubject(f)
}

// drawSubject draws what a feed is of, and from where on.
func (s *Sim) drawSubject(f *clientFeed) {
	r := &f.request
	r.Path, r.Recursive, r.Data = "/", s.percent(80), s.percent(50)
	if s.percent(30) {
		r.Path = pick(s.rng, s.paths[s.rng.IntN(len(s.paths))], "/tree", "/line", "/tree/a")
	}
	if r.Kinds = 0; s.percent(30) {
		r.Kinds = jute.ChangeKinds(s.rng.IntN(32))
	}
	r.After = pick(s.rng, jute.FromNow, 0, s.ghost.acked)
	if k := len(s.ghost.records); k > 0 && s.percent(50) {
		r.After = s.ghost.records[s.rng.IntN(k)].Zxid
	}
}

// chooseChanges draws a write that changes who may read a znode, or changes it several times.
func (s *Sim) chooseChanges(req *request) {
	path, acl := pick(s.rng, "/hidden", "/secret"), pick(s.rng, openACL, hiddenACL) // nobody watches these alone
	if s.percent(30) {
		path, acl = s.paths[s.rng.IntN(len(s.paths))], openACL
	}
	create := jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: acl}
	set := jute.MultiOp{Type: jute.OpSetData, Path: path, Version: -1, Data: strconv.AppendUint(nil, s.rng.Uint64()>>40, 36)}
	remove := jute.MultiOp{Type: jute.OpDelete, Path: path, Version: -1}
	var ops []jute.MultiOp
	switch s.rng.IntN(5) {
	case 0, 1:
		req.op, req.body = jute.OpSetACL, (&jute.SetACLRequest{Path: path, ACL: acl, Version: -1}).Append(nil)
		return
	case 2:
		ops = []jute.MultiOp{create, set}
	case 3:
		ops = []jute.MultiOp{create, set, remove, create}
	case 4:
		ops = []jute.MultiOp{set, remove}
	}
	req.op, req.body = jute.OpMulti, (&jute.MultiRequest{Ops: ops}).Append(nil)
}

// gotFeedReply handles the answer to a request about a feed, if it is one.
func (s *Sim) gotFeedReply(c *client, req *request, r *reply) {
	f := req.feed
	switch {
	case f == nil:
		return
	case r.err == jute.ErrBadArguments, r.err == jute.ErrQuotaExceeded && s.cfg.MaxFeeds == 0, r.err == jute.ErrNoWatcher && f.state == feedOn:
		s.fail("C1", "client %d is told %v for %v of feed %d", c.id, r.err, req.op, f.request.Feed)
	case r.err != 0:
		return
	}
	switch {
	case req.kind == reqRead:
		f.state, f.after = feedOff, r.zxid
	case req.op == jute.OpSubscribe:
		s.subscribed(c, f, r)
	case req.op == jute.OpCredit:
		var p jute.CreditRequest
		d := jute.NewDecoder(req.body)
		p.Decode(&d)
		f.credit += int(p.Credit)
	default:
		f.state = feedOff
	}
}

// subscribed handles the answer to a client that begins a feed.
func (s *Sim) subscribed(c *client, f *clientFeed, r *reply) {
	var p jute.SubscribeResponse
	d := jute.NewDecoder(r.frame)
	p.Decode(&d)
	want := f.request.After
	if want == jute.FromNow {
		want = r.zxid
	}
	switch {
	case d.Err() != nil:
		s.fail("C1", "client %d: answer to subscribe: %v", c.id, d.Err())
	case p.Compacted:
		s.lacks(c, f, want, p.Zxid)
	case p.Zxid != want:
		s.fail("C2", "client %d begins a feed after %v, and is told %v", c.id, want, p.Zxid)
	default:
		s.stats.Subscribed++
		f.begin(&s.ghost, p.Zxid)
	}
}

// lacks handles the end of a feed at a server that lacks changes.
func (s *Sim) lacks(c *client, f *clientFeed, after, oldest jute.Zxid) {
	s.stats.Compacted++
	if oldest <= after && !s.ghost.gaveUp(after) {
		s.fail("C4", "client %d, which has the changes up to %v, is told that the server has those after %v, and gets none", c.id, after, oldest)
	}
	f.state, f.begun = feedGone, true
}

// gotChanges handles an event of a feed: C1, C2.
func (s *Sim) gotChanges(c *client, r *reply) {
	var head jute.ReplyHeader
	var e jute.FeedEvent
	d := jute.NewDecoder(r.frame)
	head.Decode(&d)
	e.Decode(&d)
	i := slices.IndexFunc(c.feeds, func(f *clientFeed) bool { return f.state == feedOn && f.request.Feed == e.Feed })
	if i < 0 || d.Err() != nil || head.Xid != jute.XidFeed || head.Zxid != e.Zxid {
		s.fail("C1", "client %d has no feed for this event: %+v, %+v, %v", c.id, head, e, d.Err())
	}
	f := c.feeds[i]
	f.credit -= len(r.frame)
	if e.Compacted && !r.displaced {
		s.lacks(c, f, f.after, e.Zxid)
		return
	}
	if s.ghost.gaveUp(f.after) && e.Zxid != f.after {
		s.fail("C4", "client %d has the changes up to %v, which was given up, and its feed continues", c.id, f.after)
	}
	for i := range e.Changes {
		s.stats.Fed++
		want := jute.Change{}
		if next := f.following(&s.ghost, math.MaxInt64); next != nil {
			want = next.Change
		}
		if !f.request.Data {
			want.Data = nil
		}
		if got := &e.Changes[i]; !bytes.Equal(got.Append(nil), want.Append(nil)) {
			s.fail("C1", "client %d gets %+v, and the next change of feed %+v, which is at %v, is %+v", c.id, got, f.request, f.after, want)
		}
		f.took()
	}
	if missed := f.following(&s.ghost, e.Zxid); missed != nil || e.Zxid < f.after {
		s.fail("C2", "client %d is told that feed %+v is at %v; it was at %v, and lacks %+v", c.id, f.request, e.Zxid, f.after, missed)
	}
	f.after, f.level = e.Zxid, e.Level
	if r.displaced {
		f.state, f.begun = feedOff, true
	}
}

// again reports whether a change is not the first one of its path in its transaction.
func (g *ghost) again(r *record) bool {
	return slices.ContainsFunc(g.records, func(o record) bool {
		c, ok := o.children()
		return o.Zxid == r.Zxid && (o.Path == r.Path || ok && c.Path == r.Path) && o.Index < r.Index
	})
}

// checkFed checks that the changes that a reply or the event of a watch shows have come from the feeds that
// had sent everything, or say so: C3. When the event of a watch comes, others of its transaction may follow.
func (s *Sim) checkFed(c *client, r *reply) {
	for i, f := range c.feeds {
		if r.level>>i&1 == 0 && !f.level || f.state != feedOn {
			continue
		}
		z := r.zxid
		if r.event != 0 {
			z--
		}
		missed := f.following(&s.ghost, z)
		if r.event != 0 && missed == nil {
			if missed = f.following(&s.ghost, r.zxid); missed != nil && (missed.Path != r.path || s.ghost.again(missed)) {
				missed = nil
			}
		}
		if missed != nil {
			s.fail("C3", "client %d is shown %v (%v), and feed %+v, which had sent everything, has not sent %+v", c.id, r.zxid, r, f.request, missed)
		}
	}
}

// fedGhost is what the node has done for a feed of a connection.
type fedGhost struct {
	on     bool
	credit int
	level  bool // everything was sent, and there was credit since
}

// fedOf returns it for a feed, by its number.
func (c *conn) fedOf(feed int32) *fedGhost { return &c.fed[feed&1] }

// maxFeeds is how many feeds a connection has: one for each fedGhost.
const maxFeeds = 2

// beginChanges begins the history of a process that has loaded a snapshot, or nothing.
func (s *Sim) beginChanges(n *node) {
	limit := s.cfg.FeedBytes
	if s.cfg.Feeds+s.cfg.Streams+s.cfg.Edges == 0 {
		limit = 0
	}
	n.changes, n.changesSince = feed.New(limit, 0), n.applied
	n.places, n.displaced = new(feed.Places), 0
	n.places.Displaced = func() { s.feedSoon(n) }
	n.places.SetLimits(maxFeeds, s.cfg.MaxFeeds)
}

// feedSoon has the feeds of a node looked at later, as another goroutine would.
func (s *Sim) feedSoon(n *node) {
	if !n.feeding && slices.ContainsFunc(n.conns, func(c *conn) bool { return len(c.line.Feeds()) > 0 }) {
		n.feeding = true
		s.after(evFeed, n, s.between(1, 2*s.cfg.NetUs))
	}
}

// feed sends the next event of each feed of a node.
func (s *Sim) feed(n *node) {
	n.feeding = false
	more := false
	for _, c := range slices.Clone(n.conns) {
		more = c.line.Feed() || more
		c.noteLevels()
		c.flush()
	}
	_, open := n.openFeeds()
	if got := n.places.Usage().Open; got != int64(open) {
		s.fail("C6", "server %d counts %d feeds, and has %d", n.id, got, open)
	}
	if most := s.cfg.MaxFeeds; most > 0 && open > most {
		s.fail("C6", "server %d has %d feeds, of which %d are allowed", n.id, open, most)
	}
	if more {
		s.feedSoon(n)
	}
}

// noteLevels notes which feeds of a connection have sent everything, after all have been looked at.
func (c *conn) noteLevels() {
	for _, f := range c.line.Feeds() {
		if g := c.fedOf(f.ID()); g.credit > 0 && f.State() != feed.Ended && f.Zxid() >= c.n.tree.LastZxid() {
			g.level = true
		}
	}
}

// levelOf returns a bit for each feed of a connection that has sent everything.
func (s *Sim) levelOf(c *conn) (level uint8) {
	for i := range c.fed {
		if c.fed[i].level {
			s.stats.Levels++
			level |= 1 << i
		}
	}
	return level
}

// sentFeed handles an event of a feed: C5.
func (s *Sim) sentFeed(n *node, c *conn, frame []byte) {
	var head jute.ReplyHeader
	var e jute.FeedEvent
	d := jute.NewAliasDecoder(frame)
	head.Decode(&d)
	e.Decode(&d)
	g := c.fedOf(e.Feed)
	if g.credit <= 0 && (e.Level || e.Compacted || len(e.Changes) > 0) && !e.Compacted {
		s.fail("C5", "server %d sends an event of feed %d to client %d, with a credit of %d", n.id, e.Feed, c.client, g.credit)
	}
	g.credit -= len(frame)
	s.fedAt = s.now
	if g.credit <= 0 {
		g.level = false
	}
	displaced := e.Compacted && e.Zxid == c.cursorOf(e.Feed)
	switch {
	case displaced:
		if n.displaced++; n.displaced > n.places.Usage().Displaced {
			s.fail("C8", "server %d ends a feed of client %d, and no other one has its place", n.id, c.client)
		}
		s.stats.Displaced++
		*g = fedGhost{}
	case e.Compacted:
		s.checkHistory(n)
		*g = fedGhost{}
	}
	c.tell(&reply{attempt: c.attempt, frame: bytes.Clone(frame), displaced: displaced})
}

// cursorOf returns the zxid up to which a feed of a connection has sent everything.
func (c *conn) cursorOf(id int32) jute.Zxid {
	i := slices.IndexFunc(c.line.Feeds(), func(f *feed.Feed) bool { return f.ID() == id })
	return c.line.Feeds()[i].Zxid()
}

// openFeeds returns how many feeds the clients of each address have, and all.
func (n *node) openFeeds() (of map[string]int, all int) {
	of = make(map[string]int)
	for _, c := range n.conns {
		for _, g := range c.fed {
			if g.on {
				of[addressOf(c.client)]++
				all++
			}
		}
	}
	return of, all
}

// checkRefused checks that a client whose feed is refused has had a share of a server's feeds: C8.
func (s *Sim) checkRefused(n *node, c *conn) {
	s.stats.FeedsRefused++
	of, open := n.openFeeds()
	switch {
	case n.places.Usage().Open != int64(open): // one that has to end is not told yet
	case open < s.cfg.MaxFeeds:
		s.fail("C8", "server %d refuses a feed of client %d, and has %d", n.id, c.client, open)
	case of[addressOf(c.client)] > 0:
	case open > len(of):
		s.fail("C8", "server %d refuses the only feed of an address, to client %d; addresses have %v", n.id, c.client, of)
	}
}

// sentFeedReply handles the answer to a request about a feed.
func (s *Sim) sentFeedReply(n *node, c *conn, req *request, code jute.Code) {
	if code == jute.ErrQuotaExceeded {
		s.checkRefused(n, c)
	}
	if code != 0 {
		return
	}
	d := jute.NewAliasDecoder(req.body)
	switch req.op {
	case jute.OpSubscribe:
		var p jute.SubscribeRequest
		p.Decode(&d)
		if slices.ContainsFunc(c.line.Feeds(), func(f *feed.Feed) bool { return f.ID() == p.Feed }) {
			*c.fedOf(p.Feed) = fedGhost{on: true, credit: int(p.Credit)}
		} else {
			s.checkHistory(n)
		}
	case jute.OpCredit:
		var p jute.CreditRequest
		p.Decode(&d)
		c.fedOf(p.Feed).credit += int(p.Credit)
	default:
		var p jute.UnsubscribeRequest
		p.Decode(&d)
		*c.fedOf(p.Feed) = fedGhost{}
	}
	s.feedSoon(n)
}

// checkHistory checks a history that lacks changes that a feed needs: all after its oldest zxid are there,
// and it has forgotten others only because it is full: C4.
func (s *Sim) checkHistory(n *node) {
	oldest, last := n.changes.Span()
	g := &s.ghost
	i := g.recordsAfter(oldest)
	err := n.changes.After(oldest).Next(func(r feed.Record) bool {
		got := r.Change()
		if i == len(g.records) || got.Zxid != g.records[i].Zxid || got.Index != g.records[i].Index {
			s.fail("C4", "server %d says that it has the changes after %v, and not what precedes %+v", n.id, oldest, got)
		}
		i++
		return true
	})
	if err != nil || i < g.recordsAfter(last) {
		s.fail("C4", "server %d says that it has the changes after %v up to %v: %v", n.id, oldest, last, err)
	}
	if oldest == n.changesSince {
		return
	}
	kept := 0
	// A transaction that is applied in parts, of which some have been forgotten, is after last.
	for i := g.recordsAfter(oldest - 1); i < g.recordsAfter(max(oldest, last)); i++ {
		kept += 100 + len(g.records[i].Path) + len(g.records[i].Data)
	}
	if kept < s.cfg.FeedBytes/4 {
		s.fail("C4", "server %d has forgotten %v, and has not more than %d bytes of changes after it", n.id, oldest, kept)
	}
}

// checkFeedsSent checks that no feed has to wait when all feeds have been looked at and their clients have read what was
// sent to them, unless for credit.
func (s *Sim) checkFeedsSent() {
	if s.checkStreams(); s.cfg.Feeds == 0 {
		return
	}
	deaf := func(c *client) bool { return s.now < c.deaf+1000 } // and while it gets what it has not read
	s.runUntil("a feed has always more to send, or a client does not read it", func() bool {
		return s.now-s.fedAt >= 1000 && !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.feeding }) && !slices.ContainsFunc(s.clients, deaf)
	})
	for _, n := range s.nodes {
		for _, c := range n.conns {
			s.checkSent(c, n.applied)
		}
	}
}

// checkSent checks that the feeds of a connection that have credit have sent everything up to z: Liveness.
func (s *Sim) checkSent(c *conn, z jute.Zxid) {
	client := s.clients[c.client]
	for i, f := range client.feeds {
		if g := &c.fed[i]; client.origin != c.origin || !g.on || g.credit <= 0 || f.state != feedOn {
			continue
		}
		if !f.level {
			s.fail("Liveness", "client %d is not told that feed %+v has sent everything", c.client, f.request)
		}
		if missed := f.following(&s.ghost, z); missed != nil {
			s.fail("Liveness", "client %d waits for %+v in feed %+v, which has a credit of %d", c.client, missed, f.request, c.fed[i].credit)
		}
	}
}
