package replica

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// Submission is a request to the leader by a connection, or by the server itself.
type Submission struct {
	Kind Kind
	// Service is the number of the service in which a connection makes the request. It has
	// no effect in another one: the connection repeats it. See service.go.
	Service  uint64
	Received time.Duration
	// Seen is the highest zxid that the client has seen, with Resume.
	Seen    jute.Zxid
	Request evaluate.Request
}

// Size returns approximately how much memory a submission takes.
func (s *Submission) Size() int64 {
	n := len(s.Request.Body) + 256
	for i := range s.Request.Auth {
		n += len(s.Request.Auth[i].Scheme) + len(s.Request.Auth[i].ID)
	}
	return int64(n)
}

// Kind determines how a submission is handled.
type Kind uint8

const (
	Write   Kind = iota // a transaction
	Barrier             // sync: answered when all requests before it are applied, if the leader still leads
	Resume              // a session continues on another connection
)

// UpgradeXid is the xid of a request made by the server itself, to make a local session a
// global one. Its client gets no reply.
const UpgradeXid = -100

// MovedOn is the code of a barrier for a client that continues a session which another client has taken over.
const MovedOn = jute.ErrBadVersion

// Order is one instruction to the applier.
type Order struct {
	zab.Entry // of an OrderEntry; of an OrderReplay its Zxid is where to stop
	Kind      OrderKind
	Held      int64          // bytes that it counts for in Options.Backlog
	Txn       *datatree.Txn  // of an OrderEntry that was evaluated here, or nil
	Origin    uint64         // of a barrier: the connection that waits for it
	Code      jute.Code      // of a barrier: the request's outcome
	Session   jute.SessionID // of a barrier: the session concerned
	Install   any            // of an OrderInstall: zab.SnapInfo.Ref

	// Of an OrderEntry, as the server measures it: when it was handed to this server's log,
	// was durable there, and was known to be committed; 0 if that is not known.
	Logged, Durable, Committed time.Duration
}

// OrderKind is the kind of an Order.
type OrderKind uint8

const (
	OrderEntry     OrderKind = iota // committed
	OrderBarrier                    // answer a request that has no transaction
	OrderReplay                     // apply what the log has up to Zxid
	OrderInstall                    // replace the tree by a snapshot that was received
	OrderFreeze                     // write a snapshot; given by the applier itself
	OrderInterlude                  // a service has ended: see service.go
	OrderFence                      // the fence of the service Origin has passed
)

// State is the applier's result of the committed entries.
type State interface {
	// RLock locks the tree for reading, and returns it.
	RLock() *datatree.Tree
	RUnlock()
	// Applied returns the zxid of the last entry that is applied.
	Applied() jute.Zxid
	// DigestAt returns the tree's digest at a zxid, if it is known.
	DigestAt(jute.Zxid) (datatree.Digest, bool)
}

// Disk is the leader's view of its disk, checked before it accepts writes.
type Disk interface {
	// Full reports whether there is too little room for writes.
	Full() bool
	// RoomForDeletes reports whether deletes may use the reserve.
	RoomForDeletes() bool
}

// Limits bound the memory that a replica holds, in bytes.
type Limits struct {
	// Waiting is for the requests that a leader has not evaluated. Beyond that it ends the
	// connections that have most of them.
	Waiting int64
	// Proposals is for the decoded transactions of a leader that are not committed. Those
	// beyond it are decoded again when they are applied.
	Proposals int64
	// Backlog is for committed entries that are not applied. Entries beyond it are read
	// from the log.
	Backlog int64
	// Log is for records that are not durable. Above it a leader proposes nothing.
	Log int64
	// Turn is for the requests of a connection, and of a subject with the weight limits.Even, that a leader
	// evaluates one after the other while others wait.
	Turn int
	// Work is for what a leader evaluates in a turn, as EvaluateWork counts it, which 0 stands for.
	Work int
	// Closings is for closings of sessions that are proposed and not applied, where each
	// ephemeral counts as workBytes. 0 means that the bound follows from the time that they take.
	Closings int64
	// Short is for short requests that are proposed and not committed while several subjects make some, where
	// each counts workBytes more than its entry has. 0 is as for Closings.
	Short int64
}

