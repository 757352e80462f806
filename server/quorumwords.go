package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/zab"
)

// modeOf is what clients and operators call a role in service, and what the
// server does in it.
func modeOf(st *zab.Status) (mode, doing string) {
	switch {
	case st.Role == zab.Leading:
		return "leader", "leading - broadcast"
	case st.Observer:
		return "observer", "observing - broadcast"
	default:
		return "follower", "following - broadcast"
	}
}

// describeRole fills in what srvr shows of the ensemble.
func (f facts) describeRole(view *fourletter.Server) {
	if !f.ensemble() {
		return
	}
	if f.ReadOnly() {
		view.Mode = "read-only"
		return
	}
	st := f.role.Load()
	view.Mode, view.PeerState = modeOf(st)
	if st.Role == zab.Leading {
		p := &f.metrics.proposalSizes
		view.ProposalSizes = &fourletter.ProposalSizes{Last: p.last.Load(), Min: p.least.Load(), Max: p.most.Load()}
	}
	if st.Observer {
		view.ObserverMaster = int64(st.Leader)
	}
}

// quorumSettings is what conf shows of the ensemble.
func (f facts) quorumSettings() *fourletter.Quorum {
	if !f.ensemble() {
		return nil
	}
	self := f.cfg.Self()
	q := &fourletter.Quorum{
		InitLimit:    int(f.cfg.InitLimit / f.cfg.TickTime),
		SyncLimit:    int(f.cfg.SyncLimit / f.cfg.TickTime),
		ElectionAlg:  3,
		ElectionPort: self.Addrs[0].ElectionPort,
		QuorumPort:   self.Addrs[0].QuorumPort,
		Observer:     self.Observer,
	}
	if !f.ReadOnly() {
		f.state.mu.RLock()
		text, _ := f.state.tree.Data(configPath)
		q.Membership = string(text)
		f.state.mu.RUnlock()
	}
	return q
}

// learnerSessions lists all sessions with their timeouts: what a server knows that
// does not lead.
func (f facts) learnerSessions() []fourletter.SessionTimeout {
	var list []fourletter.SessionTimeout
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	for id, timeoutMs := range f.state.tree.Sessions() {
		list = append(list, fourletter.SessionTimeout{Session: int64(id), TimeoutMs: int64(timeoutMs)})
	}
	slices.SortFunc(list, func(a, b fourletter.SessionTimeout) int { return int(min(max(a.Session-b.Session, -1), 1)) })
	return list
}

// memberMetric is a number that only some servers of an ensemble show.
type memberMetric struct {
	zkMetric
	leader bool // only a leader
}

// memberMetrics have ZooKeeper's names.
var memberMetrics = []memberMetric{
	{zkMetric{name: "quorum_size", help: "Voters of the ensemble.", value: func(r *reading) float64 { return float64(r.lists.Load().settled.NumVoters()) }}, false},
	{zkMetric{name: "member_list_differs", help: "1 if the configuration file of this server has another list of members than the ensemble.", value: func(r *reading) float64 {
		if r.role.Load().FileDiffers {
			return 1
		}
		return 0
	}}, false},
	{zkMetric{name: "peers_with_other_member_list", help: "Servers whose configuration files have another list of members than that of this server.", value: func(r *reading) float64 {
		return float64(r.role.Load().OtherFiles)
	}}, false},
	{zkMetric{name: "learners", help: "Followers and observers in service.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced })}, true},
	{zkMetric{name: "synced_followers", help: "Voters in service, without the leader.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && p.Counted })}, true},
	{zkMetric{name: "synced_observers", help: "Observers in service.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && p.Observer })}, true},
	{zkMetric{name: "synced_non_voting_followers", help: "Followers in service that are not counted.", value: learnersThat(func(p *zab.PeerStatus) bool { return p.Synced && !p.Observer && !p.Counted })}, true},
	{zkMetric{name: "pending_syncs", help: "Sync requests that wait.", value: func(r *reading) float64 { return float64(r.metrics.pendingSyncs.Load()) }}, true},
	{zkMetric{name: "leader_uptime", help: "Time since this server leads, ms.", value: func(r *reading) float64 {
		return float64(millis(r.now() - time.Duration(r.metrics.leadsFrom.Load())))
	}}, true},
	{zkMetric{name: "last_proposal_size", help: "Bytes of the leader's last proposal.", value: func(r *reading) float64 { return float64(r.metrics.proposalSizes.last.Load()) }}, true},
	{zkMetric{name: "min_proposal_size", help: "Bytes of the leader's smallest proposal.", value: func(r *reading) float64 { return float64(r.metrics.proposalSizes.least.Load()) }}, true},
	{zkMetric{name: "max_proposal_size", help: "Bytes of the leader's largest proposal.", value: func(r *reading) float64 { return float64(r.metrics.proposalSizes.most.Load()) }}, true},
}

// learnersThat counts the learners for which is holds.
func learnersThat(is func(*zab.PeerStatus) bool) func(*reading) float64 {
	return func(r *reading) float64 {
		n := 0
		if list := r.peers.Load(); list != nil {
			for i := range *list {
				if is(&(*list)[i]) {
					n++
				}
			}
		}
		return float64(n)
	}
}

// shown reports whether the server that r looks at has the metric now.
func (m *memberMetric) shown(r *reading) bool {
	return r.ensemble() && r.serving.Load() && (!m.leader || r.leads())
}

// explainRole is how the log describes a server's part in the ensemble.
func explainRole(st zab.Status) string {
	switch st.Role {
	case zab.Looking:
		return "looking for a leader"
	case zab.Candidate:
		return "candidate"
	case zab.SyncingLeader:
		return "leader, not yet in service"
	case zab.SyncingFollower:
		return "learner, not yet in service"
	case zab.Leading, zab.Following:
		mode, _ := modeOf(&st)
		return mode
	}
	return fmt.Sprintf("halted: %s", st.Reason)
}
