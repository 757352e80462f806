package datatree

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// View is the state at the moment of Freeze, to be written to a snapshot while the tree
// changes. It consists of the tree and of the saved versions of the nodes that have
// changed since. The children of a node are found in the order of their names, a batch at a
// time, so that the memory of a view does not depend on the size of the tree. One goroutine walks it:
//
//	view := tree.Freeze() // write lock
//	for more := true; more; {
//		batch.Reset()
//		more = view.Step(&batch, 64<<10) // read lock
//		write(&batch)                    // no lock
//	}
//	view.Close() // write lock
type View struct {
	past
	born          idBits // the nodes created since
	meta          Meta
	savedSessions map[uint32]session
	slots         uint32 // of sessions, when frozen

	// The walk. Only Step uses these.
	phase    phase
	slot     uint32
	sessions []session
	levels   []level
	room     [listFrom]nodeID // for children that are put in order
	path     []byte           // key of the node at the top of levels
	acls     map[string]uint32
}

type phase uint8

const (
	collectSessions phase = iota
	writeSessions
	writeNodes
	writeMeta
	done
)

// level is a node on the path to the current place of the walk.
type level struct {
	id     nodeID
	keyLen int      // of the node's key, 0 for the root
	next   []nodeID // its children to be written next, in order
	buf    []nodeID // memory for these
	after  string   // the name of the last one that was looked at
	more   bool     // there may be children after that
}

// visitCost is the cost of a step of the walk besides the bytes it writes, and of finding a child.
const visitCost = 32

// Freeze opens a view of the current state, at a cost that does not depend on the size of
// the tree. Only one view may be open.
func (t *Tree) Freeze() *View {
	if t.view != nil {
		panic("datatree: freeze while a view is open")
	}
	t.arena.viewed = true
	t.view = &View{
		past: newPast(t),
		meta: Meta{
			Zxid:     t.lastZxid,
			LastTime: t.lastTime,
			Digest:   t.digest,
			Nodes:    t.numNodes(),
			Sessions: t.NumSessions(),
			Apache:   t.sessions.apache > 0,
			Owners:   t.HasOwners(),
			Exact:    t.HasExact(),
		},
		savedSessions: make(map[uint32]session),
		slots:         uint32(len(t.sessions.slots)),
		acls:          make(map[string]uint32),
	}
	return t.view
}

// Close ends the view and drops the saved versions. Closing twice does nothing.
func (v *View) Close() {
	if v.tree != nil && v.tree.view == v {
		v.tree.view = nil
		v.tree.arena.viewed, v.tree.arena.retained = false, 0
	}
	*v = View{meta: v.meta, phase: done}
}

// Meta describes the frozen state.
func (v *View) Meta() Meta { return v.meta }

// Saved returns the number of nodes whose frozen version is kept apart, at about 200
// bytes each: the cost of the view, which grows with the changes. The data of such a node
// is shared as long as it is not overwritten.
func (v *View) Saved() int { return len(v.saved) }

// Saved returns the number of nodes whose former versions are kept for the open view and the open subtrees.
func (t *Tree) Saved() (n int) {
	if t.view != nil {
		n = t.view.Saved()
	}
	for _, s := range t.subtrees {
		n += len(s.saved)
	}
	return n
}

// save keeps the version of id, unless it is already kept or id was created after the freeze.
func (v *View) save(id nodeID) {
	if v.born.has(id) {
		return
	}
	if _, ok := v.saved[id]; ok {
		return
	}
	n := new(savedNode)
	v.tree.copyTo(n, id)
	v.saved[id] = n
}

// remove notes that id, which is saved unless it was created after the freeze, is about to be deleted.
func (v *View) remove(id nodeID) {
	if v.born.has(id) {
		v.born.remove(id)
		return
	}
	v.past.remove(id)
}

func (v *View) saveSession(slot uint32) {
	if _, ok := v.savedSessions[slot]; ok || slot >= v.slots {
		return
	}
	s := v.tree.sessions.slots[slot]
	s.ephemerals = idSet{}
	v.savedSessions[slot] = s
}

// Step adds rows to the batch until it has done work for about budget bytes, and reports
// whether there are more. The rows come in an order that a Loader accepts: sessions,
// nodes by key, each ACL list before the first node that has it, and last the meta row.
// The same state gives the same rows.
func (v *View) Step(b *Batch, budget int) (more bool) {
	for budget > 0 && v.phase != done {
		before := b.Size()
		switch v.phase {
		case collectSessions:
			v.collectSession()
		case writeSessions:
			v.writeSession(b)
		case writeNodes:
			budget -= visitCost * v.stepNodes(b)
		case writeMeta:
			v.writeMeta(b)
		}
		budget -= b.Size() - before + visitCost
	}
	return v.phase != done
}

