package zab

import "github.com/zkd-project/zkd/jute"

// Seq numbers the batches handed out to be persisted. It starts at 1.
type Seq uint64

// Options are what a core is told about its server. All times are in ms.
type Options struct {
	ID SID // not 0
	// Boot is random for each start of the process.
	Boot uint64
	// Seed is where jitter comes from.
	Seed uint64
	// Members is the list of the configuration file. It decides until the history
	// has a list. Afterwards it is what this server wants the list to be: see
	// tickMembers. With an empty list the core is its own quorum and has no
	// peers: it leads epoch 0 from the first moment.
	Members Members
	// Init is given to an ensemble that begins with this server as its leader.
	Init ClusterInit
	// AcceptOldData says that the operator vouches for the data of this server,
	// although other servers may have seen a later state of it.
	AcceptOldData bool

	Heartbeat       uint64 // between two pings of a leader; 0 means 100
	ElectionTimeout uint64 // without the leader's word; jitter adds up to a half; 0 means 1000
	QuorumTimeout   uint64 // a leader without echo from a quorum gives up; 0 means 800
	InitLimit       uint64 // to synchronize a quorum; 0 means 20000
	DiskStall       uint64 // a leader with an fsync this old hands over; 0 means 2000
	RenewInterval   uint64 // between renewals for the sake of stuck joiners; 0 means 10000

	CacheBytes  int // entries kept in memory for learners; 0 means 32 MiB
	WindowBytes int // sent to a learner and not acknowledged; 0 means 16 MiB
	BatchBytes  int // in one message; 0 means 1 MiB

	// InitialCounter is for tests: the first transaction of each epoch gets the
	// counter behind it.
	InitialCounter uint32
}

// Promise is the highest epoch promised, and to whom.
type Promise struct {
	Epoch uint32
	To    SID
}

// Recovered is what a core needs to know of the log that it continues.
type Recovered struct {
	Promise  Promise
	Base     State   // at the snapshot that the history begins with; zero for none
	Control  []Entry // those behind Base for which Entry.Control is true, with their data
	LastZxid jute.Zxid
	// Commit is the highest zxid known to be committed: of a hint, or of the
	// snapshot. The server has applied so far. Without peers it is LastZxid.
	Commit jute.Zxid
	// LogStart is the oldest zxid behind which the log can be read.
	LogStart      jute.Zxid
	LogBytes      int64 // from LogStart to the end
	SnapshotBytes int64 // of the newest snapshot, which is Base's
	Incarnation   ID
	// Notes are those of the newest LogNotes, with the present process as the last
	// of the starts: that is durable. There are no starts if the log is not synced:
	// then its end may be lost by a crash, and nobody can tell an old copy of it.
	Notes Notes
	// Damaged says that acknowledged records may have been lost: the server is
	// not to be counted before it is admitted anew, and Incarnation is a new one.
	Damaged bool
}

// LogOp is a record for the log. Of the fields after Kind only those named with
// the kind are set.
type LogOp struct {
	Kind    LogOpKind
	Entry   Entry
	Promise Promise
	Upto    jute.Zxid
	Snap    SnapInfo

	Notes       Notes
	Incarnation ID
	Damaged     bool
}

// LogOpKind is the kind of a LogOp.
type LogOpKind uint8

const (
	LogAppend      LogOpKind = iota + 1 // Entry
	LogPromise                          // Promise
	LogTruncate                         // drop the entries behind Upto
	LogCommitHint                       // Upto
	LogSnapshot                         // Snap, received from another server, replaces the history
	LogNotes                            // Notes replaces the ones before; nobody waits for it
	LogIncarnation                      // Incarnation and Damaged replace what Recovered has of them
)

// SnapInfo names a snapshot that was received: complete, verified, durable.
type SnapInfo struct {
	Zxid  jute.Zxid
	State State // at Zxid
	Bytes int64
	// Ref is the shell's reference for the log.
	Ref any
}

// Outgoing is a message to a peer. It has been released: nothing need be waited
// for.
type Outgoing struct {
	To  SID
	Gen uint64 // of the link to use; if there is another one by now, drop it
	Msg Message
}

