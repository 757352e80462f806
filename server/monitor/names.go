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
	{name: "connection_revalidate_count", help: "Connect requests that resume a session.", counter: true, value: integer(func(r *Reading) int64 { return r.Revalidations.Load() })},
	{name: "cnxn_closed_without_zk_server_running", help: "Connections closed because this server did not serve clients.", counter: true, value: integer(func(r *Reading) int64 { return r.NotServing.Load() })},
	{name: "prep_processor_request_queued", help: "Requests handed over to be evaluated or forwarded to the leader.", counter: true, value: integer(func(r *Reading) int64 { return r.EvaluationQueued.Load() })},
	{name: "sync_processor_request_queued", help: "Entries handed over to the log.", counter: true, value: integer(func(r *Reading) int64 { return r.LogQueued.Load() })},
	{name: "learner_proposal_received_count", help: "Proposals received from a leader.", counter: true, value: integer(func(r *Reading) int64 { return r.LearnerProposals.Load() })},
	{name: "learner_commit_received_count", help: "Proposals of a leader that it has committed.", counter: true, value: integer(func(r *Reading) int64 { return r.LearnerCommits.Load() })},
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
// those of ownWords.
var ownNumbers = []number{
	{name: "zkd_skipped_operations_total", help: "Committed operations that the tree could not apply; anything but 0 is a bug.", counter: true, value: integer(func(r *Reading) int64 { return int64(r.Tree.Skipped) })},
	{name: "zkd_waiting_requests_bytes", help: "Memory of requests that wait for the leader.", value: integer(func(r *Reading) int64 { return r.WaitingBytes })},
	{name: "zkd_large_requests_bytes", help: "Bytes of large requests that wait, which largeRequestMaxBytes bounds.", value: integer(func(r *Reading) int64 { return r.LargeBytes })},
	{name: "zkd_apply_work_max", help: "Most changes, events and answers under one hold of the tree's lock.", value: integer(func(r *Reading) int64 { return int64(r.ApplyWork.Max()) })},
	{name: "zkd_turn_work_max", help: "Most requests and changes that were evaluated in one turn of the peer loop.", value: integer(func(r *Reading) int64 { return int64(r.TurnWork.Max()) })},
	{name: "zkd_leader_queue_length", help: "Requests that the leader has not taken yet.", value: integer(func(r *Reading) int { return r.LeaderQueue })},
	{name: "zkd_applier_queue_length", help: "Committed transactions that are not applied yet.", value: integer(func(r *Reading) int { return r.ApplierQueue })},
	{name: "zkd_replayed_entries_total", help: "Committed entries that were read from the log to be applied, since they were not in memory.", counter: true, value: integer(func(r *Reading) int64 { return r.Replayed.Load() })},
	{name: "zkd_wal_since_snapshot_bytes", help: "Log after the last snapshot: what a restart replays.", value: integer(func(r *Reading) int64 { return r.LogAfterSnapshot })},
	{name: "zkd_snapshot_bytes", help: "Size of the last snapshot.", value: integer(func(r *Reading) int64 { return r.SnapshotBytes })},
	{name: "zkd_disk_full", help: "1 while the log's disk has too little room for writes.", value: condition(func(r *Reading) bool { return r.DiskFull })},
	{name: "zkd_log_waits", help: "1 while no segment of the log can be begun for want of room, inodes or descriptors, so that this server has nothing durable.", value: condition(func(r *Reading) bool { return r.LogWaits })},
	{name: "zkd_writes_refused", help: "1 while this server, as a leader or alone, refuses writes for want of room on disks.", value: condition(func(r *Reading) bool { return r.RefusesWrites })},
	{name: "zkd_descriptors_clients", help: "File descriptors that connections of clients may have, of max_file_descriptor_count; 0 for no limit.", value: integer(func(r *Reading) int { return r.FilesForClients })},
	{name: "zkd_descriptors_http", help: "Those that the connections of each HTTP port may have.", value: integer(func(r *Reading) int { return r.FilesForHTTP })},
	{name: "zkd_descriptors_own", help: "Those that are left for the log, snapshots and links to other servers.", value: integer(func(r *Reading) int { return r.FilesForOwn })},
	{name: "zkd_connections_to_move", help: "Connections that a drain is still to end.", value: integer(func(r *Reading) int { return r.ToMove })},
	{name: "zkd_keeps_clients_away", help: "1 while a drain keeps clients away.", value: condition(func(r *Reading) bool { return r.KeepsAway })},
	{name: "zkd_clients_kept_away_total", help: "Connections refused because a drain keeps clients away.", counter: true, value: integer(func(r *Reading) int64 { return r.KeptAway.Load() })},
	{name: "zkd_bad_passwords_total", help: "Sessions that somebody tried to resume with a wrong password.", counter: true, value: integer(func(r *Reading) int64 { return r.BadPasswords.Load() })},
	{name: "zkd_auth_delayed_total", help: "Attempts to authenticate that had to wait because of failed ones of their address.", counter: true, value: integer(func(r *Reading) int64 { return r.AuthDelayed.Load() })},
	{name: "zkd_auth_refused_total", help: "Attempts to authenticate that were refused unseen because of failed ones of their address.", counter: true, value: integer(func(r *Reading) int64 { return r.AuthRefused.Load() })},
	{name: "zkd_traced_requests_total", help: "Requests that were sampled to be traced, on each server that took part in them.", counter: true, value: integer(func(r *Reading) int64 { return r.Traced.Load() })},
	{name: "zkd_traces_dropped_total", help: "Those of these that were not sent, since too many waited for the collector.", counter: true, value: integer(func(r *Reading) int64 { return r.TracesDropped.Load() })},
	{name: "zkd_autopilot_demoted_total", help: "Voters that autopilot has made observers, on this server as a leader.", counter: true, value: integer(func(r *Reading) int64 { return r.Demoted.Load() })},
	{name: "zkd_autopilot_promoted_total", help: "Observers that autopilot has made voters again, on this server as a leader.", counter: true, value: integer(func(r *Reading) int64 { return r.Promoted.Load() })},
	{name: "zkd_feeds", help: "Change feeds, with those of the admin pages.", value: integer(func(r *Reading) int64 { return r.Feeds })},
	{name: "zkd_feeds_refused_total", help: "Change feeds refused by zkd.maxFeeds or zkd.maxFeedsPerConnection.", counter: true, value: integer(func(r *Reading) int64 { return r.FeedsRefused })},
	{name: "zkd_feeds_displaced_total", help: "Change feeds ended by zkd.maxFeeds, so that a client with fewer could begin one.", counter: true, value: integer(func(r *Reading) int64 { return r.FeedsDisplaced })},
	{name: "zkd_feeds_compacted_total", help: "Change feeds that could not begin, or ended, because the changes that come next were forgotten: see zkd.feedHistoryKb.", counter: true, value: integer(func(r *Reading) int64 { return r.FeedsCompacted })},
	{name: "zkd_feed_history_bytes", help: "Memory of the changes that are kept for feeds.", value: integer(func(r *Reading) int { return r.FeedHistoryBytes })},
	{name: "zkd_views", help: "Subtrees that clients are reading at one zxid each.", value: integer(func(r *Reading) int64 { return r.Views })},
	{name: "zkd_views_refused_total", help: "Those refused by zkd.maxViews.", counter: true, value: integer(func(r *Reading) int64 { return r.ViewsRefused })},
	{name: "zkd_views_lost_total", help: "Those that ended before their last page: after zkd.viewSeconds, or since too much had changed.", counter: true, value: integer(func(r *Reading) int64 { return r.ViewsLost })},
	{name: "zkd_unread_closed_total", help: "Connections closed since their clients did not read their replies and events.", counter: true, value: integer(func(r *Reading) int64 { return r.UnreadClosed.Load() })},
	{name: "zkd_replies_long_total", help: "Replies longer than jute.maxbuffer, at which Java's clients end the connection unless they set a larger one.", counter: true, value: integer(func(r *Reading) int64 { return r.RepliesLong.Load() })},
	{name: "zkd_replies_refused_total", help: "Replies that were not made because they would be longer than zkd.maxReply.", counter: true, value: integer(func(r *Reading) int64 { return r.RepliesRefused.Load() })},
	{name: "zkd_memory_live_bytes", help: "Memory that the last garbage collection left.", value: integer(func(r *Reading) int64 { return r.MemoryLive })},
	{name: "zkd_memory_limit_bytes", help: "Limit of the memory of the process, below that of its control group, or GOMEMLIMIT; 0 for none.", value: integer(func(r *Reading) int64 { return r.MemoryLimit })},
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
	{number{name: "member_list_differs", help: "1 if the configuration file of this server has another list of members than the ensemble, or can't be written.", value: func(r *Reading) float64 {
		if r.Role.FileDiffers || r.Unfollowed != "" {
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
	sum      func(*Metrics) *Distribution // instead of of, where that is several histograms
}

const inMs = 1e-6

// read returns what was observed so far.
func (m *summary) read(from *Metrics) *Distribution {
	if m.of == nil {
		return m.sum(from)
	}
	return Of(m.of(from))
}

// summaries are the distributions with ZooKeeper's names.
var summaries = []summary{
	{"readlatency", "Time from a read's arrival to its reply, ms.", true, inMs, nil, func(m *Metrics) *Distribution { return m.Requests.of(false) }},
	{"updatelatency", "Time from the arrival of a write, sync or connect to its reply, ms.", true, inMs, nil, func(m *Metrics) *Distribution { return m.Requests.of(true) }},
	{"propagation_latency", "Time from the leader's evaluation of a write until it is applied here, ms, by both servers' wall clocks.", true, inMs, func(m *Metrics) *Histogram { return &m.Propagation }, nil},
	{"proposal_latency", "Time from the leader's evaluation of a write until it arrives at this follower, ms, by both servers' wall clocks.", true, inMs, func(m *Metrics) *Histogram { return &m.ProposalDelay }, nil},
	{"proposal_ack_creation_latency", "Time from the arrival of a proposal, or at the leader from its creation, until it is durable here, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Logged }, nil},
	{"quorum_ack_latency", "Time from the creation of a proposal until a quorum has it, ms; of a leader.", true, inMs, func(m *Metrics) *Histogram { return &m.QuorumAck }, nil},
	{"prep_processor_queue_time_ms", "Time that a request waits at the leader to be evaluated, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.QueueTime }, nil},
	{"local_write_committed_time_ms", "Time from a write's commit until it is applied, ms; of this server's clients.", true, inMs, func(m *Metrics) *Histogram { return &m.AppliedOwn }, nil},
	{"server_write_committed_time_ms", "Time from a write's commit until it is applied, ms; of other servers' clients.", true, inMs, func(m *Metrics) *Histogram { return &m.AppliedOthers }, nil},
	{"sync_processor_queue_and_flush_time_ms", "Time from the hand-over of an entry to the log until it is durable, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Logged }, nil},
	{"sync_processor_queue_flush_time_ms", "Time of a sync of the log, ms.", true, inMs, func(m *Metrics) *Histogram { return &m.Fsync }, nil},

	{"fsynctime", "Time of a sync of the log, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Fsync }, nil},
	{"snapshottime", "Time to write a snapshot, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Snapshot }, nil},
	{"dbinittime", "Time to load the state at the start, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Load }, nil},
	{"startup_snap_load_time", "Time to load the snapshot at the start, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.LoadSnapshot }, nil},
	{"startup_txns_load_time", "Time to apply the log after the snapshot at the start, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.LoadLog }, nil},
	{"startup_txns_loaded", "Entries of the log applied at the start.", false, 1, func(m *Metrics) *Histogram { return &m.LoadedTxns }, nil},
	{"election_time", "Time of an election, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Election }, nil},
	{"unavailable_time", "Time for which this server served no clients for want of a leader, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Unavailable }, nil},
	{"leader_unavailable_time", "The same, of a server that leads afterwards, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.LeaderUnavailable }, nil},
	{"follower_sync_time", "Time until a leader had brought this follower up to date, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.FollowerSync }, nil},
	{"observer_sync_time", "Time until a leader had brought this observer up to date, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.ObserverSync }, nil},
	{"prep_process_time", "Time to evaluate a request, ms; of a leader.", false, inMs, func(m *Metrics) *Histogram { return &m.Evaluation }, nil},
	{"prep_processor_queue_size", "Requests that the leader took from its queue at once.", false, 1, func(m *Metrics) *Histogram { return &m.Taken }, nil},
	{"commit_process_time", "Time for which the tree was locked to apply what is committed, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Applying }, nil},
	{"write_batch_time_in_commit_processor", "Time for which the tree was locked to apply what is committed, ms.", false, inMs, func(m *Metrics) *Histogram { return &m.Applying }, nil},
	{"commit_commit_proc_req_queued", "Committed transactions and barriers that waited when the applier looked.", false, 1, func(m *Metrics) *Histogram { return &m.Orders }, nil},
	{"write_commit_proc_req_queued", "Requests of this server's clients that waited for the leader when the applier looked.", false, 1, func(m *Metrics) *Histogram { return &m.WaitingWrites }, nil},
	{"reads_after_write_in_session_queue", "Reads served after a write of the same connection that they had waited for.", false, 1, func(m *Metrics) *Histogram { return &m.ReadsAfterWrite }, nil},
	{"sync_processor_batch_size", "Transactions made durable by one sync.", false, 1, func(m *Metrics) *Histogram { return &m.Batch }, nil},
	{"sync_processor_queue_size", "Entries at the log that were not durable when more came.", false, 1, func(m *Metrics) *Histogram { return &m.Unlogged }, nil},
	{"inflight_snap_count", "Snapshots on their way to learners when one was sent.", false, 1, func(m *Metrics) *Histogram { return &m.SendingSnapshots }, nil},
	{"node_created_watch_count", "Watches fired by a create.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventCreated] }, nil},
	{"node_deleted_watch_count", "Watches fired by a delete.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventDeleted] }, nil},
	{"node_changed_watch_count", "Watches fired by a change of data.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventDataChanged] }, nil},
	{"node_children_watch_count", "Watches fired by a change of children.", false, 1, func(m *Metrics) *Histogram { return &m.Fired[jute.EventChildrenChanged] }, nil},
}

// namespaceSummaries are the distributions that ZooKeeper has for each namespace.
var namespaceSummaries = []struct {
	name string
	help string
	of   func(*Metrics) *Namespaces
}{
	{"read_per_namespace", "Bytes of paths and data that were read, by the first name of the path.", func(m *Metrics) *Namespaces { return &m.ReadPerNamespace }},
	{"write_per_namespace", "Bytes of paths and data that were written, by the first name of the path.", func(m *Metrics) *Namespaces { return &m.WritePerNamespace }},
}

// quotaErrors is a counter that ZooKeeper has for each namespace.
const (
	quotaErrors     = "quota_exceeded_error_per_namespace"
	quotaErrorsHelp = "Writes that a hard quota rejected, at a leader."
)

// latency returns the distribution of the times from requests to replies.
func (r *Reading) latency() *Distribution {
	d := r.Requests.of(false)
	for i, x := range ops {
		if x.writes {
			r.Requests[i].ok.addTo(d)
			r.Requests[i].failed.addTo(d)
		}
	}
	return d
}

// AvgLatency returns the mean time from a request to its reply, ms.
func (r *Reading) AvgLatency() float64 { return r.latency().Mean() / 1e6 }

// MaxLatency is the longest.
func (r *Reading) MaxLatency() int64 { return r.latency().Max.Milliseconds() }

// MinLatency is the shortest; 0 before the first request.
func (r *Reading) MinLatency() int64 { return r.latency().Min.Milliseconds() }
