package command

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/jute"
)

// TestNotExported says what to do about a state that is lost, or not to be had.
func TestNotExported(t *testing.T) {
	cut := &client.Error{Op: jute.OpSubtreePage, Path: "/p", Err: client.ErrConnectionLoss}
	lost := &subtree.LostError{Zxid: 5, Err: cut}
	throttled := &client.Error{Op: jute.OpSubtreePage, Path: "/p", Err: client.ErrThrottled}
	const again = "export again, or with --live, for which no server keeps a state: the state of zxid 0x5 is lost: KeeperErrorCode = ConnectionLoss for /p"
	for _, tt := range []struct {
		file  string
		nodes int
		err   error
		want  string
		code  int
	}{
		{"x.json", 7, lost, again, exitConnection},
		{"-", 7, lost, "the export ends after 7 nodes, without its last line, so import will refuse it: " + again, exitConnection},
		{"-", 0, cut, "KeeperErrorCode = ConnectionLoss for /p", exitConnection},
		{
			"-", 0, throttled,
			"the server is busy, or keeps as many states for others as it can; export later, or with --live: KeeperErrorCode = Op throttled due to high load for /p", 1,
		},
	} {
		got := describe((&Call{}).notExported(tt.file, subtree.Exported{Nodes: tt.nodes}, tt.err))
		if got.Error != tt.want || got.Exit != tt.code {
			t.Errorf("%s after %d: %q, exit %d, want %q, exit %d", tt.file, tt.nodes, got.Error, got.Exit, tt.want, tt.code)
		}
	}
}
