package show

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// absent are the names of Apache's server that zkd does not have, with the reason.
var absent = []struct{ reason, names string }{
	{"`mntr` and `srvr` have it as text; in Prometheus `zkd_role`, `zkd_build_info`", "version server_state peer_state"},
	{"there is no commit processor: a read waits only in the queue of its connection, for the writes of that connection; see `zkd_stage_seconds`, `commit_process_time`",
		"concurrent_request_processing_in_commit_processor pending_session_queue_size read_commit_proc_issued read_commit_proc_req_queued read_commitproc_time_ms reads_issued_from_session_queue requests_in_session_queue requests_not_forwarded_to_commit_processor session_queues_drained time_waiting_empty_pool_in_commit_processor_read_ms write_commit_proc_issued write_commitproc_time_ms"},
	{"there is no final processor: a read is answered by the goroutine of its connection, a write while it is applied; see `zkd_request_seconds`, `zkd_apply_seconds`", "read_final_proc_time_ms write_final_proc_time_ms"},
	{"messages between servers travel in batches, by lanes: `zkd_peer_bulk_queue_bytes`, `zkd_peer_sent_frames_total`", "<sid>_learner_handler_qp_size <sid>_learner_handler_qp_time_ms learner_request_processor_queue_size skip_learner_request_to_next_processor_count"},
	{"an acknowledgement covers everything up to an entry, so there is none for each proposal; Apache's server measures only those that come before the commit, so not those of a slow follower, which here shows in `zkd_peer_bulk_queue_bytes`, and in `proposal_ack_creation_latency` of that server", "<sid>_ack_latency"},
	{"a commit travels in the next frame without the time; `propagation_latency` has all of the way", "commit_propagation_latency"},
	{"observers follow the leader: there are no observer masters", "om_commit_process_time_ms om_proposal_process_time_ms"},
	{"part of `prep_process_time`", "close_session_prep_time proposal_process_time outstanding_changes_queued outstanding_changes_removed"},
	{"part of `sync_processor_queue_and_flush_time_ms`", "sync_processor_queue_time_ms sync_process_time"},
	{"a throttled connection is not read from, so requests do not wait in a queue; `request_throttle_wait_count` counts the pauses", "request_throttle_queue_time_ms stale_replies stale_requests stale_requests_dropped"},
	{"watches of a closed connection are removed at once", "add_dead_watcher_stall_time dead_watchers_cleaner_latency dead_watchers_queued"},
	{"there is no cache of replies", "response_packet_cache_hits response_packet_cache_misses response_packet_get_children_cache_hits response_packet_get_children_cache_misses"},
	{"there is no Java: `go_gc_duration_seconds`, `go_memstats_*`, and the log line `process was paused`", "jvm_pause_time_ms netty_queued_buffer_capacity"},
	{"sockets are closed without a wait", "socket_closing_time"},
	{"the connection throttle refuses; it does not let clients wait for tokens: `connection_drop_count`", "connection_token_deficit"},
	{"a follower that is behind is sent the log, which needs no preparation that could be counted", "inflight_diff_count"},
	{"by port and reason in `zkd_tls_handshakes_total`", "outstanding_tls_handshake tls_handshake_exceeded unsuccessful_handshake"},
	{"a port takes TLS or not; the port without it is on loopback or closed, see security.md", "non_mtls_local_conn_count non_mtls_remote_conn_count insecure_admin_count"},
	{"attempts of the scheme `ensemble` are in the log; those that fail are in `auth_failed_count`", "ensemble_auth_fail ensemble_auth_skip ensemble_auth_success"},
	{"a leader that loses its quorum steps down for one reason, which the log has: `looking_count`", "quit_leading_due_to_disloyal_voter"},
	{"`connection_revalidate_count` of the server of the client counts it", "revalidate_count"},
	{"a backup is taken and restored by a tool: see backup.md", "restore_error_count restore_rate_limited_count restore_time snapshot_rate_limited_count"},
}

