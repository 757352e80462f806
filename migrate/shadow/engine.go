package shadow

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// ConnID is a client's connection.
type ConnID uint64

// Config is the configuration of an Engine.
type Config struct {
	// Hold is how long an answer of Apache's waits for others that may have a lower zxid, at most.
	Hold time.Duration
	// Grace is how long an event may lack that of the other side.
	Grace time.Duration
	// Patience is how long zkd may take for an answer.
	Patience time.Duration
	// Most bounds the bytes that are held for all connections, MostOfOne those for one.
	Most, MostOfOne int
	// Window is how many requests of a connection zkd has at a time.
	Window int
	// StartMs is the time when the shadow began, in ms since the Unix epoch.
	StartMs int64
}

// DefaultConfig returns the configuration for a shadow that began at a time, in ms since the
// Unix epoch.
func DefaultConfig(startMs int64) Config {
	return Config{
		Hold: 5 * time.Second, Grace: 15 * time.Second, Patience: 30 * time.Second,
		Most: 256 << 20, MostOfOne: 32 << 20, Window: 1000, StartMs: startMs,
	}
}

// ActionKind is what the caller of an Engine is to do.
type ActionKind int

// The actions.
const (
	Dial  ActionKind = iota // connect to zkd, and send Frame
	Send                    // send Frame to zkd
	Close                   // close the connection to zkd
)

// Action is something to do for a connection. Frame has no length.
type Action struct {
	Kind  ActionKind
	Conn  ConnID
	Frame []byte
}

// Engine compares conversations. Its inputs come with the time since the shadow began, which
// never goes back. After each input the caller takes Actions and Reports.
type Engine struct {
	cfg     Config
	compare *comparer
	now     time.Duration

	conns    map[ConnID]*conn
	sessions map[jute.SessionID]*session // by Apache's id
	order    order
	asks     fifo.List[*op] // that Apache has not answered, and others after them
	asked    uint64         // the last request's number
	all      fifo.List[*op] // that zkd has not answered, in the order in which Apache answered

	// open are the znodes whose state the shadow can't know, until a time; openLists
	// those of which it can't know the children.
	open, openLists map[string]time.Duration
	late            int             // watches of all connections that late requests may have set
	seen            map[string]bool // differences that were reported

	held    int
	swept   time.Duration // when Tick last looked at all
	sum     Summary
	actions []Action
	reports []Report
}

// bounds of what an Engine remembers.
const (
	keptOpen = 100_000
	keptLate = 100_000
	keptSeen = 10_000
	forever  = time.Duration(math.MaxInt64)
)

// session is a session of Apache's, and the one of zkd's that matches it.
type session struct {
	id       jute.SessionID
	zkd      jute.SessionID
	password []byte
	timeout  time.Duration
	conn     *conn // the last one
	lastZxid jute.Zxid
	// ephemerals are its znodes.
	ephemerals map[string]bool
	gone       time.Duration // when its connection ended, or 0
}

// conn is a connection of a client.
type conn struct {
	id      ConnID
	session *session

	fromClient, fromApache, fromZkd Splitter
	connect                         *jute.ConnectRequest
	response                        *jute.ConnectResponse
	asked                           fifo.List[*op] // that Apache has not answered
	place                           jute.Zxid      // of the last request that Apache has answered

	queue    fifo.List[*op] // to be sent to zkd, in their order
	sent     fifo.List[*op] // that zkd has not answered
	zkdState zkdState
	dialed   time.Duration
	zkdZxid  jute.Zxid // of zkd's answers and events
	after    *conn     // the connection that the session had before, until zkd has done with it
	next     *conn     // the one that waits for this one

	events     map[string]*pathEvents
	late       map[watch]jute.Zxid // what late requests may have set after a change of which Apache's side tells, and up to which of zkd's. Counted in Engine.late
	persistent map[string]bool     // paths with watches set by addWatch

	held    int
	ended   bool // the client's connection is closed
	stopped bool // it is compared no longer
	passed  bool // it is not of the client protocol
	over    bool // Apache has closed the session; it may still send events of later changes
	closing bool // both sides close it, because of an answer
	done    bool
}

