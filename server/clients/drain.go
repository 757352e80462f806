package clients

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/monitor"
)

// Drain moves clients to other servers: it ends connections, a part of them at each tick, and
// then may keep clients away for a time. It may be used from any goroutine.
//
// No session expires for that: see keepsAway.
type Drain struct {
	log      *zap.Logger
	metrics  *monitor.Metrics
	now      func() time.Duration
	sessions *sessions
	lines    func() []*guardedLine // of all connections
	order    func() drainOrder     // that there is
	obeyed   drainOrder            // that tick has seen; only tick uses it

	keeps atomic.Bool   // clients are kept away: until is not 0
	count atomic.Uint64 // of drains that have begun

	mu    sync.Mutex
	left  int           // connections that are still to end
	part  int           // that end at a time
	until time.Duration // when clients are let in again; 0 if they are not kept away
	// sent has when a session was first sent away. It is nil if clients are not kept away.
	sent map[jute.SessionID]time.Duration
}

// drainOrder is an order by a znode, which holds as long as that is there. The zero drainOrder is none.
type drainOrder struct {
	at    jute.Zxid     // when the node was created
	until time.Duration // ordered, or retired
}

const drainParts = 10 // in which connections end

// Values of Drain.until.
const (
	retired  = time.Duration(math.MaxInt64) // as long as there is a node at jute.RetiredPath
	noMember = retired - 1                  // the server is no member
	ordered  = noMember - 1                 // as long as there is a node at jute.DrainPath
)

// serve does what a request for a drain asks for. It returns how many connections will end. allowed: its author
// may change the members. The connection that asks stays.
func (d *Drain) serve(l *guardedLine, req *line.Request, allowed bool) (left int, err error) {
	var r jute.DrainRequest
	decoder := jute.NewAliasDecoder(req.Body)
	r.Decode(&decoder)
	keep := time.Duration(r.KeepAwayMs) * time.Millisecond
	switch {
	case decoder.Err() != nil:
		return 0, jute.ErrMarshalling
	case r.HasKeepAway && (r.Percent != 0 || r.KeepAwayMs < 0 || r.KeepAwayMs > maxKeepAway.Milliseconds()):
		return 0, jute.ErrBadArguments
	case !r.HasKeepAway && (r.Percent < 1 || r.Percent > 100):
		return 0, jute.ErrBadArguments
	case !allowed:
		return 0, jute.ErrNoAuth
	case !r.HasKeepAway:
		return d.begin(int(r.Percent), l), nil
	case keep == 0:
		d.LetIn()
		return 0, nil
	}
	return d.keepAway(d.now()+keep, l), nil
}

// maxKeepAway is the longest time for which an operator can have clients kept away.
const maxKeepAway = 7 * 24 * time.Hour

// KeepAway moves all clients to other servers, and keeps clients away until LetIn is called.
func (d *Drain) KeepAway() { d.keepAway(noMember, nil) }

// keepAway moves all clients but one to other servers, and keeps clients away for a time. It
// returns how many connections will end.
func (d *Drain) keepAway(until time.Duration, but *guardedLine) int {
	d.mu.Lock()
	d.until = max(d.until, until)
	if d.sent == nil {
		d.sent = make(map[jute.SessionID]time.Duration)
	}
	d.keeps.Store(true)
	d.mu.Unlock()
	return d.begin(100, but)
}

// Shed moves a part of the clients, in percent, to other servers. It returns how many.
func (d *Drain) Shed(percent int) int { return d.begin(percent, nil) }

// begin begins to end percent of the connections but one, and at least one of several. It
// returns how many.
func (d *Drain) begin(percent int, but *guardedLine) int {
	d.count.Add(1)
	if but != nil {
		d.exempt(but)
	}
	n := (len(d.movable())*percent + 99) / 100
	d.mu.Lock()
	d.left, d.part = n, (n+drainParts-1)/drainParts
	if d.until == retired {
		d.part = n
	}
	d.mu.Unlock()
	d.log.Info("moves clients to other servers", zap.Int("connections", n), zap.Bool("keeps_away", d.keeps.Load()))
	return n
}

