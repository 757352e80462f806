package datatree

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Applied is what applying a transaction gives: to its reply, and to watches.
// The caller passes it in again and again, and Apply reuses the slices.
type Applied struct {
	Results []Result // one for each Op
	Events  []Event  // in the order in which watches fire
}

// Apply writes txn to the tree and puts its results and events into out, whose
// old content it overwrites. It keeps no memory of txn; results and events share
// the paths of txn, and ACL lists with the tree.
//
// It never fails. An operation that can't be applied, because of a bug of the
// leader, is skipped, counted in Stats.Skipped, and has a Code in its result.
func (t *Tree) Apply(txn *Txn, out *Applied) {
	clear(out.Results) // of what it refers to
	clear(out.Events)
	out.Results, out.Events = out.Results[:0], out.Events[:0]
	for i := range txn.Ops {
		result := t.applyOp(txn, &txn.Ops[i], out)
		if result.Code != 0 && txn.Ops[i].Kind != OpError {
			t.skipped++
		}
		out.Results = append(out.Results, result)
	}
	t.lastZxid = txn.Zxid
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
	case OpCloseSession:
		t.closeSession(txn, op, out)
	}
	return Result{}
}

// checkCreate returns the parent of a node to be created, or a code if that
// would break an invariant of the tree.
func (t *Tree) checkCreate(op *Op) (parent nodeID, name string, code jute.Code) {
	dir, name := split(op.Path)
	if name == "" || op.Path[0] != '/' {
		return 0, "", jute.ErrBadArguments
	}
	parent = t.find(dir)
	switch s := op.Owner.Session(); {
	case parent == 0:
		return 0, "", jute.ErrNoNode
	case t.index.find(&t.arena, parent, name) != 0:
		return 0, "", jute.ErrNodeExists
	case t.arena.rec(parent).owner.Ephemeral():
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
	t.uncountStat(dir, parent)
	id := t.link(parent, name, op.Data)
	r := t.arena.rec(id)
	r.czxid, r.mzxid, r.pzxid = txn.Zxid, txn.Zxid, txn.Zxid
	r.ctime, r.mtime = txn.Time, txn.Time
	r.owner = op.Owner
	r.acl = t.acls.intern(op.ACL)
	t.addToIndexes(id, r.owner)
	t.countNode(op.Path, id)

	p := t.arena.rec(parent) // saved by link
	if op.Cversion-p.cversion > 0 {
		p.cversion = op.Cversion // the larger one, in a counter that wraps
	}
	p.pzxid = txn.Zxid
	t.countStat(dir, parent)

	result := Result{Path: op.Path, Stat: t.stat(id)}
	out.Events = append(out.Events,
		Event{Type: jute.EventCreated, Path: op.Path, ACL: t.acls.list(r.acl)},
		Event{Type: jute.EventChildrenChanged, Path: dir, ACL: t.acls.list(p.acl)})
	t.quotaCreated(op.Path, id)
	t.charge(op.Path, 1, int64(r.bytes()))
	return result
}

func (t *Tree) delete(zxid jute.Zxid, path string, out *Applied) jute.Code {
	id := t.find(path)
	if id == 0 {
		return jute.ErrNoNode
	}
	r := t.arena.rec(id)
	switch {
	case id == rootID:
		return jute.ErrBadArguments
	case r.children > 0:
		return jute.ErrNotEmpty
	}
	parent, acl, bytes := r.parent, t.acls.list(r.acl), int64(r.bytes())
	dir := parentOf(path)
	t.uncountNode(path, id)
	t.uncountStat(dir, parent)
	t.removeFromIndexes(id, r.owner)
	p := t.change(parent)
	p.pzxid = max(p.pzxid, zxid)
	t.change(id) // saved while its ACL has an id
	t.acls.release(r.acl)
	t.unlink(id)
	t.countStat(dir, parent)
	out.Events = append(out.Events,
		Event{Type: jute.EventDeleted, Path: path, ACL: acl},
		Event{Type: jute.EventChildrenChanged, Path: dir, ACL: t.acls.list(p.acl)})
	t.quotaDeleted(path)
	t.charge(path, -1, -bytes)
	return 0
}

func (t *Tree) setData(txn *Txn, op *Op, out *Applied) Result {
	id := t.find(op.Path)
	if id == 0 {
		return Result{Code: jute.ErrNoNode}
	}
	t.uncountNode(op.Path, id)
	r := t.change(id)
	grown := int64(len(op.Data) - r.bytes())
	t.arena.setBlob(id, t.arena.name(id), op.Data)
	r.version, r.mzxid, r.mtime = op.Version, txn.Zxid, txn.Time
	t.countNode(op.Path, id)
	result := Result{Stat: t.stat(id)}
	out.Events = append(out.Events,
		Event{Type: jute.EventDataChanged, Path: displayed(op.Path), ACL: t.acls.list(r.acl)})
	t.quotaChanged(op.Path)
	t.charge(op.Path, 0, grown)
	return result
}

// displayed is path as events name it.
func displayed(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func (t *Tree) setACL(op *Op) Result {
	id := t.find(op.Path)
	if id == 0 {
		return Result{Code: jute.ErrNoNode}
	}
	t.uncountStat(op.Path, id)
	r := t.change(id)
	old := r.acl
	r.acl = t.acls.intern(op.ACL)
	t.acls.release(old)
	r.aversion = op.Version
	t.countStat(op.Path, id)
	return Result{Stat: t.stat(id)}
}

// closeSession deletes the ephemerals that the leader found, or all if it lists
// none, and then the session. Whatever the leader missed goes too, so that no
// ephemeral outlives its session. Closing a session that is gone does nothing:
// the expirer and the client may both have asked for it.
func (t *Tree) closeSession(txn *Txn, op *Op, out *Applied) {
	s := t.sessions.get(txn.Session)
	if s == nil {
		return
	}
	for _, path := range op.Paths {
		id := t.find(path)
		if _, own := s.ephemerals[id]; !own {
			t.skipped++
			continue
		}
		t.delete(txn.Zxid, path, out)
	}
	if len(s.ephemerals) > 0 {
		left := slices.Sorted(t.Ephemerals(txn.Session))
		if len(op.Paths) > 0 {
			t.skipped += uint64(len(left))
		}
		for _, path := range left {
			t.delete(txn.Zxid, path, out)
		}
	}
	t.dropSession(txn.Session)
}

// addToIndexes enters id, which has this owner, where it belongs.
func (t *Tree) addToIndexes(id nodeID, owner jute.Owner) {
	if owner.Container() {
		t.containers[id] = struct{}{}
	} else if _, ok := owner.TTL(); ok {
		t.ttls[id] = struct{}{}
	} else if s := owner.Session(); s != 0 {
		e := t.sessions.get(s)
		if e.ephemerals == nil {
			e.ephemerals = make(map[nodeID]struct{})
		}
		e.ephemerals[id] = struct{}{}
		t.ephemerals++
	}
}

func (t *Tree) removeFromIndexes(id nodeID, owner jute.Owner) {
	if owner.Container() {
		delete(t.containers, id)
	} else if _, ok := owner.TTL(); ok {
		delete(t.ttls, id)
	} else if s := owner.Session(); s != 0 {
		delete(t.sessions.get(s).ephemerals, id)
		t.ephemerals--
	}
}

// countNode adds the node to the digest and its bytes to the size; uncountNode
// takes them out before a change. countStat and uncountStat are for a change
// that leaves the data alone.
func (t *Tree) countNode(path string, id nodeID) {
	r, h := t.arena.rec(id), hashPath(path)
	t.digest.add(dataPart(h, r, t.arena.blobOf(id, r)))
	t.digest.add(t.statPart(h, r))
	t.dataSize += int64(len(path) + r.bytes())
}

func (t *Tree) uncountNode(path string, id nodeID) {
	r, h := t.arena.rec(id), hashPath(path)
	t.digest.sub(dataPart(h, r, t.arena.blobOf(id, r)))
	t.digest.sub(t.statPart(h, r))
	t.dataSize -= int64(len(path) + r.bytes())
}

func (t *Tree) countStat(path string, id nodeID) {
	t.digest.add(t.statPart(hashPath(path), t.arena.rec(id)))
}

func (t *Tree) uncountStat(path string, id nodeID) {
	t.digest.sub(t.statPart(hashPath(path), t.arena.rec(id)))
}

func (t *Tree) statPart(path hash, r *record) hash {
	return statPart(path, r, t.acls.entries[r.acl].hash)
}