// Options configure a replica.
type Options struct {
	ID           zab.SID
	Ensemble     bool // there are other servers
	LeaderServes bool // clients too
	// MaxWait is how long a client's request may wait to be evaluated; 0 means no limit.
	MaxWait  time.Duration
	Evaluate evaluate.Options
	Schemes  *auth.Schemes
	Limits   Limits

	// Reads returns the highest version of format.History that all other servers are known to
	// read. Nil means that there are none.
	Reads func() uint32

	// Reconfigure returns the members that a request to change them asks for, given the
	// present ones. Its error is a jute.Code, or wraps one. Nil means that there is no
	// ensemble to change.
	Reconfigure func(now *zab.Members, change jute.ReconfigRequest) (_ zab.Members, remarks []string, _ error)

	Autopilot Autopilot

	// Join is the line, without "server.<id>=", with which this server asks the leader to be
	// added as an observer while it follows and is no member. "" means that it does not ask.
	Join string

	State   State
	Disk    Disk
	Tracker *session.Tracker
	// Backlog is the size in bytes of the committed entries in memory that are not
	// applied. The replica adds to it, and the applier subtracts from it.
	Backlog *atomic.Int64
	// NewOrigin returns a number that is higher than that of every connection so far.
	NewOrigin func() uint64
	// Now is the server's clock; Wall is the time of day, in ms.
	Now  func() time.Duration
	Wall func() int64
	// Room returns how much memory the tree of this server may take, in bytes; 0 if that has no bound. It
	// may be nil.
	Room func() int64
	// Weights returns the weights by which subjects have turns. It may be nil.
	Weights func() *limits.Weights
	// Proposed is called with the size of each proposed transaction. It may be nil.
	Proposed func(bytes int)
	// Callers returns the functions that are running, for the log. It may be nil.
	Callers func() string
	// Queued is called with the time that n requests had waited when they were evaluated, and
	// Evaluated with the time that the evaluation of n requests took. Both or neither are nil.
	Queued, Evaluated func(d time.Duration, n int64)
}

// Stats count what a replica has done since its start.
type Stats struct {
	Throttled        int64 // requests refused because they waited for too long
	DigestMismatches int64 // differences found between the servers' trees
	Demoted          int64 // voters that autopilot has made observers
	Promoted         int64 // observers that autopilot has made voters again
	OutOfRoom        int64 // requests refused because the tree had no room
	Broken           int64 // requests refused because their evaluation failed
}

// Replica is the part of a server that orders requests: see the package comment.
type Replica struct {
	// Core is the replica's core. Messages, log reads, snapshots and the health of the
	// disk are inputs of Core alone. Inputs for which Replica has a method must use that
	// method.
	Core *zab.Core

	o      Options
	status zab.Status
	links  map[zab.SID]uint64 // the current link of each peer
	format uint32             // of a leader: the highest version of format.History that all servers read

	leading         leading
	remote          [zab.Zero + 1]remoteTouches // by server, of a leader
	requests        [zab.Zero + 1]uint64        // by server: how many it has forwarded to this one
	leasedTo        int64                       // until when this server answers by itself, in ms
	peers           []zab.PeerStatus
	fullDisk        bool // of a leader: too few disks have room for a quorum
	room            room
	service         uint64    // number of the present service, or of the last one
	fenced          bool      // the fence of that service has come back from the leader
	interlude       bool      // the applier has to learn that a service has ended
	placed          uint64    // the connection of the last barrier, for an injected fault
	reportedApplied jute.Zxid // the last applied entry that the core knows of
	joined          bool      // since the start, a list in the history had this server
	joinAt          int64     // when to ask to be added again

	logged  fifo.List[batch] // not durable
	logging int64            // bytes of logged

	collected jute.Zxid          // the last entry put into ready
	fed       jute.Zxid          // the last entry given to the applier
	ready     fifo.List[Order]   // committed, not given to the applier yet
	barriers  fifo.List[barrier] // of this server
	// reads are the leader's questions to a quorum whether it still leads, with the server whose
	// barrier waits for the answer. A question is removed when it is confirmed.
	reads    map[uint64]zab.SID
	lastRead uint64

	answers []answers // for other servers
	frames  []Frame   // to be taken
	buf     []byte    // of frames
	end     []uint64  // to be taken
	events  []zab.Event
	expired []jute.SessionID
	fatal   string
	broken  string // see Broken
	stats   Stats
}

