package clients

import (
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// An interlude is the time from the end of a service until the fence of the next one has passed
// (package replica). The connections stay, and their requests are read and wait.

// StopServing notes that no clients are served: their connections wait.
func (s *Clients) StopServing() {
	s.ports.Lock()
	s.ports.plain.serving, s.ports.secure.serving = false, false
	s.ports.Unlock()
}

// EndEarlier ends the connections that have sent any request, except those of the given service.
func (s *Clients) EndEarlier(service uint64) {
	for _, c := range s.conns.All() {
		c.mu.Lock()
		stays := service != 0 && c.mu.pending.Service == service
		c.mu.Unlock()
		if !stays && c.wantsSession() {
			c.kill()
		}
	}
}

// Fenced returns the last service whose fence has passed.
func (s *Clients) Fenced() uint64 { return s.fenced.Load() }

// BeginInterlude ends the connections that can't wait for the next service. State is not locked.
func (a *Answers) BeginInterlude() {
	a.interlude = true
	for _, c := range a.clients.conns.All() {
		c.mu.Lock()
		stays := c.mu.pending.Survives()
		c.mu.Unlock()
		if !stays {
			c.kill()
		}
	}
}

// BeforeApply answers the requests whose barriers were lost in an interlude, and that precede the
// request of a transaction which is about to be applied.
func (a *Answers) BeforeApply(txn *datatree.Txn) {
	if !a.interlude {
		return
	}
	c := a.clients.conns.Get(txn.Origin)
	for c != nil {
		fate := pending.Done
		c.mu.Lock()
		if !c.mu.gone && !c.mu.ending && c.mu.pending.Len() > 0 {
			fate = c.mu.pending.Overtaken(txn.Cxid)
		}
		c.mu.Unlock()
		switch fate {
		case pending.Passed:
			a.answer(c, &replica.Order{Kind: replica.OrderBarrier, Origin: c.id}, nil, nil)
			continue
		case pending.Refused:
			a.clients.log.Info("closing connection: the answer to a refused request was lost with the leader", zap.Stringer("session", c.SessionID()))
			c.kill()
		}
		return
	}
}

// EndInterlude submits the waiting requests of earlier services again, when the fence of a service
// has passed. Connections end whose session belongs to another connection, or to none that the
// history knows: a leader could not tell their requests from those that it has to refuse. State
// is not locked.
func (a *Answers) EndInterlude(service uint64) {
	a.interlude = false
	s := a.clients
	s.fenced.Store(service)
	for _, c := range s.conns.All() {
		if !s.enter(c, service) {
			c.kill()
		}
	}
}

// enter makes a connection continue in a service, and reports whether it may. The applier is the
// caller, so the tree does not change.
func (s *Clients) enter(c *conn, service uint64) bool {
	id := c.SessionID()
	owns := c.local.Load() || s.state.Tree.SessionOwner(id) == c.id
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &c.mu.pending
	switch {
	case q.Service >= service, q.Len() == 0 && id == 0:
		return true
	case !owns || !q.Repeatable(uint64(s.state.Tree.MembersZxid())):
		return false
	}
	var again []replica.Submission
	q.Again(service, func(req *request) { again = append(again, c.submission(req, service)) })
	s.backend.Submit(again...) // before the reader submits later ones
	return true
}

// EndAll ends the connections that have sent any request: a snapshot has replaced the tree, and
// what it skips was neither answered nor told to watchers.
func (a *Answers) EndAll() { a.clients.EndEarlier(0) }
