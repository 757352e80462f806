package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// ledger is the history of each node as the replies tell it, in the order of
// zxids: a model of the tree at any time. What a reply does not tell is filled in
// by what others have read: each datum names the op that wrote it.
type ledger struct {
	h     *history
	facts map[string][]fact // by path, in the order of zxids
	tags  map[string]*op    // the op, or the part of a multi, that wrote a tag
	multi map[*op]*op       // the multi of a part
	kids  map[string][]jute.Zxid
	// hidden counts the changes of a path by ops of which nobody saw whether they
	// happened.
	hidden map[string]*hidden
	found  findings
}

// hidden are changes that may have happened.
type hidden struct{ creates, sets, deletes int }

// fact is a change of a node.
type fact struct {
	zxid    jute.Zxid
	kind    factKind
	created jute.Zxid // of the node; 0 if not known
	version int32     // behind the change; -1 if not known
	data    string
	known   bool // whether data is known
	owner   jute.SessionID
	by      *op // who did it, or told it
}

type factKind uint8

const (
	created factKind = iota
	changed
	deleted
)

func (k factKind) String() string { return [...]string{"created", "changed", "deleted"}[k] }

func (f fact) String() string {
	return fmt.Sprintf("%v at %v v%d %q (told by %v)", f.kind, f.zxid, f.version, tagOf(f.data), f.by)
}

// findings are what must not be. More than a few say nothing more.
type findings []string