type zkdState int

const (
	zkdNone zkdState = iota
	zkdDialing
	zkdUp
	zkdClosed
)

// op is a request, from its arrival to zkd's answer.
type op struct {
	*request
	conn   *conn
	number uint64 // in the order in which requests came
	answer []byte // Apache's
	at     time.Duration
	// before is the number of the last request that may come before it in Apache's order.
	before uint64
	// place is where it belongs: after the transaction with this zxid.
	place jute.Zxid
	seq   uint64
	// late means that requests which conflict with it, and come after it, were sent before it.
	late bool
	// afterACL means that it came when Apache had not answered a setACL on one of its znodes:
	// Apache checks either list.
	afterACL bool
	waits    int // the number of operations that it waits for
	waiting  []*op
	sentAt   time.Duration
	answered bool
	resolved bool // zkd has answered, or will not
}

// New returns an Engine.
func New(cfg Config) *Engine {
	const margin = 60_000 // clocks of servers differ
	return &Engine{
		cfg: cfg, compare: newComparer(cfg.StartMs - margin),
		conns: map[ConnID]*conn{}, sessions: map[jute.SessionID]*session{},
		order: newOrder(), open: map[string]time.Duration{}, openLists: map[string]time.Duration{}, seen: map[string]bool{},
		sum: Summary{Known: map[string]int{}, NotSent: map[string]int{}, Stopped: map[string]int{}},
	}
}

// Actions returns what is to be done since the last call.
func (e *Engine) Actions() []Action {
	list := e.actions
	e.actions = nil
	return list
}

// Reports returns the differences that were found since the last call.
func (e *Engine) Reports() []Report {
	list := e.reports
	e.reports = nil
	return list
}

// Summary returns what was counted.
func (e *Engine) Summary() Summary {
	s := e.sum
	s.Known, s.NotSent, s.Stopped = maps.Clone(s.Known), maps.Clone(s.NotSent), maps.Clone(s.Stopped)
	s.Held, s.Late = e.held, e.late
	for _, c := range e.conns {
		if !c.stopped && !c.passed && !c.ended {
			s.Watching++
		}
		s.Waiting += c.queue.Len() + c.sent.Len()
	}
	s.Waiting += e.order.waiting()
	return s
}

// Quiet reports whether zkd has answered all that Apache has.
func (e *Engine) Quiet() bool {
	for _, c := range e.conns {
		if c.queue.Len()+c.sent.Len() > 0 || c.zkdState == zkdDialing {
			return false
		}
	}
	return e.order.waiting() == 0
}

// Open begins a connection.
func (e *Engine) Open(now time.Duration, id ConnID) {
	e.now = now
	e.conns[id] = &conn{id: id, events: map[string]*pathEvents{}}
}

// leaveOpen leaves open what znodes are, until a time.
func (e *Engine) leaveOpen(paths []string, until time.Duration) { e.leave(e.open, paths, until) }

// leaveComing leaves open, until a time, whether a znode exists that goes by itself.
func (e *Engine) leaveComing(path string, until time.Duration) {
	e.leave(e.open, []string{path}, until)
	e.leave(e.openLists, []string{jute.Parent(path)}, until)
}

func (e *Engine) leave(open map[string]time.Duration, paths []string, until time.Duration) {
	for _, path := range paths {
		if len(open) >= keptOpen {
			e.sum.Blind = true
			return
		}
		open[strings.Clone(path)] = max(until, open[path])
	}
}

func (e *Engine) isOpen(paths ...[]string) bool {
	return e.sum.Blind || e.anyIn(e.open, paths...)
}

func (e *Engine) anyIn(open map[string]time.Duration, paths ...[]string) bool {
	for _, list := range paths {
		for _, path := range list {
			if until, ok := open[path]; ok && until > e.now {
				return true
			}
		}
	}
	return false
}

// ofLists are the fields that depend on which children a znode has.
var ofLists = []string{"set", "number", "stat.cversion", "stat.numChildren", "stat.pzxid"}

