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
)

// drain moves clients to other servers: it ends connections, a part of them at each Tick, and
// then may keep clients away for a time.
//
// No session expires for that: see Clients.keepsAway.
type drain struct {
	keeps atomic.Bool   // clients are kept away: until is not 0
	count atomic.Uint64 // of drains that have begun

	mu struct {
		sync.Mutex
		left  int           // connections that are still to end
		part  int           // how many end at a time
		until time.Duration // when clients are let in again; 0 if they are not kept away
		// sent has when a session was first sent away. It is nil if clients are not kept away.
		sent map[jute.SessionID]time.Duration
	}
}

const (
	drainParts = 10                           // in which connections end
	forever    = time.Duration(math.MaxInt64) // of drain.mu.until: the server is no member
)

// serveDrain serves a request for a drain. The tree is locked. Those may ask for it who may change the members.
func (s *Clients) serveDrain(c *conn, req *line.Request) {
	left, err := s.carryOutDrain(c, req)
	if a := s.audit.Load(); !a.off() {
		a.operated(c, req, codeOf(err))
	}
	zxid := s.state.Tree.LastZxid()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stats.answered(req, zxid)
	if req.Code = codeOf(err); err != nil {
		c.line.ReplyCode(req.Xid, zxid, req.Code)
		return
	}
	c.line.Finish(jute.AppendInt32(c.line.Reply(req.Xid, zxid, 0), int32(left)))
}

// carryOutDrain does what a request for a drain asks for. It returns how many connections will end.
func (s *Clients) carryOutDrain(c *conn, req *line.Request) (left int, err error) {
	var p jute.DrainRequest
	d := jute.NewAliasDecoder(req.Body)
	p.Decode(&d)
	keep := time.Duration(p.KeepAwayMs) * time.Millisecond
	switch {
	case d.Err() != nil:
		return 0, jute.ErrMarshalling
	case p.HasKeepAway && (p.Percent != 0 || p.KeepAwayMs < 0 || p.KeepAwayMs > maxKeepAway.Milliseconds()):
		return 0, jute.ErrBadArguments
	case !p.HasKeepAway && (p.Percent < 1 || p.Percent > 100):
		return 0, jute.ErrBadArguments
	case !s.lines.MayOperate(&c.line, req):
		return 0, jute.ErrNoAuth
	case !p.HasKeepAway:
		return s.beginDrain(int(p.Percent), c), nil
	case keep == 0:
		s.LetIn()
		return 0, nil
	}
	return s.keepAway(s.now()+keep, c), nil
}

// maxKeepAway is the longest time for which an operator can have clients kept away.
const maxKeepAway = 7 * 24 * time.Hour

// KeepAway moves all clients to other servers, and keeps clients away until LetIn is called.
func (s *Clients) KeepAway() { s.keepAway(forever, nil) }

// keepAway moves all clients but one to other servers, and keeps clients away for a time. It
// returns how many connections will end.
func (s *Clients) keepAway(until time.Duration, but *conn) int {
	s.drain.mu.Lock()
	s.drain.mu.until = max(s.drain.mu.until, until)
	if s.drain.mu.sent == nil {
		s.drain.mu.sent = make(map[jute.SessionID]time.Duration)
	}
	s.drain.keeps.Store(true)
	s.drain.mu.Unlock()
	return s.beginDrain(100, but)
}

// Shed moves a part of the clients, in percent, to other servers. It returns how many.
func (s *Clients) Shed(percent int) int { return s.beginDrain(percent, nil) }

// beginDrain begins to end percent of the connections but one, and at least one of several. It
// returns how many.
func (s *Clients) beginDrain(percent int, but *conn) int {
	s.drain.count.Add(1)
	if but != nil {
		but.exempt()
	}
	n := (len(s.movable())*percent + 99) / 100
	s.drain.mu.Lock()
	s.drain.mu.left, s.drain.mu.part = n, (n+drainParts-1)/drainParts
	s.drain.mu.Unlock()
	s.log.Info("moves clients to other servers", zap.Int("connections", n), zap.Bool("keeps_away", s.drain.keeps.Load()))
	return n
}

