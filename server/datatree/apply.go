package datatree

import (
	"github.com/zkd-project/zkd/jute"
)

// Applied is the output of applying a transaction: results for its reply, and events for
// watches. The caller passes the same value each time, and Apply reuses the slices.
type Applied struct {
	Results []Result // one for each Op that is applied
	Events  []Event  // in the order in which watches fire; only those of the last part
	Earlier int      // number of Results of earlier parts
}

// reset empties a for the next transaction, and releases what it refers to.
func (a *Applied) reset() {
	clear(a.Results)
	a.Results = a.Results[:0]
	a.nextPart()
}

// nextPart empties a for the next part of a transaction.
func (a *Applied) nextPart() {
	clear(a.Events)
	a.Events, a.Earlier = a.Events[:0], len(a.Results)
}

// Apply applies txn to the tree and puts its results and events into out, whose old
// content it overwrites. It keeps no memory of txn; results and events share the paths of
// txn, and ACL lists with the tree. If ApplyPart has applied a part of txn, Apply applies the
// rest, and needs the same out.
//
// It never fails. An operation that can't be applied, because of a bug of the
// leader, is skipped, counted in Stats.Skipped, and has a Code in its result.
func (t *Tree) Apply(txn *Txn, out *Applied) {
	t.applyOps(txn, out, len(txn.Ops))
	if txn.Number != 0 {
		t.keepOutcome(txn, out.Results)
	}
	t.lastZxid, t.parted, t.part, t.only = txn.Zxid, 0, 0, ""
	t.lastTime = max(t.lastTime, txn.Time)
}

// applyOps applies the operations that no earlier part had, up to a number.
func (t *Tree) applyOps(txn *Txn, out *Applied, upTo int) {
	if t.part == 0 {
		out.reset()
	} else {
		out.nextPart()
	}
	for ; t.part < upTo; t.part++ {
		op := &txn.Ops[t.part]
		result := t.applyOp(txn, op, out)
		if result.Code != 0 && op.Kind != OpError {
			t.skipped++
		}
		out.Results = append(out.Results, result)
	}
	t.settle()
}

// List puts the ephemerals that a transaction deletes in order, if it closes a session without naming
// them. Only the goroutine that changes the tree may call it, before ApplyPart and Apply; it needs no lock.
func (t *Tree) List(txn *Txn) {
	if op := closeOf(txn); op != nil && len(op.Paths) == 0 {
		t.closing = t.byPath(t.ephemeralsOf(txn.Session))
	}
}

// closeOf returns the operation of a transaction that closes a session, or nil.
func closeOf(txn *Txn) *Op {
	if len(txn.Ops) != 1 || txn.Ops[0].Kind != OpCloseSession {
		return nil
	}
	return &txn.Ops[0]
}

// ApplyPart applies the next n operations of a transaction, if it has more than that, puts the
// results and events into out, and returns true. Of one that closes a session it deletes the next
// n listed ephemerals, if there are more. Otherwise it changes nothing and returns false: the
// caller must then Apply the transaction before any other. So the write lock need not be held for
// the whole time that a transaction takes, as the end of a session with a million ephemerals.
//
// Until that Apply the tree is between two states. LastZxid is still the zxid of the
// previous state; Changing reports where the tree differs from it. The order of the
// deletes is that of Apply, since the usage of quotas can depend on it.
func (t *Tree) ApplyPart(txn *Txn, out *Applied, n int) bool {
	op := closeOf(txn)
	if op == nil {
		if len(txn.Ops)-t.part <= n {
			return false
		}
		t.parted = txn.Zxid
		t.applyOps(txn, out, t.part+n)
		return true
	}
	if max(len(op.Paths), len(t.closing))-t.pruned <= n {
		return false
	}
	s := t.sessions.get(txn.Session)
	if s == nil {
		return false
	}
	out.reset()
	t.parted = txn.Zxid
	t.deleteListed(s, txn.Zxid, op.Paths, t.pruned+n, out)
	t.settle()
	return true
}

