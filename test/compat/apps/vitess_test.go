package apps

import (
	"fmt"
	"os"
	"path"
	"testing"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/topo"
	topotest "vitess.io/vitess/go/vt/topo/test"
	_ "vitess.io/vitess/go/vt/topo/zk2topo" // the store that "zk2" names
)

// TestVitess runs Vitess's suite for topology servers: keyspaces, shards, tablets, locks,
// elections, files and watches, each part below a separate root. The servers are given
// twice, as those that take writes and as observers to read from.
func TestVitess(t *testing.T) {
	hosts := servers(t)
	parts := 0
	topotest.TopoServerTestSuite(t, t.Context(), func() *topo.Server {
		parts++
		root := fmt.Sprintf("/vitess-%d/part-%d", os.Getpid(), parts)
		ts, err := topo.OpenServer("zk2", hosts+"|"+hosts, path.Join(root, topo.GlobalCell))
		if err != nil {
			t.Fatal(err)
		}
		cell := &topodatapb.CellInfo{ServerAddress: hosts, Root: path.Join(root, topotest.LocalCellName)}
		if err := ts.CreateCellInfo(t.Context(), topotest.LocalCellName, cell); err != nil {
			t.Fatal(err)
		}
		return ts
	}, []string{"checkList", "checkWatchRecursive"}) // which zk2topo does not have
	t.Logf("%d parts", parts)
}
