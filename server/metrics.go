package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/zkd-project/zkd/jute"
)

// metrics are the server's counters. Those with ZooKeeper's names are read
// through the table of zkMetrics, for mntr and Prometheus alike; the zkd_* ones
// are Prometheus' own.
type metrics struct {
	packetsReceived, packetsSent                      atomic.Int64
	connectionRequests, connectionDrops               atomic.Int64
	connectionRejected, sessionless                   atomic.Int64
	authFailed, badPasswords                          atomic.Int64
	throttledOps, largeRejected                       atomic.Int64
	bytesReceived, bytesSent, watchBytes              atomic.Int64
	proposals, commits, snapshotErrors, unrecoverable atomic.Int64
	sessionsExpired, containersDeleted                atomic.Int64
	elections, snapshotsSent, digestMismatches        atomic.Int64
	pendingSyncs                                      atomic.Int64
	replayed                                          atomic.Int64 // entries that the applier read from the log
	leadsFrom                                         atomic.Int64 // time.Duration
	commitsQueued, deadWatchers                       atomic.Int64
	proposalSizes, responseSizes                      sizes

	reads, writes latency // from arrival to reply
	fsync         latency
	snapshot      latency
	load          latency // of the state at the start
	election      latency // from one role in service to the next
	batch         latency // transactions per fsync, counted as nanoseconds
	taken         latency // requests per turn of the leader, likewise
	applyWork     latency // what is done under one hold of the tree's lock, likewise
	turnWork      latency // what a leader evaluates in one turn of the peer loop, likewise
	// fired is how many heard of an event, by its type, likewise.
	fired [jute.EventChildrenChanged + 1]latency

	applySeconds prometheus.Histogram
}

// sizes are the sizes of things in bytes: of the last one, the smallest and the
// largest. They are -1 before the first.
type sizes struct{ last, least, most atomic.Int64 }

func (s *sizes) reset() {
	s.last.Store(-1)
	s.least.Store(-1)
	s.most.Store(-1)
}

func (s *sizes) observe(n int) { s.observeAll(int64(n), int64(n), int64(n)) }

// merge observes the replies in a buffer.
func (s *sizes) merge(o *outBuffer) {
	if o.most > 0 {
		s.observeAll(int64(o.last), int64(o.least), int64(o.most))
	}
}

func (s *sizes) observeAll(last, least, most int64) {
	s.last.Store(last)
	for {
		before := s.least.Load()
		if before >= 0 && least >= before || s.least.CompareAndSwap(before, least) {
			break
		}
	}
	for {
		before := s.most.Load()
		if most <= before || s.most.CompareAndSwap(before, most) {
			break
		}
	}
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		applySeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "zkd_apply_seconds",
			Help:    "Time under the tree's write lock to apply a batch of transactions.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10),
		}),
	}
	m.proposalSizes.reset()
	m.responseSizes.reset()
	return m
}

func (m *metrics) resetLatencies() {
	m.reads.reset()
	m.writes.reset()
	m.packetsReceived.Store(0)
	m.packetsSent.Store(0)
	m.responseSizes.reset()
}
