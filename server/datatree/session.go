package datatree

import (
	"iter"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// session is an open session. Its ephemerals are stored by their ids.
type session struct {
	id         jute.SessionID
	timeoutMs  int32
	owner      uint64      // see Tree.SessionOwner
	live       bool        // the slot is in use
	apache     bool        // Apache's server has opened it: see Tree.FromApache
	exact      bool        // see Tree.ExactlyOnce
	holder     jute.Holder // see Tree.SessionHolder
	outcomes   []Outcome
	ephemerals idSet
}

// sessionTable keeps sessions in slots that do not move, so that a view can walk the
// slots while sessions change.
type sessionTable struct {
	slots []session
	free  []uint32
	byID  map[jute.SessionID]uint32

	apache int // number of those with the flag
	owned  int // number of those with an owner
	exact  int // number of exactly-once sessions

	outcomes int64 // memory of their outcomes
}

func newSessionTable() sessionTable {
	return sessionTable{byID: make(map[jute.SessionID]uint32)}
}

// get returns the session id, or nil. The pointer is valid until the next add.
func (s *sessionTable) get(id jute.SessionID) *session {
	if slot, ok := s.byID[id]; ok {
		return &s.slots[slot]
	}
	return nil
}

// nextSlot returns the slot that add will use.
func (s *sessionTable) nextSlot() uint32 {
	if n := len(s.free); n > 0 {
		return s.free[n-1]
	}
	return uint32(len(s.slots))
}

func (s *sessionTable) add(id jute.SessionID, timeoutMs int32) {
	slot := s.nextSlot()
	if n := len(s.free); n > 0 {
		s.free = s.free[:n-1]
	} else {
		s.slots = append(s.slots, session{})
	}
	s.slots[slot] = session{id: id, timeoutMs: timeoutMs, live: true}
	s.byID[id] = slot
}

func (s *sessionTable) remove(id jute.SessionID) {
	slot := s.byID[id]
	if s.slots[slot].apache {
		s.apache--
	}
	if s.slots[slot].owner != 0 {
		s.owned--
	}
	if s.slots[slot].exact {
		s.exact--
	}
	s.slots[slot] = session{}
	s.free = append(s.free, slot)
	delete(s.byID, id)
}

// Session returns the timeout of session s, and whether it exists.
func (t *Tree) Session(s jute.SessionID) (timeoutMs int32, ok bool) {
	e := t.sessions.get(s)
	if e == nil {
		return 0, false
	}
	return e.timeoutMs, true
}

// FromApache reports whether Apache's server has opened session s, so that its client has a
// password of that server's. The session keeps it to its end.
func (t *Tree) FromApache(s jute.SessionID) bool {
	e := t.sessions.get(s)
	return e != nil && e.apache
}

// SessionOwner returns the number of the connection that owns session s: only its writes are
// done. It is 0 if there is no such session, or if the history does not say who owns it: it was
// opened, and resumed last, while the ensemble had servers that could not read OpSetOwner.
func (t *Tree) SessionOwner(s jute.SessionID) uint64 {
	if e := t.sessions.get(s); e != nil {
		return e.owner
	}
	return 0
}

// SessionHolder returns which client owns session s, or 0 if that is not known: a snapshot does not have it.
func (t *Tree) SessionHolder(s jute.SessionID) jute.Holder {
	if e := t.sessions.get(s); e != nil {
		return e.holder
	}
	return 0
}

// HasOwners reports whether any session has an owner.
func (t *Tree) HasOwners() bool { return t.sessions.owned > 0 }

// NumSessions returns the number of sessions.
func (t *Tree) NumSessions() int { return len(t.sessions.byID) }

// Sessions yields each session and its timeout in ms, in no particular order.
func (t *Tree) Sessions() iter.Seq2[jute.SessionID, int32] {
	return func(yield func(jute.SessionID, int32) bool) {
		for i := range t.sessions.slots {
			if s := &t.sessions.slots[i]; s.live && !yield(s.id, s.timeoutMs) {
				return
			}
		}
	}
}

// Ephemerals yields the paths of the ephemerals of session s that begin with prefix, in no
// particular order. Each parent's path is made once, and no path of another ephemeral is; each node
// above an ephemeral is looked at once.
func (t *Tree) Ephemerals(s jute.SessionID, prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		e := t.sessions.get(s)
		if e == nil {
			return
		}
		begins := t.beginsWith(prefix)
		parents := make(map[nodeID]string)
		for _, id := range e.ephemerals.list {
			if !begins(id) {
				continue
			}
			parent := t.arena.rec(id).parent
			above, ok := parents[parent]
			if !ok {
				above = string(append(t.arena.appendPath(nil, parent), '/'))
				parents[parent] = above
			}
			if !yield(above + t.arena.name(id)) {
				return
			}
		}
	}
}