// TestEveryReferenceName checks that each name of Apache's server is here with the same kind,
// or that its absence has a reason, and that docs/metrics.md and docs/dev/unused-metrics.md say so.
func TestEveryReferenceName(t *testing.T) {
	text, err := os.ReadFile("testdata/zookeeper-3.9.5.txt")
	if err != nil {
		t.Fatal(err)
	}
	here, help := make(map[string]string), make(map[string]string)
	for _, f := range figures {
		if !strings.HasPrefix(f.name, "zkd_") {
			here[f.name], help[f.name] = "number", f.help
		}
	}
	for _, m := range summaries {
		here[m.name], help[m.name] = "basic", m.help
		if m.advanced {
			here[m.name] = "advanced"
		}
	}
	for _, m := range namespaceSummaries {
		here["<namespace>_"+m.name], help["<namespace>_"+m.name] = "basic", m.help
	}
	here["<namespace>_"+quotaErrors], help["<namespace>_"+quotaErrors] = "number", quotaErrorsHelp
	for _, m := range quotaNumbers {
		here["<namespace>_"+m.name], help["<namespace>_"+m.name] = "number", m.help
	}
	reasons := make(map[string]string)
	for _, a := range absent {
		for _, name := range strings.Fields(a.names) {
			reasons[name] = a.reason
		}
	}
	var page, missing strings.Builder
	for _, a := range absent {
		names := strings.Fields(a.names)
		slices.Sort(names)
		fmt.Fprintf(&missing, "| `%s` | %s |\n", strings.Join(names, "`, `"), a.reason)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		name, kind, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		reason := reasons[name]
		delete(reasons, name)
		switch {
		case here[name] != "" && reason != "":
			t.Errorf("%s is here, so its absence needs no reason", name)
		case here[name] == kind:
			n++
			fmt.Fprintf(&page, "| `%s` | %s |\n", name, help[name])
		case here[name] != "":
			t.Errorf("%s is %s in Apache's server and %s here", name, kind, here[name])
		case reason == "":
			t.Errorf("%s of Apache's server is neither here, nor has it a reason", name)
		}
		delete(here, name)
	}
	for name := range reasons {
		t.Errorf("%s: a reason for a name that Apache's server does not have", name)
	}
	for name := range here {
		if !strings.Contains(" member_list_differs peers_with_other_member_list ttl_node_deleted_count ", " "+name+" ") {
			t.Errorf("%s: not a name of Apache's server", name)
		}
	}
	checkPage(t, n, page.String(), missing.String(), ownPage())
}

// ownPage returns the rows of the figures that Apache's server does not have.
func ownPage() string {
	var rows strings.Builder
	for i := range figures {
		f := &figures[i]
		if !strings.HasPrefix(f.name, "zkd_") {
			continue
		}
		word := ""
		if f.own {
			word = ", `zk_" + f.word() + "`"
		}
		fmt.Fprintf(&rows, "| `%s`%s | %s |\n", f.name, word, f.help)
	}
	return rows.String()
}

func checkPage(t *testing.T, n int, present, missing, own string) {
	checkFile(t, "metrics.md", fmt.Sprintf(`# Metrics of Apache ZooKeeper

The names that three servers of Apache ZooKeeper 3.9.5 show in `+"`mntr`"+` and that are [here](#here), or [are not, and why](dev/unused-metrics.md); and the figures that are [zkd's own](#zkds-own).
[monitor.md](monitor.md#metrics) says how to get at them, and what to watch. `+"`go test ./server/show -run TestEveryReferenceName -rewrite`"+` makes this page.

| | `+"`mntr`"+` | Prometheus |
|---|---|---|
| a number x | `+"`zk_x`"+` | x |
| a distribution x | `+"`zk_avg_x`, `min_x`, `max_x`, `cnt_x`, `sum_x`"+`, and of a latency `+"`p50_x`, `p95_x`, `p99_x`, `p999_x`"+`, since the start or the word `+"`srst`"+` | a summary x; its quantiles are those of the last one or two minutes |
| `+"`<namespace>_x`"+` | one for each of at most 1000 namespaces; what comes later is `+"`(others)`"+` | x with a label `+"`key`"+` |

The word `+"`srst`"+` resets distributions and packets; counters never go back, unlike those of Apache's server.

## Here

%d names.

| name | what it is here |
|---|---|
%s
## zkd's own

Prometheus has them all, and `+"`mntr`"+` those with a second name.

| name | what it is |
|---|---|
%s`, n, present, own))
	checkFile(t, "dev/unused-metrics.md", `# Metrics of Apache ZooKeeper that zkd does not have

Those that it has are in [metrics.md](../metrics.md). `+"`go test ./server/show -run TestEveryReferenceName -rewrite`"+` makes this page.

| names | why |
|---|---|
`+missing)
}

// checkFile checks that a page of docs has this text, or writes it.
func checkFile(t *testing.T, page, want string) {
	t.Helper()
	file := "../../docs/" + page
	if scenario.Rewrites() {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/%s is out of date (%v): go test ./server/show -run TestEveryReferenceName -rewrite", page, err)
	}
}
