package command

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
)

// TestOwnerText names sessions by their ids, also those with the highest bit.
func TestOwnerText(t *testing.T) {
	for id, want := range map[int64]string{0x10000000001: "ephemeral, of session 0x10000000001", -2: "ephemeral, of session 0xfffffffffffffffe"} {
		n := subtree.Node{Stat: client.Stat{EphemeralOwner: client.SessionID(id)}}
		if got := ownerText(&n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
