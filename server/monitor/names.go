package monitor

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// number is a number under ZooKeeper's name. mntr puts zk_ before it,
// Prometheus nothing.
type number struct {
	name    string
	help    string
	counter bool
	float   bool // not an integer
	value   func(*Reading) float64
}

// integer makes a metric of an integer.
func integer[T ~int | ~int64 | ~int32](f func(*Reading) T) func(*Reading) float64 {
	return func(r *Reading) float64 { return float64(f(r)) }
}

// condition makes a metric of a condition.
func condition(f func(*Reading) bool) func(*Reading) float64 {
	return func(r *Reading) float64 {
		if f(r) {
			return 1
		}
		return 0
	}
}

// numbers are the gauges and counters with ZooKeeper's names (docs/spec/admin.md
// section 9). What zkd has no equivalent of is left out.
var numbers = []number{
	{name: "avg_latency", help: "Mean time from request to reply, ms.", float: true, value: (*Reading).AvgLatency},
	{name: "max_latency", help: "Longest time from request to reply, ms.", value: integer((*Reading).MaxLatency)},
	{name: "min_latency", help: "Shortest time from request to reply, ms.", value: integer((*Reading).MinLatency)},
	{name: "packets_received", help: "Requests received.", value: integer(func(r *Reading) int64 { return r.PacketsReceived.Load() })},
	{name: "packets_sent", help: "Replies and notifications sent.", value: integer(func(r *Reading) int64 { return r.PacketsSent.Load() })},
	{name: "num_alive_connections", help: "Client connections.", value: integer(func(r *Reading) int { return r.Connections })},
	{name: "outstanding_requests", help: "Requests that wait for the leader.", value: integer(func(r *Reading) int64 { return r.WaitingRequests })},
	{name: "znode_count", help: "Znodes; the root counts twice.", value: integer(func(r *Reading) int { return r.Tree.Nodes })},
	{name: "watch_count", help: "Watches.", value: integer(func(r *Reading) int { return r.Watches })},
	{name: "ephemerals_count", help: "Ephemeral znodes.", value: integer(func(r *Reading) int { return r.Tree.Ephemerals })},
	{name: "approximate_data_size", help: "Bytes of paths and data.", value: integer(func(r *Reading) int64 { return r.Tree.DataSize })},
	{name: "global_sessions", help: "Sessions.", value: integer(func(r *Reading) int { return r.Sessions })},
	{name: "local_sessions", help: "Sessions that only this server knows.", value: integer(func(r *Reading) int { return r.LocalSessions })},
	{name: "open_file_descriptor_count", help: "Open file descriptors of the process.", value: integer(func(r *Reading) int64 { return r.OpenFiles })},
	{name: "max_file_descriptor_count", help: "Limit of open file descriptors.", value: integer(func(r *Reading) int64 { return r.MaxFiles })},
	{name: "uptime", help: "Time since the server began to serve, ms.", value: integer(func(r *Reading) int64 { return r.Uptime.Milliseconds() })},
	{name: "last_client_response_size", help: "Bytes of the last reply or notification; -1 before the first.", value: integer(func(r *Reading) int64 { return r.ResponseSizes.Last.Load() })},
	{name: "min_client_response_size", help: "Bytes of the smallest reply or notification; -1 before the first.", value: integer(func(r *Reading) int64 { return r.ResponseSizes.Least.Load() })},
	{name: "max_client_response_size", help: "Bytes of the largest reply or notification; -1 before the first.", value: integer(func(r *Reading) int64 { return r.ResponseSizes.Most.Load() })},
	{name: "connection_drop_probability", help: "Probability that the connection throttle drops a connection while it has tokens; always 0.", float: true, value: func(*Reading) float64 { return 0 }},
	{name: "auth_failed_count", help: "Auth packets and logins by SASL refused.", value: integer(func(r *Reading) int64 { return r.AuthFailed.Load() })},

	{name: "proposal_count", help: "Transactions proposed.", counter: true, value: integer(func(r *Reading) int64 { return r.Proposals.Load() })},
	{name: "commit_count", help: "Transactions committed and applied.", counter: true, value: integer(func(r *Reading) int64 { return r.Commits.Load() })},
	{name: "request_commit_queued", help: "Committed transactions queued to be applied.", counter: true, value: integer(func(r *Reading) int64 { return r.CommitsQueued.Load() })},
	{name: "snap_count", help: "Snapshots sent to learners.", counter: true, value: integer(func(r *Reading) int64 { return r.SnapshotsSent.Load() })},
	{name: "diff_count", help: "Diffs sent to learners.", counter: true, value: func(*Reading) float64 { return 0 }},
	{name: "looking_count", help: "Elections begun.", counter: true, value: integer(func(r *Reading) int64 { return r.Elections.Load() })},
	{name: "connection_request_count", help: "Connect requests.", counter: true, value: integer(func(r *Reading) int64 { return r.ConnectionRequests.Load() })},
	{name: "connection_drop_count", help: "Connections refused by the connection throttle.", counter: true, value: integer(func(r *Reading) int64 { return r.ConnectionDrops.Load() })},
	{name: "connection_rejected", help: "Connections refused by maxClientCnxns or maxCnxns.", counter: true, value: integer(func(r *Reading) int64 { return r.ConnectionRejected.Load() })},
	{name: "sessionless_connections_expired", help: "Connections closed that sent no connect request in time.", counter: true, value: integer(func(r *Reading) int64 { return r.Sessionless.Load() })},
	{name: "stale_sessions_expired", help: "Sessions expired.", counter: true, value: integer(func(r *Reading) int64 { return r.SessionsExpired.Load() })},
	{name: "throttled_ops", help: "Requests refused because they had waited too long.", counter: true, value: integer(func(r *Reading) int64 { return r.ThrottledOps.Load() })},
	{name: "large_requests_rejected", help: "Connections closed by largeRequestMaxBytes.", counter: true, value: integer(func(r *Reading) int64 { return r.LargeRejected.Load() })},
	{name: "request_throttle_wait_count", help: "Times that a connection was paused by globalOutstandingLimit.", counter: true, value: integer(func(r *Reading) int64 { return r.Stalls })},
	{name: "bytes_received_count", help: "Bytes received from clients.", counter: true, value: integer(func(r *Reading) int64 { return r.BytesReceived.Load() })},
	{name: "response_bytes", help: "Bytes sent to clients.", counter: true, value: integer(func(r *Reading) int64 { return r.BytesSent.Load() })},
	{name: "watch_bytes", help: "Bytes of notifications.", counter: true, value: integer(func(r *Reading) int64 { return r.WatchBytes.Load() })},
	{name: "dead_watchers_cleared", help: "Closed connections whose watches were removed.", counter: true, value: integer(func(r *Reading) int64 { return r.DeadWatchers.Load() })},
	{name: "digest_mismatches_count", help: "Digests that differed from the expected one.", counter: true, value: integer(func(r *Reading) int64 { return r.DigestMismatches.Load() })},
	{name: "unrecoverable_error_count", help: "Errors that stop the server.", counter: true, value: integer(func(r *Reading) int64 { return r.Unrecoverable.Load() })},
	{name: "snapshot_error_count", help: "Snapshots that failed.", counter: true, value: integer(func(r *Reading) int64 { return r.SnapshotErrors.Load() })},
	{name: "ttl_node_deleted_count", help: "Containers and TTL nodes removed when due.", counter: true, value: integer(func(r *Reading) int64 { return r.ContainersDeleted.Load() })},
}