func (f *findings) add(format string, args ...any) {
	if len(*f) < 20 {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// newLedger puts the facts of a history together. Further ops in seen are reads
// by others, such as of the final state.
func newLedger(h *history, seen []*op) *ledger {
	l := &ledger{h: h, facts: make(map[string][]fact), tags: make(map[string]*op), multi: make(map[*op]*op), kids: make(map[string][]jute.Zxid), hidden: make(map[string]*hidden)}
	for _, o := range h.ops {
		for _, p := range o.parts() {
			if p.data != "" {
				l.tags[tagOf(p.data)] = p
			}
			if p != o {
				l.multi[p] = o
			}
		}
	}
	for _, o := range h.ops {
		l.takeWrite(o)
	}
	for _, o := range slices.Concat(h.ops, seen) {
		if o.state == done && o.read() {
			l.takeRead(o)
		}
	}
	l.countHidden()
	l.takeEnds()
	l.sort()
	return l
}

// takeWrite adds what an acknowledged write has done.
func (l *ledger) takeWrite(o *op) {
	if o.state != done {
		return
	}
	for _, p := range o.parts() {
		switch p.code {
		case jute.OpCreate, jute.OpCreate2:
			l.add(p.made, fact{zxid: o.zxid, kind: created, created: o.zxid, data: p.data, known: true, owner: p.stat.EphemeralOwner, by: o})
			if p.code == jute.OpCreate2 && p.stat.Czxid != o.zxid || p.stat.Version != 0 {
				l.found.add("reply to a create at %v has czxid %v, version %d: %v", o.zxid, p.stat.Czxid, p.stat.Version, o)
			}
		case jute.OpSetData:
			l.add(p.path, fact{zxid: o.zxid, kind: changed, created: p.stat.Czxid, version: p.stat.Version, data: p.data, known: true, by: o})
			if p.stat.Czxid > l.h.before {
				l.add(p.path, fact{zxid: p.stat.Czxid, kind: created, created: p.stat.Czxid, by: o})
			}
			if p.stat.Mzxid != o.zxid {
				l.found.add("reply to a setData at %v has mzxid %v: %v", o.zxid, p.stat.Mzxid, o)
			}
			if p.version >= 0 && p.stat.Version != p.version+1 {
				l.found.add("setData that expects version %d gives %d: %v", p.version, p.stat.Version, o)
			}
		case jute.OpDelete:
			l.add(p.path, fact{zxid: o.zxid, kind: deleted, by: o})
		}
	}
}

func (l *ledger) add(path string, f fact) {
	l.facts[path] = append(l.facts[path], f)
}

// takeRead adds what a read tells of the past of a node, and of who made it.
func (l *ledger) takeRead(o *op) {
	s := &o.stat
	if s.Czxid > l.h.before {
		f := fact{zxid: s.Czxid, kind: created, created: s.Czxid, owner: s.EphemeralOwner, by: o}
		if s.Version == 0 && o.code == jute.OpGetData {
			f.data, f.known = o.got, true
		}
		l.add(o.path, f)
	}
	if s.Version > 0 {
		f := fact{zxid: s.Mzxid, kind: changed, created: s.Czxid, version: s.Version, by: o}
		if o.code == jute.OpGetData {
			f.data, f.known = o.got, true
		}
		l.add(o.path, f)
	}
	if o.code == jute.OpGetData && o.got != "" {
		l.identify(o)
	}
}

// identify finds the op that wrote what was read. If nobody knew whether that
// had happened: it has, with all of its parts.
func (l *ledger) identify(read *op) {
	part := l.tags[tagOf(read.got)]
	if part == nil {
		if read.stat.Mzxid > l.h.before {
			l.found.add("data that nobody wrote: %v", read)
		}
		return
	}
	o := part
	if m := l.multi[part]; m != nil {
		o = m
	}
	switch {
	case o.state == refused:
		l.found.add("a refused write is there: %v\n\tread by %v", o, read)
	case o.zxid == 0:
		o.zxid = read.stat.Mzxid
		l.takeUnanswered(o, read)
	case o.zxid != read.stat.Mzxid:
		l.found.add("written at %v, and read as of %v: %v\n\tread by %v", o.zxid, read.stat.Mzxid, o, read)
	}
	if part.data != read.got {
		l.found.add("%.60q was written, and %.60q read: %v\n\tread by %v", part.data, read.got, o, read)
	}
	if name := part.path; name != read.path && !(part.mode.Sequential() && strings.HasPrefix(read.path, name)) {
		l.found.add("written to %s, and read from %s: %v", name, read.path, read)
	}
}

// takeUnanswered adds the parts of an op that was seen to have happened. The
// names that it gave to sequential nodes are known from reads only.
func (l *ledger) takeUnanswered(o, read *op) {
	for _, p := range o.parts() {
		switch {
		case p.create() && !p.mode.Sequential():
			l.add(p.path, fact{zxid: o.zxid, kind: created, created: o.zxid, data: p.data, known: true, by: o})
		case p.code == jute.OpSetData:
			f := fact{zxid: o.zxid, kind: changed, version: -1, data: p.data, known: true, by: o}
			if p.version >= 0 {
				f.version = p.version + 1
			}
			l.add(p.path, f)
		}
	}
}

// takeEnds adds the ends of sessions that were closed: their ephemerals go, but for
// those that went before, or may have.
func (l *ledger) takeEnds() {
	for p, facts := range l.facts {
		for _, f := range facts {
			if f.kind != created || f.owner == 0 || l.hiddenOf(p).deletes > 0 {
				continue
			}
			if life := l.h.lives[f.owner]; life != nil && life.closed != 0 && life.closed > f.zxid && !slices.ContainsFunc(facts, func(d fact) bool {
				return d.kind != changed && d.zxid > f.zxid && d.zxid <= life.closed
			}) {
				l.add(p, fact{zxid: life.closed, kind: deleted, by: f.by})
				facts = l.facts[p]
			}
		}
	}
}

// countHidden notes what may have happened unseen.
func (l *ledger) countHidden() {
	for _, o := range l.h.ops {
		if o.state != unknown || o.zxid != 0 {
			continue
		}
		for _, p := range o.parts() {
			h := l.hiddenOf(p.path)
			switch p.code {
			case jute.OpCreate, jute.OpCreate2:
				h.creates++
			case jute.OpSetData:
				h.sets++
			case jute.OpDelete:
				h.deletes++
			}
		}
	}
}

func (l *ledger) hiddenOf(path string) *hidden {
	h := l.hidden[path]
	if h == nil {
		h = &hidden{}
		l.hidden[path] = h
	}
	return h
}

// sort orders the facts of each path, and makes one of those that are told more
// than once.
func (l *ledger) sort() {
	for p, facts := range l.facts {
		slices.SortStableFunc(facts, func(a, b fact) int {
			return cmp.Or(cmp.Compare(a.zxid, b.zxid), cmp.Compare(a.kind, b.kind))
		})
		merged := facts[:0]
		for _, f := range facts {
			if n := len(merged); n > 0 && merged[n-1].zxid == f.zxid {
				l.merge(p, &merged[n-1], f)
			} else {
				merged = append(merged, f)
			}
		}
		l.facts[p] = merged
		for _, f := range merged {
			if f.kind != changed {
				dir := path.Dir(p)
				l.kids[dir] = append(l.kids[dir], f.zxid)
			}
		}
	}
	for _, list := range l.kids {
		slices.Sort(list)
	}
}

// merge takes what a second teller adds to a fact.
func (l *ledger) merge(path string, f *fact, more fact) {
	if f.kind != more.kind || f.known && more.known && f.data != more.data ||
		f.created != 0 && more.created != 0 && f.created != more.created ||
		f.version >= 0 && more.version >= 0 && f.version != more.version {
		l.found.add("%s at %v is told in two ways:\n\t%v\n\t%v", path, f.zxid, *f, more)
		return
	}
	if !f.known && more.known {
		f.data, f.known = more.data, true
	}
	f.created = max(f.created, more.created)
	f.version = max(f.version, more.version)
	if f.owner == 0 {
		f.owner = more.owner
	}
}

// at returns the last fact of a path up to a zxid, and the first one after it.
// Nil stands for none.
func (l *ledger) at(path string, zxid jute.Zxid) (last, next *fact) {
	facts := l.facts[path]
	i, _ := slices.BinarySearchFunc(facts, zxid+1, func(f fact, z jute.Zxid) int { return cmp.Compare(f.zxid, z) })
	if i > 0 {
		last = &facts[i-1]
	}
	if i < len(facts) {
		next = &facts[i]
	}
	return last, next
}

// vanished reports whether a node may have gone without a fact: its session may
// have ended, or somebody may have deleted it.
func (l *ledger) vanished(path string, owner jute.SessionID) bool {
	if owner != 0 {
		if life := l.h.lives[owner]; life == nil || life.over() {
			return true
		}
	}
	h := l.hidden[path]
	return h != nil && h.deletes > 0
}

// check returns everything about the history that can't be.
func (l *ledger) check() findings {
	for _, p := range slices.Sorted(maps.Keys(l.facts)) {
		l.checkPath(p)
	}
	for _, o := range l.h.ops {
		switch {
		case o.state == unknown || o.turnedAway():
		case o.read():
			l.checkRead(o)
		case o.state == refused:
			l.checkRefusal(o)
		}
	}
	l.checkLock()
	l.checkSequence()
	return l.found
}

// checkPath steps through the life of a node: versions count up by one, and
// what comes exists, or not, as it must.
func (l *ledger) checkPath(path string) {
	var now fact
	exists := false
	h := *l.hiddenOf(path)
	for _, o := range skeleton(l.h.prefix) {
		exists = exists || o.path == path
	}
	for _, f := range l.facts[path] {
		switch f.kind {
		case created:
			if exists && !l.vanished(path, now.owner) {
				l.found.add("%s is made while it is there:\n\t%v\n\tafter %v", path, f, now)
			}
			exists, now = true, f
		case changed:
			l.checkChange(path, now, f, exists, &h)
			f.owner = now.owner
			if f.version < 0 && now.version >= 0 {
				f.version = now.version + 1
			}
			exists, now = true, f
		case deleted:
			if !exists && h.creates == 0 {
				l.found.add("%s is deleted while it is not there: %v", path, f)
			}
			exists, now = false, f
		}
	}
}

func (l *ledger) checkChange(path string, now, f fact, exists bool, h *hidden) {
	if !exists && h.creates == 0 {
		l.found.add("%s is changed while it is not there: %v", path, f)
	}
	if f.version < 0 || now.version < 0 || !exists || f.created != 0 && now.created != 0 && f.created != now.created {
		return
	}
	between := int(f.version - now.version - 1)
	switch {
	case between < 0:
		l.found.add("%s has version %d after version %d:\n\t%v\n\tafter %v", path, f.version, now.version, f, now)
	case between > h.sets:
		l.found.add("%s: %d changes between versions %d and %d are lost, and %d ops without an answer may explain them:\n\t%v\n\tafter %v",
			path, between, now.version, f.version, h.sets, f, now)
	default:
		h.sets -= between
	}
}

// checkRead compares a read with the state at the zxid of its reply.
func (l *ledger) checkRead(o *op) {
	if o.zxid < l.h.before {
		return // a server that lags, and a client that has not seen more
	}
	last, _ := l.at(o.path, o.zxid)
	if o.state == refused {
		l.checkAbsent(o, last)
		return
	}
	if o.stat.Mzxid > o.zxid || o.stat.Czxid > o.zxid {
		l.found.add("reply shows more than its zxid says: %v", o)
	}
	if o.code == jute.OpGetChildren2 {
		l.checkChildren(o)
		return
	}
	if last != nil && last.zxid > o.stat.Mzxid {
		l.found.add("stale: the reply's zxid is %v, and it does not show %v\n\tread by %v", o.zxid, *last, o)
	}
}

// checkAbsent looks at a read that found nothing.
func (l *ledger) checkAbsent(o *op, last *fact) {
	if o.err != jute.ErrNoNode {
		l.found.add("read fails: %v", o)
		return
	}
	if last != nil && last.kind != deleted && !l.vanished(o.path, l.ownerAt(o.path, o.zxid)) {
		l.found.add("not found, although it was there: %v\n\tread by %v", *last, o)
	}
}

// ownerAt returns the session that owns the ephemeral at a path.
func (l *ledger) ownerAt(path string, zxid jute.Zxid) (owner jute.SessionID) {
	for _, f := range l.facts[path] {
		if f.zxid > zxid {
			break
		}
		if f.kind == created {
			owner = f.owner
		}
	}
	return owner
}

// checkChildren compares a list of children with the nodes known to be there.
func (l *ledger) checkChildren(o *op) {
	listed := make(map[string]bool, len(o.names))
	for _, n := range o.names {
		listed[path.Join(o.path, n)] = true
	}
	for p := range l.facts {
		if path.Dir(p) != o.path {
			continue
		}
		last, next := l.at(p, o.zxid)
		there := last != nil && last.kind != deleted
		switch {
		case there && !listed[p] && !l.vanished(p, l.ownerAt(p, o.zxid)):
			l.found.add("%s is not in the list of children: %v\n\tread by %v", p, *last, o)
		case !there && listed[p] && l.hiddenOf(l.sequencePath(p)).creates == 0:
			l.found.add("%s is in the list of children, but it is not there (next: %v): %v", p, next, o)
		}
	}
}

// sequencePath returns the path that was asked for to make a sequential node.
func (l *ledger) sequencePath(p string) string {
	if len(p) > 10 && path.Base(path.Dir(p)) == "seq" {
		return p[:len(p)-10]
	}
	return p
}

// checkRefusal checks that a write was refused for a reason.
func (l *ledger) checkRefusal(o *op) {
	if o.code == jute.OpMulti {
		if o.err != jute.ErrBadVersion {
			l.found.add("multi is refused: %v", o)
		}
		return
	}
	last, next := l.at(o.path, o.zxid)
	h := l.hiddenOf(o.path)
	there := last != nil && last.kind != deleted
	switch o.err {
	case jute.ErrBadVersion:
		certain := last != nil && last.version >= 0 && (next == nil || next.kind == changed && next.version == last.version+1) && h.sets == 0
		if there && certain && last.version == o.version && h.deletes == 0 {
			l.found.add("refused although the version is right, %v: %v", *last, o)
		}
	case jute.ErrNoNode:
		if there && !l.vanished(o.path, l.ownerAt(o.path, o.zxid)) {
			l.found.add("refused although the node is there, %v: %v", *last, o)
		}
	case jute.ErrNodeExists:
		if !there && h.creates == 0 {
			l.found.add("refused although the node is not there: %v", o)
		}
	default:
		l.found.add("refused for no known reason: %v", o)
	}
}

// checkLock checks that only the holder of the lock writes what it protects.
func (l *ledger) checkLock() {
	lock := l.h.prefix + "/lock"
	for _, o := range l.h.ops {
		if o.path != l.h.prefix+"/fenced" || o.code != jute.OpSetData || o.zxid == 0 || o.state == refused {
			continue
		}
		last, _ := l.at(lock, o.zxid)
		switch {
		case last == nil || last.kind == deleted:
			l.found.add("written while nobody had the lock (%v): %v", last, o)
		case last.kind == created && last.owner != o.session && last.owner != 0:
			l.found.add("written while %v had the lock: %v", last.owner, o)
		}
	}
}

// checkSequence checks that the numbers of sequential nodes grow with their zxids.
func (l *ledger) checkSequence() {
	type numbered struct {
		zxid   jute.Zxid
		number string
	}
	var list []numbered
	for p, facts := range l.facts {
		if path.Dir(p) == l.h.prefix+"/seq" && facts[0].kind == created {
			list = append(list, numbered{facts[0].zxid, p[len(p)-10:]})
			if len(facts) > 1 && facts[1].kind == created {
				l.found.add("%s is made twice: %v\n\t%v", p, facts[0], facts[1])
			}
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.zxid, b.zxid) })
	for i := 1; i < len(list); i++ {
		if list[i].number <= list[i-1].number {
			l.found.add("sequence number %s at %v, after %s at %v", list[i].number, list[i].zxid, list[i-1].number, list[i-1].zxid)
		}
	}
}
