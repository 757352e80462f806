package apachefiles

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Stat is what is stored of a znode beside its data and its ACL. Cversion is the number of
// children ever created.
type Stat struct {
	Czxid, Mzxid, Pzxid         jute.Zxid
	Ctime, Mtime                int64 // ms since the Unix epoch
	Version, Cversion, Aversion int32
	Owner                       jute.Owner
}

// Node is a znode.
type Node struct {
	Stat
	Data []byte     // nil for null
	ACL  []jute.ACL // shared; nil means unresolved: see Tree.check

	children map[string]*Node
}

// Tree is the state of a server: its znodes and sessions.
type Tree struct {
	Sessions map[jute.SessionID]int32 // their timeouts in ms
	Last     jute.Zxid                // of the last transaction

	root       *Node
	nodes      int
	digest     uint64
	ephemerals map[jute.SessionID]map[string]struct{} // paths by owner
	acls       map[string][]jute.ACL                  // by encoding: each list once
}

const (
	systemPath = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

func newTree() *Tree {
	return &Tree{
		Sessions:   make(map[jute.SessionID]int32),
		ephemerals: make(map[jute.SessionID]map[string]struct{}),
		acls:       make(map[string][]jute.ACL),
	}
}

// freshTree returns the tree with which a server of 3.4 begins without a snapshot.
func freshTree() *Tree {
	t := newTree()
	for _, path := range []string{"", systemPath, quotaPath} {
		dir, name := split(path)
		t.attach(t.find(dir), path, name, &Node{Data: []byte{}, ACL: openACL})
	}
	return t
}

// Digest returns Apache's digest of the tree: the sum of the CRC-32 of each znode. It covers
// neither ACLs nor sessions, nor what is below /zookeeper.
func (t *Tree) Digest() uint64 { return t.digest }

// Walk calls fn with each znode, parents first and siblings by name, until it returns an error.
// The path of the root is empty.
func (t *Tree) Walk(fn func(path string, n *Node) error) error { return walk("", t.root, fn) }

func walk(path string, n *Node, fn func(string, *Node) error) error {
	if err := fn(path, n); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		if err := walk(path+"/"+name, n.children[name], fn); err != nil {
			return err
		}
	}
	return nil
}

// find returns the node at path, or nil.
func (t *Tree) find(path string) *Node {
	n := t.root
	for n != nil && path != "" {
		var name string
		name, path = path[1:], ""
		if i := strings.IndexByte(name, '/'); i >= 0 {
			name, path = name[:i], name[i:]
		}
		n = n.children[name]
	}
	return n
}

// split cuts path, which begins with a slash, at the last slash.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// attach adds n, which is at path, to the children of parent.
func (t *Tree) attach(parent *Node, path, name string, n *Node) {
	switch {
	case parent == nil:
		t.root = n
	case parent.children == nil:
		parent.children = map[string]*Node{name: n}
	default:
		parent.children[name] = n
	}
	t.nodes++
	t.digest += n.hash(path)
	if s := n.Owner.Session(); s != 0 {
		if t.ephemerals[s] == nil {
			t.ephemerals[s] = make(map[string]struct{})
		}
		t.ephemerals[s][path] = struct{}{}
	}
}

// detach removes the node name of parent, which is at path, and everything below it.
func (t *Tree) detach(parent *Node, path, name string) {
	// fn returns none
	walk(path, parent.children[name], func(path string, n *Node) error {
		t.nodes--
		t.digest -= n.hash(path)
		delete(t.ephemerals[n.Owner.Session()], path)
		return nil
	})
	delete(parent.children, name)
}

// change calls fn to change n, which is at path.
func (t *Tree) change(path string, n *Node, fn func(n *Node)) {
	t.digest -= n.hash(path)
	fn(n)
	t.digest += n.hash(path)
}

// hash returns the part of n, which is at path, of the digest.
func (n *Node) hash(path string) uint64 { return NodeHash(path, n.Data, &n.Stat) }

// NodeHash returns the part of a znode of Apache's digest.
func NodeHash(path string, data []byte, s *Stat) uint64 {
	if strings.HasPrefix(path, systemPath+"/") {
		return 0
	}
	crc := crc32.Update(0, crc32.IEEETable, []byte(path))
	crc = crc32.Update(crc, crc32.IEEETable, data)
	b := make([]byte, 0, 60)
	for _, v := range [...]int64{int64(s.Czxid), int64(s.Mzxid), int64(s.Pzxid), s.Ctime, s.Mtime} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range [...]int32{s.Version, s.Cversion, s.Aversion} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(s.Owner))
	return uint64(crc32.Update(crc, crc32.IEEETable, b))
}