// exempt makes the present drain leave the connection alone.
func (c *conn) exempt() {
	c.mu.Lock()
	c.mu.exempt = c.clients.drain.count.Load()
	c.mu.Unlock()
}

// LetIn ends a drain.
func (s *Clients) LetIn() {
	s.drain.mu.Lock()
	kept := s.drain.mu.until != 0
	s.drain.keeps.Store(false)
	s.drain.mu.left, s.drain.mu.until, s.drain.mu.sent = 0, 0, nil
	s.drain.mu.Unlock()
	if kept {
		s.log.Info("lets clients in again")
	}
}

// movable returns the connections of clients that a drain may end.
func (s *Clients) movable() (list []*conn) {
	drain := s.drain.count.Load()
	for _, c := range s.all() {
		c.mu.Lock()
		ok := c.mu.exempt != drain && !c.mu.draining && !c.line.Ends()
		c.mu.Unlock()
		if ok && c.line.WantsSession() {
			list = append(list, c)
		}
	}
	return list
}

// stepDrain ends the next part of the connections.
func (s *Clients) stepDrain(now time.Duration) {
	left, until := s.draining()
	if until != 0 && now >= until {
		s.LetIn()
		return
	}
	if left == 0 && until == 0 {
		return
	}
	list := s.movable()
	s.drain.mu.Lock()
	n := min(s.drain.mu.left, s.drain.mu.part, len(list))
	if left == 0 {
		n = len(list) // they came while the drain began
	}
	s.drain.mu.left = min(s.drain.mu.left, len(list)) - n
	list = list[:n]
	for _, c := range list {
		if s.drain.mu.sent != nil {
			s.drain.mu.sent[c.line.SessionID()] = now
		}
	}
	s.drain.mu.Unlock()
	for _, c := range list {
		c.drain()
	}
}

// keepsAway reports whether a client is to go to another server. A session is let in when it
// still comes after a third of its timeout: the client seems to have no other server.
func (s *Clients) keepsAway(c *conn, r *jute.ConnectRequest) bool {
	if !s.drain.keeps.Load() || c.line.ReadOnly() {
		return false
	}
	if r.ProtocolVersion == jute.ProtocolOperator {
		c.exempt()
		return false
	}
	known := r.SessionID != 0 && s.verify(r.SessionID, r.Password)
	now := s.now()
	s.drain.mu.Lock()
	defer s.drain.mu.Unlock()
	if s.drain.mu.sent == nil {
		return false
	}
	if known {
		first, ok := s.drain.mu.sent[r.SessionID]
		if !ok {
			s.drain.mu.sent[r.SessionID] = now
		} else if now-first >= time.Duration(c.line.TimeoutMs())*time.Millisecond/3 {
			delete(s.drain.mu.sent, r.SessionID)
			c.exempt()
			return false
		}
	}
	s.metrics.KeptAway.Add(1)
	return true
}

// DrainRemark returns what operators are shown of a drain, or "".
func (s *Clients) DrainRemark() string {
	left, until := s.draining()
	text := ""
	switch until {
	case 0:
		if left == 0 {
			return ""
		}
	case forever:
		text = ", keeps clients away: it is no member"
	default:
		text = fmt.Sprintf(", keeps clients away for %d s", (until-s.now()+time.Second-1)/time.Second)
	}
	return fmt.Sprintf("%d connections left%s", left, text)
}

// draining returns how many connections are still to end, and when clients are let in again,
// or 0 if they are not kept away.
func (s *Clients) draining() (left int, until time.Duration) {
	s.drain.mu.Lock()
	defer s.drain.mu.Unlock()
	return s.drain.mu.left, s.drain.mu.until
}
