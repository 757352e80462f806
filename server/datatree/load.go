package datatree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/zkd-project/zkd/jute"
)

// Loader builds a tree from the rows of a snapshot. It takes sessions and ACL lists in
// any order, but before the nodes that refer to them, and nodes in the order of their
// keys. It belongs to one goroutine.
//
// The order makes loading cheap: a node's parent is an ancestor of the previous node or
// that node itself, so no look-up is needed, and the index can be filled at the end, when
// its size is known. The hashes of a node can be computed by another goroutine: see Offload.
type Loader struct {
	tree    *Tree
	acls    []aclID // by number in the snapshot
	meta    *Meta
	lastKey []byte
	key     []byte     // of AddZnode
	above   []ancestor // of the last node, itself included
	large   []nodeID   // nodes that have a listing of their children
	nodes   int        // their number, with the root: no id was freed, so it is the last one

	later  func(Part) // called with each part; see Offload
	passed nodeID     // the last node of the last part
	hashes hashes
}

// ancestor is a node that may be the parent of the next one.
type ancestor struct {
	id     nodeID
	keyLen int // of the prefix of its children's keys, up to the NUL
}

// NewLoader returns a loader without rows.
func NewLoader() *Loader {
	t := newEmpty()
	t.digest, t.dataSize = Digest{}, 0
	return &Loader{tree: t, acls: []aclID{openACLID}, nodes: 1, later: Part.Hash}
}

// hashedAtOnce is the number of nodes of a Part.
const hashedAtOnce = 1024

// Part are some nodes that a Loader has added, and whose hashes are missing.
type Part struct {
	arena    arena // of which only the chunks are used: the tree's may grow meanwhile
	acls     []*aclEntry
	index    *index // of which only the seed is used
	from, to nodeID // without from
	hashes   *hashes
}

// hashes are what the parts of a loader have computed, besides record.hash.
type hashes struct {
	digest   Digest
	dataSize int64

	parent nodeID // of the last node
	path   []byte // of the last node
	prefix int    // length of the path of its parent, and of the slash after it
}

// Offload has the loader call f with each part of the nodes, instead of computing their hashes
// itself. Part.Hash must be called for all parts, one after the other in their order, and return
// before Finish or FinishAt; any goroutine may call it while the loader adds more.
func (l *Loader) Offload(f func(Part)) { l.later = f }

// Hash computes the hashes of the part's nodes, for the tree's digest and for its index.
func (p Part) Hash() {
	h := p.hashes
	for id := p.from + 1; id <= p.to; id++ {
		r := p.arena.rec(id)
		name, data := r.name(), r.data()
		switch {
		case id == rootID:
			h.path = append(h.path[:0], '/')
		case r.parent != h.parent:
			h.path = append(p.arena.appendPath(h.path[:0], r.parent), '/')
			h.parent, h.prefix = r.parent, len(h.path)
			fallthrough
		default:
			h.path = append(h.path[:h.prefix], name...)
		}
		at := hashPath(unsafe.String(unsafe.SliceData(h.path), len(h.path))) // which does not keep it
		h.digest.add(dataPart(at, data))
		attrs := p.arena.attrs(r)
		h.digest.add(statPart(at, &attrs, p.acls[attrs.acl].hash))
		h.dataSize += int64(len(h.path) + len(data))
		r.hash = p.index.hash(r.parent, name)
	}
}

// pass passes the nodes up to this one that were added since the last part.
func (l *Loader) pass(to nodeID) {
	t := l.tree
	seen := arena{
		records: slab[record]{chunks: t.arena.records.chunks},
		extras:  slab[extra]{chunks: t.arena.extras.chunks},
	}
	l.later(Part{arena: seen, acls: t.acls.entries, index: &t.index, from: l.passed, to: to, hashes: &l.hashes})
	l.passed = to
}

// Add adds one row. It keeps neither key nor value. Errors wrap ErrTxn or are a
// *format.VersionError; the loader can't be used after an error.
func (l *Loader) Add(row Row) error {
	var err error
	switch row.Table {
	case TableMeta:
		err = l.addMeta(row.Key, row.Value)
	case TableACLs:
		err = l.addACL(row.Key, row.Value)
	case TableSessions:
		err = l.addSession(row.Key, row.Value)
	case TableNodes:
		err = l.addNode(row.Key, row.Value)
	default:
		err = fmt.Errorf("unknown table: %w", ErrTxn)
	}
	if err != nil {
		return fmt.Errorf("load row %q of %s: %w", row.Key, row.Table, err)
	}
	return nil
}