// intern returns an equal list that all nodes share.
func (t *Tree) intern(list []jute.ACL) []jute.ACL {
	key := jute.AppendACLs(nil, list)
	if shared, ok := t.acls[string(key)]; ok {
		return shared
	}
	if list == nil {
		list = []jute.ACL{}
	}
	t.acls[string(key)] = list
	return list
}

// finish makes the tree what a server makes of it when it has loaded its files: ephemerals of
// sessions that do not exist are deleted, and quotas have their usage.
func (t *Tree) finish(sum *Summary) error {
	for _, s := range slices.Sorted(maps.Keys(t.ephemerals)) {
		if _, alive := t.Sessions[s]; alive {
			continue
		}
		why := fmt.Sprintf("an ephemeral of session %v, which does not exist", s)
		if _, ok := ttl353(jute.OwnerSession(s)); ok {
			why += "; if a server of 3.5.3 has written it, it has a time to live: see --emulate-353-ttl"
		}
		for _, path := range slices.Sorted(maps.Keys(t.ephemerals[s])) {
			t.delete(path, t.Last)
			sum.drop(path, why)
		}
	}
	if t.find(configPath) == nil {
		if t.find(systemPath) == nil || t.find(quotaPath) == nil {
			return fmt.Errorf("there is no %s", quotaPath)
		}
		read := []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}
		t.attach(t.find(systemPath), configPath, "config", &Node{Data: []byte{}, ACL: t.intern(read), Stat: Stat{Aversion: -1}})
	}
	sum.Quotas = t.countQuotas(quotaPath, t.find(quotaPath))
	return t.check(sum)
}

// ttl353 returns the time to live in ms that an owner is in the form of 3.5.3: the highest bit, and the
// time. The owner may also be a session of a server with an id from 128 on.
func ttl353(o jute.Owner) (ms int64, ok bool) {
	ms = int64(o) &^ int64(jute.OwnerContainer)
	return ms, int64(o) < 0 && ms > 0 && ms <= jute.MaxTTL
}

// convertTTL353 gives nodes with a time to live in the form of 3.5.3 the later form. An owner that is a
// session stays one.
func (t *Tree) convertTTL353() {
	for s, paths := range t.ephemerals {
		ms, ok := ttl353(jute.OwnerSession(s))
		if _, alive := t.Sessions[s]; alive || !ok {
			continue
		}
		for path := range paths {
			t.change(path, t.find(path), func(n *Node) { n.Owner = jute.OwnerTTL(ms) })
		}
		delete(t.ephemerals, s)
	}
}

// countQuotas sets the usage in the quotas below n, which is at path. Each server keeps it for
// itself, so that of the snapshot is old.
func (t *Tree) countQuotas(path string, n *Node) (quotas int) {
	if stats := n.children["zookeeper_stats"]; stats != nil && n.children["zookeeper_limits"] != nil {
		var count, bytes int
		if top := t.find(path[len(quotaPath):]); top != nil {
			// fn returns none
			walk("", top, func(_ string, n *Node) error {
				count, bytes = count+1, bytes+len(n.Data)
				return nil
			})
		}
		stats.Data = fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes)
		quotas++
	}
	for name, child := range n.children {
		quotas += t.countQuotas(path+"/"+name, child)
	}
	return quotas
}

// check returns an error if the tree is one that zkd can't have, and counts what it has.
func (t *Tree) check(sum *Summary) error {
	sum.Nodes, sum.Sessions, sum.ACLs = t.nodes, len(t.Sessions), len(t.acls)
	return t.Walk(func(path string, n *Node) error {
		ttl, hasTTL := n.Owner.TTL()
		_, alive := t.Sessions[n.Owner.Session()]
		switch {
		case n.ACL == nil:
			return fmt.Errorf("%s: its ACL is neither in the snapshot nor in the log", path)
		case strings.IndexByte(path, 0) >= 0:
			return fmt.Errorf("%q: zkd can't have a path with a NUL", path)
		case n.Owner.Ephemeral() && len(n.children) > 0:
			return fmt.Errorf("%s: an ephemeral with children", path)
		case n.Owner.Ephemeral() && !alive:
			return fmt.Errorf("%s: its owner %v does not exist", path, n.Owner.Session())
		case hasTTL && ttl == 0:
			return fmt.Errorf("%s: a time to live of 0", path)
		case hasTTL:
			sum.TTLs++
		case n.Owner.Container():
			sum.Containers++
		case n.Owner.Ephemeral():
			sum.Ephemerals++
		}
		if n.Cversion >= 2147483000 {
			sum.warn("%s: its counter of children, %d, is about to wrap: sequence numbers differ from Apache's after that", path, n.Cversion)
		}
		return nil
	})
}
