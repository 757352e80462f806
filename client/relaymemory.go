package client

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

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

// Remembered is what a Memory knows of a path, and WatchSet a set of kinds of one-shot watches, as events fire them.
type (
	Remembered = resume.Remembered
	WatchSet   = resume.WatchSet
)

// The kinds of watches.
const (
	WatchesData     = resume.WatchesData     // on data, and on whether there is a node
	WatchesChildren = resume.WatchesChildren // on the list of children
)

// xidCatchUp is the xid of a sync that makes a server catch up with what the session has seen.
const xidCatchUp int32 = -18

// fromMemory is the part of a Relay that answers from memory.
type fromMemory struct {
	of Memory // or nil

	// Guarded by session.mu.
	proofs bool // the client has shown who it is, so it may see what others may not

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
	told := r.rules.HearsLocally(t)
	s.mu.Unlock()
	if told {
		r.client.Event(t.Zxid, t.WatcherEvent)
	}
}

// remembers answers a read from the memory, if it can.
func (r *Relay) remembers(xid int32, op OpCode, body []byte) bool {
	if r.memory.of == nil || op != jute.OpExists && op != jute.OpGetData && op != jute.OpGetChildren && op != jute.OpGetChildren2 {
		return false
	}
	d := jute.NewDecoder(body)
	var q jute.PathWatchRequest
	q.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 || jute.ValidatePath(q.Path) != nil || !r.memory.of.Covers(q.Path) || r.enter() != nil {
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
		dies := now.Sub(l.began)-l.signs.Wrote() > idle // although its client is there, as nothing is sent
		dies = dies && !relayMemoryUnpinged.Planted()
		if dies {
			l.ping(now)
		}
		a.Xid, a.Op, a.Remembered = xid, op, true
		r.client.Reply(a)
		return true
	}
}

// quietLocked reports whether nothing of the session is under way.
func (r *Relay) quietLocked() bool {
	s := r.c.s
	if s.conn == nil || s.conn.hasFailed() || s.state != StateConnected || r.memory.proofs || len(s.auths) > 0 || s.overLocked() != nil {
		return false
	}
	busy := s.calls.Len() > 0 || len(s.owed) > 0 || r.asked.Len() > 0 || r.telling.Load() > 0
	return r.rules.Remembers(busy) && s.waiting == 0 && s.conn.watchesSent == 0
}

// seeLocked looks a node up. again means that there are events to be told first.
func (r *Relay) seeLocked(op OpCode, q *jute.PathWatchRequest) (a Forwarded, answered, again bool) {
	if !r.quietLocked() {
		return a, false, false
	}
	s, m := r.c.s, &r.memory
	behind := Zxid(0)
	r.memory.of.See(r, q.Path, func(n *Remembered) (watches WatchSet) {
		m.mu.Lock()
		again = len(m.heard) > 0
		m.mu.Unlock()
		again = again && !relayMemoryUntold.Planted()
		if again {
			return 0
		}
		k := r.rules.Recalls(op, q, n)
		if k.Behind {
			behind = r.rules.Seen()
		}
		if !k.Answered {
			return 0
		}
		a, answered = r.rememberedLocked(op, n), true
		a.Zxid, s.lastZxid = k.Zxid, r.rules.Shown()
		return k.Watches
	})
	if behind > 0 {
		r.memory.of.Behind(behind)
	}
	return a, answered, again
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
	if r.memory.of == nil {
		return
	}
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	r.upstreamLocked()
}

// upstreamLocked makes the server of the connection have what the session has seen, and the client's watches. Without a connection, the next one
// begins with that.
func (r *Relay) upstreamLocked() {
	s := r.c.s
	u := r.rules.GoUpstream(!s.holdsLocked(), min(setWatchesChunk, s.opts.MaxRequest-256))
	l := s.conn
	if u.Syncs {
		r.syncLocked(l)
	}
	for _, q := range u.Watches {
		s.out = l.appendSetWatchesLocked(s.out, &q)
		l.flushLocked()
	}
	if u.Forgets {
		r.memory.of.Forget(r)
	}
}

// syncLocked makes the server of a connection have what the session has seen.
func (r *Relay) syncLocked(l *link) {
	s := r.c.s
	b, mark := jute.BeginFrame(s.out)
	h := jute.RequestHeader{Xid: xidCatchUp, Type: jute.OpSync}
	s.out = jute.EndFrame(jute.AppendString(h.Append(b), "/"), mark)
	l.flushLocked()
}

// overLocked is called when the session has ended.
func (r *Relay) overLocked() {
	r.rules.Watches.End()
	if r.memory.of != nil {
		r.memory.of.Forget(r)
	}
}

// caughtUp handles the reply to a sync.
func (r *Relay) caughtUp(h *jute.ReplyHeader) error {
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	return r.rules.CaughtUp(h.Zxid, h.Err)
}
