package jute

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// ChangeKind says what happened to a znode.
type ChangeKind int32

// The kinds of changes.
const (
	ChangeCreated ChangeKind = 1 + iota
	ChangeDeleted
	ChangeData
	ChangeACL
	// ChangeChildren says that a child of the znode was created or deleted. It is shown to a client that may read the
	// znode, and so of children, too, that the client may not read.
	ChangeChildren
)

var changeKinds = [...]string{ChangeCreated: "created", ChangeDeleted: "deleted", ChangeData: "data", ChangeACL: "acl", ChangeChildren: "children"}

// String returns the name of the kind.
func (k ChangeKind) String() string {
	if k < ChangeCreated || k > ChangeChildren {
		return "kind " + strconv.Itoa(int(k))
	}
	return changeKinds[k]
}

// ChangeKinds is a set of kinds, the lowest bit for the first one. The empty set means all but ChangeChildren.
type ChangeKinds int32

// allChangeKinds has each kind.
const allChangeKinds = 1<<ChangeChildren - 1

// ChangeKindsOf returns the set of some kinds.
func ChangeKindsOf(kinds ...ChangeKind) (s ChangeKinds) {
	for _, k := range kinds {
		s |= 1 << (k - ChangeCreated)
	}
	return s
}

// Has reports whether a kind belongs to the set.
func (s ChangeKinds) Has(k ChangeKind) bool {
	return s == 0 && k != ChangeChildren || s>>(k-ChangeCreated)&1 != 0
}

// Valid reports whether the set has no kinds that don't exist.
func (s ChangeKinds) Valid() bool { return s&^allChangeKinds == 0 }

// Change is what a transaction did to a znode. It is a record of zkd's feeds, not of ZooKeeper's.
type Change struct {
	Zxid    Zxid
	Index   int32 // among the changes of the transaction, from 0
	Kind    ChangeKind
	Time    int64 // ms since the Unix epoch, by the leader's clock
	Session SessionID
	// Stat is that of the znode right after the change. It is zero if the znode was deleted, or if
	// the reader may no longer read it.
	Stat Stat
	// ParentCversion and ParentChildren are the Cversion and NumChildren of the parent's Stat right
	// after ChangeCreated and ChangeDeleted, or of the znode's after ChangeChildren, else 0. Its Pzxid is Zxid then.
	ParentCversion int32
	ParentChildren int32
	Path           string
	Data           []byte // of ChangeCreated and ChangeData; nil is null
}

// Lost reports whether the reader has lost permission to read the znode.
func (c *Change) Lost() bool { return c.Kind == ChangeACL && c.Stat == Stat{} }

// Append appends the encoding of c.
func (c *Change) Append(b []byte) []byte { return append(c.AppendHead(b), c.Data...) }

// AppendHead appends the encoding of c up to the length of its data, without the data.
func (c *Change) AppendHead(b []byte) []byte {
	b = AppendInt64(b, c.Zxid)
	b = AppendInt32(b, c.Index)
	b = AppendInt32(b, c.Kind)
	b = AppendInt64(b, c.Time)
	b = AppendInt64(b, c.Session)
	b = c.Stat.Append(b)
	b = AppendInt32(AppendInt32(b, c.ParentCversion), c.ParentChildren)
	b = AppendString(b, c.Path)
	if c.Data == nil {
		return AppendInt32(b, int32(-1))
	}
	return AppendInt32(b, int32(len(c.Data)))
}

// Decode reads what Append wrote.
func (c *Change) Decode(d *Decoder) {
	c.Zxid = Zxid(d.Int64())
	c.Index = d.Int32()
	c.Kind = ChangeKind(d.Int32())
	c.Time = d.Int64()
	c.Session = SessionID(d.Int64())
	c.Stat.Decode(d)
	c.ParentCversion, c.ParentChildren = d.Int32(), d.Int32()
	c.Path = d.String()
	c.Data = d.Buffer()
}

// EncodedChange is a change as Change.Append encodes it, in two parts. It is only valid if Head was
// cut from what Change.AppendHead wrote, and Data has the length that this says.
type EncodedChange struct {
	Head []byte // everything up to the length of the data
	Data []byte
}

// The places of fields in EncodedChange.Head.
const (
	changeKindAt = 8 + 4
	changeStatAt = changeKindAt + 4 + 8 + 8
	statBytes    = 68
	changePathAt = changeStatAt + statBytes + 4 + 4
	minChange    = changePathAt + 4 + 4
)

// CutChangeHead returns the EncodedChange.Head with which b begins, and the length of the data.
func CutChangeHead(b []byte) (head []byte, data int) {
	n := changePathAt + 4 + int(binary.BigEndian.Uint32(b[changePathAt:])) + 4
	return b[:n:n], max(0, int(int32(binary.BigEndian.Uint32(b[n-4:]))))
}

// Len returns the length of the encoding.
func (c *EncodedChange) Len() int { return len(c.Head) + len(c.Data) }

// Append appends the encoding.
func (c *EncodedChange) Append(b []byte) []byte { return append(append(b, c.Head...), c.Data...) }

// AppendWithoutData appends the encoding of the change with null for its data.
func (c *EncodedChange) AppendWithoutData(b []byte) []byte {
	return AppendInt32(append(b, c.Head[:len(c.Head)-4]...), int32(-1))
}

// AppendLost appends the encoding of the change with a zero Stat.
func (c *EncodedChange) AppendLost(b []byte) []byte {
	at := len(b) + changeStatAt
	b = c.Append(b)
	clear(b[at : at+statBytes])
	return b
}

// AppendChildren appends the encoding of the ChangeChildren of the parent that comes with a ChangeCreated or ChangeDeleted. It has the
// same index.
func (c *EncodedChange) AppendChildren(b []byte) []byte {
	at := len(b)
	b = append(b, c.Head[:changePathAt]...)
	binary.BigEndian.PutUint32(b[at+changeKindAt:], uint32(ChangeChildren))
	clear(b[at+changeStatAt : at+changeStatAt+statBytes])
	return AppendInt32(AppendString(b, string(c.Parent())), int32(-1))
}

// Zxid returns the zxid of the transaction.
func (c *EncodedChange) Zxid() Zxid { return Zxid(binary.BigEndian.Uint64(c.Head)) }

// Kind returns what happened.
func (c *EncodedChange) Kind() ChangeKind {
	return ChangeKind(binary.BigEndian.Uint32(c.Head[changeKindAt:]))
}

// Path returns the path, sharing the memory of c.
func (c *EncodedChange) Path() []byte { return c.Head[changePathAt+4 : len(c.Head)-4] }

// Parent returns the path of the parent, sharing the memory of c.
func (c *EncodedChange) Parent() []byte {
	path := c.Path()
	return path[:max(1, bytes.LastIndexByte(path, '/'))]
}

// Change decodes the change. It shares no memory with c.
func (c *EncodedChange) Change() (change Change) {
	d := NewDecoder(c.Append(nil))
	change.Decode(&d)
	return change
}

// CompactedError says that a server does not have all changes after a zxid, because it has
// forgotten them or never knew them.
type CompactedError struct {
	After  Zxid // what was asked for
	Oldest Zxid // the least zxid after which all changes are there
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("the changes after zxid %v are no longer kept, only those after %v", e.After, e.Oldest)
}
