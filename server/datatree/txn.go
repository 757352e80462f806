package datatree

import "github.com/zkd-project/zkd/jute"

// Txn is a transaction: the effect of a request as the leader decided it, in absolute
// values (docs/dev/spec/zab.md A.15). Applying it decides nothing: it checks no ACL, version,
// quota or clock, and it never fails.
type Txn struct {
	Zxid    jute.Zxid
	Time    int64          // leader's clock, ms since the Unix epoch
	Session jute.SessionID // session of the request; 0 for the server's own
	Cxid    int32          // the client's xid; with OpSetOwner the client's jute.Holder
	// Origin is the connection, unique over servers and restarts, that waits
	// for the outcome; 0 for the server's own. Its top byte is the server's id.
	Origin uint64
	// Err is the outcome of a rejected request; a rejected single request has
	// no Ops. A rejected multi has Ops of kind OpError, and Err is 0: its reply
	// header says OK (wire.md section 10).
	Err jute.Code
	// Multi is set for the transaction of a multi, even one of no or one op:
	// its reply is a list.
	Multi bool
	// Number is the number of a write of an exactly-once session, and Confirmed that of the
	// last request up to which the client had all replies. 0 for all other transactions.
	Number, Confirmed int64
	Ops               []Op
}

// OpKind determines the effect of an Op, and so which of its fields count.
type OpKind uint8

// The kinds of Op. The numbers are part of the log format: append, never
// renumber.
const (
	OpNone          OpKind = iota
	OpCreate               // Path, Data, ACL, Owner, Cversion
	OpDelete               // Path
	OpSetData              // Path, Data, Version
	OpSetACL               // Path, ACL, Version
	OpCheck                // nothing: a check of a multi that succeeded
	OpError                // Code: an op of a rejected multi
	OpCreateSession        // TimeoutMs; the session is the Txn's
	// OpCloseSession closes the Txn's session. Paths are the ephemerals deleted with it,
	// for readers of the log, and as a check; an empty list means all of them.
	OpCloseSession
	// OpSetTimeout changes the Txn's session, which exists: TimeoutMs is the timeout that
	// its client has negotiated when it resumed the session.
	OpSetTimeout
	// OpAdoptSession adds the Txn's session, which Apache's server has opened: TimeoutMs. See
	// Tree.FromApache. A session that exists gets the timeout.
	OpAdoptSession
	// OpSetOwner makes the Txn's Origin the owner of the Txn's session, which exists: only
	// that connection may write for the session from then on. It follows OpCreateSession or
	// OpSetTimeout, or is alone.
	OpSetOwner
	// OpExactlyOnce makes the Txn's session, which is open, an exactly-once session: see Outcome.
	// It follows OpSetOwner.
	OpExactlyOnce
)

// The versions of format.History with OpSetOwner, with OpExactlyOnce and Txn.Number, and with jute.RetiredPath.
const (
	FormatOwner   = 5
	FormatExact   = 6
	FormatRetired = 7
)

// Op is one effect of a transaction.
type Op struct {
	Kind OpKind
	// Result is the opcode under which a multi reports the op (wire.md section
	// 10): create answers with a path, create2 with a path and a Stat.
	Result jute.OpCode
	Path   string
	Data   []byte // nil is null
	ACL    []jute.ACL
	Owner  jute.Owner
	// Version is the node's version (OpSetData) or aversion (OpSetACL) after
	// the op.
	Version int32
	// Cversion is the parent's count of children ever created, this one
	// included, after the op.
	Cversion  int32
	TimeoutMs int32
	Paths     []string
	Code      jute.Code
}

// Result is the contribution of an applied Op to the reply.
type Result struct {
	Path string     // OpCreate
	Stat jute.Stat  // OpCreate, OpSetData, OpSetACL: the node right after the op
	Data []byte     // OpCreate, OpSetData: that of the node, in its memory, which is never modified
	Code jute.Code  // OpError
	Was  []jute.ACL // OpSetACL: the node's list before
}

// Event is a change that watches may be waiting for.
type Event struct {
	Type jute.EventType
	Path string
	// ACL is the list of the node concerned: of the node created, changed or (before the
	// delete) deleted, or of the parent for EventChildrenChanged.
	ACL []jute.ACL
	// Cversion and NumChildren are those of the parent's Stat, for EventChildrenChanged.
	Cversion    int32
	NumChildren int32
}
