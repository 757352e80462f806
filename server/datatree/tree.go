package datatree

import (
	"strings"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
)

// Tree is the replicated state. The package comment says which methods may be called
// when.
type Tree struct {
	arena        arena
	index        index
	acls         aclTable
	sessions     sessionTable
	quotas       map[string]*quota // by the path that the quota is for
	rates        map[string]nodeID // nodes zkd_limits, by the path that the limits are for
	ratesVersion uint64            // counts the changes of rates and of their data

	listings map[nodeID]*listing // of the znodes with many children

	// The znodes that the cleanup examines.
	containers idSet
	ttls       idSet

	last      finder // for what changes the tree
	uncounted uncounted
	unlinked  uint64 // counts the nodes that were unlinked

	lastZxid   jute.Zxid
	lastTime   int64     // see LastTime
	parted     jute.Zxid // zxid of a transaction between ApplyPart and Apply; 0 for none
	part       int       // number of its operations that are applied
	only       string    // the path of its only znode, or "": see onlyPath
	pruned     int       // number of its listed ephemerals that are deleted
	closing    []nodeID  // these, in order, if it does not name them
	digest     Digest
	ephemerals int
	dataSize   int64 // bytes of paths and data
	skipped    uint64

	view     *View // nil unless one is open
	subtrees []*Subtree
}

// Stats are counts for monitoring.
type Stats struct {
	Nodes      int   // the root counts twice, as in ZooKeeper: 5 in a fresh tree
	Ephemerals int   // ephemeral znodes
	DataSize   int64 // bytes of paths and data together
	Sessions   int
	Containers int // container znodes
	TTLs       int // znodes with a time to live
	// Skipped counts operations that could not be applied since the tree was
	// made or loaded. Anything but 0 is a bug of the leader.
	Skipped uint64
}

const (
	systemPath = "/zookeeper"
	// QuotaPath has the quotas of each path below a node with that path.
	QuotaPath = "/zookeeper/quota"
	// ConfigPath is the znode that shows the members of the ensemble. Its ACL decides who may
	// change them.
	ConfigPath = "/zookeeper/config"
)

// New returns the tree of a new ensemble: the root and the system nodes.
func New() *Tree {
	t := newEmpty()
	t.addSystemNode(systemPath, openACL)
	t.addSystemNode(QuotaPath, openACL)
	config := t.addSystemNode(ConfigPath, []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}})
	// ZooKeeper's config node starts with aversion -1, as if its ACL were still to be
	// set.
	t.arena.extend(config).aversion = -1
	t.settle()
	t.digest = t.computeDigest()
	return t
}

// newEmpty returns a tree with only a root.
func newEmpty() *Tree {
	t := &Tree{
		index:    newIndex(),
		acls:     newACLTable(),
		sessions: newSessionTable(),
		quotas:   make(map[string]*quota),
		rates:    make(map[string]nodeID),
		listings: make(map[nodeID]*listing),
	}
	t.last.tree = t
	t.arena.extend(t.arena.alloc())
	t.arena.setBlob(rootID, newBlob("", []byte{}))
	t.dataSize = 1
	return t
}

// addSystemNode adds a system node. It does not increment its parent's count of creates: the
// first sequential child of the root gets number 0.
func (t *Tree) addSystemNode(path string, acl []jute.ACL) nodeID {
	dir, name := split(path)
	id := t.link(t.find(dir), name, []byte{})
	t.arena.setAttrs(id, &attrs{rest: rest{acl: t.acls.intern(acl)}})
	t.dataSize += int64(len(path))
	return id
}

// split cuts path at the last slash; dir is "" for the root.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// parentOf returns the path of the parent as events name it.
func parentOf(path string) string {
	dir, _ := split(path)
	if dir == "" {
		return "/"
	}
	return dir
}

// CountSteps has the tree count its work. It must precede the use of the tree by others.
func (t *Tree) CountSteps(c *steps.Counter) { t.arena.steps = c }

