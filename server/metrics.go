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
	proposalSizes                                     proposalSizes

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

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		applySeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "zkd_apply_seconds",
			Help:    "Time under the tree's write lock to apply a batch of transactions.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10),
		}),
	}
}

func (m *metrics) resetLatencies() {
	m.reads.reset()
	m.writes.reset()
	m.packetsReceived.Store(0)
	m.packetsSent.Store(0)
}