// ownNumbers are those that ZooKeeper does not have. Prometheus shows them, and mntr
// those about a full disk.
var ownNumbers = []number{
	{name: "zkd_skipped_operations_total", help: "Committed operations that the tree could not apply; anything but 0 is a bug.", counter: true, value: integer(func(r *Reading) int64 { return int64(r.Tree.Skipped) })},
	{name: "zkd_waiting_requests_bytes", help: "Memory of requests that wait for the leader.", value: integer(func(r *Reading) int64 { return r.WaitingBytes })},
	{name: "zkd_large_requests_bytes", help: "Bytes of large requests that wait, which largeRequestMaxBytes bounds.", value: integer(func(r *Reading) int64 { return r.LargeBytes })},
	{name: "zkd_apply_work_max", help: "Most changes, events and answers under one hold of the tree's lock.", value: integer(func(r *Reading) int64 { return int64(r.ApplyWork.Max()) })},
	{name: "zkd_turn_work_max", help: "Most requests and changes that were evaluated in one turn of the peer loop.", value: integer(func(r *Reading) int64 { return int64(r.TurnWork.Max()) })},
	{name: "zkd_leader_queue_length", help: "Requests that the leader has not taken yet.", value: integer(func(r *Reading) int { return r.LeaderQueue })},
	{name: "zkd_applier_queue_length", help: "Committed transactions that are not applied yet.", value: integer(func(r *Reading) int { return r.ApplierQueue })},
	{name: "zkd_replayed_entries_total", help: "Committed entries that were read from the log to be applied, since they were not in memory.", counter: true, value: integer(func(r *Reading) int64 { return r.Replayed.Load() })},
	{name: "zkd_wal_since_snapshot_bytes", help: "Log behind the last snapshot: what a restart replays.", value: integer(func(r *Reading) int64 { return r.LogAfterSnapshot })},
	{name: "zkd_snapshot_bytes", help: "Size of the last snapshot.", value: integer(func(r *Reading) int64 { return r.SnapshotBytes })},
	{name: "zkd_disk_full", help: "1 while the log's disk has too little room for writes.", value: condition(func(r *Reading) bool { return r.DiskFull })},
	{name: "zkd_writes_refused", help: "1 while this server, as a leader or alone, refuses writes for want of room on disks.", value: condition(func(r *Reading) bool { return r.RefusesWrites })},
	{name: "zkd_connections_to_move", help: "Connections that a drain is still to end.", value: integer(func(r *Reading) int { return r.ToMove })},
	{name: "zkd_keeps_clients_away", help: "1 while a drain keeps clients away.", value: condition(func(r *Reading) bool { return r.KeepsAway })},
	{name: "zkd_clients_kept_away_total", help: "Connections refused because a drain keeps clients away.", counter: true, value: integer(func(r *Reading) int64 { return r.KeptAway.Load() })},
	{name: "zkd_bad_passwords_total", help: "Sessions that somebody tried to resume with a wrong password.", counter: true, value: integer(func(r *Reading) int64 { return r.BadPasswords.Load() })},
	{name: "zkd_auth_delayed_total", help: "Attempts to authenticate that had to wait because of failed ones of their address.", counter: true, value: integer(func(r *Reading) int64 { return r.AuthDelayed.Load() })},
	{name: "zkd_auth_refused_total", help: "Attempts to authenticate that were refused unseen because of failed ones of their address.", counter: true, value: integer(func(r *Reading) int64 { return r.AuthRefused.Load() })},
	{name: "zkd_autopilot_demoted_total", help: "Voters that autopilot has made observers, on this server as a leader.", counter: true, value: integer(func(r *Reading) int64 { return r.Demoted.Load() })},
	{name: "zkd_autopilot_promoted_total", help: "Observers that autopilot has made voters again, on this server as a leader.", counter: true, value: integer(func(r *Reading) int64 { return r.Promoted.Load() })},
	{name: "zkd_containers", help: "Container znodes.", value: integer(func(r *Reading) int { return r.Tree.Containers })},
	{name: "zkd_joiners", help: "Servers that a leader is bringing up to date.", value: learnersThat(func(p *zab.PeerStatus) bool { return !p.Synced })},
	{name: "zkd_learner_reads_waiting", help: "Learners for which a leader waits for its log.", value: integer(func(r *Reading) int64 { return r.LearnerReads })},
	{name: "zkd_snapshots_arriving", help: "Snapshots that other servers are sending, read or not.", value: integer(func(r *Reading) int { return len(r.Arriving) })},
	{name: "zkd_ttl_nodes", help: "Znodes with a time to live.", value: integer(func(r *Reading) int { return r.Tree.TTLs })},
}

