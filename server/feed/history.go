package feed

import (
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

const chunkBytes = 64 << 10

// chunk is a part of the records. Only the applier changes it, and nobody when the next one exists.
type chunk struct {
	buf  []byte // its capacity never changes
	acls [][]jute.ACL
	last jute.Zxid // of its last record
}

// History has the latest changes.
type History struct {
	limit int

	// The applier's.
	zxid  jute.Zxid // of the last record
	index int32     // of the next record of that transaction
	bytes int       // of all chunks

	mu struct {
		sync.RWMutex
		chunks []*chunk
		first  uint64        // number of chunks[0], from 1
		end    uint64        // number of the chunk in which what is published ends
		part   chunk         // as much of that chunk as is published
		oldest jute.Zxid     // all changes after it are there
		last   jute.Zxid     // the last transaction that is published, whether or not it changed a znode
		more   chan struct{} // closed when more is published; nil if nobody waits
	}
}

// New returns a history of up to limit bytes, with nothing before zxid. With the limit 0 it
// stays empty.
func New(limit int, zxid jute.Zxid) *History {
	h := &History{limit: limit}
	h.mu.first = 1
	h.Reset(zxid)
	return h
}

// Reset forgets everything: the state at zxid came from elsewhere.
func (h *History) Reset(zxid jute.Zxid) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.first += uint64(len(h.mu.chunks))
	h.mu.chunks = nil
	h.mu.end, h.mu.part = h.mu.first, chunk{}
	h.mu.oldest, h.mu.last = zxid, zxid
	h.bytes = 0
	h.wakeLocked()
}

// Add appends the changes that a transaction, or a part of it, made: out is what applying it gave.
func (h *History) Add(txn *datatree.Txn, out *datatree.Applied) {
	if h.limit == 0 {
		return
	}
	if txn.Zxid != h.zxid {
		h.zxid, h.index = txn.Zxid, 0
	}
	events := out.Events
	next := func() (e *datatree.Event) {
		for len(events) > 0 {
			e, events = &events[0], events[1:]
			if e.Type != jute.EventChildrenChanged {
				return e
			}
		}
		return nil
	}
	for i := range out.Results {
		op, result := &txn.Ops[i], &out.Results[i]
		if result.Code != 0 {
			continue
		}
		switch op.Kind {
		case datatree.OpCreate:
			h.append(txn, jute.ChangeCreated, op.Path, op.Data, &result.Stat, next().ACL)
		case datatree.OpSetData:
			h.append(txn, jute.ChangeData, op.Path, op.Data, &result.Stat, next().ACL)
		case datatree.OpDelete:
			h.append(txn, jute.ChangeDeleted, op.Path, nil, nil, next().ACL)
		case datatree.OpSetACL:
			h.append(txn, jute.ChangeACL, op.Path, nil, &result.Stat, op.ACL)
		}
	}
	// What is left are the ephemerals of a session that ends.
	for e := next(); e != nil; e = next() {
		h.append(txn, jute.ChangeDeleted, e.Path, nil, nil, e.ACL)
	}
}

func (h *History) append(txn *datatree.Txn, kind jute.ChangeKind, path string, data []byte, stat *jute.Stat, acl []jute.ACL) {
	c := jute.Change{Zxid: txn.Zxid, Index: h.index, Kind: kind, Time: txn.Time, Session: txn.Session, Path: path, Data: data}
	h.index++
	if stat != nil {
		c.Stat = *stat
	}
	if path == "" {
		c.Path = "/" // which has the empty path in the tree
	}
	at := h.room(recordBytes + len(c.Path) + len(data))
	if n := len(at.acls); n == 0 || !same(at.acls[n-1], acl) {
		at.acls = append(at.acls, acl)
		h.bytes += aclBytes
	}
	at.buf = appendRecord(at.buf, &c, len(at.acls)-1)
	at.last = c.Zxid
}

// aclBytes is what a reference to an ACL list takes.
const aclBytes = 24

