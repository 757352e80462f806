package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// node is what a worker expects of a znode. Zxids are 0 where no reply has told
// them.
type node struct {
	data                        string
	version, cversion, aversion int32
	children                    int32
	czxid, mzxid, pzxid         jute.Zxid
	owner                       jute.SessionID
	name                        string // of a sequential node: its path, "" if not known yet
}

// tree is what a worker expects of its part of the tree. Sequential nodes, whose
// names the server makes, have their data as key.
type tree struct {
	nodes map[string]node
	made  int // sequential nodes ever made
	gone  int // and deleted again
}

func (t *tree) clone() tree {
	c := *t
	c.nodes = maps.Clone(t.nodes)
	return c
}

// op is a request whose outcome the worker knows beforehand.
type op struct {
	code    jute.OpCode
	key     string // path, or the data of a sequential node
	path    string // as sent
	data    string
	mode    jute.CreateMode
	version int32
	session jute.SessionID // that sends it
	subs    []op           // of a multi
	xid     int32
}

// request returns the body to send.
func (o *op) request() process.Record {
	switch o.code {
	case jute.OpMulti:
		var m jute.MultiRequest
		for i := range o.subs {
			s := &o.subs[i]
			m.Ops = append(m.Ops, jute.MultiOp{Type: s.code, Path: s.path, Data: []byte(s.data), ACL: openACL, Mode: s.mode, Version: s.version})
		}
		return &m
	case jute.OpCreate, jute.OpCreate2:
		return &jute.CreateRequest{Path: o.path, Data: []byte(o.data), ACL: openACL, Mode: o.mode}
	case jute.OpDelete:
		return &jute.DeleteRequest{Path: o.path, Version: o.version}
	case jute.OpSetData:
		return &jute.SetDataRequest{Path: o.path, Data: []byte(o.data), Version: o.version}
	case jute.OpSetACL:
		return &jute.SetACLRequest{Path: o.path, ACL: openACL, Version: o.version}
	}
	return nil // closeSession
}

// apply does what the server does, and returns the code of the reply.
func (t *tree) apply(o *op, zxid jute.Zxid) jute.Code {
	switch o.code {
	case jute.OpCreate, jute.OpCreate2:
		return t.create(o, zxid)
	case jute.OpDelete:
		return t.remove(o, zxid)
	case jute.OpSetData, jute.OpSetACL:
		return t.set(o, zxid)
	case jute.OpCheck:
		n, ok := t.nodes[o.key]
		return mismatch(n.version, ok, o.version)
	case jute.OpMulti:
		after := t.clone()
		for i := range o.subs {
			if code := after.apply(&o.subs[i], zxid); code != 0 {
				return code
			}
		}
		*t = after
	case jute.OpCloseSession:
		for key, n := range t.nodes {
			if n.owner == o.session {
				t.drop(key, zxid)
			}
		}
	}
	return 0
}

func mismatch(have int32, ok bool, want int32) jute.Code {
	switch {
	case !ok:
		return jute.ErrNoNode
	case want != -1 && have != want:
		return jute.ErrBadVersion
	}
	return 0
}

func (t *tree) create(o *op, zxid jute.Zxid) jute.Code {
	if _, ok := t.nodes[o.key]; ok {
		return jute.ErrNodeExists
	}
	n := node{data: o.data, czxid: zxid, mzxid: zxid, pzxid: zxid}
	if o.mode.Ephemeral() {
		n.owner = o.session
	}
	if o.mode.Sequential() {
		t.made++
	}
	t.nodes[o.key] = n
	t.countChild(o.key, 1, zxid)
	return 0
}

func (t *tree) remove(o *op, zxid jute.Zxid) jute.Code {
	n, ok := t.nodes[o.key]
	if code := mismatch(n.version, ok, o.version); code != 0 {
		return code
	}
	if n.children > 0 {
		return jute.ErrNotEmpty
	}
	t.drop(o.key, zxid)
	return 0
}

func (t *tree) drop(key string, zxid jute.Zxid) {
	if !strings.HasPrefix(key, "/") {
		t.gone++
	}
	delete(t.nodes, key)
	t.countChild(key, -1, zxid)
}

// countChild notes in the parent, unless that is shared, that a child came or
// went.
func (t *tree) countChild(key string, delta int32, zxid jute.Zxid) {
	if !strings.HasPrefix(key, "/") {
		return
	}
	parent := jute.Parent(key)
	if p, ok := t.nodes[parent]; ok {
		p.children += delta
		p.cversion++
		p.pzxid = zxid
		t.nodes[parent] = p
	}
}

func (t *tree) set(o *op, zxid jute.Zxid) jute.Code {
	n, ok := t.nodes[o.key]
	have := n.version
	if o.code == jute.OpSetACL {
		have = n.aversion
	}
	if code := mismatch(have, ok, o.version); code != 0 {
		return code
	}
	if o.code == jute.OpSetACL {
		n.aversion++
	} else {
		n.version++
		n.data, n.mzxid = o.data, zxid
	}
	t.nodes[o.key] = n
	return 0
}

// found is a node as the server has it.
type found struct {
	path string
	data string
	stat jute.Stat
}

// compare returns how what is there differs from what is expected, or nothing.
func (t *tree) compare(there map[string]found) (diffs []string) {
	for _, key := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[key]
		f, ok := there[key]
		if !ok {
			diffs = append(diffs, fmt.Sprintf("%s is not there, want version %d, czxid %v, mzxid %v", short(key), n.version, n.czxid, n.mzxid))
			continue
		}
		if d := n.differs(&f); d != "" {
			diffs = append(diffs, short(key)+": "+d)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if _, ok := t.nodes[key]; !ok {
			diffs = append(diffs, fmt.Sprintf("%s is there, czxid %v, mzxid %v", short(key), there[key].stat.Czxid, there[key].stat.Mzxid))
		}
	}
	return diffs
}

func (n *node) differs(f *found) string {
	have, want := f.stat, n.stat()
	// Not told by a reply, and times that the test does not know.
	want.Ctime, want.Mtime = have.Ctime, have.Mtime
	if n.czxid == 0 {
		want.Czxid = have.Czxid
	}
	if n.mzxid == 0 {
		want.Mzxid = have.Mzxid
	}
	if n.pzxid == 0 {
		want.Pzxid = have.Pzxid
	}
	switch {
	case have != want:
		return fmt.Sprintf("stat is %+v, want %+v", have, want)
	case f.data != n.data:
		return fmt.Sprintf("data is %s, want %s", short(f.data), short(n.data))
	case n.name != "" && n.name != f.path:
		return fmt.Sprintf("its name is %s, want %s", f.path, n.name)
	}
	return ""
}

func (n *node) stat() jute.Stat {
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Version: n.version, Cversion: n.cversion, Aversion: n.aversion,
		EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: n.children,
	}
}

// adopt takes over what the server has told.
func (t *tree) adopt(there map[string]found) {
	for key, f := range there {
		n := t.nodes[key]
		n.czxid, n.mzxid, n.pzxid = f.stat.Czxid, f.stat.Mzxid, f.stat.Pzxid
		if !strings.HasPrefix(key, "/") {
			n.name = f.path
		}
		t.nodes[key] = n
	}
}

func short(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%s... (%d bytes)", s[:40], len(s))
	}
	return s
}
