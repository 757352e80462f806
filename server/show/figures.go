package show

import (
	"math"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// figure is a number that is shown of a server. A new one is a field of View, or a counter of
// monitor.Metrics, and a row of the table: then Prometheus, mntr, the admin page monitor and
// docs/metrics.md have it. A field has a line where the server fills the View, too.
type figure struct {
	// name is that in Prometheus. ZooKeeper's names are those of its mntr; zkd's own begin with
	// zkd_ and end as Prometheus recommends.
	name string
	help string
	kind kind
	of   servers
	// own says that mntr has a figure of zkd's own, too: without zkd_ and _total.
	own   bool
	value func(*View) float64
}

// kind is what a figure counts.
type kind int

const (
	gauge    kind = iota
	fraction      // a gauge that is no integer
	counter
)

// servers are those that show a figure.
type servers int

const (
	all     servers = iota
	members         // of an ensemble, while they serve
	leaders
	copies // of another ensemble
)

func (s servers) shows(v *View) bool {
	switch member := v.Ensemble && v.Serving; s {
	case members:
		return member
	case leaders:
		return member && v.Role.Role == zab.Leading
	case copies:
		return v.Copy
	}
	return true
}

// word returns the name in mntr, after zk_, or "" for none.
func (f *figure) word() string {
	own, is := strings.CutPrefix(f.name, "zkd_")
	switch {
	case !is:
		return f.name
	case f.own:
		return strings.TrimSuffix(own, "_total")
	}
	return ""
}

// integer makes a metric of an integer.
func integer[T ~int | ~int64 | ~int32](f func(*View) T) func(*View) float64 {
	return func(v *View) float64 { return float64(f(v)) }
}

// condition makes a metric of a condition.
func condition(f func(*View) bool) func(*View) float64 {
	return func(v *View) float64 {
		if f(v) {
			return 1
		}
		return 0
	}
}

// figures are the gauges and counters, in mntr's order: first those with ZooKeeper's names
// (docs/dev/spec/admin.md section 9). What zkd has no equivalent of is left out.
var figures = []figure{
	{name: "avg_latency", help: "Mean time from request to reply, ms.", kind: fraction, value: func(v *View) float64 { return v.Latency.Avg }},
	{name: "max_latency", help: "Longest time from request to reply, ms.", value: integer(func(v *View) int64 { return v.Latency.Max })},
	{name: "min_latency", help: "Shortest time from request to reply, ms.", value: integer(func(v *View) int64 { return v.Latency.Min })},
	{name: "packets_received", help: "Requests received.", value: integer(func(v *View) int64 { return v.PacketsReceived.Load() })},
	{name: "packets_sent", help: "Replies and notifications sent.", value: integer(func(v *View) int64 { return v.PacketsSent.Load() })},
	{name: "num_alive_connections", help: "Client connections.", value: integer(func(v *View) int { return v.Connections })},
	{name: "outstanding_requests", help: "Requests that wait for the leader.", value: integer(func(v *View) int64 { return v.WaitingRequests })},
	{name: "znode_count", help: "Znodes; the root counts twice.", value: integer(func(v *View) int { return v.Tree.Nodes })},
	{name: "watch_count", help: "Watches.", value: integer(func(v *View) int { return v.Watches })},
	{name: "ephemerals_count", help: "Ephemeral znodes.", value: integer(func(v *View) int { return v.Tree.Ephemerals })},
	{name: "approximate_data_size", help: "Bytes of paths and data.", value: integer(func(v *View) int64 { return v.Tree.DataSize })},
	{name: "global_sessions", help: "Sessions.", value: integer(func(v *View) int { return v.Sessions })},
	{name: "local_sessions", help: "Sessions that only this server knows.", value: integer(func(v *View) int { return v.LocalSessions })},
	{name: "open_file_descriptor_count", help: "Open file descriptors of the process.", value: integer(func(v *View) int64 { return v.OpenFiles })},
	{name: "max_file_descriptor_count", help: "Limit of open file descriptors.", value: integer(func(v *View) int64 { return v.MaxFiles })},
	{name: "uptime", help: "Time since the server began to serve, ms.", value: integer(func(v *View) int64 { return v.Uptime.Milliseconds() })},
	{name: "last_client_response_size", help: "Bytes of the last reply or notification; -1 before the first.", value: integer(func(v *View) int64 { return v.ResponseSizes.Last.Load() })},
	{name: "min_client_response_size", help: "Bytes of the smallest reply or notification; -1 before the first.", value: integer(func(v *View) int64 { return v.ResponseSizes.Least.Load() })},
	{name: "max_client_response_size", help: "Bytes of the largest reply or notification; -1 before the first.", value: integer(func(v *View) int64 { return v.ResponseSizes.Most.Load() })},
	{name: "connection_drop_probability", help: "Always 0.", kind: fraction, value: func(*View) float64 { return 0 }},
	{name: "auth_failed_count", help: "Auth packets and logins by SASL refused.", value: integer(func(v *View) int64 { return v.AuthFailed.Load() })},

	{name: "proposal_count", help: "Transactions proposed.", kind: counter, value: integer(func(v *View) int64 { return v.Proposals.Load() })},
	{name: "commit_count", help: "Transactions committed and applied.", kind: counter, value: integer(func(v *View) int64 { return v.Commits.Load() })},
	{name: "request_commit_queued", help: "Committed transactions queued to be applied.", kind: counter, value: integer(func(v *View) int64 { return v.CommitsQueued.Load() })},
	{name: "snap_count", help: "Snapshots sent to learners.", kind: counter, value: integer(func(v *View) int64 { return v.SnapshotsSent.Load() })},
	{name: "diff_count", help: "Diffs sent to learners.", kind: counter, value: func(*View) float64 { return 0 }},
	{name: "looking_count", help: "Elections begun.", kind: counter, value: integer(func(v *View) int64 { return v.Elections.Load() })},
	{name: "connection_revalidate_count", help: "Connect requests that resume a session.", kind: counter, value: integer(func(v *View) int64 { return v.Revalidations.Load() })},
	{name: "cnxn_closed_without_zk_server_running", help: "Connections closed because this server did not serve clients.", kind: counter, value: integer(func(v *View) int64 { return v.NotServing.Load() })},
	{name: "prep_processor_request_queued", help: "Requests handed over to be evaluated or forwarded to the leader.", kind: counter, value: integer(func(v *View) int64 { return v.EvaluationQueued.Load() })},
	{name: "sync_processor_request_queued", help: "Entries handed over to the log.", kind: counter, value: integer(func(v *View) int64 { return v.LogQueued.Load() })},
	{name: "learner_proposal_received_count", help: "Proposals received from a leader.", kind: counter, value: integer(func(v *View) int64 { return v.LearnerProposals.Load() })},
	{name: "learner_commit_received_count", help: "Proposals of a leader that it has committed.", kind: counter, value: integer(func(v *View) int64 { return v.LearnerCommits.Load() })},
	{name: "connection_request_count", help: "Connect requests.", kind: counter, value: integer(func(v *View) int64 { return v.ConnectionRequests.Load() })},
	{name: "connection_drop_count", help: "Connections refused by the connection throttle.", kind: counter, value: integer(func(v *View) int64 { return v.ConnectionDrops.Load() })},
	{name: "connection_rejected", help: "Connections refused by maxClientCnxns or maxCnxns.", kind: counter, value: integer(func(v *View) int64 { return v.ConnectionRejected.Load() })},
	{name: "sessionless_connections_expired", help: "Connections closed that sent no connect request in time.", kind: counter, value: integer(func(v *View) int64 { return v.Sessionless.Load() })},
	{name: "stale_sessions_expired", help: "Sessions expired.", kind: counter, value: integer(func(v *View) int64 { return v.SessionsExpired.Load() })},
	{name: "throttled_ops", help: "Requests refused because they had waited too long.", kind: counter, value: integer(func(v *View) int64 { return v.ThrottledOps.Load() })},
	{name: "large_requests_rejected", help: "Connections closed by largeRequestMaxBytes.", kind: counter, value: integer(func(v *View) int64 { return v.LargeRejected.Load() })},
	{name: "request_throttle_wait_count", help: "Times that a connection was paused by globalOutstandingLimit.", kind: counter, value: integer(func(v *View) int64 { return v.Stalls })},
	{name: "bytes_received_count", help: "Bytes received from clients.", kind: counter, value: integer(func(v *View) int64 { return v.BytesReceived.Load() })},
	{name: "response_bytes", help: "Bytes sent to clients.", kind: counter, value: integer(func(v *View) int64 { return v.BytesSent.Load() })},
	{name: "watch_bytes", help: "Bytes of notifications.", kind: counter, value: integer(func(v *View) int64 { return v.WatchBytes.Load() })},
	{name: "dead_watchers_cleared", help: "Closed connections whose watches were removed.", kind: counter, value: integer(func(v *View) int64 { return v.DeadWatchers.Load() })},
	{name: "digest_mismatches_count", help: "Digests that differed from the expected one.", kind: counter, value: integer(func(v *View) int64 { return v.DigestMismatches.Load() })},
	{name: "unrecoverable_error_count", help: "Errors that stop the server.", kind: counter, value: integer(func(v *View) int64 { return v.Unrecoverable.Load() })},
	{name: "snapshot_error_count", help: "Snapshots that failed.", kind: counter, value: integer(func(v *View) int64 { return v.SnapshotErrors.Load() })},
	{name: "ttl_node_deleted_count", help: "Containers and TTL nodes removed when due.", kind: counter, value: integer(func(v *View) int64 { return v.ContainersDeleted.Load() })},

	// zkd's own.
	{name: "zkd_skipped_operations_total", help: "Committed operations that could not be applied; anything but 0 is a bug.", kind: counter, value: integer(func(v *View) int64 { return int64(v.Tree.Skipped) })},
	{name: "zkd_waiting_requests_bytes", help: "Memory of requests that wait for the leader.", value: integer(func(v *View) int64 { return v.WaitingBytes })},
	{name: "zkd_large_requests_bytes", help: "Bytes of large requests that wait: see largeRequestMaxBytes.", value: integer(func(v *View) int64 { return v.LargeBytes })},
	{name: "zkd_apply_work_max", help: "Most changes, events and answers under one hold of the tree's lock.", value: integer(func(v *View) int64 { return int64(v.ApplyWork.Max()) })},
	{name: "zkd_turn_work_max", help: "Most requests and changes evaluated in one turn of the peer loop.", value: integer(func(v *View) int64 { return int64(v.TurnWork.Max()) })},
	{name: "zkd_leader_queue_length", help: "Requests that the leader has not taken yet.", value: integer(func(v *View) int { return v.LeaderQueue })},
	{name: "zkd_applier_queue_length", help: "Committed transactions that are not applied yet.", value: integer(func(v *View) int { return v.ApplierQueue })},
	{name: "zkd_replayed_entries_total", help: "Committed entries read from the log to be applied.", kind: counter, value: integer(func(v *View) int64 { return v.Replayed.Load() })},
	{name: "zkd_wal_since_snapshot_bytes", help: "Log after the last snapshot: what a restart replays.", value: integer(func(v *View) int64 { return v.LogAfterSnapshot })},
	{name: "zkd_past_seconds", help: "How far back the past of the tree is known, without an archive.", own: true, value: func(v *View) float64 { return math.Floor(v.PastAge.Seconds()) }},
	{name: "zkd_past_zxid", help: "The zxid of that moment; 0 for the beginning.", own: true, value: integer(func(v *View) int64 { return v.PastZxid })},
	{name: "zkd_past_bytes", help: "Snapshots and log that have it.", own: true, value: integer(func(v *View) int64 { return v.PastBytes })},
	{name: "zkd_past_wanted_seconds", help: "How far back zkd.historyHours wants it; 0 for no time.", own: true, value: func(v *View) float64 { return v.PastWanted.Seconds() }},
	{name: "zkd_past_cut", help: "1 while zkd.historyKb has no room for so much.", own: true, value: condition(func(v *View) bool { return v.PastCut })},
	{name: "zkd_snapshot_bytes", help: "Size of the last snapshot.", value: integer(func(v *View) int64 { return v.SnapshotBytes })},
	{name: "zkd_clock_jumps_total", help: "How often the wall clock was set by half a second or more.", kind: counter, own: true, value: integer(func(v *View) int { return v.ClockJumps })},
	{name: "zkd_disk_full", help: "1 while the log's disk has too little room for writes.", own: true, value: condition(func(v *View) bool { return v.DiskFull })},
	{name: "zkd_log_waits", help: "1 while no segment of the log can be begun for want of room, inodes or descriptors.", own: true, value: condition(func(v *View) bool { return v.LogWaits })},
	{name: "zkd_writes_refused", help: "1 while this server, as a leader or alone, refuses writes: disks are full.", own: true, value: condition(func(v *View) bool { return v.RefusesWrites })},
	{name: "zkd_connections_to_move", help: "Connections that a drain is still to end.", value: integer(func(v *View) int { return v.ToMove })},
	{name: "zkd_keeps_clients_away", help: "1 while a drain keeps clients away.", value: condition(func(v *View) bool { return v.KeepsAway })},
	{name: "zkd_clients_kept_away_total", help: "Connections refused because a drain keeps clients away.", kind: counter, value: integer(func(v *View) int64 { return v.KeptAway.Load() })},
	{name: "zkd_bad_passwords_total", help: "Attempts to resume a session with a wrong password.", kind: counter, value: integer(func(v *View) int64 { return v.BadPasswords.Load() })},
	{name: "zkd_auth_delayed_total", help: "Attempts to authenticate delayed after failed ones of their address.", kind: counter, value: integer(func(v *View) int64 { return v.AuthDelayed.Load() })},
	{name: "zkd_auth_refused_total", help: "Attempts to authenticate refused unseen after failed ones of their address.", kind: counter, value: integer(func(v *View) int64 { return v.AuthRefused.Load() })},
	{name: "zkd_traced_requests_total", help: "Requests that were traced, on each server that took part.", kind: counter, value: integer(func(v *View) int64 { return v.Traced.Load() })},
	{name: "zkd_traces_dropped_total", help: "Of these not sent: too many waited for the collector.", kind: counter, value: integer(func(v *View) int64 { return v.TracesDropped.Load() })},
	{name: "zkd_autopilot_demoted_total", help: "Voters that autopilot made observers, as a leader.", kind: counter, value: integer(func(v *View) int64 { return v.Demoted.Load() })},
	{name: "zkd_autopilot_promoted_total", help: "Observers that autopilot made voters again, as a leader.", kind: counter, value: integer(func(v *View) int64 { return v.Promoted.Load() })},
	{name: "zkd_feeds", help: "Change feeds, with those of the admin pages.", own: true, value: integer(func(v *View) int64 { return v.Feeds })},
	{name: "zkd_feeds_refused_total", help: "Change feeds refused by zkd.maxFeeds or zkd.maxFeedsPerConnection.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.FeedsRefused })},
	{name: "zkd_feeds_displaced_total", help: "Change feeds ended by zkd.maxFeeds for a client with fewer.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.FeedsDisplaced })},
	{name: "zkd_feeds_compacted_total", help: "Change feeds that ended because changes were forgotten: see zkd.feedHistoryKb.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.FeedsCompacted })},
	{name: "zkd_feed_history_bytes", help: "Memory of the changes that are kept for feeds.", own: true, value: integer(func(v *View) int { return v.FeedHistoryBytes })},
	{name: "zkd_views", help: "Subtrees being read at one zxid each.", own: true, value: integer(func(v *View) int64 { return v.Views })},
	{name: "zkd_views_refused_total", help: "Those refused by zkd.maxViews.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.ViewsRefused })},
	{name: "zkd_views_lost_total", help: "Those that ended early: after zkd.viewSeconds, or since too much had changed.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.ViewsLost })},
	{name: "zkd_descriptors_clients", help: "File descriptors that connections of clients may have; 0 for no limit.", own: true, value: integer(func(v *View) int { return v.FilesForClients })},
	{name: "zkd_descriptors_http", help: "Those that the connections of each HTTP port may have.", own: true, value: integer(func(v *View) int { return v.FilesForHTTP })},
	{name: "zkd_descriptors_own", help: "Those left for the log, snapshots and links to other servers.", own: true, value: integer(func(v *View) int { return v.FilesForOwn })},
	{name: "zkd_unread_closed_total", help: "Connections closed since their clients did not read.", kind: counter, value: integer(func(v *View) int64 { return v.UnreadClosed.Load() })},
	{name: "zkd_replies_long_total", help: "Replies longer than jute.maxbuffer, at which Java's clients end the connection.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.RepliesLong.Load() })},
	{name: "zkd_replies_refused_total", help: "Replies refused by zkd.maxReply.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.RepliesRefused.Load() })},
	{name: "zkd_memory_live_bytes", help: "Memory that the last garbage collection left.", own: true, value: integer(func(v *View) int64 { return v.MemoryLive })},
	{name: "zkd_memory_limit_bytes", help: "What the process may use: see zkd.memoryLimit; 0 if that is not known.", own: true, value: integer(func(v *View) int64 { return v.MemoryLimit })},
	{name: "zkd_memory_used_percent", help: "How full the memory is: at 100 writes that need more are refused. 0 if there is no limit.", own: true, value: integer(func(v *View) int64 { return v.MemoryPercent })},
	{name: "zkd_memory_short", help: "1 while memory is so short that nothing may grow.", own: true, value: condition(func(v *View) bool { return v.MemoryShort })},
	{name: "zkd_tree_memory_bytes", help: "Memory of the znodes and sessions.", own: true, value: integer(func(v *View) int64 { return v.TreeMemory })},
	{name: "zkd_tree_memory_limit_bytes", help: "What that may be, of a leader on all members; 0 for any amount.", own: true, value: integer(func(v *View) int64 { return v.TreeRoom })},
	{name: "zkd_tree_full", help: "1 while this server, as a leader or alone, refuses writes that need memory.", own: true, value: condition(func(v *View) bool { return v.TreeFull })},
	{name: "zkd_tree_full_refusals_total", help: "Writes refused for that reason.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.OutOfRoom.Load() })},
	{name: "zkd_requests_broken_total", help: "Writes refused because this server could not evaluate them: a fault of zkd, which its log has.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.Broken.Load() })},
	{name: "zkd_watches_memory_bytes", help: "Memory of the watches.", own: true, value: integer(func(v *View) int64 { return v.WatchMemory })},
	{name: "zkd_watches_refused_total", help: "Watches not set, since all took too much memory.", kind: counter, own: true, value: integer(func(v *View) int64 { return v.WatchesRefused.Load() })},
	{name: "zkd_containers", help: "Container znodes.", value: integer(func(v *View) int { return v.Tree.Containers })},
	{name: "zkd_joiners", help: "Servers that a leader is bringing up to date.", value: learnersThat(func(p *zab.PeerStatus) bool { return !p.Synced })},
	{name: "zkd_learner_reads_waiting", help: "Learners for which a leader waits for its log.", value: integer(func(v *View) int64 { return v.LearnerReads })},
	{name: "zkd_snapshots_arriving", help: "Snapshots that other servers are sending, read or not.", value: integer(func(v *View) int { return len(v.Arriving) })},
	{name: "zkd_ttl_nodes", help: "Znodes with a time to live.", value: integer(func(v *View) int { return v.Tree.TTLs })},

	// Of members of an ensemble, with ZooKeeper's names.
	{name: "quorum_size", help: "Voters of the ensemble.", of: members, value: func(v *View) float64 { return float64(v.Voters) }},
	{name: "member_list_differs", help: "1 if this server's file has other members than the ensemble, or can't be written.", of: members, value: func(v *View) float64 {
		if v.Role.FileDiffers || v.Unfollowed != "" {
			return 1
		}
		return 0
	}},
	{name: "peers_with_other_member_list", help: "Servers whose files have other members than this server's.", of: members, value: func(v *View) float64 {
		return float64(v.Role.OtherFiles)
	}},
	{name: "learners", help: "Followers and observers in service.", of: leaders, value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced })},
	{name: "synced_followers", help: "Voters in service, without the leader.", of: leaders, value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && p.Counted })},
	{name: "synced_observers", help: "Observers in service.", of: leaders, value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && p.Observer })},
	{name: "synced_non_voting_followers", help: "Followers in service that are not counted.", of: leaders, value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && !p.Counted })},
	{name: "pending_syncs", help: "Sync requests that wait.", of: leaders, value: func(v *View) float64 { return float64(v.PendingSyncs.Load()) }},
	{name: "leader_uptime", help: "Time since this server leads, ms.", of: leaders, value: func(v *View) float64 {
		return float64(v.LeaderUptime.Milliseconds())
	}},
	{name: "last_proposal_size", help: "Bytes of the leader's last proposal.", of: leaders, value: func(v *View) float64 { return float64(v.ProposalSizes.Last.Load()) }},
	{name: "min_proposal_size", help: "Bytes of the leader's smallest proposal.", of: leaders, value: func(v *View) float64 { return float64(v.ProposalSizes.Least.Load()) }},
	{name: "max_proposal_size", help: "Bytes of the leader's largest proposal.", of: leaders, value: func(v *View) float64 { return float64(v.ProposalSizes.Most.Load()) }},
	{name: "zkd_standby_follows", help: "1 while a standby follows a server of the other ensemble.", of: copies, own: true, value: condition(func(v *View) bool { return v.Standby.Follows() })},
	{name: "zkd_standby_lag_seconds", help: "Time since a standby last had all that the other ensemble had.", kind: fraction, of: copies, own: true, value: func(v *View) float64 { return max(v.Standby.Lag, 0).Seconds() }},
	{name: "zkd_standby_lag_entries", help: "Entries of the other ensemble's log that a standby did not have a moment ago; -1 if that is not known.", of: copies, own: true, value: integer(func(v *View) int64 { return v.Standby.LagEntries })},
	{name: "zkd_standby_lag_bytes", help: "Bytes of the other ensemble's log that a standby did not have a moment ago; -1 if that is not known.", of: copies, own: true, value: integer(func(v *View) int64 { return v.Standby.LagBytes })},
	{name: "zkd_standby_refused", help: "1 while a standby follows no server because they refuse it.", of: copies, own: true, value: condition(func(v *View) bool { return v.Standby.Refused })},
	{name: "zkd_standby_entries_total", help: "Entries of the other ensemble's log that a standby followed.", kind: counter, of: copies, own: true, value: integer(func(v *View) int64 { return v.Standby.Entries })},
	{name: "zkd_standby_states_total", help: "Whole states of the other ensemble that a standby fetched.", kind: counter, of: copies, own: true, value: integer(func(v *View) int64 { return v.Standby.States })},
}

// learnersThat counts the learners for which is holds.
func learnersThat(is func(*zab.PeerStatus) bool) func(*View) float64 {
	return func(v *View) float64 {
		n := 0
		for i := range v.Peers {
			if is(&v.Peers[i]) {
				n++
			}
		}
		return float64(n)
	}
}

// summary is a distribution under ZooKeeper's name, in ms or in units.
type summary struct {
	name     string
	help     string
	advanced bool // with high quantiles
	of       func(*monitor.Metrics) monitor.Histogram
	sum      func(*monitor.Metrics) *monitor.Distribution // instead of of, where that is several histograms
}

// read returns what was observed so far.
func (m *summary) read(from *monitor.Metrics) *monitor.Distribution {
	if m.of == nil {
		return m.sum(from)
	}
	return monitor.Of(m.of(from))
}

// summaries are the distributions with ZooKeeper's names.
var summaries = []summary{
	{"readlatency", "Time from a read's arrival to its reply, ms.", true, nil, func(m *monitor.Metrics) *monitor.Distribution { return m.Requests.Of(false) }},
	{"updatelatency", "Time from the arrival of a write, sync or connect to its reply, ms.", true, nil, func(m *monitor.Metrics) *monitor.Distribution { return m.Requests.Of(true) }},
	{"propagation_latency", "Time from the leader's evaluation of a write until it is applied here, ms, by both servers' wall clocks.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.Propagation }, nil},
	{"proposal_latency", "Time from the leader's evaluation of a write until it arrives at this follower, ms, by both servers' wall clocks.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.ProposalDelay }, nil},
	{"proposal_ack_creation_latency", "Time from the arrival of a proposal, or at the leader from its creation, until it is durable here, ms.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.Logged }, nil},
	{"quorum_ack_latency", "Time from the creation of a proposal until a quorum has it, ms; of a leader.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.QuorumAck }, nil},
	{"prep_processor_queue_time_ms", "Time that a request waits at the leader to be evaluated, ms.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.QueueTime }, nil},
	{"local_write_committed_time_ms", "Time from a write's commit until it is applied, ms; of this server's clients.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.AppliedOwn }, nil},
	{"server_write_committed_time_ms", "Time from a write's commit until it is applied, ms; of other servers' clients.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.AppliedOthers }, nil},
	{"sync_processor_queue_and_flush_time_ms", "Time from the hand-over of an entry to the log until it is durable, ms.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.Logged }, nil},
	{"sync_processor_queue_flush_time_ms", "Time of a sync of the log, ms.", true, func(m *monitor.Metrics) monitor.Histogram { return &m.Fsync }, nil},

	{"fsynctime", "Time of a sync of the log, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Fsync }, nil},
	{"snapshottime", "Time to write a snapshot, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Snapshot }, nil},
	{"dbinittime", "Time to load the state at the start, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Load }, nil},
	{"startup_snap_load_time", "Time to load the snapshot at the start, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.LoadSnapshot }, nil},
	{"startup_txns_load_time", "Time to apply the log after the snapshot at the start, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.LoadLog }, nil},
	{"startup_txns_loaded", "Entries of the log applied at the start.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.LoadedTxns }, nil},
	{"election_time", "Time of an election, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Election }, nil},
	{"unavailable_time", "Time for which this server served no clients for want of a leader, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Unavailable }, nil},
	{"leader_unavailable_time", "The same, of a server that leads afterwards, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.LeaderUnavailable }, nil},
	{"follower_sync_time", "Time until a leader had brought this follower up to date, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.FollowerSync }, nil},
	{"observer_sync_time", "Time until a leader had brought this observer up to date, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.ObserverSync }, nil},
	{"prep_process_time", "Time to evaluate a request, ms; of a leader.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Evaluation }, nil},
	{"prep_processor_queue_size", "Requests that the leader took from its queue at once.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Taken }, nil},
	{"commit_process_time", "Time for which the tree was locked to apply what is committed, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Applying }, nil},
	{"write_batch_time_in_commit_processor", "Time for which the tree was locked to apply what is committed, ms.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Applying }, nil},
	{"commit_commit_proc_req_queued", "Committed transactions and barriers that waited when the applier looked.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Orders }, nil},
	{"write_commit_proc_req_queued", "Requests of this server's clients that waited for the leader when the applier looked.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.WaitingWrites }, nil},
	{"reads_after_write_in_session_queue", "Reads served after a write of the same connection that they had waited for.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.ReadsAfterWrite }, nil},
	{"sync_processor_batch_size", "Transactions made durable by one sync.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Batch }, nil},
	{"sync_processor_queue_size", "Entries at the log that were not durable when more came.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Unlogged }, nil},
	{"inflight_snap_count", "Snapshots on their way to learners when one was sent.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.SendingSnapshots }, nil},
	{"node_created_watch_count", "Watches fired by a create.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Fired[jute.EventCreated] }, nil},
	{"node_deleted_watch_count", "Watches fired by a delete.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Fired[jute.EventDeleted] }, nil},
	{"node_changed_watch_count", "Watches fired by a change of data.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Fired[jute.EventDataChanged] }, nil},
	{"node_children_watch_count", "Watches fired by a change of children.", false, func(m *monitor.Metrics) monitor.Histogram { return &m.Fired[jute.EventChildrenChanged] }, nil},
}

// namespaceSummaries are the distributions that ZooKeeper has for each namespace.
var namespaceSummaries = []struct {
	name string
	help string
	of   func(*monitor.Metrics) *monitor.Namespaces
}{
	{"read_per_namespace", "Bytes of paths and data that were read, by the first name of the path.", func(m *monitor.Metrics) *monitor.Namespaces { return &m.ReadPerNamespace }},
	{"write_per_namespace", "Bytes of paths and data that were written, by the first name of the path.", func(m *monitor.Metrics) *monitor.Namespaces { return &m.WritePerNamespace }},
}

// quotaErrors is a counter that ZooKeeper has for each namespace.
const (
	quotaErrors     = "quota_exceeded_error_per_namespace"
	quotaErrorsHelp = "Writes that a hard quota rejected, at a leader."
)

// ResetStats is the four-letter word srst: it resets the distributions and the packets.
func ResetStats(m *monitor.Metrics) {
	m.Requests.Reset()
	for i := range summaries {
		if h := summaries[i].of; h != nil {
			h(m).Reset()
		}
	}
	m.ReadPerNamespace.Reset()
	m.WritePerNamespace.Reset()
	m.PacketsReceived.Store(0)
	m.PacketsSent.Store(0)
	m.ResponseSizes.Reset()
}
