package monitor

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// Metrics are a server's counters. Package show has their names.
type Metrics struct {
	PacketsReceived, PacketsSent                      atomic.Int64
	ConnectionRequests, ConnectionDrops               atomic.Int64
	ConnectionRejected, Sessionless                   atomic.Int64
	AuthFailed, BadPasswords, KeptAway                atomic.Int64
	AuthDelayed, AuthRefused                          atomic.Int64
	ThrottledOps, LargeRejected                       atomic.Int64
	RepliesLong, RepliesRefused                       atomic.Int64 // longer than jute.maxbuffer; than zkd.maxReply
	UnreadClosed                                      atomic.Int64 // connections whose clients did not read
	LastLongReply                                     atomic.Int64 // time.Duration, of either
	BytesReceived, BytesSent, WatchBytes              atomic.Int64
	Proposals, Commits, SnapshotErrors, Unrecoverable atomic.Int64
	SessionsExpired, ContainersDeleted                atomic.Int64
	Elections, SnapshotsSent, DigestMismatches        atomic.Int64
	Demoted, Promoted                                 atomic.Int64           // by autopilot
	OutOfRoom, WatchesRefused                         atomic.Int64           // writes, and watches, refused for want of memory
	Broken                                            atomic.Int64           // requests refused because their evaluation failed
	BrokenRequest                                     atomic.Pointer[string] // the last one; nil for none
	Traced, TracesDropped                             atomic.Int64           // sampled requests
	PendingSyncs                                      atomic.Int64
	Replayed                                          atomic.Int64 // entries that the applier read from the log
	LeadsFrom                                         atomic.Int64 // time.Duration
	CommitsQueued, DeadWatchers                       atomic.Int64
	LogQueued, EvaluationQueued                       atomic.Int64 // entries given to the log; requests to the leader
	LearnerProposals, LearnerCommits                  atomic.Int64
	Revalidations, NotServing                         atomic.Int64
	ProposalSizes, ResponseSizes                      Sizes

	Requests Requests
	// PerNamespace are the bytes of reads and writes, by the first name of their paths.
	ReadPerNamespace, WritePerNamespace Namespaces
	QuotaErrors                         Namespaces // writes that a hard quota rejected, without their bytes

	// Of an entry, on each server: from its arrival there until it is durable; until it is
	// known to be committed; and from then until it is applied.
	Logged, Committed          Durations
	AppliedOwn, AppliedOthers  Durations // by whether its client is connected here
	QuorumAck                  Durations // Committed, of a leader
	Propagation, ProposalDelay Durations // from the leader's clock at its evaluation until it is applied; until it arrives at a follower
	QueueTime, Evaluation      Durations // of a request in the leader's queue; of a request while it is evaluated
	Fsync                      Durations
	Snapshot                   Durations
	Load                       Durations // of the state at the start
	LoadSnapshot, LoadLog      Durations // its two parts
	Election                   Durations // time without a leader, from the beginning of an election
	Unavailable                Durations // from one role in service to the next
	LeaderUnavailable          Durations // Unavailable, of a server that leads afterwards
	FollowerSync, ObserverSync Durations // until a leader has brought this server up to date
	Applying                   Durations // one hold of the tree's lock

	LoadedTxns       Counts // entries of the log that were applied at the start
	Batch            Counts // transactions per fsync
	Unlogged         Counts // entries at the log that are not durable
	Taken            Counts // requests per turn of the leader
	Orders           Counts // orders that the applier takes at once
	WaitingWrites    Counts // requests of clients that wait for the leader
	ReadsAfterWrite  Counts // reads served after a write of their connection was
	SendingSnapshots Counts // snapshots on their way when one is sent
	ApplyWork        Counts // units of work under one hold of the tree's lock
	TurnWork         Counts // units of work that a leader evaluates in one turn of the peer loop
	// Fired counts the watchers notified of an event, by its type.
	Fired [jute.EventChildrenChanged + 1]Counts
}

// Sizes are the sizes of things in bytes: of the last one, the smallest and the
// largest. They are -1 before the first.
type Sizes struct{ Last, Least, Most atomic.Int64 }

func (s *Sizes) Reset() {
	s.Last.Store(-1)
	s.Least.Store(-1)
	s.Most.Store(-1)
}

// Observe counts one of n bytes.
func (s *Sizes) Observe(n int) { s.ObserveAll(int64(n), int64(n), int64(n)) }

// ObserveAll counts several, of which it gets the last, the smallest and the largest.
func (s *Sizes) ObserveAll(last, least, most int64) {
	s.Last.Store(last)
	for {
		before := s.Least.Load()
		if before >= 0 && least >= before || s.Least.CompareAndSwap(before, least) {
			break
		}
	}
	for {
		before := s.Most.Load()
		if most <= before || s.Most.CompareAndSwap(before, most) {
			break
		}
	}
}

// NewMetrics returns counters that are zero.
func NewMetrics() *Metrics {
	m := &Metrics{}
	m.ProposalSizes.Reset()
	m.ResponseSizes.Reset()
	return m
}