// find returns the node at path, or 0. Both "" and "/" are the root.
func (t *Tree) find(path string) nodeID {
	if path == "" || path == "/" {
		return rootID
	}
	if path[0] != '/' {
		return 0
	}
	id, rest := rootID, path[1:]
	for {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return t.index.find(&t.arena, id, rest)
		}
		if id = t.index.find(&t.arena, id, rest[:i]); id == 0 {
			return 0
		}
		rest = rest[i+1:]
	}
}

func (t *Tree) path(id nodeID) string {
	if id == rootID {
		return "/"
	}
	return string(t.arena.appendPath(nil, id))
}

// Get returns a copy of the znode at path without its data, and whether it exists. It
// does not allocate.
func (t *Tree) Get(path string) (Node, bool) {
	id := t.find(path)
	if id == 0 {
		return Node{}, false
	}
	return t.node(id), true
}

// GetData returns the data and a copy of the rest of the znode at path, and whether it
// exists. The data is shared and must not be modified; it stays valid after the node is
// deleted. Nil means null. GetData does not allocate.
func (t *Tree) GetData(path string) ([]byte, Node, bool) {
	id := t.find(path)
	if id == 0 {
		return nil, Node{}, false
	}
	return t.arena.data(id), t.node(id), true
}

// Data is like GetData without the Node.
func (t *Tree) Data(path string) ([]byte, bool) {
	id := t.find(path)
	if id == 0 {
		return nil, false
	}
	return t.arena.data(id), true
}

// MembersZxid returns the zxid of the last change of the node that shows the members.
func (t *Tree) MembersZxid() jute.Zxid {
	_, node, _ := t.GetData(ConfigPath)
	return node.Stat().Mzxid
}

// CountDescendants returns the number of znodes below path, 0 if there is no
// such znode. For the root it includes the system nodes.
func (t *Tree) CountDescendants(path string) int {
	id := t.find(path)
	if id == 0 {
		return 0
	}
	return int(t.arena.more(id).descendants)
}

// LastZxid returns the zxid of the last transaction applied, 0 if none was.
func (t *Tree) LastZxid() jute.Zxid { return t.lastZxid }

// LastTime returns the latest time of a transaction that was applied, by the clocks of the leaders,
// in ms since the Unix epoch; 0 if it is not known.
func (t *Tree) LastTime() int64 { return t.lastTime }

// SetLastTime sets LastTime in a tree that was loaded.
func (t *Tree) SetLastTime(ms int64) { t.lastTime = ms }

// Digest returns the hash of the state. It does not cover LastZxid.
func (t *Tree) Digest() Digest { return t.digest }

// Stats returns the counts. It does not walk the tree.
func (t *Tree) Stats() Stats {
	return Stats{
		Nodes:      t.numNodes() + 1,
		Ephemerals: t.ephemerals,
		DataSize:   t.dataSize,
		Sessions:   t.NumSessions(),
		Containers: t.containers.len(),
		TTLs:       t.ttls.len(),
		Skipped:    t.skipped,
	}
}

// numNodes returns the number of znodes, counting the root once.
func (t *Tree) numNodes() int { return int(t.arena.more(rootID).descendants) + 1 }

// link adds a node below parent and sets everything but its stat and ACL.
func (t *Tree) link(parent nodeID, name string, data []byte) nodeID {
	id := t.attach(parent, name, data)
	t.countBelow(parent, 1, int64(len(data)))
	t.index.insert(&t.arena, id)
	t.addToListing(parent, id)
	return id
}

// attach is like link without the counts, the index and the listing.
func (t *Tree) attach(parent nodeID, name string, data []byte) nodeID {
	id := t.arena.alloc()
	if t.view != nil {
		t.view.born.add(id)
	}
	t.arena.setBlob(id, newBlob(name, data))
	r, p := t.arena.rec(id), t.change(parent)
	r.parent = parent
	if p.first == 0 {
		p.first, r.prev = id, id
	} else {
		first := t.arena.rec(p.first)
		r.prev = first.prev
		t.arena.rec(first.prev).next = id
		first.prev = id
	}
	p.children++
	return id
}

