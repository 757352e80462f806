package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// A Relay can answer reads from memory that a feed keeps, as if its server had answered them. Three rules make that look like one server:
//
//   - It answers from memory only while nothing of the session is under way, and the memory has everything that the session has seen.
//   - If watches of the client are at the server, an answer shows what the session has seen already: a node that has not changed since. Without
//     such watches it may show something newer, which the session then has seen.
//   - A request that goes upstream takes the client's watches of the memory along. The server is first made to have what the session has seen,
//     by a sync, and then sets the watches as after the loss of a connection: it tells what they have missed.
//
// So the watches of a client are either all in the memory or all at the server. If it is lost, those of the memory are not set again at the next.

// Memory is what a Relay answers reads from. A Relay calls it while its session is locked.
type Memory interface {
	// Covers reports whether the memory may know of a path.
	Covers(path string) bool
	// See calls take with what the memory knows of a path, and returns whether it did. The memory does not change until take returns. If take
	// returns kinds of watches, Relay.Heard gets their events from then on, each kind once.
	See(r *Relay, path string, take func(*Remembered) WatchSet) bool
	// Behind is called when a session has seen more than the memory has.
	Behind(zxid Zxid)
	// Forget ends the watches of a relay.
	Forget(r *Relay)
}

// Remembered is what a Memory knows of a path.
type Remembered struct {
	Exists bool
	Data   []byte
	Stat   Stat
	Whole  bool                    // Names has all children
	Names  func([]string) []string // appends the names of the children
	// Since and Zxid: the node has been so since the transaction Since at the latest, and up to Zxid. All events up to Zxid have been Heard.
	Since, Zxid Zxid
}

// Append appends the body of the reply to a read of the node, which exists. names is memory for those of the children.
func (n *Remembered) Append(b []byte, op OpCode, names *[]string) []byte {
	switch op {
	case jute.OpGetData:
		b = jute.AppendBuffer(b, n.Data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		*names = n.Names((*names)[:0])
		b = jute.AppendStrings(b, *names)
		clear(*names)
	}
	if op != jute.OpGetChildren {
		b = n.Stat.Append(b)
	}
	return b
}

// WatchSet is a set of kinds of one-shot watches, as events fire them.
type WatchSet uint8

// The kinds of watches.
const (
	WatchesData     WatchSet = 1 << iota // on data, and on whether there is a node
	WatchesChildren                      // on the list of children
)

// Fires returns the kinds of watches that an event fires.
func Fires(typ EventType) WatchSet {
	switch typ {
	case EventCreated, EventDataChanged:
		return WatchesData
	case EventChildrenChanged:
		return WatchesChildren
	case EventDeleted:
		return WatchesData | WatchesChildren
	}
	return 0
}

// xidCatchUp is the xid of a sync that makes a server catch up with what the session has seen.
const xidCatchUp int32 = -18

// fromMemory is the part of a Relay that answers from memory.
type fromMemory struct {
	// Guarded by session.mu.
	local   bool   // the client's watches are in the memory
	proofs  bool   // the client has shown who it is, so it may see what others may not
	awaited []Zxid // which the replies to syncs under way must show

	reply []byte   // used with Relay.passes held
	names []string // likewise

	mu    sync.Mutex     // the innermost lock
	heard []resume.Event // that are to be told; one without a type makes the watches go upstream
	runs  bool           // a goroutine is about to tell them
}

// Heard tells the client the event of a watch in the memory, or, if the event has no type, makes its watches go upstream. It does not wait: the
// caller calls TellHeard when it has released its locks.
func (r *Relay) Heard(zxid Zxid, ev jute.WatcherEvent) {
	m := &r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, resume.Event{Zxid: zxid, WatcherEvent: ev})
}

