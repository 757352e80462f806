package show

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/monitor"
)

// histograms are zkd's own distributions, in seconds. Prometheus takes them as native
// histograms where it scrapes those, and with a few classic buckets otherwise.
var histograms = []struct {
	desc *prometheus.Desc
	list func(m *monitor.Metrics, show func(h *monitor.Durations, labels ...string))
}{
	{ownHistogram("zkd_request_seconds", "Time from the arrival of a request to its reply.", "op", "result"), func(m *monitor.Metrics, show func(*monitor.Durations, ...string)) {
		m.Requests.Each(func(op jute.OpCode, ok, failed *monitor.Durations) {
			name := op.String()
			if op == jute.OpError {
				name = "other"
			}
			show(ok, name, "ok")
			show(failed, name, "error")
		})
	}},
	{ownHistogram("zkd_stage_seconds", "Time of a write in each stage: see docs/monitor.md.", "stage"), func(m *monitor.Metrics, show func(*monitor.Durations, ...string)) {
		show(&m.QueueTime, "queue")
		show(&m.Evaluation, "evaluate")
		show(&m.Logged, "log")
		show(&m.Committed, "commit")
		show(&m.AppliedOwn, "apply")
		show(&m.AppliedOthers, "apply_others")
	}},
	{ownHistogram("zkd_quorum_ack_seconds", "Time from the creation of a proposal until a quorum has it, at a leader."), one(func(m *monitor.Metrics) *monitor.Durations { return &m.QuorumAck })},
	{ownHistogram("zkd_propagation_seconds", "Time from the leader's evaluation of a write until it is applied here, by both servers' wall clocks."), one(func(m *monitor.Metrics) *monitor.Durations { return &m.Propagation })},
	{ownHistogram("zkd_apply_seconds", "Time under the tree's write lock to apply a batch of transactions."), one(func(m *monitor.Metrics) *monitor.Durations { return &m.Applying })},
	{ownHistogram("zkd_election_seconds", "Time of an election."), one(func(m *monitor.Metrics) *monitor.Durations { return &m.Election })},
	{ownHistogram("zkd_unavailable_seconds", "Time for which this server served no clients for want of a leader."), one(func(m *monitor.Metrics) *monitor.Durations { return &m.Unavailable })},
}

func ownHistogram(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func one(of func(*monitor.Metrics) *monitor.Durations) func(*monitor.Metrics, func(*monitor.Durations, ...string)) {
	return func(m *monitor.Metrics, show func(*monitor.Durations, ...string)) { show(of(m)) }
}
