package evaluate

import (
	"iter"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Tree is the committed state, as [datatree.Tree] holds it. It must not change
// during a call of Evaluate, but may between two.
type Tree interface {
	// Get returns the znode at path, which need not be valid.
	Get(path string) (datatree.Node, bool)
	// Data returns the data of the znode at path, and whether there is one.
	Data(path string) ([]byte, bool)
	// Children yields the names of the children of the znode at path, in any order.
	Children(path string) iter.Seq[string]
	// Ephemerals yields the paths of the znodes that s owns and that begin with prefix, in any order.
	Ephemerals(s jute.SessionID, prefix string) iter.Seq[string]
	// NumEphemerals returns their number.
	NumEphemerals(s jute.SessionID) int
	// Session returns the timeout of s, and whether it exists.
	Session(s jute.SessionID) (timeoutMs int32, ok bool)
	// SessionOwner returns the connection that owns s, or 0 if none is known.
	SessionOwner(s jute.SessionID) uint64
	// SessionHolder returns the client that owns s, or 0 if none is known.
	SessionHolder(s jute.SessionID) jute.Holder
	// Outcomes returns the outcomes that are kept for s, an exactly-once session.
	Outcomes(s jute.SessionID) []datatree.Outcome
	// Memory returns the memory that the tree takes, in bytes.
	Memory() int64
	// Quota returns the quota that applies to path, if there is one.
	Quota(path string) (datatree.Quota, bool)
	// Drifts reports whether the usage of the quota of exactly this path is not that of its subtree.
	Drifts(path string) bool
}
