package line

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
)

// TestPages runs testdata/*.txt: what lines are asked, and each submission and frame that they make. The commands:
//
//	server [local] [old]     a server, with local sessions, or with a history that has no owners of sessions
//	service S                the present service; without a number there is none
//	open N [ID] [seen=Z] [confirmed=C] [timeout=MS] [holder=H] [silent]  line N opens a session, or resumes session ID
//	asks N OP [PATH]         its client sends a request: create, ephemeral, set, get, watch, page, reconfig, close, ping, or malformed OP
//	pinged N [alone]         its client pings without a request; alone: the server may not answer it without the leader
//	arrives N                the client of line N is heard of, and the clock is not read yet
//	order [MEMBERS]          the oldest submission becomes a transaction, which is applied; MEMBERS is that of a reconfig
//	refuse CODE              it is refused
//	closing ID               the leader is about to close a session
//	interlude | fence S      a service ends; the fence of service S has passed
//	local N ID               line N opens or resumes a local session
//	visit N                  line N opens the local session of a visitor
//	upgrade N                line N asks for its local session to become a global one
//	kill N                   line N ends, and is not forgotten yet
//	forget N                 line N, which has ended, is forgotten
//	elsewhere ID             the history gives a session to a connection of another server
//	members Z                the list of members is of zxid Z
//	touches                  the report to the leader
//	sessions                 how many sessions are watched over
//	full N                   line N has as many unread bytes as it may have
//	clock MS                 time passes
func TestPages(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(*testing.T) scenario.Command { return newPage().command })
}

// TestOrderedReadAfterItsIdentity: a read that the leader orders gets nothing by an identity that has ended meanwhile.
func TestOrderedReadAfterItsIdentity(t *testing.T) {
	p := newPage()
	p.begin(false)
	p.lines.Schemes, _ = auth.New(auth.Config{DigestEnabled: true})
	p.open("a", nil)
	p.order(0)
	who := jute.ID{Scheme: "digest", ID: "ann:x"}
	p.zxid++
	p.lines.State.Tree.Apply(&datatree.Txn{Zxid: p.zxid, Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: "/a", ACL: []jute.ACL{{Perms: jute.PermRead, ID: who}}}}}, new(datatree.Applied))
	l := p.of["a"]
	for ended, want := range map[bool]string{false: "a < reply 7 at 2, error 0\n", true: "a < reply 7 at 2, error -102\n"} {
		l.ended = ended
		p.said.Reset()
		p.answers.replyTo(&l.Line, &Request{Op: jute.OpGetData, Xid: 7, Body: (&jute.PathWatchRequest{Path: "/a"}).Append(nil), Auth: []jute.ID{who}}, p.zxid, 0, nil, nil)
		if got := p.said.String(); got != want {
			t.Errorf("ended %v: got %q, want %q", ended, got, want)
		}
	}
}

