package show

import (
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/console"
)

// Int returns the metric of a count.
func Int(name string, v int64) Metric { return Metric{name, strconv.FormatInt(v, 10)} }

// Float returns the metric of a mean or a fraction. It shows four decimals.
func Float(name string, v float64) Metric { return Metric{name, fourletter.Double(v)} }

// coreMetrics is the order in which Apache's mntr shows the metrics of its server and of
// its leader. In Java it results from hashing the names.
var coreMetrics = []string{
	"ephemerals_count", "num_alive_connections", "avg_latency", "min_proposal_size",
	"outstanding_requests", "znode_count", "global_sessions", "non_mtls_remote_conn_count",
	"last_client_response_size", "packets_sent", "packets_received", "max_proposal_size",
	"max_client_response_size", "synced_followers", "connection_drop_probability", "watch_count",
	"synced_non_voting_followers", "synced_observers", "auth_failed_count", "min_latency",
	"max_file_descriptor_count", "approximate_data_size", "open_file_descriptor_count",
	"last_proposal_size", "pending_syncs", "leader_uptime", "local_sessions", "uptime",
	"max_latency", "outstanding_tls_handshake", "learners", "min_client_response_size",
	"non_mtls_local_conn_count", "quorum_size",
}

// coreRank returns the place of a metric in coreMetrics; all others share the last place.
func coreRank(m Metric) int {
	if i := slices.Index(coreMetrics, m.Name); i >= 0 {
		return i
	}
	return len(coreMetrics)
}

// mntr answers mntr with metrics that come after the state.
func (p printer) mntr(v *View, metrics []Metric) {
	p.metric(Metric{"version", v.Version})
	p.metric(Metric{"server_state", v.Mode()})
	if state := v.PeerState(); state != "" {
		p.metric(Metric{"peer_state", state})
	}
	if id := v.ObserverMaster(); id != 0 {
		p.metric(Int("observer_master_id", id))
	}
	slices.SortStableFunc(metrics, func(a, b Metric) int { return coreRank(a) - coreRank(b) })
	for _, m := range metrics {
		p.metric(m)
	}
}

func (p printer) metric(m Metric) { p.printf("zk_%s\t%s\n", m.Name, console.Line(m.Value)) }
