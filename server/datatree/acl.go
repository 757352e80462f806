package datatree

import (
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// aclID addresses an interned ACL list.
type aclID uint32

// openACL is the list of a znode on which everybody has all permissions. Most znodes have
// it: id 0, which is not counted.
var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

const openACLID aclID = 0

// aclEntry is a list that at least one znode has. It is immutable, so a view may keep it
// after the last znode has released it.
type aclEntry struct {
	list []jute.ACL
	key  string // encoding of list: equal lists have equal keys
	hash hash
	refs int
}

// aclTable stores each list once.
type aclTable struct {
	entries []*aclEntry
	ids     map[string]aclID
	free    []aclID
	scratch []byte
	bytes   int64 // memory of the lists
}

func newACLTable() aclTable {
	t := aclTable{ids: make(map[string]aclID)}
	t.entries = []*aclEntry{newACLEntry(string(appendACL(nil, openACL)))}
	return t
}

func newACLEntry(key string) *aclEntry {
	d := reader{wire.NewStringReader(key)}
	return &aclEntry{list: d.acl(), key: key, hash: newHash(tagACL).string(key)}
}

func isOpenACL(list []jute.ACL) bool {
	return len(list) == 1 && list[0] == openACL[0]
}

// intern returns the id of list and counts one more use of it. It keeps no part of list.
func (t *aclTable) intern(list []jute.ACL) aclID {
	if isOpenACL(list) {
		return openACLID
	}
	t.scratch = appendACL(t.scratch[:0], list)
	id, ok := t.ids[string(t.scratch)]
	if !ok {
		id = t.add(string(t.scratch))
	}
	t.entries[id].refs++
	return id
}

func (t *aclTable) add(key string) aclID {
	e := newACLEntry(key)
	t.bytes += ACLMemory(e.list)
	id := aclID(len(t.entries))
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
		t.entries[id] = e
	} else {
		t.entries = append(t.entries, e)
	}
	t.ids[key] = id
	return id
}

// release counts one use less of id.
func (t *aclTable) release(id aclID) {
	if id == openACLID {
		return
	}
	e := t.entries[id]
	if e.refs--; e.refs == 0 {
		delete(t.ids, e.key)
		t.bytes -= ACLMemory(e.list)
		t.entries[id] = nil
		t.free = append(t.free, id)
	}
}

// list returns the list id, which must not be modified.
func (t *aclTable) list(id aclID) []jute.ACL { return t.entries[id].list }