// batch is a batch of records handed to the log.
type batch struct {
	seq   zab.Seq
	bytes int64
}

// Frame is a message between servers other than those of their cores.
type Frame struct {
	To     zab.SID
	Gen    uint64 // of the link; drop the frame if there is a newer link
	Kind   uint8
	Urgent bool // it travels in the control lane
	Body   []byte
}

// Output is the work that a Replica requests, in this order. The memory that it refers to
// stays valid until the next Take with the same Output.
type Output struct {
	zab.Output // Committed, CommitTo, Reads and Install are already handled
	Frames     []Frame
	// Was and Status are the previous and the current status, if Changed.
	Was, Status zab.Status
	// ServiceEnded means that the role ended in which clients were served. ServiceBegan means
	// that clients can be served, those that were connected before once OrderFence is carried
	// out. Both can be true.
	ServiceEnded, ServiceBegan bool
	End                        []uint64         // origins of connections that end
	Expired                    []jute.SessionID // sessions whose close is proposed
	Orders                     []Order

	buf []byte
}

// New returns a replica that continues from the recovered state: all entries up to
// applied are in the tree.
func New(core *zab.Core, applied jute.Zxid, o Options) *Replica {
	if o.ID == 0 { // without an ensemble
		o.ID = zab.Zero
	}
	r := &Replica{
		Core:      core,
		o:         o,
		links:     make(map[zab.SID]uint64),
		reads:     make(map[uint64]zab.SID),
		collected: applied,
		fed:       applied,
	}
	r.leading.reset(o.Limits.Turn)
	return r
}

// Tune sets Options.MaxWait and Options.Evaluate for the requests to come.
func (r *Replica) Tune(maxWait time.Duration, e evaluate.Options) {
	r.o.MaxWait, r.o.Evaluate = maxWait, e
	if r.leading.evaluator != nil {
		r.leading.evaluator.Tune(e)
	}
}

// Requests returns how many requests a server has forwarded to this one.
func (r *Replica) Requests(from zab.SID) uint64 { return r.requests[from] }

// ServerOf returns the server that a connection belongs to.
func ServerOf(origin uint64) zab.SID { return zab.SIDOf(uint8(origin >> 56)) }

// Status returns the status as of the last Take.
func (r *Replica) Status() zab.Status { return r.status }

func (r *Replica) Stats() Stats { return r.stats }

func (r *Replica) now() int64 { return r.o.Now().Milliseconds() }

func (r *Replica) event(level zab.Level, peer zab.SID, text string) {
	r.events = append(r.events, zab.Event{Level: level, Peer: peer, Text: text})
}

// Advance tells the core the time. Call it before each batch of inputs.
func (r *Replica) Advance() { r.Core.Advance(uint64(r.now())) }

// Tick does what has become due.
func (r *Replica) Tick() {
	r.Core.Tick(uint64(r.now()), r.o.Wall())
	r.peers = r.peers[:0]
	if r.status.Role == zab.Leading {
		r.peers = r.Core.Peers(r.peers)
		r.updateFormat()
	}
	r.watchQuorumDisks()
	r.updateRoom()
	r.askToJoin()
	r.runAutopilot()
	r.UpdateLeases()
}