// TellHeard tells the client what Heard has got, in a goroutine of the session.
func (r *Relay) TellHeard() {
	m := &r.memory
	m.mu.Lock()
	runs := m.runs || len(m.heard) == 0
	m.runs = m.runs || !runs
	m.mu.Unlock()
	if runs {
		return
	}
	r.c.s.inBackground(func(ctx context.Context) {
		m.mu.Lock()
		m.runs = false
		m.mu.Unlock()
		if r.enter() == nil {
			r.tellHeard()
			r.exit()
		}
	})
}

// tellHeard tells the client what Heard has got. The caller holds passes.
func (r *Relay) tellHeard() {
	m := &r.memory
	for {
		m.mu.Lock()
		list := m.heard
		m.heard = nil
		m.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, t := range list {
			r.tellLocal(t)
		}
	}
}

func (r *Relay) tellLocal(t resume.Event) {
	s := r.c.s
	s.mu.Lock()
	if t.Type == 0 {
		r.upstreamLocked()
	}
	told := r.memory.local && r.rules.Watches.FiredBy(&t.WatcherEvent)
	if told {
		r.rules.Learnt(t)
	}
	s.mu.Unlock()
	if told {
		r.o.Event(t.Zxid, t.WatcherEvent)
	}
}

// remembers answers a read from the memory, if it can.
func (r *Relay) remembers(xid int32, op OpCode, body []byte) bool {
	if r.o.Memory == nil || op != jute.OpExists && op != jute.OpGetData && op != jute.OpGetChildren && op != jute.OpGetChildren2 {
		return false
	}
	d := jute.NewDecoder(body)
	var q jute.PathWatchRequest
	q.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 || jute.ValidatePath(q.Path) != nil || !r.o.Memory.Covers(q.Path) || r.enter() != nil {
		return false
	}
	defer r.exit()
	s := r.c.s
	for {
		r.tellHeard()
		s.mu.Lock()
		a, answered, again := r.seeLocked(op, &q)
		r.heard = time.Now()
		l, idle := s.conn, s.timeout/3
		s.mu.Unlock()
		if again {
			continue
		}
		if !answered {
			return false
		}
		now := time.Now()
		dies := now.Sub(l.lastWrite()) > idle // although its client is there, as nothing is sent
		dies = dies && !relayMemoryUnpinged.Planted()
		if dies {
			l.ping(now)
		}
		a.Xid, a.Op, a.Remembered = xid, op, true
		r.o.Reply(a)
		return true
	}
}

// quietLocked reports whether nothing of the session is under way.
func (r *Relay) quietLocked() bool {
	s := r.c.s
	if s.conn == nil || s.conn.hasFailed() || s.state != StateConnected || !s.exact || r.rules.Bound || r.memory.proofs || len(s.auths) > 0 || s.overLocked() != nil {
		return false
	}
	quiet := s.calls.Len() == 0 && len(s.owed) == 0 && r.asked.Len() == 0 && r.telling.Load() == 0
	quiet = quiet || relayMemoryBusy.Planted()
	return quiet && s.waiting == 0 && !r.rules.Replaying() && s.conn.watchesSent == 0
}

// seeLocked looks a node up. again means that there are events to be told first.
func (r *Relay) seeLocked(op OpCode, q *jute.PathWatchRequest) (a Forwarded, answered, again bool) {
	if !r.quietLocked() {
		return a, false, false
	}
	s, m := r.c.s, &r.memory
	behind := Zxid(0)
	r.o.Memory.See(r, q.Path, func(n *Remembered) (watches WatchSet) {
		m.mu.Lock()
		again = len(m.heard) > 0
		m.mu.Unlock()
		again = again && !relayMemoryUntold.Planted()
		if again {
			return 0
		}
		seen, free := s.seenLocked(), m.local || r.rules.Watches.Empty()
		free = free || relayMemoryAhead.Planted()
		zxid := max(seen, n.Since)
		old := seen > n.Zxid
		old = old && !relayMemoryOld.Planted()
		lists := op == jute.OpGetChildren || op == jute.OpGetChildren2
		switch {
		case old:
			behind = seen
			return 0
		case zxid > n.Zxid && seen <= n.Zxid:
			return 0
		case !free && (q.Watch || n.Since > s.lastZxid):
			return 0
		case lists && n.Exists && !n.Whole:
			return 0
		}
		a, answered = r.rememberedLocked(op, n), true
		if a.Zxid = zxid; free {
			r.rules.Shows(zxid)
			s.lastZxid = r.rules.Shown()
		}
		if !q.Watch {
			return 0
		}
		return r.watchLocked(op, q.Path, n.Exists)
	})
	if behind > 0 {
		r.o.Memory.Behind(behind)
	}
	return a, answered, again
}

