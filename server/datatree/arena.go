package datatree

import (
	"slices"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
)

// nodeID addresses a record. 0 is no node.
type nodeID uint32

const rootID nodeID = 1

// record is a znode without what most znodes do not need: that is in its extra. Its 56 bytes are
// most of a znode's memory besides its name and data.
type record struct {
	blob

	czxid jute.Zxid
	ctime int64

	parent nodeID
	next   nodeID // next sibling, 0 in the last one
	prev   nodeID // previous sibling; in the first one, the last

	hash  uint32 // of (parent, name)
	chain nodeID // next record in the bucket of the index

	extra uint32 // number of its extra; 0, which has zeros, if it has none
}

// extra is the rest of a znode that has or had children or an owner, has another ACL list than
// openACL, or was changed since it was created. Once it has an extra it keeps it.
type extra struct {
	rest

	// dataPart is what the data adds to the digest. It is zero until it was computed.
	dataPart hash

	first       nodeID // first child
	children    int32
	descendants int32
	below       int64 // bytes of the data of the descendants
}

// attrs are what a znode consists of besides its name, data and children.
type attrs struct {
	czxid jute.Zxid
	ctime int64
	rest
}

// rest are those attributes that follow from the others in a znode without an extra.
type rest struct {
	mzxid, pzxid jute.Zxid
	mtime        int64
	owner        jute.Owner

	version, cversion, aversion int32 // cversion counts only creates of children
	acl                         aclID
}

// newRest returns the rest of a znode without an extra.
func newRest(czxid jute.Zxid, ctime int64) rest {
	return rest{mzxid: czxid, pzxid: czxid, mtime: ctime}
}

// arena stores what znodes consist of.
type arena struct {
	records slab[record]
	extras  slab[extra]
	steps   *steps.Counter

	blobs    int64 // memory of the names and data
	retained int64 // of former ones, which the open view may need
	viewed   bool  // a view is open
}

func (a *arena) rec(id nodeID) *record { return a.records.at(uint32(id)) }

// alloc returns the id of a zero record.
func (a *arena) alloc() nodeID { return nodeID(a.records.alloc()) }

// release frees id.
func (a *arena) release(id nodeID) {
	a.dropBlob(id)
	if x := a.rec(id).extra; x != 0 {
		a.extras.release(x)
	}
	a.records.release(uint32(id))
}

// extend returns the extra of id for writing. If id has none, it gets one.
func (a *arena) extend(id nodeID) *extra {
	r := a.rec(id)
	if r.extra == 0 {
		r.extra = a.extras.alloc()
		a.extras.at(r.extra).rest = newRest(r.czxid, r.ctime)
	}
	return a.extras.at(r.extra)
}

// more returns the extra of id for reading. If it has none, the values of newRest are missing.
func (a *arena) more(id nodeID) *extra { return a.extras.at(a.rec(id).extra) }

// attrs returns the attributes of r.
func (a *arena) attrs(r *record) attrs {
	if r.extra == 0 {
		return attrs{r.czxid, r.ctime, newRest(r.czxid, r.ctime)}
	}
	return attrs{r.czxid, r.ctime, a.extras.at(r.extra).rest}
}

// setAttrs sets the attributes of id.
func (a *arena) setAttrs(id nodeID, to *attrs) {
	r := a.rec(id)
	r.czxid, r.ctime = to.czxid, to.ctime
	if r.extra != 0 || to.rest != newRest(to.czxid, to.ctime) {
		a.extend(id).rest = to.rest
	}
}

// setBlob sets the name and data of id.
func (a *arena) setBlob(id nodeID, b blob) {
	a.dropBlob(id)
	r := a.rec(id)
	r.blob = b
	a.blobs += b.memory()
	if r.extra != 0 {
		a.extras.at(r.extra).dataPart = hash{}
	}
}

// dropBlob counts the name and data of id as no longer part of the tree.
func (a *arena) dropBlob(id nodeID) {
	n := a.rec(id).memory()
	a.blobs -= n
	if a.viewed {
		a.retained += n
	}
}

func (a *arena) name(id nodeID) string { return a.rec(id).name() }

// data returns the data of id, which must not be modified.
func (a *arena) data(id nodeID) []byte { return a.rec(id).data() }

// appendPath appends the path of id, which is empty for the root.
func (a *arena) appendPath(b []byte, id nodeID) []byte {
	n := len(b)
	for i := id; i != rootID; i = a.rec(i).parent {
		a.steps.Add(1)
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