// memberNumber is a number that only some servers of an ensemble show.
type memberNumber struct {
	number
	leader bool // only a leader
}

// memberNumbers have ZooKeeper's names.
var memberNumbers = []memberNumber{
	{number{name: "quorum_size", help: "Voters of the ensemble.", value: func(r *Reading) float64 { return float64(r.Voters) }}, false},
	{number{name: "member_list_differs", help: "1 if the configuration file of this server has another list of members than the ensemble.", value: func(r *Reading) float64 {
		if r.Role.FileDiffers {
			return 1
		}
		return 0
	}}, false},
	{number{name: "peers_with_other_member_list", help: "Servers whose configuration files have another list of members than that of this server.", value: func(r *Reading) float64 {
		return float64(r.Role.OtherFiles)
	}}, false},
	{number{name: "learners", help: "Followers and observers in service.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced })}, true},
	{number{name: "synced_followers", help: "Voters in service, without the leader.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && p.Counted })}, true},
	{number{name: "synced_observers", help: "Observers in service.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && p.Observer })}, true},
	{number{name: "synced_non_voting_followers", help: "Followers in service that are not counted.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && !p.Counted })}, true},
	{number{name: "pending_syncs", help: "Sync requests that wait.", value: func(r *Reading) float64 { return float64(r.PendingSyncs.Load()) }}, true},
	{number{name: "leader_uptime", help: "Time since this server leads, ms.", value: func(r *Reading) float64 {
		return float64(r.LeaderUptime.Milliseconds())
	}}, true},
	{number{name: "last_proposal_size", help: "Bytes of the leader's last proposal.", value: func(r *Reading) float64 { return float64(r.ProposalSizes.Last.Load()) }}, true},
	{number{name: "min_proposal_size", help: "Bytes of the leader's smallest proposal.", value: func(r *Reading) float64 { return float64(r.ProposalSizes.Least.Load()) }}, true},
	{number{name: "max_proposal_size", help: "Bytes of the leader's largest proposal.", value: func(r *Reading) float64 { return float64(r.ProposalSizes.Most.Load()) }}, true},
}

// learnersThat counts the learners for which is holds.
func learnersThat(is func(*zab.PeerStatus) bool) func(*Reading) float64 {
	return func(r *Reading) float64 {
		n := 0
		for i := range r.Peers {
			if is(&r.Peers[i]) {
				n++
			}
		}
		return float64(n)
	}
}

// shown reports whether the server that r looks at has the metric now.
func (m *memberNumber) shown(r *Reading) bool {
	return r.Ensemble && r.Serving && (!m.leader || r.Role.Role == zab.Leading)
}

// summary is a distribution under ZooKeeper's name, in ms or in units.
type summary struct {
	name     string
	help     string
	advanced bool // with high quantiles
	scale    float64
	of       func(*Metrics) *Histogram
}

const inMs = 1e-6

// summaries are the distributions with ZooKeeper's names.
var summaries = []summary{
	{"readlatency", "Time from a read's arrival to its reply, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Reads }},
	{"updatelatency", "Time from a write's arrival to its reply, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Writes }},
	{"propagation_latency", "Time from a write's arrival to its application, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Writes }},
	{"fsynctime", "Time of a sync of the log, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Fsync }},
	{"snapshottime", "Time to write a snapshot, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Snapshot }},
	{"sync_processor_batch_size", "Transactions made durable by one sync.", false, 1, func(m *Metrics) *Histogram { return &m.Batch }},
	{"prep_processor_queue_size", "Requests that the leader took from its queue at once.", false, 1, func(m *Metrics) *Histogram { return &m.Taken }},
	{"node_created_watch_count", "Watches fired by a create.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventCreated] }},
	{"node_deleted_watch_count", "Watches fired by a delete.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventDeleted] }},
	{"node_changed_watch_count", "Watches fired by a change of data.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventDataChanged] }},
	{"node_children_watch_count", "Watches fired by a change of children.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventChildrenChanged] }},
	{"election_time", "Time without a leader in service, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Election }},
	{"dbinittime", "Time to load the state at the start, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Load }},
}

// AvgLatency returns the mean time from a request to its reply, ms.
func (r *Reading) AvgLatency() float64 {
	if n := r.Reads.Count() + r.Writes.Count(); n > 0 {
		return float64(r.Reads.Sum()+r.Writes.Sum()) / float64(n) / 1e6
	}
	return 0
}

// MaxLatency is the longest.
func (r *Reading) MaxLatency() int64 { return max(r.Reads.Most(), r.Writes.Most()) }

// MinLatency is the shortest; 0 before the first request.
func (r *Reading) MinLatency() int64 {
	switch {
	case r.Reads.Count() == 0:
		return r.Writes.Least()
	case r.Writes.Count() == 0:
		return r.Reads.Least()
	}
	return min(r.Reads.Least(), r.Writes.Least())
}