// fields returns the names of what differs.
func (d differences) fields() []string {
	names := make([]string, len(d))
	for i, what := range d {
		names[i], _, _ = strings.Cut(what, ":")
	}
	return names
}

// class says whether a difference between the answers to a request is one.
func (e *Engine) class(o *op, a, z *answer, d differences) Class {
	ca, cz := a.failed(), z.failed()
	switch {
	case o.late || e.isOpen(o.reads, o.writes), o.barrier && len(e.open) > 0:
		return Order
	case o.afterACL && (ca == jute.ErrNoAuth || cz == jute.ErrNoAuth):
		return Order
	case e.anyIn(e.openLists, o.reads, o.writes) && (ca == jute.ErrNotEmpty || cz == jute.ErrNotEmpty ||
		!slices.ContainsFunc(d.fields(), func(f string) bool { return !slices.Contains(ofLists, f) })):
		return Order
	case cz == jute.ErrNoNode && e.ofStranger(a), ca == jute.ErrNoNode && e.ofStranger(z):
		return Order
	}
	return Difference
}

// ofStranger reports whether an answer is about an ephemeral of a session that does not live
// through the shadow: it may end sooner on one side.
func (e *Engine) ofStranger(answer *answer) bool {
	for _, p := range answer.parts {
		if p.stat == nil || p.stat.EphemeralOwner == 0 {
			continue
		}
		for _, s := range e.sessions {
			if s.id == p.stat.EphemeralOwner || s.zkd == p.stat.EphemeralOwner {
				return false
			}
		}
		return true
	}
	return false
}

func (e *Engine) report(c *conn, r Report) {
	switch r.Class {
	case Known:
		e.sum.Known[r.ID]++
	case Order:
		e.sum.Order++
	default:
		e.sum.Differences++
	}
	key := strings.Join(append(differences(r.What).fields(), string(r.Class), r.ID, r.Op, r.Path), "\x00")
	if r.Class == Known {
		key = r.ID
	}
	if e.seen[key] || len(e.seen) >= keptSeen {
		if r.Class == Difference {
			e.sum.Repeated++
		}
		return
	}
	e.seen[key] = true
	if c != nil {
		r.Conn = c.id
		if c.session != nil {
			r.Session = c.session.id.String()
		}
	}
	e.reports = append(e.reports, r)
}

// Tick is called a few times a second, and more often while Waits.
func (e *Engine) Tick(now time.Duration) {
	e.now = now
	e.advance()
	const pause = 100 * time.Millisecond
	if e.now < e.swept+pause {
		return
	}
	e.swept = e.now
	busy := forever // what Apache answered since has not been compared yet
	if e.all.Len() > 0 {
		busy = (*e.all.Front()).at
	}
	for _, c := range slices.SortedFunc(maps.Values(e.conns), func(a, b *conn) int { return cmp.Compare(a.id, b.id) }) {
		if c.sent.Len() > 0 && e.now-(*c.sent.Front()).sentAt > e.cfg.Patience || c.zkdState == zkdDialing && e.now-c.dialed > e.cfg.Patience {
			e.stop(c, "zkd did not answer in time")
			continue
		}
		e.oldEvents(c, busy, e.cfg.Grace)
	}
	compact(&e.asks, func(o *op) bool { return o.answered || o.resolved })
	compact(&e.all, func(o *op) bool { return o.resolved })
	for _, open := range []map[string]time.Duration{e.open, e.openLists} {
		maps.DeleteFunc(open, func(_ string, until time.Duration) bool { return until <= e.now })
	}
	for id, s := range e.sessions {
		if s.gone > 0 && e.now > s.gone+2*s.timeout+e.cfg.Grace {
			delete(e.sessions, id)
		}
	}
}

// compact removes what is done from a long list, of which the first may stay for long: one connection
// must not keep the requests of all others in memory.
func compact(list *fifo.List[*op], done func(*op) bool) {
	const long = 4096
	if list.Len() < long {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list.All()), done)
	list.Clear()
	list.Push(left...)
}

// Waits reports whether requests wait for their place in the order.
func (e *Engine) Waits() bool { return e.order.waiting() > 0 }
