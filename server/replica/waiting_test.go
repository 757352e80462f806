package replica

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestRoomOfServersAlone: if all that waits is of the servers themselves, no connection ends, and nothing is said.
func TestRoomOfServersAlone(t *testing.T) {
	r := New(zab.New(zab.Options{ID: 1}, zab.Recovered{}), 0, Options{ID: 1})
	r.o.Limits.Waiting, r.leading.bytes = 10, 100
	if r.makeRoom(); len(r.events) > 0 {
		t.Errorf("said: %s", r.events[0].Text)
	}
}