// same reports whether two lists share their memory. Lists that are only equal may differ.
func same(a, b []jute.ACL) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// room returns the last chunk, after making one if that has no room for n bytes.
func (h *History) room(n int) *chunk {
	if k := len(h.mu.chunks); k > 0 { // only the applier changes it
		if at := h.mu.chunks[k-1]; cap(at.buf)-len(at.buf) >= n {
			return at
		}
	}
	at := &chunk{buf: make([]byte, 0, max(n, chunkBytes))}
	h.bytes += cap(at.buf)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.chunks = append(h.mu.chunks, at)
	for h.bytes > h.limit && len(h.mu.chunks) > 2 {
		old := h.mu.chunks[0]
		h.mu.chunks[0] = nil
		h.mu.chunks = h.mu.chunks[1:]
		h.mu.first++
		h.mu.oldest = old.last
		h.bytes -= cap(old.buf) + aclBytes*len(old.acls)
	}
	return at
}

// Publish makes what was added up to a transaction visible.
func (h *History) Publish(zxid jute.Zxid) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.last = zxid
	if n := len(h.mu.chunks); n > 0 {
		h.mu.end, h.mu.part = h.mu.first+uint64(n)-1, *h.mu.chunks[n-1]
	}
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
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.mu.oldest, h.mu.last
}

// More returns a channel that is closed when something after zxid is published.
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

// Cursor is a position in a history. It yields the changes after a zxid.
type Cursor struct {
	history *History
	zxid    jute.Zxid // everything up to it has been yielded
	chunk   uint64    // number of the chunk of the next record
	offset  int       // of that record
}

// After returns a cursor for the changes after zxid. The history need not have reached it yet.
func (h *History) After(zxid jute.Zxid) *Cursor { return &Cursor{history: h, zxid: zxid} }

// Zxid returns the zxid up to which the cursor has yielded everything.
func (c *Cursor) Zxid() jute.Zxid { return c.zxid }

// Next calls yield for the changes that follow, until there are no more, or those of whole
// transactions take so many bytes. The slices of a change are read only; they, and the change, are
// valid after the call. The error is a *jute.CompactedError: then what was yielded of the last
// transaction may not be all of it.
func (c *Cursor) Next(bytes int, yield func(*Change)) error {
	var current jute.Zxid // of the last record looked at
	for read := 0; ; {
		at, sealed, more, err := c.locate()
		if err != nil || !more {
			return err
		}
		for c.offset < len(at.buf) {
			zxid := zxidOf(at.buf[c.offset:])
			if zxid != current {
				c.zxid = max(c.zxid, current)
				if read >= bytes {
					return nil
				}
				current = zxid
			}
			change, n := decodeRecord(at.buf[c.offset:], at.acls)
			c.offset += n
			if zxid > c.zxid {
				read += n
				yield(&change)
			}
		}
		if sealed {
			c.chunk, c.offset = c.chunk+1, 0
		}
	}
}

// locate returns as much as is published of the chunk with the next record, and whether there
// will be no more of it. If there is no next record, more is false.
func (c *Cursor) locate() (at chunk, sealed, more bool, err error) {
	mu := &c.history.mu
	mu.RLock()
	defer mu.RUnlock()
	if c.zxid < mu.oldest {
		return at, false, false, &jute.CompactedError{After: c.zxid, Oldest: mu.oldest}
	}
	if c.chunk < mu.first { // a new cursor, or one that has read what was forgotten since
		c.chunk, c.offset = mu.first, 0
		for c.chunk < mu.end && mu.chunks[c.chunk-mu.first].last <= c.zxid {
			c.chunk++
		}
	}
	switch {
	case c.chunk < mu.end:
		return *mu.chunks[c.chunk-mu.first], true, true, nil
	case c.offset < len(mu.part.buf):
		return mu.part, false, true, nil
	}
	c.zxid = max(c.zxid, mu.last)
	return at, false, false, nil
}