// exempt makes the present drain leave the connection alone.
func (d *Drain) exempt(l *guardedLine) {
	l.Lock()
	l.exempt = d.count.Load()
	l.Unlock()
}

// LetIn ends a drain. A retired ensemble lets clients in when it is not retired any more, and not before.
func (d *Drain) LetIn() {
	if _, until := d.state(); until != retired {
		d.letIn()
	}
}

func (d *Drain) letIn() {
	d.mu.Lock()
	kept := d.until != 0
	d.keeps.Store(false)
	d.left, d.until, d.sent = 0, 0, nil
	d.mu.Unlock()
	if kept {
		d.log.Info("lets clients in again")
	}
}

// movable returns the connections of clients that a drain may end.
func (d *Drain) movable() (list []*guardedLine) {
	present := d.count.Load()
	for _, l := range d.lines() {
		l.Lock()
		ok := l.exempt != present && !l.endsLocked() && !l.ReadOnly()
		l.Unlock()
		if ok && l.WantsSession() {
			list = append(list, l)
		}
	}
	return list
}

// obey begins the drain that an operator has ordered, and ends it when the order is gone. LetIn ends it before that: an order is obeyed once.
func (d *Drain) obey() {
	order := d.order()
	if order == d.obeyed {
		return
	}
	before := d.obeyed
	d.obeyed = order
	if _, until := d.state(); before.at != 0 && until == before.until {
		d.letIn()
	}
	if order.at != 0 {
		d.log.Info("an operator has ordered that clients are kept away", zap.Stringer("zxid", order.at), zap.Bool("ensemble_retired", order.until == retired))
		d.keepAway(order.until, nil)
	}
}

// tick obeys orders, and ends the next part of the connections.
func (d *Drain) tick(now time.Duration) {
	d.obey()
	left, until := d.state()
	if until != 0 && now >= until {
		d.LetIn()
		return
	}
	if left == 0 && until == 0 {
		return
	}
	list := d.movable()
	d.mu.Lock()
	n := min(d.left, d.part, len(list))
	if left == 0 {
		n = len(list) // they came while the drain began
	}
	d.left = min(d.left, len(list)) - n
	list = list[:n]
	for _, l := range list {
		if d.sent != nil {
			d.sent[l.SessionID()] = now
		}
	}
	d.mu.Unlock()
	for _, l := range list {
		l.drain()
	}
}

// keepsAway reports whether a client is to go to another server. A session is let in when it
// still comes after a third of its timeout: the client seems to have no other server. A retired ensemble lets none in.
func (d *Drain) keepsAway(l *guardedLine, r *jute.ConnectRequest) bool {
	if !d.keeps.Load() || l.ReadOnly() {
		return false
	}
	if r.ProtocolVersion == jute.ProtocolOperator {
		d.exempt(l)
		return false
	}
	known := r.SessionID != 0 && d.sessions.verify(r.SessionID, r.Password)
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent == nil {
		return false
	}
	if known && d.until != retired {
		first, ok := d.sent[r.SessionID]
		if !ok {
			d.sent[r.SessionID] = now
		} else if now-first >= time.Duration(l.Session.TimeoutMs())*time.Millisecond/3 {
			delete(d.sent, r.SessionID)
			d.exempt(l)
			return false
		}
	}
	d.metrics.KeptAway.Add(1)
	return true
}

// Remark returns what operators are shown of a drain, or "".
func (d *Drain) Remark() string {
	left, until := d.state()
	text := ""
	switch until {
	case 0:
		if left == 0 {
			return ""
		}
	case retired:
		text = ", keeps clients away: the ensemble is retired"
	case noMember:
		text = ", keeps clients away: it is no member"
	case ordered:
		text = ", keeps clients away: an operator has ordered it"
	default:
		text = fmt.Sprintf(", keeps clients away for %d s", (until-d.now()+time.Second-1)/time.Second)
	}
	return fmt.Sprintf("%d connections left%s", left, text)
}

// state returns how many connections are still to end, and when clients are let in again,
// or 0 if they are not kept away.
func (d *Drain) state() (left int, until time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left, d.until
}
