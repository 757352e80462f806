package treediff

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Node is a node of a subtree.
type Node struct {
	// Path is relative to the subtree's root, which is "/".
	Path string
	// Data is nil if the node's data is null, and if it was not read.
	Data []byte
	// ACL is nil if it was not read.
	ACL  []jute.ACL
	Stat jute.Stat
	// Hidden says that it may not be read: nothing but its path is known.
	Hidden bool
}

// Kind is the kind of the node.
func (n *Node) Kind() Kind { return KindOf(n.Stat) }

// Kind is how a node was created, as far as its Stat tells.
type Kind string

// The kinds. Servers show containers and nodes with a time to live as persistent
// ones, unless they are very old.
const (
	Persistent Kind = "persistent"
	Ephemeral  Kind = "ephemeral"
	Container  Kind = "container"
	TTL        Kind = "ttl"
)

// The marks that ZooKeeper stores instead of an owner: see Apache's EphemeralType. A time to
// live is in the low 40 bits, in milliseconds.
const (
	containerOwner = jute.SessionID(-1 << 63)
	ttlMark        = 0xff << 56
	ttlMask        = 1<<40 - 1
)

// KindOf returns the kind of a node that has the Stat.
func KindOf(s jute.Stat) Kind {
	switch owner := s.EphemeralOwner; {
	case owner == 0:
		return Persistent
	case owner == containerOwner:
		return Container
	case uint64(owner)&ttlMark == ttlMark:
		return TTL
	}
	return Ephemeral
}

// TimeToLive returns that of a node of kind TTL.
func (n *Node) TimeToLive() time.Duration {
	return time.Duration(n.Stat.EphemeralOwner&ttlMask) * time.Millisecond
}

// Sequential reports whether the name looks as if a server had appended a sequence number:
// ten digits at the end. There is no other sign.
func Sequential(path string) bool {
	const digits = 10
	name := path[strings.LastIndexByte(path, '/')+1:]
	if len(name) <= digits {
		return false
	}
	for _, c := range []byte(name[len(name)-digits:]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Join returns the path that the node rel of the subtree at root has on the
// servers. Both are "/" or begin with it, and don't end in it otherwise.
func Join(root, rel string) string {
	switch {
	case rel == "/":
		return root
	case root == "/":
		return rel
	}
	return root + rel
}

// Parent returns the path of the parent of a path other than "/".
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Depth returns how far below the root a path is: 0 for "/", 2 for "/a/b".
func Depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// Below reports whether path is below top, and not top itself.
func Below(path, top string) bool {
	if top == "/" {
		return path != "/"
	}
	return len(path) > len(top) && path[len(top)] == '/' && strings.HasPrefix(path, top)
}

// Compare is the tree order: negative if a comes before b. It is the order of bytes, except
// that '/' comes before all others.
func Compare(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// SameData compares data, which may be null.
func SameData(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// SameACL compares ACLs regardless of the order of their entries, like the servers.
func SameACL(a, b []jute.ACL) bool { return slices.Equal(sorted(a), sorted(b)) }

// sameShown reports whether servers may show a list as shown: to those who may not change it, they show x for the hashes of digests.
func sameShown(list, shown []jute.ACL) bool {
	masked := func(a jute.ACL) bool { return a.ID.Scheme == "digest" && strings.HasSuffix(a.ID.ID, ":x") }
	if !slices.ContainsFunc(shown, masked) {
		return SameACL(list, shown)
	}
	list = slices.Clone(list)
	for i := range list {
		if user, _, ok := strings.Cut(list[i].ID.ID, ":"); ok && list[i].ID.Scheme == "digest" {
			list[i].ID.ID = user + ":x"
		}
	}
	return SameACL(list, shown)
}

func sorted(list []jute.ACL) []jute.ACL {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b jute.ACL) int {
		return cmp.Or(cmp.Compare(a.ID.Scheme, b.ID.Scheme), cmp.Compare(a.ID.ID, b.ID.ID), cmp.Compare(a.Perms, b.Perms))
	})
	return slices.Compact(list)
}