// TestReadOfAHolder: an entry of the scheme holder lets the session read that holds the lock, and no other.
func TestReadOfAHolder(t *testing.T) {
	p := newPage()
	p.begin(false)
	for _, name := range []string{"a", "b"} {
		p.open(name, nil)
		p.order(0)
	}
	p.zxid++
	p.lines.State.Tree.Apply(&datatree.Txn{Zxid: p.zxid, Session: p.of["a"].SessionID(), Multi: true, Ops: []datatree.Op{
		{Kind: datatree.OpCreate, Path: "/locks"},
		{Kind: datatree.OpCreate, Path: "/locks/a-0000000001", Owner: jute.Owner(p.of["a"].SessionID())},
		{Kind: datatree.OpCreate, Path: "/guarded", ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "holder", ID: "/locks"}}}},
	}}, new(datatree.Applied))
	for name, want := range map[string]string{"a": "a < reply 7 at 3, error 0\n", "b": "b < reply 7 at 3, error -102\n"} {
		p.said.Reset()
		p.answers.replyTo(&p.of[name].Line, &Request{Op: jute.OpGetData, Xid: 7, Body: (&jute.PathWatchRequest{Path: "/guarded"}).Append(nil)}, p.zxid, 0, nil, nil)
		if got := p.said.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// page is a server with its lines.
type page struct {
	lines   *Lines
	answers *Answers
	of      map[string]*pageLine
	subs    []replica.Submission
	now     time.Duration
	service uint64
	zxid    jute.Zxid
	members jute.Zxid
	ids     jute.SessionID
	wait    Interlude
	quiet   bool // frames are not shown
	old     bool // the history has no owners of sessions, as that of earlier versions
	said    strings.Builder
}

func newPage() *page { return &page{of: make(map[string]*pageLine), members: 1} }

func (p *page) say(format string, args ...any) { fmt.Fprintf(&p.said, format+"\n", args...) }

// pageLine is a line and its host.
type pageLine struct {
	Line
	p    *page
	name string
	xid  int32
	// ended means that the identities of the client's requests have ended.
	ended  bool
	locked bool
}

func (h *pageLine) Lock()                      { h.locked = true }
func (h *pageLine) Unlock()                    { h.locked = false }
func (h *pageLine) Decided()                   { h.p.say("%s is decided", h.name) }
func (h *pageLine) Operate(*Request)           {}
func (h *pageLine) Left(int64, int64)          {}
func (h *pageLine) Ending()                    { h.p.say("%s ends when all is written", h.name) }
func (h *pageLine) Groups() []string           { return nil }
func (h *pageLine) Present() *auth.Credentials { return auth.NewCredentials() }

func (h *pageLine) Held(ids []jute.ID) []jute.ID {
	if h.ended {
		return nil
	}
	return ids
}

func (h *pageLine) Kill() {
	if h.locked {
		h.p.say("%s is closed under its own lock", h.name)
	}
	if !h.Outbox.Gone() {
		h.p.say("%s is closed", h.name)
	}
	h.Line.Kill()
}

// Sent shows a frame.
func (h *pageLine) Sent(size int) {
	if h.p.quiet {
		return
	}
	out := h.Outbox.Unsent().Last()
	frame := out[len(out)-size:]
	d := jute.NewDecoder(frame)
	if h.xid == 0 {
		var r jute.ConnectResponse
		var ext jute.ExtensionResponse
		r.Decode(&d)
		ext.Decode(&d)
		h.xid = 1
		if r.SessionID == 0 && ext.Features != 0 {
			h.p.say("%s < the session is elsewhere: %v", h.name, ext.Features)
			return
		}
		h.p.say("%s < session %d, timeout %d, done %d, %d outcomes", h.name, int64(r.SessionID), r.TimeoutMs, ext.Done, ext.Replies)
		return
	}
	var r jute.ReplyHeader
	r.Decode(&d)
	if r.Xid == jute.XidNotification {
		var e jute.WatcherEvent
		e.Decode(&d)
		h.p.say("%s < event %v %s at %d", h.name, e.Type, e.Path, r.Zxid)
	} else {
		h.p.say("%s < reply %d at %d, error %d", h.name, r.Xid, r.Zxid, int32(r.Err))
	}
}

// What lines ask of their server and of the applier.
func (p *page) Limits() Limits              { return Limits{1 << 20, 1 << 20, 1 << 20, 10, 10} }
func (p *page) NextSession() jute.SessionID { p.ids++; return p.ids }
func (p *page) Members() jute.Zxid          { return p.members }
func (p *page) Submit(subs ...replica.Submission) {
	for _, s := range subs {
		p.say("-> %v, xid %d, of session %d, in service %d", s.Request.Op, s.Request.Cxid, int64(s.Request.Session), s.Service)
		p.subs = append(p.subs, s)
	}
}
func (p *page) Subscribed(*Line, bool)                                                      {}
func (p *page) LongReply(*Line, *Request, string, int, bool)                                {}
func (p *page) Served(*Line, *Request, error)                                               {}
func (p *page) ServedPart(*Line, *Request, *jute.MultiOp, jute.Code)                        {}
func (p *page) Slow(*Line, Output)                                                          { p.say("too slow") }
func (p *page) Answering(*Line, *Request, *replica.Order, *datatree.Txn, []datatree.Result) {}
func (p *page) Answered(*Line, *Request, *replica.Order, jute.Code)                         {}
func (p *page) Unanswered(*Line, *datatree.Txn, []datatree.Result)                          {}
func (p *page) AnswerLost(*datatree.Txn, []datatree.Result)                                 { p.say("the answer is lost") }
func (p *page) ServedLate(*Line, *Request, *Read)                                           {}
func (p *page) Yield()                                                                      {}
func (p *page) ServedAll(int)                                                               {}
func (p *page) Telling(int)                                                                 {}
func (p *page) Fired(*datatree.Event, int)                                                  {}
func (p *page) Notified(*Line, int)                                                         {}
func (p *page) Dirty(*Line)                                                                 {}
func (p *page) Established(*Line)                                                           {}
func (p *page) Ends(_ *Line, why Ending, _ *Request, _ *replica.Order) {
	p.say("ends for reason %d", why)
}

func (p *page) command(words []string) (string, error) {
	p.said.Reset()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(arg(i), 10, 64); return n }
	switch words[0] {
	case "server":
		p.begin(slices.Contains(words, "local"))
		p.old = slices.Contains(words, "old")
		for _, w := range words {
			if n, ok := strings.CutPrefix(w, "unread="); ok {
				p.lines.Unread, _ = strconv.Atoi(n)
			}
		}
	case "service":
		p.service = uint64(number(1))
	case "open":
		p.open(words[1], words[2:])
	case "local":
		l := p.line(words[1])
		if p.lines.Locals.Get(jute.SessionID(number(2))) == nil {
			p.lines.Locals.Add(jute.SessionID(number(2)), 1000, p.now.Milliseconds())
		}
		p.openLocal(l, jute.SessionID(number(2)))
	case "visit":
		p.line(words[1]).Visit()
		p.open(words[1], nil)
	case "asks":
		p.ask(p.of[words[1]], words[2], arg(3))
	case "upgrade":
		p.upgrade(p.of[words[1]])
	case "kill":
		p.of[words[1]].Kill()
	case "forget":
		l := p.of[words[1]]
		l.Forget()
		p.lines.Register.Remove(&l.Line, "", register.Direct)
	case "elsewhere":
		p.elsewhere(p.lines.State.Tree, jute.SessionID(number(1)))
	case "snapshot":
		tree := datatree.New()
		p.elsewhere(tree, jute.SessionID(number(1)))
		p.answers.EndAll()
		p.answers.Install(tree, p.now)
	case "members":
		p.members = jute.Zxid(number(1))
	case "pinged":
		until := int64(1 << 40)
		if arg(2) == "alone" {
			until = 0
		}
		p.say("enough: %v", p.of[words[1]].Pinged(p.now, until))
	case "arrives":
		p.of[words[1]].Session.Arriving()
	case "order":
		p.order(jute.Zxid(number(1)))
	case "refuse":
		o := &replica.Order{Kind: replica.OrderBarrier, Origin: p.subs[0].Request.Origin, Session: p.subs[0].Request.Session, Code: jute.Code(number(1))}
		p.subs = p.subs[1:]
		p.answers.Barrier(o)
	case "closing":
		p.lines.Sessions.MarkClosing(jute.SessionID(number(1)))
	case "interlude":
		p.service, p.subs = 0, nil
		p.answers.BeginInterlude()
	case "fence":
		p.service = uint64(number(1))
		p.answers.EndInterlude(p.service)
	case "ended":
		p.wait.Begin(p.now, time.Duration(number(2))*time.Second, arg(1) == "fenced")
	case "over":
		p.say("%v", p.wait.Over(p.now, arg(1) == "fenced"))
	case "stop":
		p.wait.Stop()
	case "touches":
		p.touches()
	case "sessions":
		p.say("%d", p.lines.Sessions.Len())
	case "full":
		l := p.of[words[1]]
		p.quiet = true
		l.Outbox.Finish(append(l.Reply(99, 0, 0), make([]byte, 1<<20)...))
		for range 65 {
			l.Send(make([]byte, 1<<20))
		}
		p.quiet = false
	case "clock":
		p.now += time.Duration(number(1)) * time.Millisecond
	default:
		return "", scenario.Unknown(words)
	}
	return p.said.String(), nil
}

