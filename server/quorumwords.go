package server

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// quorumSettings returns the part of conf about the ensemble.
func (f source) quorumSettings() *show.Quorum {
	if !f.cfg.Replicated() {
		return nil
	}
	self := f.cfg.Self()
	q := &show.Quorum{
		InitLimit:    int(f.cfg.InitLimit / f.cfg.TickTime),
		SyncLimit:    int(f.cfg.SyncLimit / f.cfg.TickTime),
		ElectionAlg:  3,
		ElectionPort: self.Addrs[0].ElectionPort,
		QuorumPort:   self.Addrs[0].QuorumPort,
		Observer:     self.Observer,
	}
	if !f.ReadOnly() {
		f.state.RLock()
		text, _ := f.state.Tree.Data(datatree.ConfigPath)
		f.state.RUnlock()
		if len(text) == 0 && !f.Serving() { // the ensemble is not founded yet
			text = f.lists().newest.Text
		}
		q.Membership = string(text)
	}
	return q
}

// learnerSessions lists all sessions with their timeouts, which is all that a server
// knows that does not lead.
func (f source) learnerSessions() []show.SessionTimeout {
	var list []show.SessionTimeout
	f.state.RLock()
	defer f.state.RUnlock()
	for id, timeoutMs := range f.state.Tree.Sessions() {
		list = append(list, show.SessionTimeout{Session: int64(id), TimeoutMs: int64(timeoutMs)})
	}
	slices.SortFunc(list, func(a, b show.SessionTimeout) int { return int(min(max(a.Session-b.Session, -1), 1)) })
	return list
}

// explainRole returns the log's description of a server's part in the ensemble.
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
		mode, _ := show.ModeOf(&st)
		return mode
	}
	return fmt.Sprintf("halted: %s", st.Reason)
}
