package zab

import "github.com/zkd-project/zkd/jute"

// Seq numbers the batches handed out to be persisted. It starts at 1.
type Seq uint64

// Options are the settings of a core. All times are in ms.
type Options struct {
	ID SID // not 0
	// Boot is random for each start of the process.
	Boot uint64
	// Seed is the seed of the jitter.
	Seed uint64
	// Members is the list in the configuration file. It decides until the history has a list.
	// Afterwards it is the list that this server wants: see tickMembers. With an empty list the
	// core is its own quorum and has no peers: it leads epoch 0 from the start.
	Members Members
	// Init is given to an ensemble that begins with this server as its leader.
	Init ClusterInit
	// AdmitLearners makes a leader admit each learner that is up to date, also without a vote, so
	// that a command can give it one at once.
	AdmitLearners bool
	// AcceptOldData means that the operator vouches for this server's data, although other
	// servers may have seen a later state of it.
	AcceptOldData bool

	Heartbeat       uint64 // between two pings of a leader; 0 means 100
	ElectionTimeout uint64 // silence of the leader before an election; jitter adds up to a half; 0 means 1000
	QuorumTimeout   uint64 // a leader without an echo from a quorum for this long gives up; 0 means 800
	InitLimit       uint64 // to synchronize a quorum; 0 means 20000
	DiskStall       uint64 // a leader with an fsync this old hands over; 0 means 2000
	RenewInterval   uint64 // between renewals for the sake of stuck joiners; 0 means 10000

	CacheBytes  int // entries kept in memory for learners; 0 means 32 MiB
	WindowBytes int // sent to a learner and not acknowledged; 0 means 16 MiB
	BatchBytes  int // in one message; 0 means 1 MiB

	// InitialCounter is for tests: the first transaction of each epoch gets the counter after it.
	InitialCounter uint32
}

// Promise is the highest epoch promised, and the server that it was promised to.
type Promise struct {
	Epoch uint32
	To    SID
}

// Recovered is what a core needs to know about the log that it continues.
type Recovered struct {
	Promise  Promise
	Base     State   // at the snapshot that the history begins with; zero for none
	Control  []Entry // entries after Base for which Entry.Control is true, with their data
	LastZxid jute.Zxid
	// Commit is the highest zxid known to be committed: from a hint, or from the snapshot. The
	// server has applied entries up to it. Without peers it is LastZxid.
	Commit jute.Zxid
	// LogStart is the oldest zxid after which the log can be read.
	LogStart      jute.Zxid
	LogBytes      int64 // from LogStart to the end
	SnapshotBytes int64 // of the newest snapshot, which is Base's
	Incarnation   ID
	// Notes are those of the newest LogNotes, with the present process as the last start, which
	// is durable. There are no starts if the log is not synced: a crash may then lose its end, so
	// an old copy can't be told from a crashed log.
	Notes Notes
	// Damaged means that acknowledged records may have been lost: the server does not count until
	// it is admitted again, and Incarnation is a new one.
	Damaged bool
}

// LogOp is a record for the log. Only the fields named with its Kind are set.
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
	LogTruncate                         // drop the entries after Upto
	LogCommitHint                       // Upto
	LogSnapshot                         // Snap, received from another server, replaces the history
	LogNotes                            // Notes replaces the previous ones; nothing waits for it
	LogIncarnation                      // Incarnation and Damaged replace those of Recovered
)

// SnapInfo names a received snapshot: complete, verified and durable.
type SnapInfo struct {
	Zxid  jute.Zxid
	State State // at Zxid
	Bytes int64
	// Ref is the shell's reference for the log.
	Ref any
}

// Outgoing is a message to a peer. It can be sent at once.
type Outgoing struct {
	To  SID
	Gen uint64 // of the link to use; if the link has changed, drop the message
	Msg Message
}

// Link names a link.
type Link struct {
	Peer SID
	Gen  uint64
}

