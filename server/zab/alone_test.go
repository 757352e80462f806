package zab

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestEnsembleFromOldMember: a member's data, run alone for some time, found a new
// ensemble. Its learners receive the old ensemble's history on the way.
func TestEnsembleFromOldMember(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.tune = func(o *Options) { o.CacheBytes, o.WindowBytes, o.BatchBytes = 300, 400, 200 }
	for _, s := range n.servers {
		s.start()
	}
	n.until(2000, "all serve", n.settledDown)
	for i := range 40 {
		n.leader().propose(fmt.Sprint("old ", i))
		n.run(10)
	}
	n.run(2000)
	for _, s := range n.servers {
		s.crash()
	}
	one := n.server(1)
	n.fsync = 60 // so that fsyncs take some time, and heartbeats happen meanwhile
	one.runAlone()
	for _, s := range n.servers[1:] {
		s.wipe()
	}
	for _, s := range n.servers {
		s.start()
	}
	n.until(5000, "the new ensemble serves", func() bool { return n.settledDown() && n.converged() })
	n.run(3000)
	n.servers[1].crash()
	n.servers[1].wipe()
	n.servers[1].start()
	n.until(5000, "a late one, too", func() bool { return n.settledDown() && n.converged() })
}

// runAlone runs a stopped server without an ensemble, and makes a transaction.
func (s *server) runAlone() {
	c := New(Options{}, s.recover())
	z, _ := c.NextZxid()
	c.Propose(z, []byte("alone"))
	var out Output
	c.Take(&out)
	s.disk = append(s.disk, out.Persist...)
	c.PersistDone(out.PersistSeq)
	c.Take(&out)
	s.recover()
	s.apply(jute.Zxid(z))
}