// uncounted are changes of what is below a node that the nodes from it upwards do not count yet.
type uncounted struct {
	at    nodeID // 0: there are none
	nodes int32
	bytes int64
}

// countBelow adds to the counts of what is below id, and below each node above it. Those above it are
// left to settle: a transaction changes many siblings, or a node after all of its children, and the way up
// can be long.
func (t *Tree) countBelow(id nodeID, nodes int32, bytes int64) {
	u := &t.uncounted
	if u.at != id {
		if u.at != 0 && t.arena.rec(u.at).parent == id {
			t.addBelow(u.at, u.nodes, u.bytes)
		} else {
			t.settle()
		}
		u.at = id
	}
	u.nodes += nodes
	u.bytes += bytes
}

// settle completes what countBelow has left. It must precede the use of a count, and the end of a change.
func (t *Tree) settle() {
	for id := t.uncounted.at; id != 0; id = t.arena.rec(id).parent {
		t.addBelow(id, t.uncounted.nodes, t.uncounted.bytes)
	}
	t.uncounted = uncounted{}
}

func (t *Tree) addBelow(id nodeID, nodes int32, bytes int64) {
	t.arena.steps.Add(1)
	x := t.arena.extend(id)
	x.descendants += nodes
	x.below += bytes
}

// unlink removes id, which has no children, and frees it.
func (t *Tree) unlink(id nodeID) {
	t.save(id)
	r := t.arena.rec(id)
	if t.view != nil {
		t.view.remove(id)
	}
	for _, s := range t.subtrees {
		s.remove(id)
	}
	p := t.change(r.parent)
	if p.first == id {
		p.first = r.next
	} else {
		t.arena.rec(r.prev).next = r.next
	}
	switch {
	case r.next != 0:
		t.arena.rec(r.next).prev = r.prev
	case p.first != 0: // id was the last one, to which the first points
		t.arena.rec(p.first).prev = r.prev
	}
	p.children--
	t.countBelow(r.parent, -1, -int64(r.bytes()))
	t.index.remove(&t.arena, id)
	t.removeFromListing(r.parent, id)
	t.arena.release(id)
	t.unlinked++
	t.last.forget(id)
}

// change returns the extra of id for writing, after saving id.
func (t *Tree) change(id nodeID) *extra {
	t.save(id)
	return t.arena.extend(id)
}

// save keeps id as it is for what was frozen. It must precede every write to a field that a
// view shows: all fields but next, prev, descendants, below, dataPart, and those of the index.
func (t *Tree) save(id nodeID) {
	if t.view != nil {
		t.view.save(id)
	}
	for _, s := range t.subtrees {
		s.save(id)
	}
}

// computeDigest computes the digest from scratch.
func (t *Tree) computeDigest() Digest {
	var d Digest
	for id := rootID; id != 0; id = t.nextWithin(rootID, id) {
		r, h := t.arena.rec(id), hashPath(t.path(id))
		d.add(dataPart(h, t.arena.data(id)))
		d.add(t.statPart(h, r))
	}
	for i := range t.sessions.slots {
		if s := &t.sessions.slots[i]; s.live {
			d.add(sessionPart(s))
			for j := range s.outcomes {
				d.add(outcomePart(s.id, &s.outcomes[j]))
			}
		}
	}
	return d
}

// nextWithin returns the node after id in the subtree of top, parents before
// children, or 0.
func (t *Tree) nextWithin(top, id nodeID) nodeID {
	if first := t.firstChild(id); first != 0 {
		return first
	}
	for ; id != top; id = t.arena.rec(id).parent {
		if next := t.arena.rec(id).next; next != 0 {
			return next
		}
	}
	return 0
}

// RetiredSince returns since when the ensemble is retired, by a node at jute.RetiredPath; 0 if it is not.
func (t *Tree) RetiredSince() jute.Zxid {
	n, _ := t.Get(jute.RetiredPath)
	return n.Czxid
}