// LogRead asks for entries after After: at least one, about MaxBytes in total. The answer
// goes to Core.LogRead.
type LogRead struct {
	Peer     SID
	Gen      uint64
	After    jute.Zxid
	MaxBytes int
}

// SnapSend asks to stream the newest snapshot, which must be at or after AtLeast, to a
// learner. Report the snapshot chosen with Core.SnapshotBegun, and the outcome with
// Core.SnapshotSent. Token is sent along: the receiver begins when its Core.WantsSnapshot
// returns it. With Stop set, the stream under way is no longer needed.
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
	// Index is a zxid: a state that includes it includes everything completed before the
	// question.
	Index jute.Zxid
}

// Role is the current role of a server.
type Role uint8

const (
	Looking         Role = iota // for a leader
	Candidate                   // has asked for promises
	SyncingLeader               // leads its epoch, but a quorum does not have its history yet
	Leading                     // accepts proposals
	SyncingFollower             // brings its history up to the leader's
	Following                   // serves clients; also an observer, see Status.Observer
	Halted                      // found a contradiction; see Status.Reason
)

// Status is the current status of a core.
type Status struct {
	Role      Role
	Observer  bool   // this server is an observer
	Epoch     uint32 // led or followed, else that of the last marker
	Leader    SID    // 0 if none is known
	LeaderGen uint64 // of the link to the leader, if that is another server
	// NotCounted says why the server does not count, or is empty.
	NotCounted string
	// Awaits says what is missing for a leader while this server looks for one, or is empty.
	Awaits string
	// Reason says why the role was taken, for the log.
	Reason string

	// List is the version of the newest list of members in the history, and
	// Settled that of the newest committed one; 0 for none. See Core.Lists.
	List, Settled jute.Zxid
	// FileDiffers means that this server's configuration file has another list than the history.
	FileDiffers bool
	// OtherFiles is the number of linked servers whose configuration files have another list than
	// this server's.
	OtherFiles int
}

// PeerStatus is what a leader knows about a learner.
type PeerStatus struct {
	ID       SID
	Observer bool
	Synced   bool      // serves clients
	Counted  bool      // its acknowledgements count
	Match    jute.Zxid // durable there, as far as known
	Inflight int       // bytes sent and not acknowledged
	HeardMs  uint64    // ms since it was last heard
	// AnswersUntil is an upper bound of Core.AnswersUntil on the learner, on this server's clock.
	AnswersUntil uint64
}

// Level is the level of an Event in the log.
type Level uint8

const (
	Debug Level = iota
	Info
	Warn
	Error
)

func (l Level) String() string { return [...]string{"debug", "info", "warn", "error"}[l] }

// Event is a message for the log.
type Event struct {
	Level Level
	Text  string
	Peer  SID // 0 if it concerns no peer
	// Lost means that entries from a leader did not arrive, or arrived out of order. A correct
	// link never does that.
	Lost bool
}

// Output is everything that a core produced since the last Take.
type Output struct {
	Persist    []LogOp // in order; empty means nothing to write
	PersistSeq Seq     // of this batch; meaningful if Persist is not empty
	Send       []Outgoing
	// CommitTo is the zxid up to which entries may be applied: the lower of the committed and the
	// durable zxid. Committed holds the entries that have become so, in order, as far as they are
	// in memory. The entries between the last one handed out before and the first of these (or
	// CommitTo if there are none) must be read from the log.
	CommitTo  jute.Zxid
	Committed []Entry
	ReadLog   []LogRead
	SendSnap  []SnapSend
	// Install is a received snapshot whose reference is now durable. It replaces the state at
	// once; Committed continues after it.
	Install *SnapInfo
	Reads   []ReadResult
	// Relink is set if this server has a new incarnation: all links must be made again, with a
	// new Introduction.
	Relink bool
	// Cut are links over which this server has ignored all that came, for a while. They must be
	// made again: the other server may have something else to say of itself by now.
	Cut []Link
	// Changed is set if Status has changed.
	Changed bool
	// Fatal is not empty if the server must stop now.
	Fatal  string
	Events []Event
}
