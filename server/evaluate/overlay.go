package evaluate

import "github.com/zkd-project/zkd/jute"

// maxIdleTouches is the largest capacity of the list of touches that is kept when nothing
// is pending.
const maxIdleTouches = 1 << 14

// maxDropped is the number of touches dropped at a time. A record that stays longer is
// harmless, but a long hold of the tree's lock is not.
const maxDropped = 1 << 16

// record is the state of a node after all accepted transactions are applied, as far as it
// matters for the evaluation of requests.
type record struct {
	zxid        jute.Zxid // newest accepted transaction that touched the node
	mtime       int64     // ms
	owner       jute.Owner
	acl         []jute.ACL
	version     int32
	cversion    int32 // children ever created
	aversion    int32
	numChildren int32
	dataLength  int32
	gone        bool // deleted: only zxid counts
}

// sessionRecord is the corresponding state of a session.
type sessionRecord struct {
	zxid      jute.Zxid
	open      bool
	timeoutMs int32       // of an open session
	owner     uint64      // of an open session; 0: not known
	holder    jute.Holder // likewise
}

// overlay holds the records of nodes and sessions that accepted transactions touched and
// that the tree is not known to have yet.
type overlay struct {
	nodes    map[string]record
	sessions map[jute.SessionID]sessionRecord
	// ephemerals lists, oldest first, the paths at which pending transactions create
	// ephemerals of a session; they may have been deleted since.
	ephemerals map[jute.SessionID][]string

	// touches lists, in the order of zxids, the changes to drop when they are applied.
	// Those before head are dropped.
	touches []overlayChange
	head    int

	zxid jute.Zxid // of the transaction being evaluated
	// undo lists what this transaction replaced in nodes.
	undo []undoRecord
}

// overlayChange is a change of the overlay by transaction zxid: of the record of path,
// of session's record if path is empty, or, if both are set, of the session's
// list of ephemerals.
type overlayChange struct {
	zxid    jute.Zxid
	path    string
	session jute.SessionID
}

// undoRecord is a record before a change by the current transaction; the zero zxid means
// that there was none.
type undoRecord struct {
	path string
	old  record
}

func newOverlay() overlay {
	return overlay{
		nodes:      make(map[string]record),
		sessions:   make(map[jute.SessionID]sessionRecord),
		ephemerals: make(map[jute.SessionID][]string),
	}
}

// begin starts transaction zxid.
func (o *overlay) begin(zxid jute.Zxid) {
	o.zxid = zxid
	clear(o.undo)
	o.undo = o.undo[:0]
}

// put makes r the record of path.
func (o *overlay) put(path string, r record) {
	old := o.nodes[path]
	if old.zxid != o.zxid {
		o.touches = append(o.touches, overlayChange{zxid: o.zxid, path: path})
	}
	o.undo = append(o.undo, undoRecord{path, old})
	r.zxid = o.zxid
	o.nodes[path] = r
}

// addEphemeral records that the transaction creates an ephemeral of s at path.
func (o *overlay) addEphemeral(s jute.SessionID, path string) {
	o.ephemerals[s] = append(o.ephemerals[s], path)
	o.touches = append(o.touches, overlayChange{zxid: o.zxid, path: path, session: s})
}

// putSession makes r the record of s.
func (o *overlay) putSession(s jute.SessionID, r sessionRecord) {
	r.zxid = o.zxid
	o.sessions[s] = r
	o.touches = append(o.touches, overlayChange{zxid: o.zxid, session: s})
}

// rollback undoes all changes of the transaction to nodes and ephemerals.
func (o *overlay) rollback() {
	for i := len(o.undo) - 1; i >= 0; i-- {
		u := &o.undo[i]
		if u.old.zxid == 0 {
			delete(o.nodes, u.path)
		} else {
			o.nodes[u.path] = u.old
		}
	}
	n := len(o.touches)
	for ; n > o.head && o.touches[n-1].zxid == o.zxid; n-- {
		if t := &o.touches[n-1]; t.path != "" && t.session != 0 {
			o.setEphemerals(t.session, o.ephemerals[t.session][:len(o.ephemerals[t.session])-1])
		}
	}
	clear(o.touches[n:])
	o.touches = o.touches[:n]
	o.begin(o.zxid)
}

// applied drops the changes of transactions up to zxid that no later one has repeated:
// all of them, or a part if there are many.
func (o *overlay) applied(zxid jute.Zxid) {
	for n := 0; n < maxDropped && o.head < len(o.touches) && o.touches[o.head].zxid <= zxid; n++ {
		o.drop(&o.touches[o.head])
		o.touches[o.head] = overlayChange{}
		o.head++
	}
	switch {
	case o.head == len(o.touches) && cap(o.touches) > maxIdleTouches:
		*o = newOverlay() // release the memory of a burst
	case o.head > len(o.touches)/2:
		n := copy(o.touches, o.touches[o.head:])
		clear(o.touches[n:])
		o.touches = o.touches[:n]
		o.head = 0
	}
}

func (o *overlay) drop(t *overlayChange) {
	switch {
	case t.path == "":
		if o.sessions[t.session].zxid == t.zxid {
			delete(o.sessions, t.session)
		}
	case t.session != 0:
		o.setEphemerals(t.session, o.ephemerals[t.session][1:])
	case o.nodes[t.path].zxid == t.zxid:
		delete(o.nodes, t.path)
	}
}

func (o *overlay) setEphemerals(s jute.SessionID, paths []string) {
	if len(paths) == 0 {
		delete(o.ephemerals, s)
		return
	}
	o.ephemerals[s] = paths
}
