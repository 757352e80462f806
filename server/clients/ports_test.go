package clients

import (
	"testing"

	"github.com/zkd-project/zkd/server/config"
)

// TestMostConnections checks that maxCnxns, or its lack, leaves descriptors to the rest of the
// server.
func TestMostConnections(t *testing.T) {
	for _, tt := range []struct{ descriptors, maxCnxns, want int }{
		{0, 0, 0}, {0, 5, 5}, {7, 0, 7}, {7, 5, 5}, {7, 9, 7},
	} {
		s := &Clients{most: tt.descriptors}
		s.live.Store(&config.Config{MaxCnxns: tt.maxCnxns})
		if got := s.mostConnections(); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}