func (l *Loader) addMeta(key, value []byte) error {
	if string(key) != MetaKey {
		return fmt.Errorf("unknown key: %w", ErrTxn)
	}
	m, err := DecodeMeta(value)
	l.meta = &m
	return err
}

func (l *Loader) addACL(key, value []byte) error {
	if len(key) != 4 || binary.BigEndian.Uint32(key) != uint32(len(l.acls)) {
		return fmt.Errorf("number out of order: %w", ErrTxn)
	}
	text, err := decodeACLRow(value)
	if err != nil {
		return err
	}
	if _, known := l.tree.acls.ids[text]; known {
		return fmt.Errorf("ACL list twice: %w", ErrTxn)
	}
	l.acls = append(l.acls, l.tree.acls.add(text))
	return nil
}

func (l *Loader) addSession(key, value []byte) error {
	if len(key) != 8 || len(value) < 4 {
		return fmt.Errorf("impossible length: %w", ErrTxn)
	}
	id, timeoutMs := jute.SessionID(binary.BigEndian.Uint64(key)), int32(binary.BigEndian.Uint32(value))
	var apache, exact bool
	var owner uint64
	var outcomes []Outcome
	switch rest := value[4:]; {
	case len(rest) == 0:
	case len(rest) == 1 && rest[0] == 1:
		apache = true
	case len(rest) >= 1+8 && rest[0] <= 1:
		apache, owner, rest = rest[0] == 1, binary.BigEndian.Uint64(rest[1:]), rest[1+8:]
		exact = len(rest) > 0
		var err error
		if exact {
			outcomes, err = decodeOutcomes(rest)
		}
		if err != nil {
			return err
		}
		if owner == 0 {
			return fmt.Errorf("owner 0: %w", ErrTxn)
		}
	default:
		return fmt.Errorf("impossible value: %w", ErrTxn)
	}
	if err := l.AddSession(id, timeoutMs, apache); err != nil {
		return err
	}
	if owner != 0 {
		l.tree.setOwner(id, owner, 0)
	}
	if exact {
		l.tree.setExact(id)
	}
	for _, o := range outcomes {
		l.tree.addOutcome(l.tree.sessions.get(id), 0, o)
	}
	return nil
}

// AddSession adds a session. apache says that Apache's server has opened it.
func (l *Loader) AddSession(id jute.SessionID, timeoutMs int32, apache bool) error {
	if !l.tree.createSession(id, timeoutMs) {
		return fmt.Errorf("session %v twice: %w", id, ErrTxn)
	}
	if apache {
		l.tree.markApache(id)
	}
	return nil
}

func (l *Loader) addNode(key, value []byte) error {
	row, err := DecodeNode(value)
	if err != nil {
		return err
	}
	if int64(row.ACL) >= int64(len(l.acls)) {
		return fmt.Errorf("unknown ACL list %d: %w", row.ACL, ErrTxn)
	}
	acl := l.acls[row.ACL]
	l.tree.acls.entries[acl].refs++
	return l.place(key, &row, acl)
}

// AddZnode adds a znode that is not from a row; row.ACL has no meaning. The path of the root is
// empty. The znodes come in the order of the keys of their rows: parents first, and siblings by
// name.
func (l *Loader) AddZnode(path string, row *NodeRow, acl []jute.ACL) error {
	key := append(l.key[:0], path...)
	for i, c := range key {
		if c == '/' {
			key[i] = 0
		}
	}
	if path == "" {
		key = append(key, 0)
	}
	l.key = key
	if err := l.place(key, row, l.tree.acls.intern(acl)); err != nil {
		return fmt.Errorf("add znode %q: %w", path, err)
	}
	return nil
}

// place adds a znode, for which a use of acl is counted.
func (l *Loader) place(key []byte, row *NodeRow, acl aclID) error {
	s := row.Owner.Session()
	if s != 0 && l.tree.sessions.get(s) == nil {
		return fmt.Errorf("owner %s is no session: %w", s, ErrTxn)
	}
	id, err := l.link(key, row.Data)
	if err != nil {
		return err
	}
	t := l.tree
	t.arena.setAttrs(id, &attrs{row.Czxid, row.Ctime, rest{
		mzxid: row.Mzxid, pzxid: row.Pzxid, mtime: row.Mtime, owner: row.Owner,
		version: row.Version, cversion: row.Cversion, aversion: row.Aversion, acl: acl,
	}})
	t.addToIndexes(id, row.Owner)
	if bytes.HasPrefix(key, quotaKey) {
		if target, name, ok := quotaTarget(strings.ReplaceAll(string(key), "\x00", "/")); ok {
			t.noteQuota(target, name, id)
		}
	}
	if last := id - 1; last-l.passed >= hashedAtOnce { // id itself may yet get an extra, with its first child
		l.pass(last)
	}
	return nil
}

