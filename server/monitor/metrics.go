package monitor

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/zkd-project/zkd/jute"
)

// Metrics are a server's counters. Those with ZooKeeper's names are read
// through the table of zkMetrics, for mntr and Prometheus alike; the zkd_* ones
// are Prometheus' own.
type Metrics struct {
	PacketsReceived, PacketsSent                      atomic.Int64
	ConnectionRequests, ConnectionDrops               atomic.Int64
	ConnectionRejected, Sessionless                   atomic.Int64
	AuthFailed, BadPasswords, KeptAway                atomic.Int64
	AuthDelayed, AuthRefused                          atomic.Int64
	ThrottledOps, LargeRejected                       atomic.Int64
	BytesReceived, BytesSent, WatchBytes              atomic.Int64
	Proposals, Commits, SnapshotErrors, Unrecoverable atomic.Int64
	SessionsExpired, ContainersDeleted                atomic.Int64
	Elections, SnapshotsSent, DigestMismatches        atomic.Int64
	Demoted, Promoted                                 atomic.Int64 // by autopilot
	PendingSyncs                                      atomic.Int64
	Replayed                                          atomic.Int64 // entries that the applier read from the log
	LeadsFrom                                         atomic.Int64 // time.Duration
	CommitsQueued, DeadWatchers                       atomic.Int64
	ProposalSizes, ResponseSizes                      Sizes

	Reads, Writes Histogram // from arrival to reply
	Fsync         Histogram
	Snapshot      Histogram
	Load          Histogram // of the state at the start
	Election      Histogram // from one role in service to the next
	Batch         Histogram // transactions per fsync, counted as nanoseconds
	Taken         Histogram // requests per turn of the leader, likewise
	ApplyWork     Histogram // what is done under one hold of the tree's lock, likewise
	TurnWork      Histogram // what a leader evaluates in one turn of the peer loop, likewise
	// Fired is how many heard of an event, by its type, likewise.
	Fired [jute.EventChildrenChanged + 1]Histogram

	ApplySeconds prometheus.Histogram
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

// NewMetrics returns counters that are zero. reg gets those that only Prometheus shows.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		ApplySeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "zkd_apply_seconds",
			Help:    "Time under the tree's write lock to apply a batch of transactions.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10),
		}),
	}
	m.ProposalSizes.Reset()
	m.ResponseSizes.Reset()
	return m
}

// ResetLatencies is the four-letter word srst.
func (m *Metrics) ResetLatencies() {
	m.Reads.Reset()
	m.Writes.Reset()
	m.PacketsReceived.Store(0)
	m.PacketsSent.Store(0)
	m.ResponseSizes.Reset()
}