// elsewhere applies a transaction by which a session is a line's of another server, which may have opened it.
func (p *page) elsewhere(tree *datatree.Tree, id jute.SessionID) {
	ops := []datatree.Op{{Kind: datatree.OpSetOwner}}
	if _, open := tree.Session(id); !open {
		ops = append([]datatree.Op{{Kind: datatree.OpCreateSession, TimeoutMs: 1000}}, ops...)
		p.lines.Sessions.Add(id, 1000, p.now.Milliseconds())
	}
	p.zxid++
	tree.Apply(&datatree.Txn{Zxid: p.zxid, Session: id, Origin: 1, Ops: ops}, new(datatree.Applied))
}

func (p *page) begin(local bool) {
	schemes, _ := auth.New(auth.Config{})
	p.lines = &Lines{
		Server: p, State: &state.State{Tree: datatree.New(), Watches: watch.New()}, Schemes: schemes, Sessions: session.NewTracker(100),
		Locals: session.NewTracker(100), Register: register.New[*Line](true), Places: new(feed.Places),
		Views: Views{Lock: new(sync.Mutex)}, LocalSessions: local, Upgrading: local, Unread: UnreadLimit,
	}
	p.lines.State.Begin([32]byte{})
	p.answers = p.lines.NewAnswers(p)
	p.service, p.ids, p.now, p.subs = 1, 100, time.Second, nil
	p.lines.fenced.Store(1)
}