// quotaKey begins the keys of the znodes of quotas.
var quotaKey = []byte(strings.ReplaceAll(QuotaPath, "/", "\x00"))

// link links a node with the key and data into the tree.
func (l *Loader) link(key, data []byte) (nodeID, error) {
	cut := bytes.LastIndexByte(key, 0)
	if cut < 0 || bytes.IndexByte(key, '/') >= 0 {
		return 0, fmt.Errorf("not a path: %w", ErrTxn)
	}
	if bytes.Compare(key, l.lastKey) <= 0 {
		return 0, fmt.Errorf("key not after %q: %w", l.lastKey, ErrTxn)
	}
	dir, name := key[:cut], key[cut+1:]
	if len(name) == 0 {
		return l.placeRoot(key, data)
	}
	for n := len(l.above); n > 0; n-- {
		a := l.above[n-1]
		if a.keyLen != len(dir) || !bytes.Equal(l.lastKey[:a.keyLen], dir) {
			continue
		}
		if l.tree.arena.more(a.id).owner.Ephemeral() {
			return 0, fmt.Errorf("parent is ephemeral: %w", ErrTxn)
		}
		id := l.tree.attach(a.id, unsafe.String(unsafe.SliceData(name), len(name)), data)
		l.nodes++
		if l.tree.arena.more(a.id).children == listFrom {
			l.large = append(l.large, a.id)
		}
		l.above = append(l.above[:n], ancestor{id, len(key)})
		l.lastKey = append(l.lastKey[:0], key...)
		return id, nil
	}
	return 0, fmt.Errorf("no parent: %w", ErrTxn)
}

func (l *Loader) placeRoot(key, data []byte) (nodeID, error) {
	if len(key) != 1 {
		return 0, fmt.Errorf("empty name: %w", ErrTxn)
	}
	l.tree.arena.setBlob(rootID, newBlob("", data))
	l.above = append(l.above, ancestor{rootID, 0})
	l.lastKey = append(l.lastKey[:0], key...)
	return rootID, nil
}

// Finish returns the tree. If it does not match the meta row, because rows are missing or
// their content has changed, the error wraps ErrTxn.
func (l *Loader) Finish() (*Tree, error) {
	t := l.tree
	l.finishHashes()
	if l.meta == nil {
		return nil, fmt.Errorf("load snapshot: no meta row, it is not complete: %w", ErrTxn)
	}
	if m := l.meta; l.nodes != m.Nodes || t.NumSessions() != m.Sessions {
		return nil, fmt.Errorf("load snapshot: %d nodes and %d sessions, want %d and %d: %w",
			l.nodes, t.NumSessions(), m.Nodes, m.Sessions, ErrTxn)
	}
	if t.digest != l.meta.Digest {
		return nil, fmt.Errorf("load snapshot: digest %s, want %s: %w", t.digest, l.meta.Digest, ErrTxn)
	}
	return l.FinishAt(l.meta.Zxid)
}

// FinishAt returns the tree of rows that are not from a snapshot, and so have no meta row. zxid
// is that of its last transaction.
func (l *Loader) FinishAt(zxid jute.Zxid) (*Tree, error) {
	t := l.tree
	if len(l.above) == 0 {
		return nil, fmt.Errorf("load snapshot: no root: %w", ErrTxn)
	}
	l.finishHashes()
	t.lastZxid = zxid
	// With room for the creates that are likely to follow: the log after a snapshot has up to half its size.
	t.index.reserve(l.nodes + l.nodes/2)
	for id := nodeID(l.nodes); id > rootID; id-- { // parents have lower ids than their children
		t.index.place(&t.arena, id)
		r, x := t.arena.rec(id), t.arena.more(id)
		t.addBelow(r.parent, 1+x.descendants, int64(r.bytes())+x.below)
	}
	for _, id := range l.large {
		t.makeListing(id)
	}
	l.tree = nil
	return t, nil
}

// finishHashes computes the hashes that are missing after the last part.
func (l *Loader) finishHashes() {
	l.later = Part.Hash
	t, h := l.tree, &l.hashes
	if last := nodeID(l.nodes); last > l.passed {
		l.pass(last)
	}
	t.digest.add(hash{h.digest.Hi, h.digest.Lo})
	t.dataSize += h.dataSize
	l.hashes = hashes{}
}