// ApplyRest applies the operations of a transaction that ApplyPart has left, without its end: Apply must follow. So
// those who watch what it changes can be told before anybody sees it, however many they are.
func (t *Tree) ApplyRest(txn *Txn, out *Applied) {
	op := closeOf(txn)
	if op == nil {
		if t.parted, t.only = txn.Zxid, ""; len(txn.Ops) == 1 {
			t.only = onlyPath(&txn.Ops[0])
		}
		t.applyOps(txn, out, len(txn.Ops))
		return
	}
	out.reset()
	s := t.sessions.get(txn.Session)
	if s == nil {
		return
	}
	if t.pruned == 0 {
		t.List(txn)
	}
	t.parted = txn.Zxid
	t.deleteListed(s, txn.Zxid, op.Paths, max(len(op.Paths), len(t.closing)), out)
	t.settle()
}

// onlyPath returns the path of the znode that an operation changes, if it changes no other than that and its parent, else "".
func onlyPath(op *Op) string {
	switch op.Kind {
	case OpCreate, OpDelete, OpSetData:
		return eventPath(op.Path)
	}
	return ""
}

// InParts reports whether some operations of a transaction are applied, and its end is not.
func (t *Tree) InParts() bool { return t.part > 0 }

// Changing reports whether ApplyPart may have deleted or changed the znode at path since the last
// Apply. The results of Get, GetData and those about the children of any other path are
// still those at LastZxid, except for the usage in the stats znodes of quotas. A session that is being
// closed changes its ephemerals and their parents, a single operation its znode and the parent; any other transaction may change all.
func (t *Tree) Changing(path string) bool {
	switch {
	case t.parted == 0:
		return false
	case t.part > 0 && t.only != "":
		return path == t.only || path == parentOf(t.only)
	case t.part > 0:
		return true
	}
	id := t.find(path)
	if id == 0 { // if it was deleted, its parent has changed
		dir, _ := split(path)
		id = t.find(dir)
	}
	return id != 0 && t.arena.attrs(t.arena.rec(id)).pzxid == t.parted
}

func (t *Tree) applyOp(txn *Txn, op *Op, out *Applied) Result {
	switch op.Kind {
	case OpCreate:
		return t.create(txn, op, out)
	case OpDelete:
		return Result{Code: t.delete(txn.Zxid, op.Path, out)}
	case OpSetData:
		return t.setData(txn, op, out)
	case OpSetACL:
		return t.setACL(op)
	case OpError:
		return Result{Code: op.Code}
	case OpCreateSession:
		if !t.createSession(txn.Session, op.TimeoutMs) {
			return Result{Code: jute.ErrRuntimeInconsistency}
		}
	case OpSetTimeout:
		if !t.setTimeout(txn.Session, op.TimeoutMs) {
			return Result{Code: jute.ErrSessionExpired}
		}
	case OpAdoptSession:
		t.adoptSession(txn.Session, op.TimeoutMs)
	case OpSetOwner:
		if !t.setOwner(txn.Session, txn.Origin, jute.Holder(txn.Cxid).Name()) {
			return Result{Code: jute.ErrSessionExpired}
		}
	case OpExactlyOnce:
		if !t.setExact(txn.Session) {
			return Result{Code: jute.ErrSessionExpired}
		}
	case OpCloseSession:
		t.closeSession(txn, op, out)
	}
	return Result{}
}

// checkCreate returns the parent of a node to be created, or a code if creating it would
// break an invariant of the tree.
func (t *Tree) checkCreate(op *Op) (parent nodeID, name string, code jute.Code) {
	dir, name := split(op.Path)
	if name == "" || op.Path[0] != '/' {
		return 0, "", jute.ErrBadArguments
	}
	parent = t.last.find(dir)
	switch s := op.Owner.Session(); {
	case parent == 0:
		return 0, "", jute.ErrNoNode
	case t.index.find(&t.arena, parent, name) != 0:
		return 0, "", jute.ErrNodeExists
	case t.arena.more(parent).owner.Ephemeral():
		return 0, "", jute.ErrNoChildrenForEphemerals
	case s != 0 && t.sessions.get(s) == nil:
		return 0, "", jute.ErrSessionExpired
	}
	return parent, name, 0
}