// LogRead asks for entries behind After, of about MaxBytes and at least one. The
// answer goes to Core.LogRead.
type LogRead struct {
	Peer     SID
	Gen      uint64
	After    jute.Zxid
	MaxBytes int
}

// SnapSend asks to stream the newest snapshot, which must be at or behind
// AtLeast, to a learner. Core.SnapshotBegun is to be told which one that is, and
// Core.SnapshotSent how it ended. Token goes along: the receiver begins when its
// Core.WantsSnapshot names it. With Stop the stream under way is of no use any more.
type SnapSend struct {
	Peer    SID
	Gen     uint64
	AtLeast jute.Zxid
	Token   uint64
	Stop    bool
}

// ReadResult answers Core.ReadIndex.
type ReadResult struct {
	ID uint64
	OK bool // false: not known to lead, or no leader known; ask again later
	// Index is a zxid: a state that has it has all that was completed before
	// the question.
	Index jute.Zxid
}

// Role is what a server is at the moment.
type Role uint8

const (
	Looking         Role = iota // for a leader
	Candidate                   // has asked for promises
	SyncingLeader               // is leader of its epoch, but a quorum does not have its history yet
	Leading                     // accepts proposals
	SyncingFollower             // brings its history up to the leader's
	Following                   // serves clients; of an observer too, see Status.Observer
	Halted                      // found that something is wrong; see Status.Reason
)

// Status is what a core says of itself.
type Status struct {
	Role      Role
	Observer  bool   // this server is an observer
	Epoch     uint32 // led or followed, or else of the last marker
	Leader    SID    // 0 if none is known
	LeaderGen uint64 // of the link to the leader, if that is another server
	// Weightless says why the server is not counted, or is empty.
	Weightless string
	// Reason says why the role was taken, for the log.
	Reason string

	// List is the version of the newest list of members in the history, and
	// Settled that of the newest committed one; 0 for none. See Core.Lists.
	List, Settled jute.Zxid
	// FileDiffers says that the configuration file of this server has another
	// list than the history.
	FileDiffers bool
	// OtherFiles is how many of the linked servers have another list in their
	// configuration files than this server has in its own.
	OtherFiles int
}

// PeerStatus is what a leader knows of a learner.
type PeerStatus struct {
	ID       SID
	Observer bool
	Synced   bool      // serves clients
	Counted  bool      // its acknowledgements count
	Match    jute.Zxid // durable there, as far as is known
	Behind   int       // bytes sent and not acknowledged
	HeardMs  uint64    // ms since its last word
	// AnswersUntil is a bound for what Core.AnswersUntil returns there, on this
	// server's clock.
	AnswersUntil uint64
}

// Event is something worth a line in the log.
type Event struct {
	Level uint8 // 0 debug, 1 info, 2 warning, 3 error
	Text  string
	Peer  SID // 0 if none is concerned
	// Lost says that entries that a leader sent did not come, or not in their order.
	// No link may do that.
	Lost bool
}

// Output is everything that a core produced since the last Take.
type Output struct {
	Persist    []LogOp // in order; empty means nothing to write
	PersistSeq Seq     // of this batch; meaningful if Persist is not empty
	Send       []Outgoing
	// CommitTo is how far entries may be applied: the lower of what is committed
	// and what is durable here. Committed are those that became so, in order, as
	// far as they are at hand: what lies between the ones handed out before and
	// the first of these, or CommitTo if there are none, is to be read from the
	// log.
	CommitTo  jute.Zxid
	Committed []Entry
	ReadLog   []LogRead
	SendSnap  []SnapSend
	// Install is a received snapshot whose reference is durable now: it replaces
	// the state at once. Committed goes on behind it.
	Install *SnapInfo
	Reads   []ReadResult
	// Relink is set if this server has another incarnation now: all links are to
	// be made again, with a new Introduction.
	Relink bool
	// Changed is set if Status is not what it was.
	Changed bool
	// Fatal is not empty if the server must stop now.
	Fatal  string
	Events []Event
}