func (v *View) collectSession() {
	if v.slot == v.slots {
		slices.SortFunc(v.sessions, func(a, b session) int { return cmp.Compare(uint64(a.id), uint64(b.id)) })
		v.phase = writeSessions
		return
	}
	s, ok := v.savedSessions[v.slot]
	if !ok {
		s = v.tree.sessions.slots[v.slot]
	}
	v.slot++
	if s.live {
		v.sessions = append(v.sessions, session{id: s.id, timeoutMs: s.timeoutMs, owner: s.owner, apache: s.apache, exact: s.exact, outcomes: s.outcomes})
	}
}

func (v *View) writeSession(b *Batch) {
	if len(v.sessions) == 0 {
		v.phase = writeNodes
		v.path = append(v.path[:0], 0)
		v.writeNode(b, rootID, v.frozen(rootID))
		return
	}
	s := v.sessions[0]
	v.sessions = v.sessions[1:]
	b.buf = jute.AppendInt64(b.buf, s.id)
	b.endKey(TableSessions)
	b.buf = jute.AppendInt32(b.buf, s.timeoutMs)
	if s.apache || s.owner != 0 {
		b.buf = jute.AppendBool(b.buf, s.apache)
	}
	if s.owner != 0 {
		b.buf = binary.BigEndian.AppendUint64(b.buf, s.owner)
	}
	if s.exact {
		outcomes := s.outcomes
		if outcomesNotKept.Planted() {
			outcomes = nil
		}
		b.buf = appendOutcomes(b.buf, outcomes)
	}
	b.endValue()
}

func (v *View) writeMeta(b *Batch) {
	b.buf = append(b.buf, MetaKey...)
	b.endKey(TableMeta)
	b.buf = AppendMeta(b.buf, &v.meta)
	b.endValue()
	v.phase = done
}

// stepNodes advances in the deepest level: it finds children, writes a child, or leaves the level. It returns at
// about how many children it has looked to find some.
func (v *View) stepNodes(b *Batch) (seen int) {
	if len(v.levels) == 0 {
		v.phase = writeMeta
		return 0
	}
	l := &v.levels[len(v.levels)-1]
	switch {
	case len(l.next) > 0:
		id := l.next[0]
		l.next = l.next[1:]
		n := v.frozen(id)
		v.path = append(append(v.path[:l.keyLen], 0), n.name...)
		v.writeNode(b, id, n)
	case l.more:
		return v.fill(l)
	default:
		v.levels = v.levels[:len(v.levels)-1]
	}
	return 0
}

// fill finds the next children of l, and returns at about how many it has looked.
func (v *View) fill(l *level) (seen int) {
	l.buf, l.after, l.more = v.childrenAfter(l.buf[:0], l.id, l.after, v.room[:], v.born.has)
	l.next = l.buf
	if l.more {
		return batchSize
	}
	return len(l.buf)
}

// enter makes id, whose key is v.path, the deepest level.
func (v *View) enter(id nodeID) {
	n := len(v.levels)
	if n < cap(v.levels) {
		v.levels = v.levels[:n+1] // whose buf is used again
	} else {
		v.levels = append(v.levels, level{})
	}
	l := &v.levels[n]
	*l = level{id: id, keyLen: len(v.path), buf: l.buf, more: true}
	if id == rootID {
		l.keyLen = 0
	}
}

// writeNode writes the node id, which was n and whose key is v.path, and descends to its
// children if it has any.
func (v *View) writeNode(b *Batch, id nodeID, n *savedNode) {
	row := NodeRow{
		Czxid:    n.czxid,
		Mzxid:    n.mzxid,
		Pzxid:    n.pzxid,
		Ctime:    n.ctime,
		Mtime:    n.mtime,
		Owner:    n.owner,
		Version:  n.version,
		Cversion: n.cversion,
		Aversion: n.aversion,
		ACL:      v.writeACL(b, n.list),
		Data:     n.data,
	}
	b.buf = append(b.buf, v.path...)
	b.endKey(TableNodes)
	b.buf = AppendNode(b.buf, &row)
	b.endValue()
	if n.children > 0 {
		v.enter(id)
	}
}

// writeACL returns the number of the list in the snapshot, and writes the list
// if this is its first use.
func (v *View) writeACL(b *Batch, acl *aclEntry) uint32 {
	if acl == v.tree.acls.entries[openACLID] {
		return 0
	}
	n, ok := v.acls[acl.key]
	if !ok {
		n = uint32(len(v.acls)) + 1
		v.acls[acl.key] = n
		b.buf = binary.BigEndian.AppendUint32(b.buf, n)
		b.endKey(TableACLs)
		b.buf = append(b.buf, acl.key...)
		b.endValue()
	}
	return n
}
