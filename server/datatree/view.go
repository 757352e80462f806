package datatree

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// View is the state at the moment of Freeze, to be written to a snapshot while the tree
// changes. It consists of the tree and of the saved versions of the nodes that have
// changed since. One goroutine walks it:
//
//	view := tree.Freeze() // write lock
//	for more := true; more; {
//		batch.Reset()
//		more = view.Step(&batch, 64<<10) // read lock
//		write(&batch)                    // no lock
//		view.Sort()                      // no lock
//	}
//	view.Close() // write lock
type View struct {
	tree          *Tree
	meta          Meta
	saved         map[nodeID]*savedNode
	savedSessions map[uint32]session
	slots         uint32 // of sessions, when frozen

	// The walk. Only Step and Sort use these.
	phase    phase
	slot     uint32
	sessions []session
	levels   []level
	path     []byte // key of the node at the top of levels
	acls     map[string]uint32
}

// savedNode is a node as it was frozen.
type savedNode struct {
	rec  record
	blob string
	acl  *aclEntry
	gone bool // it has been deleted since; only in a Subtree
}

func (n *savedNode) name() string { return n.blob[:n.rec.nameLen] }

type phase uint8

const (
	collectSessions phase = iota
	writeSessions
	writeNodes
	writeMeta
	done
)

// level is a node on the path to the current place of the walk. Its children are
// collected first, then sorted, then written one by one.
type level struct {
	keyLen  int    // of the node's key, 0 for the root
	collect nodeID // next child to collect, 0 when all are collected
	left    int    // number of children to collect
	// parts are the children collected. They are many small slices, so that none has
	// to grow while the lock is held; Sort joins them.
	parts    [][]child
	children []child // sorted, to be written
	sorted   bool
	offered  bool // Step has returned so that the caller may sort
}

type child struct {
	name string
	id   nodeID
}

const (
	// visitCost is the cost of a step of the walk besides the bytes it writes.
	visitCost = 32
	// partSize is the length of a part, and so the largest number of children that Step
	// sorts itself.
	partSize = 2048
)

// Freeze opens a view of the current state, at a cost that does not depend on the size of
// the tree. Only one view may be open.
func (t *Tree) Freeze() *View {
	if t.view != nil {
		panic("datatree: freeze while a view is open")
	}
	t.view = &View{
		tree: t,
		meta: Meta{
			Zxid:     t.lastZxid,
			Digest:   t.digest,
			Nodes:    t.numNodes(),
			Sessions: t.NumSessions(),
			Apache:   t.sessions.apache > 0,
			Owners:   t.HasOwners(),
			Exact:    t.HasExact(),
		},
		saved:         make(map[nodeID]*savedNode),
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

// save keeps the version of id, unless it is already kept. Nodes created after the freeze
// are saved too when they change: no frozen node refers to them.
func (v *View) save(id nodeID) {
	if _, ok := v.saved[id]; ok {
		return
	}
	n := v.tree.copyOf(id)
	v.saved[id] = &n
}

// copyOf returns id as it is now.
func (t *Tree) copyOf(id nodeID) savedNode {
	r := t.arena.rec(id)
	return savedNode{rec: *r, blob: t.arena.blobOf(id, r), acl: t.acls.entries[r.acl]}
}

func (v *View) saveSession(slot uint32) {
	if _, ok := v.savedSessions[slot]; ok || slot >= v.slots {
		return
	}
	s := v.tree.sessions.slots[slot]
	s.ephemerals = idSet{}
	v.savedSessions[slot] = s
}

// frozen returns id as it was when frozen.
func (v *View) frozen(id nodeID) (r *record, blob string, acl *aclEntry) {
	if len(v.saved) > 0 {
		if s, ok := v.saved[id]; ok {
			return &s.rec, s.blob, s.acl
		}
	}
	t := v.tree
	r = t.arena.rec(id)
	return r, t.arena.blobOf(id, r), t.acls.entries[r.acl]
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
			if v.offerSort() {
				return true
			}
			v.stepNodes(b)
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
		v.writeNode(b, rootID)
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
		b.buf = appendOutcomes(b.buf, s.outcomes)
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

// stepNodes advances in the deepest level: it collects a child, sorts, writes a child, or
// leaves the level.
func (v *View) stepNodes(b *Batch) {
	if len(v.levels) == 0 {
		v.phase = writeMeta
		return
	}
	l := &v.levels[len(v.levels)-1]
	switch {
	case l.collect != 0:
		v.collectChild(l)
	case !l.sorted:
		v.Sort()
	case len(l.children) == 0:
		v.levels = v.levels[:len(v.levels)-1]
	default:
		c := l.children[0]
		l.children = l.children[1:]
		v.path = append(append(v.path[:l.keyLen], 0), c.name...)
		v.writeNode(b, c.id)
	}
}

func (v *View) collectChild(l *level) {
	last := len(l.parts) - 1
	if last < 0 || len(l.parts[last]) == partSize {
		l.parts = append(l.parts, make([]child, 0, min(l.left, partSize)))
		last++
	}
	r, blob, _ := v.frozen(l.collect)
	l.parts[last] = append(l.parts[last], child{name: blob[:r.nameLen], id: l.collect})
	l.left--
	l.collect = r.next
}

// offerSort reports whether Step should return so that the caller may Sort
// without the lock. It does so once for a level.
func (v *View) offerSort() bool {
	if len(v.levels) == 0 {
		return false
	}
	l := &v.levels[len(v.levels)-1]
	if l.collect != 0 || l.sorted || l.offered || len(l.parts) < 2 {
		return false
	}
	l.offered = true
	return true
}

// Sort sorts the children of a node if they are collected. It needs no lock; calling it
// between Steps keeps a million siblings from being sorted under the lock.
func (v *View) Sort() {
	if len(v.levels) == 0 {
		return
	}
	l := &v.levels[len(v.levels)-1]
	if l.collect != 0 || l.sorted {
		return
	}
	l.children = l.parts[0]
	if len(l.parts) > 1 {
		l.children = slices.Concat(l.parts...)
	}
	l.parts, l.sorted = nil, true
	slices.SortFunc(l.children, func(a, b child) int { return strings.Compare(a.name, b.name) })
}

// writeNode writes the node id, whose key is v.path, and descends to its children if it
// has any.
func (v *View) writeNode(b *Batch, id nodeID) {
	r, blob, acl := v.frozen(id)
	row := NodeRow{
		Czxid:    r.czxid,
		Mzxid:    r.mzxid,
		Pzxid:    r.pzxid,
		Ctime:    r.ctime,
		Mtime:    r.mtime,
		Owner:    r.owner,
		Version:  r.version,
		Cversion: r.cversion,
		Aversion: r.aversion,
		ACL:      v.writeACL(b, acl),
		Data:     dataOf(r, blob),
	}
	b.buf = append(b.buf, v.path...)
	b.endKey(TableNodes)
	b.buf = AppendNode(b.buf, &row)
	b.endValue()
	if r.first == 0 {
		return
	}
	l := level{keyLen: len(v.path), collect: r.first, left: int(r.children)}
	if id == rootID {
		l.keyLen = 0
	}
	v.levels = append(v.levels, l)
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
