package zab

import "testing"

// TestAwaitsServerZero: the servers that are missing for a leader are named, server 0 as well.
func TestAwaitsServerZero(t *testing.T) {
	list := Members{List: []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: Zero, Weight: 1}}}
	c := New(Options{ID: 1, Members: list, Init: ClusterInit{Cluster: ID{2}}}, Recovered{Incarnation: ID{7}})
	const want = "too few voters for a majority: no links to servers 2, 0"
	if got := c.awaits(); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}
