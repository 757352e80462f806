package words

import (
	"slices"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
)

// quorumSettings returns the part of conf about the ensemble.
func (f Source) quorumSettings() *show.Quorum {
	if !f.w.o.Config.Replicated() {
		return nil
	}
	self := f.w.o.Config.Self()
	q := &show.Quorum{
		InitLimit:    int(f.w.o.Config.InitLimit / f.w.o.Config.TickTime),
		SyncLimit:    int(f.w.o.Config.SyncLimit / f.w.o.Config.TickTime),
		ElectionAlg:  3,
		ElectionPort: self.Addrs[0].ElectionPort,
		QuorumPort:   self.Addrs[0].QuorumPort,
		Observer:     self.Observer,
	}
	if !f.ReadOnly() {
		f.w.o.State.RLock()
		text, _ := f.w.o.State.Tree.Data(datatree.ConfigPath)
		f.w.o.State.RUnlock()
		if len(text) == 0 && !f.Serving() { // the ensemble is not founded yet
			text = f.w.o.Founders()
		}
		q.Membership = string(text)
	}
	return q
}

// learnerSessions lists all sessions with their timeouts, which is all that a server
// knows that does not lead.
func (f Source) learnerSessions() []show.SessionTimeout {
	var list []show.SessionTimeout
	f.w.o.State.RLock()
	defer f.w.o.State.RUnlock()
	for id, timeoutMs := range f.w.o.State.Tree.Sessions() {
		list = append(list, show.SessionTimeout{Session: int64(id), TimeoutMs: int64(timeoutMs)})
	}
	slices.SortFunc(list, func(a, b show.SessionTimeout) int { return int(min(max(a.Session-b.Session, -1), 1)) })
	return list
}
