package datatree

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// Table names a part of a snapshot.
type Table uint8

// The tables of a snapshot. Numbers in keys and values are big-endian.
//
//	meta      "complete" -> Meta
//	acls      4 bytes, number from 1 up -> ACL list
//	sessions  8 bytes, id -> 4 bytes, timeout in ms; for a session that Apache's server
//	          has opened, in format 2, a byte 1; for one with an owner, in format 3, that
//	          byte, 0 or 1, and 8 bytes, owner; for an exactly-once session, in format 4,
//	          these, and its outcomes
//	nodes     path with NUL for each slash -> NodeRow
//
// Because keys use NUL, which no path has, their order is that of the tree: each subtree
// is contiguous and follows its top.
const (
	TableMeta Table = iota
	TableACLs
	TableSessions
	TableNodes
	NumTables
)

func (t Table) String() string {
	switch t {
	case TableMeta:
		return "meta"
	case TableACLs:
		return "acls"
	case TableSessions:
		return "sessions"
	case TableNodes:
		return "nodes"
	}
	return fmt.Sprintf("Table(%d)", uint8(t))
}

// MetaKey is the key of the one row of TableMeta. It is written last: a snapshot
// that has it is complete.
const MetaKey = "complete"

// Meta describes a snapshot's contents, so that a load can check that it is complete.
type Meta struct {
	Zxid     jute.Zxid // last transaction applied
	Digest   Digest
	Nodes    int // the root counted once
	Sessions int
	Apache   bool // Apache's server has opened some of the sessions: this is format 2 or higher
	Owners   bool // some of the sessions have owners: this is format 3 or 4
	Exact    bool // there are exactly-once sessions: this is format 4

	LastTime int64 // see Tree.LastTime; it is not encoded
}

// AppendMeta appends the encoding of m: a format byte (format.Tree), and the
// fields as 8 bytes each.
func AppendMeta(b []byte, m *Meta) []byte {
	version := format.Tree.Writes()
	switch {
	case m.Exact:
		version = formatExact
	case m.Owners:
		version = formatOwners
	case m.Apache:
		version = formatApache
	}
	b = append(b, byte(version))
	for _, v := range []uint64{uint64(m.Zxid), m.Digest.Hi, m.Digest.Lo, uint64(m.Nodes), uint64(m.Sessions)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// The versions of format.Tree that have sessions of Apache's server, owners, and exactly-once
// sessions. They are written only for these, so that versions of zkd which do not know them read
// all other trees.
const (
	formatApache = 2
	formatOwners = 3
	formatExact  = 4
)

// DecodeMeta reads what AppendMeta wrote. Errors wrap ErrTxn or are a
// *format.VersionError.
func DecodeMeta(b []byte) (Meta, error) {
	if len(b) > 0 {
		if err := format.Tree.Check(uint32(b[0])); err != nil {
			return Meta{}, fmt.Errorf("decode snapshot's meta: %w", err)
		}
	}
	if len(b) != 1+5*8 {
		return Meta{}, fmt.Errorf("decode snapshot's meta: %w", ErrTxn)
	}
	v := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	return Meta{
		Zxid:     jute.Zxid(v(0)),
		Digest:   Digest{Hi: v(1), Lo: v(2)},
		Nodes:    int(v(3)),
		Sessions: int(v(4)),
		Apache:   b[0] == formatApache,
		Owners:   b[0] >= formatOwners,
		Exact:    b[0] == formatExact,
	}, nil
}

// NodeRow is a znode in a snapshot. The keys have its name and its children.
type NodeRow struct {
	Czxid, Mzxid, Pzxid         jute.Zxid
	Ctime, Mtime                int64
	Owner                       jute.Owner
	Version, Cversion, Aversion int32
	ACL                         uint32 // number of the list in TableACLs; 0: world:anyone, all permissions
	Data                        []byte // nil is null
}

// The value of a node is a kind byte, the fields of NodeRow in their order, big-endian,
// and the data to the end. Null data has another kind.
const (
	nodeKind     = 1
	nodeKindNull = 2
	nodeFixed    = 1 + 6*8 + 4*4
)

// AppendNode appends the encoding of n.
func AppendNode(b []byte, n *NodeRow) []byte {
	kind := byte(nodeKind)
	if n.Data == nil {
		kind = nodeKindNull
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, uint64(n.Czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Mtime))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Owner))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Cversion))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Aversion))
	b = binary.BigEndian.AppendUint32(b, n.ACL)
	return append(b, n.Data...)
}

// DecodeNode decodes the output of AppendNode. The data shares b's memory. Errors wrap
// ErrTxn or are a *format.VersionError.
func DecodeNode(b []byte) (NodeRow, error) {
	if len(b) > 0 && b[0] > nodeKindNull {
		return NodeRow{}, fmt.Errorf("decode node: %w",
			&format.VersionError{What: "node row kind", Found: uint32(b[0]), Least: nodeKind, Most: nodeKindNull})
	}
	if len(b) < nodeFixed || b[0] != nodeKind && (b[0] != nodeKindNull || len(b) > nodeFixed) {
		return NodeRow{}, fmt.Errorf("decode node of %d bytes: %w", len(b), ErrTxn)
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	half := func(i int) uint32 { return binary.BigEndian.Uint32(b[1+6*8+4*i:]) }
	n := NodeRow{
		Czxid:    jute.Zxid(word(0)),
		Mzxid:    jute.Zxid(word(1)),
		Pzxid:    jute.Zxid(word(2)),
		Ctime:    int64(word(3)),
		Mtime:    int64(word(4)),
		Owner:    jute.Owner(word(5)),
		Version:  int32(half(0)),
		Cversion: int32(half(1)),
		Aversion: int32(half(2)),
		ACL:      half(3),
	}
	if b[0] == nodeKind {
		n.Data = b[nodeFixed:]
	}
	return n, nil
}

// decodeACLRow checks an ACL list, which is encoded as in the log.
func decodeACLRow(b []byte) (string, error) {
	key := string(b)
	r := reader{wire.NewStringReader(key)}
	list := r.acl()
	if r.Left() > 0 || isOpenACL(list) {
		r.Malformed("not an ACL list")
	}
	if r.Err() != nil {
		return "", fmt.Errorf("decode ACL list: %w", r.Err())
	}
	return key, nil
}

// Batch is a buffer of rows, filled by View.Step. The zero value is empty.
type Batch struct {
	buf  []byte
	rows []rowEnds
}

type rowEnds struct {
	table      Table
	key, value int // where each ends in buf
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.rows = b.buf[:0], b.rows[:0] }

// Len returns the number of rows.
func (b *Batch) Len() int { return len(b.rows) }

// Size returns the bytes of keys and values together.
func (b *Batch) Size() int { return len(b.buf) }

// All yields the rows. Keys and values are valid until the next Reset or Step.
func (b *Batch) All() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		start := 0
		for _, r := range b.rows {
			row := Row{r.table, b.buf[start:r.key:r.key], b.buf[r.key:r.value:r.value]}
			if start = r.value; !yield(row) {
				return
			}
		}
	}
}

// Row is a row of a snapshot.
type Row struct {
	Table      Table
	Key, Value []byte
}

// A row is written by appending its key to buf, then endKey, then its value, then
// endValue.
func (b *Batch) endKey(t Table) { b.rows = append(b.rows, rowEnds{table: t, key: len(b.buf)}) }

func (b *Batch) endValue() { b.rows[len(b.rows)-1].value = len(b.buf) }