func (t *Tree) create(txn *Txn, op *Op, out *Applied) Result {
	parent, name, code := t.checkCreate(op)
	if code != 0 {
		return Result{Path: op.Path, Code: code}
	}
	dir := parentOf(op.Path)
	above := digestKeyOf(dir, parent)
	t.uncountStat(above)
	id := t.link(parent, name, op.Data)
	at := attrs{txn.Zxid, txn.Time, newRest(txn.Zxid, txn.Time)}
	at.owner = op.Owner
	at.acl = t.acls.intern(op.ACL)
	t.arena.setAttrs(id, &at)
	t.addToIndexes(id, at.owner)
	t.countNode(digestKeyOf(op.Path, id))

	p := t.arena.extend(parent) // saved by link
	if op.Cversion-p.cversion > 0 {
		p.cversion = op.Cversion // the larger one, in a counter that wraps
	}
	p.pzxid = txn.Zxid
	t.countStat(above)

	result := Result{Path: op.Path, Stat: t.stat(id), Data: t.arena.data(id)}
	out.Events = append(out.Events,
		Event{Type: jute.EventCreated, Path: op.Path, ACL: t.acls.list(at.acl)},
		t.childrenChanged(dir, p))
	t.quotaCreated(op.Path, id)
	t.charge(op.Path, 1, int64(t.arena.rec(id).bytes()))
	return result
}

func (t *Tree) delete(zxid jute.Zxid, path string, out *Applied) jute.Code {
	id := t.last.find(path)
	switch {
	case id == 0:
		return jute.ErrNoNode
	case id == rootID:
		return jute.ErrBadArguments
	case t.arena.more(id).children > 0:
		return jute.ErrNotEmpty
	}
	t.deleteNode(zxid, id, path, out)
	return 0
}

// deleteNode deletes id, which is at path and has no children.
func (t *Tree) deleteNode(zxid jute.Zxid, id nodeID, path string, out *Applied) {
	r := t.arena.rec(id)
	at, parent, bytes := t.arena.attrs(r), r.parent, int64(r.bytes())
	acl := t.acls.list(at.acl)
	dir := parentOf(path)
	above := digestKeyOf(dir, parent)
	t.uncountNode(digestKeyOf(path, id))
	t.uncountStat(above)
	t.removeFromIndexes(id, at.owner)
	p := t.change(parent)
	p.pzxid = max(p.pzxid, zxid)
	t.save(id) // while its ACL has an id
	t.acls.release(at.acl)
	t.unlink(id)
	t.countStat(above)
	out.Events = append(out.Events,
		Event{Type: jute.EventDeleted, Path: path, ACL: acl},
		t.childrenChanged(dir, p))
	t.quotaDeleted(path)
	t.charge(path, -1, -bytes)
}

// childrenChanged returns the event of a node whose children have changed.
func (t *Tree) childrenChanged(path string, x *extra) Event {
	return Event{
		Type: jute.EventChildrenChanged, Path: path, ACL: t.acls.list(x.acl),
		Cversion: shownCversion(x.cversion, x.children), NumChildren: x.children,
	}
}

func (t *Tree) setData(txn *Txn, op *Op, out *Applied) Result {
	id := t.last.find(op.Path)
	if id == 0 {
		return Result{Code: jute.ErrNoNode}
	}
	at := digestKeyOf(op.Path, id)
	t.uncountNode(at)
	x := t.change(id)
	r := t.arena.rec(id)
	grown := int64(len(op.Data) - r.bytes())
	t.arena.setBlob(id, newBlob(r.name(), op.Data))
	if grown != 0 {
		t.countBelow(r.parent, 0, grown)
	}
	x.version, x.mzxid, x.mtime = op.Version, txn.Zxid, txn.Time
	t.countNode(at)
	result := Result{Stat: t.stat(id), Data: t.arena.data(id)}
	out.Events = append(out.Events,
		Event{Type: jute.EventDataChanged, Path: eventPath(op.Path), ACL: t.acls.list(x.acl)})
	t.quotaChanged(op.Path)
	t.charge(op.Path, 0, grown)
	return result
}

