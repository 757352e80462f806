package zab

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestAdmissionIsDurable: a wiped server counts again only when its disk says that it does.
// Otherwise it could be needed after a restart, for entries committed with its help,
// without knowing that it may vote.
func TestAdmissionIsDurable(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.fsync = 20
	for _, s := range n.servers {
		s.start()
	}
	n.until(2000, "all serve", n.settledDown)
	l, one, two := n.leader(), n.server(1), n.server(2)
	two.crash()
	two.wipe()
	two.start()
	n.until(2000, "it is back", n.settledDown)
	admit := l.core.LastZxid() + 1
	n.until(20, "an admission waits", func() bool { return l.core.lead.admitting.Server == two.id })
	l.propose("with the admission")
	n.until(100, "the other has acknowledged it", func() bool { return one.core.following.acked == admit })
	one.frozen = true // but the leader does not know that yet
	l.propose("counted on the newcomer")
	last := l.core.LastZxid()
	n.deaf[[2]SID{l.id, two.id}] = true // from now on
	n.run(100)
	if l.core.Committed() < admit {
		t.Fatal(n.dump())
	}
	if l.core.Committed() == last {
		two.checkCountsAfterRestart(last)
	}
	clear(n.deaf)
	n.until(1000, "all is committed", func() bool { return l.core.Committed() == last })
	two.checkCountsAfterRestart(last)
}

// checkCountsAfterRestart checks that a server that was needed to commit z would know that
// it counts if it stopped now.
func (s *server) checkCountsAfterRestart(z jute.Zxid) {
	s.t.Helper()
	if why := s.restarted().Status().NotCounted; why != "" {
		s.t.Errorf("%v is committed, counting on server %d, which after a restart would be %s", z, s.id, why)
	}
}

// TestAdmissionKnownToOther: in a quorum, only the server that was admitted knows after a
// restart that its admission was committed. The other one has the longer history, and has
// to learn that it can count on it.
func TestAdmissionKnownToOther(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	for _, s := range n.servers {
		s.start()
	}
	n.until(2000, "all serve", n.settledDown)
	l, one, two := n.leader(), n.server(1), n.server(2)
	two.crash()
	two.wipe()
	two.start()
	n.run(50)
	n.until(3000, "it counts again", func() bool { p := l.core.peer(2); return p.reportsCounted && l.core.reliesOn(p) })
	two.frozen = true
	l.propose("not on the newcomer")
	n.until(100, "the other has it", func() bool { return one.core.following.acked == l.core.LastZxid() })
	for _, s := range n.servers {
		s.crash()
	}
	one.disk = slices.DeleteFunc(one.disk, func(op LogOp) bool { return op.Kind == LogCommitHint })
	one.start()
	two.start()
	n.until(3000, "the two that are left serve", n.settledDown)
}
