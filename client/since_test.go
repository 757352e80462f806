package client_test

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestConnectedSince shows that connections can be told apart by when they were
// made.
func TestConnectedSince(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	states := c.States(t.Context())
	first, ok := c.ConnectedSince()
	again, _ := c.ConnectedSince()
	if !ok || !first.Equal(again) {
		t.Fatalf("one connection was made at %v and %v, connected %v", first, again, ok)
	}
	s.CutConnections()
	for change := range states {
		if change.To == client.StateConnected {
			break
		}
	}
	if second, ok := c.ConnectedSince(); !ok || !second.After(first) {
		t.Errorf("the second connection was made at %v, the first at %v, connected %v", second, first, ok)
	}
}