// watchQuorumDisks checks whether the voters with room are a quorum.
func (r *Replica) watchQuorumDisks() {
	full := r.status.Role == zab.Leading && !r.Core.RoomInQuorum()
	if r.fullDisk == full {
		return
	}
	r.fullDisk = full
	if full {
		r.event(zab.Error, 0, "the disks of too many servers are full for a quorum: writes are refused until there is room")
	} else {
		r.event(zab.Info, 0, "a quorum has room on its disks")
	}
}

// QuorumFull reports whether this server leads, and too few disks have room for a quorum.
func (r *Replica) QuorumFull() bool { return r.fullDisk }

// PeerUp reports a new link to a server. It replaces the previous one, if the end of that was
// not reported.
func (r *Replica) PeerUp(peer zab.SID, gen uint64, in zab.Introduction) {
	if r.links[peer] != 0 {
		r.lostLink(peer)
	}
	r.links[peer] = gen
	r.updateFormat()
	r.Core.PeerUp(peer, gen, in)
}

// updateFormat finds out what all servers can read. It is called before entries are sent to
// another server.
func (r *Replica) updateFormat() {
	r.format = format.History.Range().Most
	if r.o.Reads != nil {
		r.format = min(r.format, r.o.Reads())
	}
	r.mayRetire()
}

// PeerDown reports the end of a link.
func (r *Replica) PeerDown(peer zab.SID, gen uint64) {
	if r.links[peer] == gen {
		delete(r.links, peer)
		r.lostLink(peer)
	}
	r.Core.PeerDown(peer, gen)
}

// Links returns the number of the current link of each connected peer.
func (r *Replica) Links() map[zab.SID]uint64 { return r.links }

// Leads reports whether this server leads, or is about to.
func (r *Replica) Leads() bool {
	role := r.Core.Status().Role
	return role == zab.Leading || role == zab.SyncingLeader
}

// Persisted reports that the batches up to seq are durable.
func (r *Replica) Persisted(seq zab.Seq) {
	for r.logged.Len() > 0 && r.logged.Front().seq <= seq {
		r.logging -= r.logged.Front().bytes
		r.logged.Pop(1)
	}
	r.Core.PersistDone(seq)
}

// Submit handles requests of this server's clients according to its role. The requests'
// bodies must not change.
func (r *Replica) Submit(batch []Submission) {
	batch = r.ofThisService(batch)
	switch r.status.Role {
	case zab.Leading:
		r.enqueue(batch)
	case zab.Following:
		r.forward(batch)
	}
}

// Take moves the pending work into out. Call it after inputs, and again after Propose has
// done something.
func (r *Replica) Take(out *Output) {
	r.reportedApplied = r.o.State.Applied()
	r.Core.Applied(r.reportedApplied)
	r.Core.Take(&out.Output)
	r.notePersist(out)
	for _, read := range out.Reads {
		r.confirmed(read)
	}
	if snap := out.Install; snap != nil {
		r.ready.Push(Order{Kind: OrderInstall, Entry: zab.Entry{Zxid: snap.Zxid}, Install: snap.Ref})
		r.collected = snap.Zxid
	}
	r.collect(out)
	r.keepPace()
	out.ServiceEnded, out.ServiceBegan = false, false
	if out.Changed || out.Relink {
		r.roleChanged(out)
		r.noteMember()
	}
	r.takeFrames(out)
	r.feed(out)
	out.End = append(out.End[:0], r.end...)
	r.end = r.end[:0]
	out.Expired = append(out.Expired[:0], r.expired...)
	r.expired = r.expired[:0]
	out.Events = append(out.Events, r.events...)
	r.events = r.events[:0]
	if out.Fatal == "" {
		out.Fatal = r.fatal
	}
}

