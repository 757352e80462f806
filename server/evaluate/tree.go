package evaluate

import (
	"iter"

	"github.com/zkd-project/zkd/jute"
)

// Node is what the tree has at a path: as much as decides about requests.
type Node struct {
	Mtime       int64 // ms
	Version     int32
	Cversion    int32 // children ever created, as stored
	Aversion    int32
	Owner       jute.Owner
	NumChildren int32
	DataLength  int32
	ACL         []jute.ACL
}

// Quota is a subtree's usage and its hard limits; a negative limit is none.
type Quota struct {
	Count, Bytes                   int64
	CountHardLimit, BytesHardLimit int64
}

// Tree is the committed state. It must not change during a call of Evaluate,
// but may between two.
type Tree interface {
	// Get returns the node at path, which need not be valid, but is not empty.
	// Its ACL is never written.
	Get(path string) (Node, bool)
	// Ephemerals returns the paths of the nodes that s owns, in any order.
	Ephemerals(s jute.SessionID) iter.Seq[string]
	// Session returns the timeout of s, and whether there is such a session.
	Session(s jute.SessionID) (timeoutMs int32, ok bool)
	// Quota returns the quota that counts for path: of the deepest node with
	// limits among path and its ancestors.
	Quota(path string) (Quota, bool)
}