// line begins a line. Its number counts from 11 on.
func (p *page) line(name string) *pageLine {
	l := &pageLine{p: p, name: name}
	p.of[name] = l
	l.Begin(p.lines, l, uint64(10+len(p.of)))
	p.lines.Register.Add(&l.Line, "", register.Direct, register.Most{})
	l.Extend(jute.ExtensionRequest{Features: jute.FeatureExactlyOnce})
	l.Session.SetTimeout(1000)
	return l
}

func (p *page) open(name string, words []string) {
	l := p.of[name]
	if l == nil {
		l = p.line(name)
	}
	a := Admission{Service: p.service, Serving: p.service != 0}
	for _, w := range words {
		if z, ok := strings.CutPrefix(w, "seen="); ok {
			n, _ := strconv.Atoi(z)
			a.Seen = jute.Zxid(n)
		} else if n, ok := strings.CutPrefix(w, "confirmed="); ok {
			l.asked.Confirmed, _ = strconv.ParseInt(n, 10, 64)
		} else if ms, ok := strings.CutPrefix(w, "timeout="); ok {
			n, _ := strconv.Atoi(ms)
			l.Session.SetTimeout(int32(n))
		} else if n, ok := strings.CutPrefix(w, "holder="); ok {
			h, _ := strconv.Atoi(n)
			l.Extend(jute.ExtensionRequest{Features: l.asked.Features | jute.FeatureMoved, Holder: jute.Holder(h)})
		} else if w != "silent" {
			n, _ := strconv.Atoi(w)
			a.ID = jute.SessionID(n)
		}
	}
	if slices.Contains(words, "silent") {
		return
	}
	if err := p.lines.Admit(&l.Line, &a); err != nil {
		p.say("%s: %v", name, err)
		return
	}
	id := a.ID
	if l.visits {
		id = p.NextSession()
		p.lines.Locals.Add(id, 1000, p.now.Milliseconds())
	}
	if id != 0 && l.Locally(id) {
		p.openLocal(l, id)
		return
	}
	if id == 0 {
		id = p.NextSession()
	}
	p.Submit(l.Open(id, a.ID != 0, true, p.now))
}

func (p *page) openLocal(l *pageLine, id jute.SessionID) {
	if !l.OpenLocal(id, true, p.now.Milliseconds(), func(old *Line) { old.Host().Kill() }) {
		p.say("%s can't have it as a local one", l.name)
		l.Kill()
	}
}

func (p *page) upgrade(l *pageLine) {
	sub, ok := l.Upgrade(p.now)
	if !ok {
		p.say("%s has it no longer", l.name)
		return
	}
	p.Submit(sub)
}

