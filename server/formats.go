package server

import (
	"cmp"
	"math"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/datatree"
)

// allRead is replica.Options.Reads. A server that is gone counts as it was last seen, since it
// may come back before it is upgraded; one that was never seen may read no more than the
// history needs.
func (s *Server) allRead() uint32 {
	least := cmp.Or(s.reads, math.MaxUint32)
	for _, p := range s.transport.Peers() {
		least = min(least, p.Hello.Reads)
	}
	return max(least, s.historyNeeds())
}

// historyNeeds returns the version of format.History that a server must read to share the
// history of this one.
func (s *Server) historyNeeds() uint32 {
	lists := s.standing.lists.Load()
	needs := max(format.History.Writes(), lists.settled.Format(), lists.newest.Format())
	s.state.RLock()
	defer s.state.RUnlock()
	if s.state.Tree.HasOwners() {
		needs = max(needs, datatree.FormatOwner)
	}
	if s.state.Tree.HasExact() {
		needs = max(needs, datatree.FormatExact)
	}
	return needs
}
