package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// reading is one look at everything that the metrics are made from, so that
// they agree with each other.
type reading struct {
	*Server
	tree     datatree.Stats
	watches  int
	sessions int
	maxFDs   int64
	openFDs  int64
}

func (s *Server) read() *reading {
	r := &reading{Server: s, watches: s.state.watches.Count()}
	s.state.mu.RLock()
	r.tree = s.state.tree.Stats()
	r.sessions = s.state.tree.NumSessions()
	s.state.mu.RUnlock()
	r.openFDs, r.maxFDs = fileDescriptors()
	return r
}

// zkMetric is a number under ZooKeeper's name. mntr puts zk_ before it,
// Prometheus nothing.
type zkMetric struct {
	name    string
	help    string
	counter bool
	float   bool // not an integer
	value   func(*reading) float64
}

// integer makes a metric of an integer.
func integer[T ~int | ~int64 | ~int32](f func(*reading) T) func(*reading) float64 {
	return func(r *reading) float64 { return float64(f(r)) }
}

// condition makes a metric of a condition.
func condition(f func(*reading) bool) func(*reading) float64 {
	return func(r *reading) float64 {
		if f(r) {
			return 1
		}
		return 0
	}
}

// zkMetrics are the gauges and counters with ZooKeeper's names (admin.md
// section 9). What zkd has no equivalent of is left out.
var zkMetrics = []zkMetric{
	{name: "avg_latency", help: "Mean time from request to reply, ms.", float: true, value: (*reading).avgLatency},
	{name: "max_latency", help: "Longest time from request to reply, ms.", value: integer((*reading).maxLatency)},
	{name: "min_latency", help: "Shortest time from request to reply, ms.", value: integer((*reading).minLatency)},
	{name: "packets_received", help: "Requests received.", value: integer(func(r *reading) int64 { return r.metrics.packetsReceived.Load() })},
	{name: "packets_sent", help: "Replies and notifications sent.", value: integer(func(r *reading) int64 { return r.metrics.packetsSent.Load() })},
	{name: "num_alive_connections", help: "Client connections.", value: integer(func(r *reading) int { return r.conns.len() })},
	{name: "outstanding_requests", help: "Requests that wait for the leader.", value: integer(func(r *reading) int64 { return r.throttler.waiting.Load() })},
	{name: "znode_count", help: "Znodes; the root counts twice.", value: integer(func(r *reading) int { return r.tree.Nodes })},
	{name: "watch_count", help: "Watches.", value: integer(func(r *reading) int { return r.watches })},
	{name: "ephemerals_count", help: "Ephemeral znodes.", value: integer(func(r *reading) int { return r.tree.Ephemerals })},
	{name: "approximate_data_size", help: "Bytes of paths and data.", value: integer(func(r *reading) int64 { return r.tree.DataSize })},
	{name: "global_sessions", help: "Sessions.", value: integer(func(r *reading) int { return r.sessions })},
	{name: "local_sessions", help: "Sessions that only this server knows.", value: integer(func(r *reading) int { return r.locals.Len() })},
	{name: "open_file_descriptor_count", help: "Open file descriptors of the process.", value: integer(func(r *reading) int64 { return r.openFDs })},
	{name: "max_file_descriptor_count", help: "Limit of open file descriptors.", value: integer(func(r *reading) int64 { return r.maxFDs })},
	{name: "uptime", help: "Time since the server began to serve, ms.", value: integer((*reading).uptimeMs)},
	{name: "last_client_response_size", help: "Bytes of the last reply or notification; -1 before the first.", value: integer(func(r *reading) int64 { return r.metrics.responseSizes.last.Load() })},
	{name: "min_client_response_size", help: "Bytes of the smallest reply or notification; -1 before the first.", value: integer(func(r *reading) int64 { return r.metrics.responseSizes.least.Load() })},
	{name: "max_client_response_size", help: "Bytes of the largest reply or notification; -1 before the first.", value: integer(func(r *reading) int64 { return r.metrics.responseSizes.most.Load() })},
	{name: "connection_drop_probability", help: "Probability that the connection throttle drops a connection while it has tokens; always 0.", float: true, value: func(*reading) float64 { return 0 }},
	{name: "auth_failed_count", help: "Auth packets refused.", value: integer(func(r *reading) int64 { return r.metrics.authFailed.Load() })},

	{name: "proposal_count", help: "Transactions proposed.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.proposals.Load() })},
	{name: "commit_count", help: "Transactions committed and applied.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.commits.Load() })},
	{name: "request_commit_queued", help: "Committed transactions queued to be applied.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.commitsQueued.Load() })},
	{name: "snap_count", help: "Snapshots sent to learners.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.snapshotsSent.Load() })},
	{name: "diff_count", help: "Diffs sent to learners.", counter: true, value: func(*reading) float64 { return 0 }},
	{name: "looking_count", help: "Elections begun.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.elections.Load() })},
	{name: "connection_request_count", help: "Connect requests.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.connectionRequests.Load() })},
	{name: "connection_drop_count", help: "Connections refused by the connection throttle.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.connectionDrops.Load() })},
	{name: "connection_rejected", help: "Connections refused by maxClientCnxns or maxCnxns.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.connectionRejected.Load() })},
	{name: "sessionless_connections_expired", help: "Connections closed that sent no connect request in time.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.sessionless.Load() })},
	{name: "stale_sessions_expired", help: "Sessions expired.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.sessionsExpired.Load() })},
	{name: "throttled_ops", help: "Requests refused because they had waited too long.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.throttledOps.Load() })},
	{name: "large_requests_rejected", help: "Connections closed by largeRequestMaxBytes.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.largeRejected.Load() })},
	{name: "request_throttle_wait_count", help: "Times that a connection was paused by globalOutstandingLimit.", counter: true, value: integer(func(r *reading) int64 { return r.throttler.stalls.Load() })},
	{name: "bytes_received_count", help: "Bytes received from clients.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.bytesReceived.Load() })},
	{name: "response_bytes", help: "Bytes sent to clients.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.bytesSent.Load() })},
	{name: "watch_bytes", help: "Bytes of notifications.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.watchBytes.Load() })},
	{name: "dead_watchers_cleared", help: "Closed connections whose watches were removed.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.deadWatchers.Load() })},
	{name: "digest_mismatches_count", help: "Digests that differed from the expected one.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.digestMismatches.Load() })},
	{name: "unrecoverable_error_count", help: "Errors that stop the server.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.unrecoverable.Load() })},
	{name: "snapshot_error_count", help: "Snapshots that failed.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.snapshotErrors.Load() })},
	{name: "ttl_node_deleted_count", help: "Containers and TTL nodes removed when due.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.containersDeleted.Load() })},
}

// ownMetrics are those that ZooKeeper does not have. Prometheus shows them, and mntr
// those about a full disk.
var ownMetrics = []zkMetric{
	{name: "zkd_skipped_operations_total", help: "Committed operations that the tree could not apply; anything but 0 is a bug.", counter: true, value: integer(func(r *reading) int64 { return int64(r.tree.Skipped) })},
	{name: "zkd_waiting_requests_bytes", help: "Memory of requests that wait for the leader.", value: integer(func(r *reading) int64 { return r.throttler.bytes.Load() })},
	{name: "zkd_apply_work_max", help: "Most changes, events and answers under one hold of the tree's lock.", value: integer(func(r *reading) int64 { return r.metrics.applyWork.max.Load() })},
	{name: "zkd_turn_work_max", help: "Most requests and changes that were evaluated in one turn of the peer loop.", value: integer(func(r *reading) int64 { return r.metrics.turnWork.max.Load() })},
	{name: "zkd_leader_queue_length", help: "Requests that the leader has not taken yet.", value: integer(func(r *reading) int { return r.loop.in.len() })},
	{name: "zkd_applier_queue_length", help: "Committed transactions that are not applied yet.", value: integer(func(r *reading) int { return r.applier.in.len() })},
	{name: "zkd_replayed_entries_total", help: "Committed entries that were read from the log to be applied, since they were not in memory.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.replayed.Load() })},
	{name: "zkd_wal_since_snapshot_bytes", help: "Log behind the last snapshot: what a restart replays.", value: integer(func(r *reading) int64 { return r.logWriter.Stats().SinceSnapRef })},
	{name: "zkd_snapshot_bytes", help: "Size of the last snapshot.", value: integer(func(r *reading) int64 { return r.snapshots.size.Load() })},
	{name: "zkd_disk_full", help: "1 while the log's disk has too little room for writes.", value: condition((*reading).diskFull)},
	{name: "zkd_writes_refused", help: "1 while this server, as a leader or alone, refuses writes for want of room on disks.", value: condition((*reading).refusesWrites)},
	{name: "zkd_bad_passwords_total", help: "Sessions that somebody tried to resume with a wrong password.", counter: true, value: integer(func(r *reading) int64 { return r.metrics.badPasswords.Load() })},
	{name: "zkd_containers", help: "Container znodes.", value: integer(func(r *reading) int { return r.tree.Containers })},
	{name: "zkd_joiners", help: "Servers that a leader is bringing up to date.", value: learnersThat(func(p *zab.PeerStatus) bool { return !p.Synced })},
	{name: "zkd_learner_reads_waiting", help: "Learners for which a leader waits for its log.", value: integer(func(r *reading) int64 { return r.loop.learners.waiting.Load() })},
	{name: "zkd_snapshots_arriving", help: "Snapshots that other servers are sending, read or not.", value: integer(func(r *reading) int { return len(r.loop.arrivals.sizes()) })},
	{name: "zkd_ttl_nodes", help: "Znodes with a time to live.", value: integer(func(r *reading) int { return r.tree.TTLs })},
}

// transferMetrics tell how far snapshots on their way have got.
var transferMetrics = []struct {
	done, size *prometheus.Desc
	list       func(*reading) []transfer
}{
	{
		prometheus.NewDesc("zkd_snapshot_sent_bytes", "Bytes of the snapshot on its way to a server that have been sent.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_sending_bytes", "Size of the snapshot on its way to a server.", []string{"peer"}, nil),
		func(r *reading) []transfer { return r.loop.learners.sizes() },
	},
	{
		prometheus.NewDesc("zkd_snapshot_received_bytes", "Bytes of the snapshot on its way from a server that have come.", []string{"peer"}, nil),
		prometheus.NewDesc("zkd_snapshot_receiving_bytes", "Size of the snapshot on its way from a server.", []string{"peer"}, nil),
		func(r *reading) []transfer { return r.loop.arrivals.sizes() },
	},
}

// zkSummary is a distribution under ZooKeeper's name, in ms or in units.
type zkSummary struct {
	name     string
	help     string
	advanced bool // with high quantiles
	scale    float64
	of       func(*metrics) *latency
}

const inMs = 1e-6

// zkSummaries are the distributions with ZooKeeper's names.
var zkSummaries = []zkSummary{
	{"readlatency", "Time from a read's arrival to its reply, ms.", true, inMs, func(m *metrics) *latency { return &m.reads }},
	{"updatelatency", "Time from a write's arrival to its reply, ms.", true, inMs, func(m *metrics) *latency { return &m.writes }},
	{"propagation_latency", "Time from a write's arrival to its application, ms.", true, inMs, func(m *metrics) *latency { return &m.writes }},
	{"fsynctime", "Time of a sync of the log, ms.", false, inMs, func(m *metrics) *latency { return &m.fsync }},
	{"snapshottime", "Time to write a snapshot, ms.", false, inMs, func(m *metrics) *latency { return &m.snapshot }},
	{"sync_processor_batch_size", "Transactions made durable by one sync.", false, 1, func(m *metrics) *latency { return &m.batch }},
	{"prep_processor_queue_size", "Requests that the leader took from its queue at once.", false, 1, func(m *metrics) *latency { return &m.taken }},
	{"node_created_watch_count", "Watches fired by a create.", false, 1, func(m *metrics) *latency { return &m.fired[jute.EventCreated] }},
	{"node_deleted_watch_count", "Watches fired by a delete.", false, 1, func(m *metrics) *latency { return &m.fired[jute.EventDeleted] }},
	{"node_changed_watch_count", "Watches fired by a change of data.", false, 1, func(m *metrics) *latency { return &m.fired[jute.EventDataChanged] }},
	{"node_children_watch_count", "Watches fired by a change of children.", false, 1, func(m *metrics) *latency { return &m.fired[jute.EventChildrenChanged] }},
	{"election_time", "Time without a leader in service, ms.", false, inMs, func(m *metrics) *latency { return &m.election }},
	{"dbinittime", "Time to load the state at the start, ms.", false, inMs, func(m *metrics) *latency { return &m.load }},
}

func (r *reading) avgLatency() float64 {
	m := r.metrics
	if n := m.reads.count.Load() + m.writes.count.Load(); n > 0 {
		return float64(m.reads.sum.Load()+m.writes.sum.Load()) / float64(n) / 1e6
	}
	return 0
}

func (r *reading) maxLatency() int64 { return max(r.metrics.reads.most(), r.metrics.writes.most()) }

func (r *reading) minLatency() int64 {
	switch m := r.metrics; {
	case m.reads.count.Load() == 0:
		return m.writes.least()
	case m.writes.count.Load() == 0:
		return m.reads.least()
	default:
		return min(m.reads.least(), m.writes.least())
	}
}

func (r *reading) uptimeMs() int64 { return millis(r.now() - time.Duration(r.servingFrom.Load())) }

// heldMetrics show what is held, by part: see holding.
var heldMetrics = []struct {
	desc  *prometheus.Desc
	value func(holding) int64
}{
	{prometheus.NewDesc("zkd_held_items", "What is under way, by part.", []string{"part"}, nil), func(h holding) int64 { return h.items }},
	{prometheus.NewDesc("zkd_held_bytes", "Memory of what is under way, by part.", []string{"part"}, nil), func(h holding) int64 { return h.bytes }},
	{prometheus.NewDesc("zkd_held_limit_bytes", "Bound of zkd_held_bytes, by part; 0 where another part bounds it.", []string{"part"}, nil), func(h holding) int64 { return h.limit }},
}

// collector shows zkMetrics, ownMetrics, heldMetrics and zkSummaries to Prometheus.
type collector struct {
	server    *Server
	table     []zkMetric
	metrics   []*prometheus.Desc
	members   []*prometheus.Desc // of memberMetrics
	summaries []*prometheus.Desc
}

func newCollector(s *Server) *collector {
	c := &collector{server: s}
	c.table = slices.Concat(zkMetrics, ownMetrics)
	for _, m := range memberMetrics {
		c.members = append(c.members, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	for _, m := range c.table {
		c.metrics = append(c.metrics, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	for _, m := range zkSummaries {
		c.summaries = append(c.summaries, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.metrics {
		ch <- d
	}
	for _, d := range c.members {
		ch <- d
	}
	for _, d := range c.summaries {
		ch <- d
	}
	for _, m := range transferMetrics {
		ch <- m.done
		ch <- m.size
	}
	for _, m := range heldMetrics {
		ch <- m.desc
	}
}

// Collect is part of prometheus.Collector. It is not called before the state is
// there.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.server.read()
	for i, m := range c.table {
		kind := prometheus.GaugeValue
		if m.counter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.metrics[i], kind, m.value(r))
	}
	for i := range memberMetrics {
		if m := &memberMetrics[i]; m.shown(r) {
			ch <- prometheus.MustNewConstMetric(c.members[i], prometheus.GaugeValue, m.value(r))
		}
	}
	for _, m := range transferMetrics {
		for _, x := range m.list(r) {
			peer := strconv.Itoa(int(x.peer))
			ch <- prometheus.MustNewConstMetric(m.done, prometheus.GaugeValue, float64(x.done), peer)
			ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(x.size), peer)
		}
	}
	for p, h := range c.server.holdings() {
		for _, m := range heldMetrics {
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(m.value(h)), partNames[p])
		}
	}
	for i, m := range zkSummaries {
		l := m.of(c.server.metrics)
		quantiles := map[float64]float64{0.5: m.quantile(l, 0.5)}
		if m.advanced {
			quantiles[0.9] = m.quantile(l, 0.9)
			quantiles[0.95] = m.quantile(l, 0.95)
			quantiles[0.99] = m.quantile(l, 0.99)
		}
		ch <- prometheus.MustNewConstSummary(c.summaries[i], uint64(l.count.Load()),
			float64(l.sum.Load())*m.scale, quantiles)
	}
}

func (m *zkSummary) quantile(l *latency, q float64) float64 { return float64(l.quantile(q)) * m.scale }