// beginsWith returns a function that reports whether the path of a node, which is not the root, begins with
// prefix. It makes no paths, and looks at each node once.
func (t *Tree) beginsWith(prefix string) func(nodeID) bool {
	if prefix == "" {
		return func(nodeID) bool { return true }
	}
	dir, rest := split(prefix)
	top := t.find(dir)
	if top == 0 || prefix[0] != '/' || dir == "/" {
		return func(nodeID) bool { return false }
	}
	known := make(map[nodeID]bool)
	return func(id nodeID) bool {
		begins := false
		for x := id; x != rootID; {
			t.arena.steps.Add(1)
			up := t.arena.rec(x).parent
			if up == top {
				begins = strings.HasPrefix(t.arena.name(x), rest)
				break
			}
			var ok bool
			if begins, ok = known[up]; ok {
				break
			}
			x = up
		}
		for x := t.arena.rec(id).parent; x != rootID && x != top; x = t.arena.rec(x).parent {
			if _, ok := known[x]; ok {
				break
			}
			known[x] = begins
		}
		return begins
	}
}

// ephemeralsOf returns the ephemerals of session s, in no particular order.
func (t *Tree) ephemeralsOf(s jute.SessionID) []nodeID {
	if e := t.sessions.get(s); e != nil {
		return e.ephemerals.list
	}
	return nil
}

// NumEphemerals returns the number of ephemerals of session s.
func (t *Tree) NumEphemerals(s jute.SessionID) int {
	if e := t.sessions.get(s); e != nil {
		return e.ephemerals.len()
	}
	return 0
}

// EphemeralOwners yields each session that has ephemerals, and their number, in no
// particular order.
func (t *Tree) EphemeralOwners() iter.Seq2[jute.SessionID, int] {
	return func(yield func(jute.SessionID, int) bool) {
		for i := range t.sessions.slots {
			s := &t.sessions.slots[i]
			if n := s.ephemerals.len(); n > 0 && !yield(s.id, n) {
				return
			}
		}
	}
}

// createSession adds the session, unless one with that id exists.
func (t *Tree) createSession(id jute.SessionID, timeoutMs int32) bool {
	if t.sessions.get(id) != nil {
		return false
	}
	if t.view != nil {
		t.view.saveSession(t.sessions.nextSlot())
	}
	t.sessions.add(id, timeoutMs)
	t.digest.add(sessionPart(t.sessions.get(id)))
	return true
}

// adoptSession adds a session that Apache's server has opened. One that exists gets the timeout.
func (t *Tree) adoptSession(id jute.SessionID, timeoutMs int32) {
	if !t.setTimeout(id, timeoutMs) {
		t.createSession(id, timeoutMs)
		t.markApache(id)
	}
}

// markApache marks a session as one that Apache's server has opened.
func (t *Tree) markApache(id jute.SessionID) {
	s := t.sessions.get(id)
	t.digest.sub(sessionPart(s))
	s.apache = true
	t.digest.add(sessionPart(s))
	t.sessions.apache++
}

// setTimeout changes the timeout of a session, if one with that id exists.
func (t *Tree) setTimeout(id jute.SessionID, timeoutMs int32) bool {
	s := t.sessions.get(id)
	if s == nil {
		return false
	}
	t.saveSession(id)
	t.digest.sub(sessionPart(s))
	s.timeoutMs = timeoutMs
	t.digest.add(sessionPart(s))
	return true
}

// setOwner changes the owner of a session, if one with that id exists, and the client that it belongs to.
func (t *Tree) setOwner(id jute.SessionID, owner uint64, holder jute.Holder) bool {
	s := t.sessions.get(id)
	if s == nil {
		return false
	}
	t.saveSession(id)
	if s.owner != 0 {
		t.sessions.owned--
	}
	t.digest.sub(sessionPart(s))
	s.owner, s.holder = owner, holder
	t.digest.add(sessionPart(s))
	if owner != 0 {
		t.sessions.owned++
	}
	return true
}

// dropSession removes a session without ephemerals.
func (t *Tree) dropSession(id jute.SessionID) {
	t.saveSession(id)
	s := t.sessions.get(id)
	t.digest.sub(sessionPart(s))
	for i := range s.outcomes {
		t.digest.sub(outcomePart(id, &s.outcomes[i]))
		t.sessions.outcomes -= s.outcomes[i].memory()
	}
	t.sessions.remove(id)
}

// saveSession keeps an open session for a view, before it changes.
func (t *Tree) saveSession(id jute.SessionID) {
	if t.view != nil {
		t.view.saveSession(t.sessions.byID[id])
	}
}
