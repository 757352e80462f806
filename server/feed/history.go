package feed

import (
	"strings"
	"sync"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

const (
	chunkBytes = 64 << 10
	// minParts is into how many chunks, or events of a feed, even a small history is divided.
	minParts = 16
)

// chunk is a part of the records. It does not change any more when the next one exists.
type chunk struct {
	buf  []byte // its capacity never changes
	acls [][]jute.ACL
	data [][]byte  // the tree's, which never modifies it
	held int       // bytes of data and lists
	last jute.Zxid // of its last record
	// read is whether a cursor has yielded records of it, which may be in use for as long as anybody
	// likes.
	read bool
}

// History has the latest changes.
type History struct {
	limit int
	alone bool // see Alone
	steps *steps.Counter

	mu struct {
		sync.Mutex
		chunks []*chunk
		first  uint64        // number of chunks[0], from 1
		bytes  int           // of all chunks
		spare  *chunk        // one that was forgotten and never read, or nil
		oldest jute.Zxid     // all changes after it are there
		last   jute.Zxid     // the last transaction of which all was added, whether or not it changed a znode
		ends   []jute.Zxid   // the last of each epoch, from that of oldest to that of last
		zxid   jute.Zxid     // of the last record
		index  int32         // of the next record of that transaction
		more   chan struct{} // closed when there is more; nil if nobody waits
	}
}

// CountSteps has the history count the records that are looked at. It must precede its use by others.
func (h *History) CountSteps(c *steps.Counter) { h.steps = c }

// New returns a history of up to limit bytes, with nothing before zxid. With the limit 0 it
// stays empty.
func New(limit int, zxid jute.Zxid) *History {
	h := &History{limit: limit}
	h.mu.first = 1
	h.Reset(zxid)
	return h
}

// Alone says that no other server is ahead of this history: what it has not reached is of another
// one. It must be called before the history is used.
func (h *History) Alone() { h.alone = true }

// Reset forgets everything: the state at zxid came from elsewhere.
func (h *History) Reset(zxid jute.Zxid) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.first += uint64(len(h.mu.chunks))
	h.mu.chunks, h.mu.bytes = nil, 0
	h.mu.oldest, h.mu.last = zxid, zxid
	h.mu.ends = append(h.mu.ends[:0], zxid)
	h.wakeLocked()
}

// Replay begins the history of a server that is about to apply its log after a zxid, up to upTo. room is a
// zxid after which the log has about as much as the history may hold: what is older would be dropped
// again. It returns the function that adds the changes of each transaction, with the last transaction
// of which all was added, as for Add.
func (h *History) Replay(after, upTo, room jute.Zxid) (add func(txn *datatree.Txn, out *datatree.Applied, last jute.Zxid)) {
	from := max(after, min(upTo, room))
	h.Reset(from)
	return func(txn *datatree.Txn, out *datatree.Applied, last jute.Zxid) {
		if h.wants(txn.Zxid, from) {
			h.Add(txn, out, last)
		}
	}
}

// wants reports whether a history that begins after from has a place for a transaction that is replayed.
func (h *History) wants(zxid, from jute.Zxid) bool {
	later := zxid > from
	return later && !replayNotFed.Planted()
}