// eventPath returns path as events name it.
func eventPath(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func (t *Tree) setACL(op *Op) Result {
	id := t.last.find(op.Path)
	if id == 0 {
		return Result{Code: jute.ErrNoNode}
	}
	at := digestKeyOf(op.Path, id)
	t.uncountStat(at)
	x := t.change(id)
	old := x.acl
	was := t.acls.list(old)
	x.acl = t.acls.intern(op.ACL)
	t.acls.release(old)
	x.aversion = op.Version
	t.countStat(at)
	return Result{Stat: t.stat(id), Was: was}
}

// closeSession deletes the ephemerals that the leader found, or all if it lists none, and
// then the session. Ephemerals that the leader missed are deleted too, so that none
// outlives its session. Closing a session that does not exist does nothing: the expirer
// and the client may both have requested it.
func (t *Tree) closeSession(txn *Txn, op *Op, out *Applied) {
	s := t.sessions.get(txn.Session)
	if s == nil {
		return
	}
	if len(op.Paths) == 0 && t.pruned == 0 {
		t.closing = t.byPath(s.ephemerals.list)
	}
	t.deleteListed(s, txn.Zxid, op.Paths, max(len(op.Paths), len(t.closing)), out)
	t.pruned = 0
	if t.closing = t.byPath(s.ephemerals.list); len(t.closing) > 0 {
		t.skipped += uint64(len(t.closing))
		t.deleteListed(s, txn.Zxid, nil, len(t.closing), out)
	}
	t.pruned, t.closing = 0, nil
	t.dropSession(txn.Session)
}

// deleteListed deletes ephemerals of a session: those of the listed ones that come after what ApplyPart has
// deleted, up to this number. The list is paths or, if that is empty, t.closing.
func (t *Tree) deleteListed(s *session, zxid jute.Zxid, paths []string, upTo int, out *Applied) {
	var parent nodeID
	var dir string
	if len(paths) == 0 && t.pruned == 0 {
		s.ephemerals.leaveInOrder(t.closing)
	}
	for ; t.pruned < upTo; t.pruned++ {
		if len(paths) > 0 {
			path := paths[t.pruned]
			if id := t.last.find(path); s.ephemerals.has(id) {
				t.deleteNode(zxid, id, path, out)
			} else {
				t.skipped++
			}
			continue
		}
		id := t.closing[t.pruned]
		if up := t.arena.rec(id).parent; up != parent {
			parent, dir = up, string(append(t.arena.appendPath(nil, up), '/'))
		}
		t.deleteNode(zxid, id, dir+t.arena.name(id), out)
	}
}

// addToIndexes adds id, which has this owner, to the sets of its kind.
func (t *Tree) addToIndexes(id nodeID, owner jute.Owner) {
	if owner.Container() {
		t.containers.add(id)
	} else if _, ok := owner.TTL(); ok {
		t.ttls.add(id)
	} else if s := owner.Session(); s != 0 {
		t.sessions.get(s).ephemerals.add(id)
		t.ephemerals++
	}
}

func (t *Tree) removeFromIndexes(id nodeID, owner jute.Owner) {
	if owner.Container() {
		t.containers.remove(id)
	} else if _, ok := owner.TTL(); ok {
		t.ttls.remove(id)
	} else if s := owner.Session(); s != 0 {
		t.sessions.get(s).ephemerals.remove(id)
		t.ephemerals--
	}
}

// digestKey identifies a znode for the digest and the size.
type digestKey struct {
	id      nodeID
	hash    hash // of the path
	pathLen int
}

func digestKeyOf(path string, id nodeID) digestKey { return digestKey{id, hashPath(path), len(path)} }

// countNode adds the znode to the digest and its bytes to the size; uncountNode removes
// them before a change. countStat and uncountStat are for a change that does not affect
// the data.
func (t *Tree) countNode(at digestKey) {
	r, data := t.arena.rec(at.id), t.arena.data(at.id)
	part := dataPart(at.hash, data)
	if r.extra != 0 {
		t.arena.more(at.id).dataPart = part
	}
	t.digest.add(part)
	t.digest.add(t.statPart(at.hash, r))
	t.dataSize += int64(at.pathLen + len(data))
}

func (t *Tree) uncountNode(at digestKey) {
	r := t.arena.rec(at.id)
	part := t.arena.more(at.id).dataPart
	if part == (hash{}) {
		part = dataPart(at.hash, r.data())
	}
	t.digest.sub(part)
	t.digest.sub(t.statPart(at.hash, r))
	t.dataSize -= int64(at.pathLen + r.bytes())
}

func (t *Tree) countStat(at digestKey)   { t.digest.add(t.statPart(at.hash, t.arena.rec(at.id))) }
func (t *Tree) uncountStat(at digestKey) { t.digest.sub(t.statPart(at.hash, t.arena.rec(at.id))) }

func (t *Tree) statPart(path hash, r *record) hash {
	at := t.arena.attrs(r)
	return statPart(path, &at, t.acls.entries[at.acl].hash)
}
