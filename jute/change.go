package jute

import (
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
)

var changeKinds = [...]string{ChangeCreated: "created", ChangeDeleted: "deleted", ChangeData: "data", ChangeACL: "acl"}

// String returns the name of the kind.
func (k ChangeKind) String() string {
	if k < ChangeCreated || k > ChangeACL {
		return "kind " + strconv.Itoa(int(k))
	}
	return changeKinds[k]
}

// Change is what a transaction did to a znode. It is a record of zkd's feeds, not of ZooKeeper's.
type Change struct {
	Zxid    Zxid
	Index   int32 // among the changes of the transaction, from 0
	Kind    ChangeKind
	Time    int64 // ms since the Unix epoch, by the leader's clock
	Session SessionID
	Stat    Stat // right after the change; zero if the znode was deleted
	Path    string
	Data    []byte // of ChangeCreated and ChangeData; nil is null
}

// Append appends the encoding of c.
func (c *Change) Append(b []byte) []byte {
	b = AppendInt64(b, c.Zxid)
	b = AppendInt32(b, c.Index)
	b = AppendInt32(b, c.Kind)
	b = AppendInt64(b, c.Time)
	b = AppendInt64(b, c.Session)
	b = c.Stat.Append(b)
	b = AppendString(b, c.Path)
	return AppendBuffer(b, c.Data)
}

// Decode reads what Append wrote.
func (c *Change) Decode(d *Decoder) {
	c.Zxid = Zxid(d.Int64())
	c.Index = d.Int32()
	c.Kind = ChangeKind(d.Int32())
	c.Time = d.Int64()
	c.Session = SessionID(d.Int64())
	c.Stat.Decode(d)
	c.Path = d.String()
	c.Data = d.Buffer()
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
