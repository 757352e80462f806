package zab

import (
	"slices"
	"testing"
)

// TestAwaitsServerZero: the servers that are missing for a leader are named, server 0 as well.
func TestAwaitsServerZero(t *testing.T) {
	list := Members{List: []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: Zero, Weight: 1}}}
	c := New(Options{ID: 1, Members: list, Init: ClusterInit{Cluster: ID{2}}}, Recovered{Incarnation: ID{7}})
	const want = "too few voters for a majority: no links to servers 2, 0"
	if got := c.awaits(); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}

// TestCounted: what a leader says of its learners has those that a quorum counts: no observer, and a wiped server not before it
// is admitted again.
func TestCounted(t *testing.T) {
	n := newNetwork(t, 1, 3, 1)
	n.serve()
	n.until(1000, "all are synchronized", n.converged)
	l := n.leader()
	counted := func() (ids []SID) {
		for _, p := range l.core.Peers(nil) {
			if p.Counted {
				ids = append(ids, p.ID)
			}
		}
		return ids
	}
	others := counted()
	if len(others) != 2 || slices.Contains(others, 4) {
		t.Fatalf("servers %d are counted", others)
	}
	s := n.server(others[0])
	s.crash()
	s.wipe()
	s.start()
	n.until(1000, "the wiped one follows", func() bool { return len(l.core.Peers(nil)) == 3 })
	if ids := counted(); slices.Contains(ids, s.id) {
		t.Errorf("servers %d are counted, and %d has nothing", ids, s.id)
	}
	n.until(5000, "it is admitted", func() bool { return slices.Equal(counted(), others) })
}

// TestHeardOfItself: what a server hears of itself, or of no server, says nothing of the ensemble.
func TestHeardOfItself(t *testing.T) {
	list := Members{List: []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}}}
	c := New(Options{ID: 1, Members: list, Init: ClusterInit{Cluster: ID{2}}}, Recovered{Incarnation: ID{7}})
	seeded := func() (ids []SID) {
		for _, p := range c.peers {
			if p.seeded {
				ids = append(ids, p.id)
			}
		}
		return ids
	}
	c.Heard(0, Introduction{Cluster: ID{9}})
	c.Heard(1, Introduction{Cluster: ID{9}})
	if ids := seeded(); len(ids) != 0 {
		t.Errorf("servers %d have a history", ids)
	}
	c.Heard(3, Introduction{Cluster: ID{9}})
	if ids := seeded(); !slices.Equal(ids, []SID{3}) {
		t.Errorf("servers %d have a history, want 3", ids)
	}
}

// TestMarkerKeepsCommandedText: the text of a list that a command has made stays, whatever the file of a later
// leader says. A list from the files takes the text of the leader's file.
func TestMarkerKeepsCommandedText(t *testing.T) {
	for _, commanded := range []bool{false, true} {
		n := newNetwork(t, 1, 3, 0)
		n.serve()
		n.until(1000, "all are synchronized", n.converged)
		l := n.leader()
		now, _ := l.core.Lists()
		list := *now
		list.Commanded, list.Text = commanded, []byte("told")
		if _, err := l.core.ProposeMembers(list); err != nil {
			t.Fatal(err)
		}
		l.take()
		n.until(1000, "the list is applied", n.converged)
		epoch := l.core.Status().Epoch
		l.core.Transfer()
		l.take()
		n.until(2000, "another one leads", func() bool { return n.settledDown() && n.leader().core.Status().Epoch > epoch && n.converged() })
		want := "app"
		if commanded {
			want = "told"
		}
		for _, s := range n.servers {
			if list, _ := s.core.Lists(); string(list.Text) != want {
				t.Errorf("commanded %v: server %d has the text %q, want %q", commanded, s.id, list.Text, want)
			}
		}
	}
}
