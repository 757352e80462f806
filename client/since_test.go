package client_test

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestConnectionsAreToldApart shows that connections can be told apart by when they were
// made.
func TestConnectionsAreToldApart(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	states := c.Session().States(t.Context())
	first := c.Status().Since
	again := c.Status().Since
	if first.IsZero() || !first.Equal(again) {
		t.Fatalf("one connection was made at %v and %v, connected %v", first, again, !first.IsZero())
	}
	s.CutConnections()
	for change := range states {
		if change.To == client.StateConnected {
			break
		}
	}
	if second := c.Status().Since; !second.After(first) {
		t.Errorf("the second connection was made at %v, the first at %v, connected %v", second, first, !second.IsZero())
	}
}