// Add appends the changes that a transaction, or a part of it, made: out is what applying it gave.
// last is the last transaction of which all was added. Wake must follow.
func (h *History) Add(txn *datatree.Txn, out *datatree.Applied, last jute.Zxid) {
	if h.limit == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extendLocked(last)
	if txn.Zxid != h.mu.zxid {
		h.mu.zxid, h.mu.index = txn.Zxid, 0
	}
	// The event of a parent follows that of the child.
	events := out.Events
	next := func() (e *datatree.Event) {
		e, events = &events[0], events[1:]
		return e
	}
	deleted := func(path string) {
		acl, parent := next().ACL, next()
		h.appendLocked(&jute.Change{
			Kind: jute.ChangeDeleted, Path: path, ParentCversion: parent.Cversion, ParentChildren: parent.NumChildren,
		}, txn, acl, parent.ACL)
	}
	for i := out.Earlier; i < len(out.Results); i++ {
		op, result := &txn.Ops[i], &out.Results[i]
		if result.Code != 0 {
			continue
		}
		switch op.Kind {
		case datatree.OpCreate:
			acl, parent := next().ACL, next()
			h.appendLocked(&jute.Change{
				Kind: jute.ChangeCreated, Path: op.Path, Data: result.Data, Stat: result.Stat,
				ParentCversion: parent.Cversion, ParentChildren: parent.NumChildren,
			}, txn, acl, parent.ACL)
		case datatree.OpSetData:
			h.appendLocked(&jute.Change{Kind: jute.ChangeData, Path: op.Path, Data: result.Data, Stat: result.Stat}, txn, next().ACL, nil)
		case datatree.OpDelete:
			deleted(op.Path)
		case datatree.OpSetACL:
			h.appendLocked(&jute.Change{Kind: jute.ChangeACL, Path: op.Path, Stat: result.Stat}, txn, cloned(op.ACL), result.Was)
		}
	}
	for len(events) > 0 { // the ephemerals of a session that ends
		deleted(events[0].Path)
	}
}

// extendLocked moves the end of the history to a zxid.
func (h *History) extendLocked(last jute.Zxid) {
	h.mu.last = last
	if n := len(h.mu.ends); h.mu.ends[n-1].Epoch() == last.Epoch() {
		h.mu.ends[n-1] = last
		return
	}
	h.mu.ends = append(h.mu.ends, last)
}

// startLocked moves the beginning of the history to a zxid.
func (h *History) startLocked(oldest jute.Zxid) {
	h.mu.oldest = oldest
	for len(h.mu.ends) > 1 && h.mu.ends[0].Epoch() < oldest.Epoch() {
		h.mu.ends = h.mu.ends[1:]
	}
}

// lacksLocked reports whether the history can't continue after a zxid: it has not all changes
// since then, or has passed it without having had it. So it is with a zxid of another history:
// after a restore, what followed the moment that was restored is undone.
func (h *History) lacksLocked(zxid jute.Zxid) bool {
	if zxid < h.mu.oldest {
		return true
	}
	if zxid > h.mu.last {
		return false
	}
	for _, end := range h.mu.ends {
		if end.Epoch() == zxid.Epoch() {
			return zxid > end
		}
	}
	return true
}

// lacks returns a *jute.CompactedError if the history can't continue after a zxid.
func (h *History) lacks(zxid jute.Zxid) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lacksLocked(zxid) || h.alone && zxid > h.mu.last {
		return &jute.CompactedError{After: zxid, Oldest: h.mu.oldest}
	}
	return nil
}

// appendLocked completes a change of a transaction and appends it, with its lists, as in Record.
func (h *History) appendLocked(c *jute.Change, txn *datatree.Txn, acl, other []jute.ACL) {
	if anybodyDeleted.Planted() && c.Kind == jute.ChangeDeleted {
		acl = nil
	}
	c.Zxid, c.Index, c.Time, c.Session = txn.Zxid, h.mu.index, txn.Time, txn.Session
	h.mu.index++
	if c.Path == "" {
		c.Path = "/" // which has the empty path in the tree
	}
	at := h.roomLocked(recordBytes+len(c.Path), len(c.Data)+bytesOf(acl)+bytesOf(other))
	before := at.bytes()
	list := at.place(acl)
	if c.Kind == jute.ChangeData {
		at.appendRecord(c, list, list)
	} else {
		at.appendRecord(c, list, at.place(other))
	}
	h.mu.bytes += at.bytes() - before
}