func (p *page) ask(l *pageLine, what, path string) {
	if l.Outbox.Ends() || l.SessionID() == 0 {
		p.say("%s can't ask", l.name)
		return
	}
	last := l.Session.Arriving()
	l.Arrived(last, p.now, 1<<40)
	l.xid++
	req := Request{Xid: l.xid, Received: p.now}
	create := jute.CreateRequest{Path: path, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
	switch what {
	case "ephemeral":
		create.Mode = jute.ModeEphemeral
		fallthrough
	case "create":
		req.Op, req.Body = jute.OpCreate, create.Append(nil)
	case "set":
		req.Op, req.Body = jute.OpSetData, (&jute.SetDataRequest{Path: path, Version: -1}).Append(nil)
	case "get", "watch":
		req.Op, req.Body = jute.OpExists, (&jute.PathWatchRequest{Path: path, Watch: what == "watch"}).Append(nil)
	case "malformed": // a request that ends in its first field
		for req.Op = 1; req.Op < 200 && req.Op.String() != path; req.Op++ {
		}
		req.Body = []byte{0}
	case "page": // of an extension that lines do not have here
		req.Op, req.Body = jute.OpChildrenPage, (&jute.ChildrenPageRequest{Path: path}).Append(nil)
	case "reconfig":
		req.Op = jute.OpReconfig
	case "close":
		req.Op = jute.OpCloseSession
	case "ping":
		req.Op, req.Xid = jute.OpPing, jute.XidPing
	}
	if l.granted&jute.FeatureExactlyOnce != 0 && (what == "create" || what == "set") {
		req.Body = binary.BigEndian.AppendUint64(req.Body, 0)
	}
	if err := l.Accept(&req); err != nil {
		p.say("%s: %v", l.name, err)
		return
	}
	if l.WayOf(&req, false) != Submit {
		if l.Waiting.Len() == 0 || !l.Queue(req) {
			if !l.Serve(&req, p.now, new(Read)) {
				l.Outbox.End(true)
			}
		}
		return
	}
	if l.Upgrades(&req) {
		p.upgrade(l)
		p.order(0)
	}
	p.Submit(l.Line.Submit(&req))
}

// order makes a transaction of the oldest submission, and applies it.
func (p *page) order(members jute.Zxid) {
	if len(p.subs) == 0 {
		p.say("nothing is to be ordered")
		return
	}
	s := p.subs[0]
	p.subs = p.subs[1:]
	p.zxid++
	p.answers.Begin(p.now)
	r := &s.Request
	if r.Op == jute.OpReconfig {
		p.members = members
		p.answers.Barrier(&replica.Order{Kind: replica.OrderBarrier, Origin: r.Origin})
		return
	}
	txn := &datatree.Txn{Zxid: p.zxid, Session: r.Session, Cxid: r.Cxid, Origin: r.Origin, Number: r.Number, Confirmed: r.Confirmed}
	d := jute.NewDecoder(r.Body)
	op := datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: r.TimeoutMs, Result: r.Op}
	switch {
	case s.Kind == replica.Resume:
		op = datatree.Op{Kind: datatree.OpSetOwner}
	case r.Op == jute.OpCreate:
		var c jute.CreateRequest
		c.Decode(&d)
		op = datatree.Op{Kind: datatree.OpCreate, Path: c.Path, ACL: c.ACL, Cversion: 1, Result: r.Op}
		if c.Mode.Ephemeral() {
			op.Owner = jute.OwnerSession(r.Session)
		}
	case r.Op == jute.OpSetData:
		op = datatree.Op{Kind: datatree.OpSetData, Path: d.String(), Version: 1, Result: r.Op}
	case r.Op == jute.OpCloseSession:
		op = datatree.Op{Kind: datatree.OpCloseSession, Result: r.Op}
	}
	txn.Ops = []datatree.Op{op}
	if op.Kind == datatree.OpCreateSession && !p.old {
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpSetOwner, Result: r.Op})
	}
	if s.Kind == replica.Resume && p.old {
		p.answers.Barrier(&replica.Order{Kind: replica.OrderBarrier, Origin: r.Origin, Session: r.Session})
		return
	}
	if r.Exact && op.Kind == datatree.OpCreateSession {
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpExactlyOnce, Result: r.Op})
	}
	var out datatree.Applied
	p.answers.BeforeApply(txn)
	p.lines.State.Tree.Apply(txn, &out)
	p.lines.State.SetApplied(p.zxid)
	p.answers.Applied(&replica.Order{}, txn, &out, true)
}

func (p *page) touches() {
	list := p.lines.Touches(nil, p.now.Milliseconds())
	slices.SortFunc(list, func(a, b replica.Touch) int { return int(a.Session - b.Session) })
	for _, t := range list {
		p.say("session %d was heard of %d ms ago", int64(t.Session), t.AgeMs)
	}
}
