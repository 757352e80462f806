package datatree

import (
	"slices"
	"unsafe"

	"github.com/zkd-project/zkd/jute"
)

// nodeID addresses a record. 0 is no node.
type nodeID uint32

const rootID nodeID = 1

// record is a znode without its name and data. It has no pointers, and its 104 bytes are
// most of a znode's memory besides its blob.
type record struct {
	czxid, mzxid, pzxid jute.Zxid
	ctime, mtime        int64
	owner               jute.Owner

	version, cversion, aversion int32 // cversion counts only creates of children
	acl                         aclID

	parent      nodeID
	first       nodeID // first child
	next        nodeID // next sibling, 0 in the last one
	prev        nodeID // previous sibling; in the first one, the last
	children    int32
	descendants int32

	nameLen int32
	dataLen int32 // -1: null

	hash  uint32 // of (parent, name)
	chain nodeID // next record in the bucket of the index
}

// bytes is the length of the data, 0 for null.
func (r *record) bytes() int { return int(max(r.dataLen, 0)) }

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// chunk holds records and the first bytes of their blobs. The pointers come first because
// the garbage collector scans only up to the last pointer.
type chunk struct {
	blobs   [chunkSize]*byte
	records [chunkSize]record
}

// chunkUse records which records of a chunk are free.
type chunkUse struct {
	live  int32  // records in use
	fresh int32  // records [fresh, chunkSize) were never in use
	free  nodeID // list, linked by next, of freed records
}

// arena allocates records. Chunks with no record in use, except one, are returned to the
// garbage collector, so a mass delete releases memory.
type arena struct {
	chunks []*chunk
	use    []chunkUse
	// partial has the number of each chunk with room, once. A chunk that was returned is
	// nil, has room, and so is listed too.
	partial []uint32
	// empty is the number of a chunk that may be kept although it has no record in use,
	// so that alternating creates and deletes do not allocate each time.
	empty uint32
}

func (a *arena) rec(id nodeID) *record {
	return &a.chunks[id>>chunkBits].records[id&(chunkSize-1)]
}

// alloc returns the id of a zero record.
func (a *arena) alloc() nodeID {
	if len(a.partial) == 0 {
		a.chunks = append(a.chunks, nil)
		a.use = append(a.use, chunkUse{})
		a.partial = append(a.partial, uint32(len(a.chunks)-1))
	}
	c := a.partial[len(a.partial)-1]
	u := &a.use[c]
	if a.chunks[c] == nil {
		a.fill(c)
	}
	id := u.free
	if id != 0 {
		r := a.rec(id)
		u.free, r.next = r.next, 0
	} else {
		id = nodeID(c<<chunkBits) + nodeID(u.fresh)
		u.fresh++
	}
	u.live++
	if u.free == 0 && u.fresh == chunkSize {
		a.partial = a.partial[:len(a.partial)-1]
	}
	return id
}

// fill allocates chunk number c.
func (a *arena) fill(c uint32) {
	a.chunks[c] = new(chunk)
	a.use[c] = chunkUse{}
	if c == 0 { // id 0 is no node
		a.use[c] = chunkUse{live: 1, fresh: 1}
	}
}

// release frees the record id.
func (a *arena) release(id nodeID) {
	c := uint32(id >> chunkBits)
	u := &a.use[c]
	if u.free == 0 && u.fresh == chunkSize {
		a.partial = append(a.partial, c)
	}
	*a.rec(id) = record{next: u.free}
	a.chunks[c].blobs[id&(chunkSize-1)] = nil
	u.free = id
	u.live--
	if u.live == 0 {
		a.drop(c)
	}
}

// drop returns chunk number c, which has no record in use, to the garbage collector,
// unless it is the only such chunk.
func (a *arena) drop(c uint32) {
	if e := a.empty; e == c || a.chunks[e] == nil || a.use[e].live > 0 {
		a.empty = c
		return
	}
	a.chunks[c] = nil
}

// blobOf returns the name and data of the record r with id id.
func (a *arena) blobOf(id nodeID, r *record) string {
	p := a.chunks[id>>chunkBits].blobs[id&(chunkSize-1)]
	return unsafe.String(p, int(r.nameLen)+r.bytes())
}

// name returns the name of id. It shares the memory of the blob.
func (a *arena) name(id nodeID) string {
	r := a.rec(id)
	return a.blobOf(id, r)[:r.nameLen]
}

// appendPath appends the path of id, which is empty for the root.
func (a *arena) appendPath(b []byte, id nodeID) []byte {
	n := len(b)
	for i := id; i != rootID; i = a.rec(i).parent {
		n += 1 + int(a.rec(i).nameLen)
	}
	b = slices.Grow(b, n-len(b))[:n]
	for i := id; i != rootID; i = a.rec(i).parent {
		name := a.name(i)
		n -= copy(b[n-len(name):], name) + 1
		b[n] = '/'
	}
	return b
}

// data returns the data of id, which must not be modified.
func (a *arena) data(id nodeID) []byte {
	r := a.rec(id)
	return dataOf(r, a.blobOf(id, r))
}

// dataOf returns the data in the blob of r as a slice that shares its memory.
func dataOf(r *record, blob string) []byte {
	switch {
	case r.dataLen < 0:
		return nil
	case r.dataLen == 0:
		return []byte{} // not a pointer past the end of the blob
	}
	return unsafe.Slice(unsafe.StringData(blob[r.nameLen:]), int(r.dataLen))
}

// setBlob gives id a new blob with copies of name and data.
func (a *arena) setBlob(id nodeID, name string, data []byte) {
	blob := make([]byte, len(name)+len(data))
	copy(blob[copy(blob, name):], data)
	r := a.rec(id)
	r.nameLen, r.dataLen = int32(len(name)), int32(len(data))
	if data == nil {
		r.dataLen = -1
	}
	a.chunks[id>>chunkBits].blobs[id&(chunkSize-1)] = unsafe.SliceData(blob)
}