// watchLocked notes the watch that a read has set in the memory.
func (r *Relay) watchLocked(op OpCode, path string, exists bool) (set WatchSet) {
	kind := resume.Data
	set = WatchesData
	switch {
	case op == jute.OpExists && !exists:
		kind = resume.Exist
	case !exists:
		return 0
	case op == jute.OpGetChildren || op == jute.OpGetChildren2:
		kind, set = resume.Children, WatchesChildren
	}
	r.memory.local = true
	r.rules.Watches.Set(kind, path)
	return set
}

// rememberedLocked makes the answer to a read. The caller holds passes.
func (r *Relay) rememberedLocked(op OpCode, n *Remembered) (a Forwarded) {
	m := &r.memory
	if !n.Exists {
		a.Err = ErrNoNode
		return a
	}
	b := n.Append(m.reply[:0], op, &m.names)
	if a.Body = b; cap(b) <= 64<<10 {
		m.reply = b
	}
	return a
}

// goUpstream makes the server of the connection ready for a request.
func (r *Relay) goUpstream() {
	if r.o.Memory == nil {
		return
	}
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	r.upstreamLocked()
}

// upstreamLocked makes the server of the connection have what the session has seen, and the client's watches. Without a connection, the next one
// begins with that.
func (r *Relay) upstreamLocked() {
	s, m := r.c.s, &r.memory
	if l := s.conn; !s.holdsLocked() {
		r.syncLocked(l)
		sets := m.local
		sets = sets && !relayMemoryUnwatched.Planted()
		if sets {
			r.setWatchesLocked(l)
		}
	}
	if m.local {
		r.o.Memory.Forget(r)
		m.local = false
	}
}

// syncLocked makes the server of a connection have what the session has seen.
func (r *Relay) syncLocked(l *link) {
	s := r.c.s
	seen, lags := r.rules.CatchUp()
	lags = lags && !relayMemoryUnsynced.Planted()
	if !lags {
		return
	}
	b, mark := jute.BeginFrame(s.out)
	h := jute.RequestHeader{Xid: xidCatchUp, Type: jute.OpSync}
	s.out = jute.EndFrame(jute.AppendString(h.Append(b), "/"), mark)
	r.memory.awaited = append(r.memory.awaited, seen)
	l.flushLocked()
}

// overLocked is called when the session has ended.
func (r *Relay) overLocked() {
	r.rules.Watches.End()
	if r.o.Memory != nil {
		r.o.Memory.Forget(r)
	}
}

// setWatchesLocked sets the watches of the memory at the server.
func (r *Relay) setWatchesLocked(l *link) {
	s := r.c.s
	for _, q := range r.rules.RestoreWatches(min(setWatchesChunk, s.opts.MaxRequest-256), true) {
		s.out = l.appendSetWatchesLocked(s.out, &q)
		l.flushLocked()
	}
}

// caughtUp handles the reply to a sync.
func (r *Relay) caughtUp(h *jute.ReplyHeader) error {
	s, m := r.c.s, &r.memory
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m.awaited) == 0 {
		return errors.New("the server answered a sync that was not asked for")
	}
	want := m.awaited[0]
	m.awaited = m.awaited[1:]
	if h.Err != 0 || h.Zxid < want {
		return fmt.Errorf("the server is at zxid %v (%v), and the client has seen %v", h.Zxid, h.Err, want)
	}
	return nil
}
