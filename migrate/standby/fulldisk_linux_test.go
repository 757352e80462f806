package standby

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// TestStateOnAFullDisk gets a state where there is room for it once, and not for the copy of it, too. The standby says so, and
// continues when there is room.
func TestStateOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=5m"); err != nil {
		t.Logf("NOT TESTED: no disk of its own: %v", err)
		return
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, 0)) })
	e := newEnsemble(t, mathrand.New(mathrand.NewPCG(11, 1)), theirs)
	for i := range int32(3) { // MiB, which compression leaves so large
		data := make([]byte, 1<<20)
		rand.Read(data)
		txn := datatree.Txn{Zxid: e.Last() + 1, Time: 1000, Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: fmt.Sprint("/n", i), Data: data, Cversion: i + 1}}}
		e.add(zab.EntryTxn, txn.Append(nil))
	}
	check(t, e.InstallState(t.Context(), e.Tree(), *e.Ensemble()))
	p := placeIn(filepath.Join(dir, "data"), zab.SIDOf(4))
	p.SegmentSize = 64 << 10
	s := start(t, p, e.http.URL)
	s.until(t, func(s *Status) bool {
		return strings.Contains(s.Problem, "write snapshot") && strings.Contains(s.Problem, "no space")
	})
	check(t, syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=50m"))
	s.reach(t, e)
	s.stop(t)
}