func (r *Replica) notePersist(out *Output) {
	if len(out.Persist) == 0 {
		return
	}
	var bytes int64
	for i := range out.Persist {
		bytes += EntrySize(&out.Persist[i].Entry)
	}
	r.logged.Push(batch{seq: out.PersistSeq, bytes: bytes})
	r.logging += bytes
}

// EntrySize returns approximately how much memory an entry takes on its way.
func EntrySize(e *zab.Entry) int64 { return int64(len(e.Data)) + 128 }

// collect turns committed entries into orders. The applier reads from the log the entries
// that are no longer in memory, and those that would make its backlog too long.
func (r *Replica) collect(out *Output) {
	room, taken := r.o.Limits.Backlog-r.o.Backlog.Load(), int64(0)
	for i := range out.Committed {
		e := &out.Committed[i]
		r.replayTo(e.Prev)
		size := EntrySize(e)
		full := taken+size > room
		full = full && !backlogUnbounded.Planted()
		if full {
			r.replayTo(e.Zxid)
			continue
		}
		taken += size
		r.ready.Push(Order{Entry: *e, Held: size, Txn: r.leading.txnOf(e.Zxid)})
		r.collected = e.Zxid
	}
	r.o.Backlog.Add(taken)
	r.replayTo(out.CommitTo)
}

// replayTo makes the applier read the log up to an entry, unless that was collected.
func (r *Replica) replayTo(upTo jute.Zxid) {
	if upTo <= r.collected {
		return
	}
	r.leading.dropCommitted(upTo)
	r.collected = upTo
	if n := r.ready.Len(); n > 0 && r.ready.All()[n-1].Kind == OrderReplay {
		r.ready.All()[n-1].Zxid = upTo
		return
	}
	r.ready.Push(Order{Kind: OrderReplay, Entry: zab.Entry{Zxid: upTo}})
}

// roleChanged handles a change of the core's status. A service ends when the role ends in which
// clients were served, or when the link to the leader changes: requests may be lost with it.
func (r *Replica) roleChanged(out *Output) {
	was, now := r.status, r.Core.Status()
	r.status = now
	out.Was, out.Status = was, now
	if was.Role == now.Role && was.Leader == now.Leader && was.LeaderGen == now.LeaderGen {
		return // another epoch, weight or reason
	}
	if serves(was.Role) {
		r.endService()
		out.ServiceEnded = true
	}
	if now.Role == zab.Leading && was.Role != zab.Leading {
		r.lead(now)
	}
	if serves(now.Role) {
		r.beginService()
		out.ServiceBegan = now.Role == zab.Following || r.o.LeaderServes || !r.o.Ensemble
	}
	stopped := now.Role != zab.Leading && now.Role != zab.SyncingLeader
	stopped = stopped && !keptOverRoles.Planted()
	if stopped {
		r.leading.reset(r.o.Limits.Turn) // including what came too early
	}
}

// Holding counts what a replica holds in memory.
type Holding struct {
	Waiting, Proposals, Overlay, Log, Barriers, Reads, Ready int
	WaitingBytes, ProposalBytes, LogBytes                    int64
}

// Waiting returns the requests that a leader has not evaluated, those of a connection in their
// order. They are valid until the next call of another method.
func (r *Replica) Waiting() iter.Seq[*Submission] { return r.leading.waiting.All() }

func (r *Replica) Held() Holding {
	l := &r.leading
	h := Holding{
		Waiting: l.waiting.Len() + l.unknown.Len(), WaitingBytes: l.bytes,
		Proposals: l.proposals.kept.Len(), ProposalBytes: l.proposals.bytes,
		Log: r.logged.Len(), LogBytes: r.logging,
		Barriers: r.barriers.Len(), Reads: len(r.reads), Ready: r.ready.Len(),
	}
	if l.evaluator != nil {
		h.Overlay = l.evaluator.Pending()
	}
	return h
}