// place returns the number of a list in the table of the chunk, to which it adds the list, if need be.
func (at *chunk) place(list []jute.ACL) int {
	const recent = 8 // changes of neighbours have few lists
	for i := len(at.acls) - 1; i >= max(0, len(at.acls)-recent); i-- {
		found := same(at.acls[i], list)
		found = found || neighboursList.Planted()
		if found {
			return i
		}
	}
	at.acls = append(at.acls, list)
	at.held += bytesOf(list)
	return len(at.acls) - 1
}

// bytesOf returns the memory that a list takes. Others may share it now, and may have given it up later.
func bytesOf(list []jute.ACL) int {
	const entry = 40
	n := entry * len(list)
	for i := range list {
		n += len(list[i].ID.Scheme) + len(list[i].ID.ID)
	}
	return n
}

// cloned returns a copy of a list that shares no memory with it, which the transaction does not own.
func cloned(acl []jute.ACL) []jute.ACL {
	own := make([]jute.ACL, len(acl))
	for i, a := range acl {
		own[i] = jute.ACL{Perms: a.Perms, ID: jute.ID{Scheme: strings.Clone(a.ID.Scheme), ID: strings.Clone(a.ID.ID)}}
	}
	return own
}

// bytes returns the memory that the chunk takes, with all that it keeps.
func (at *chunk) bytes() int {
	const reference = 24
	return cap(at.buf) + at.held + reference*(len(at.acls)+len(at.data))
}

// same reports whether two lists share their memory. Lists that are only equal may differ.
func same(a, b []jute.ACL) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// part returns bytes, or less in a small history.
func (h *History) part(bytes int) int { return min(bytes, h.limit/minParts) }

// roomLocked returns the last chunk, after making one if that has no room for n bytes, or keeps many bytes beside its
// own and should keep more.
func (h *History) roomLocked(n, more int) *chunk {
	if k := len(h.mu.chunks); k > 0 {
		at := h.mu.chunks[k-1]
		if cap(at.buf)-len(at.buf) >= n && (at.held+more <= h.limit/minParts || at.held == 0) {
			return at
		}
	}
	at := h.mu.spare
	if h.mu.spare = nil; at == nil || cap(at.buf) < n {
		at = &chunk{buf: make([]byte, 0, max(n, h.part(chunkBytes)))}
	}
	h.mu.bytes += at.bytes()
	h.mu.chunks = append(h.mu.chunks, at)
	for h.mu.bytes > h.limit && len(h.mu.chunks) > 2 {
		old := h.mu.chunks[0]
		h.mu.chunks[0] = nil
		h.mu.chunks = h.mu.chunks[1:]
		h.mu.first++
		h.startLocked(old.last)
		if oldestTooLow.Planted() {
			h.mu.oldest--
		}
		h.mu.bytes -= old.bytes()
		if !old.read && cap(old.buf) == h.part(chunkBytes) {
			h.mu.spare = old.emptied()
		}
	}
	return at
}

// emptied makes a chunk that nobody else uses empty, and returns it.
func (at *chunk) emptied() *chunk {
	clear(at.acls)
	clear(at.data)
	*at = chunk{buf: at.buf[:0], acls: at.acls[:0], data: at.data[:0]}
	return at
}

// Wake wakes the callers that wait for More.
func (h *History) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked()
}

func (h *History) wakeLocked() {
	if h.mu.more != nil {
		close(h.mu.more)
		h.mu.more = nil
	}
}

// Span returns the zxids after which, and up to which, all changes are there.
func (h *History) Span() (oldest, last jute.Zxid) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.oldest, h.mu.last
}

// Bytes returns the memory that the history takes.
func (h *History) Bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.bytes
}

// More returns a channel that is closed when something after zxid, of which the caller has seen
// everything, is there.
func (h *History) More(zxid jute.Zxid) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.last > zxid {
		return closed
	}
	if h.mu.more == nil {
		h.mu.more = make(chan struct{})
	}
	return h.mu.more
}

var closed = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()
