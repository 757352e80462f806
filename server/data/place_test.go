package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/zab"
)

// TestWrite writes a state for a single server and for an ensemble, recovers it as a start
// does, and reads it again.
func TestWrite(t *testing.T) {
	tree := treetest.Imported(t)
	dir := t.TempDir()
	place := Place{DataDir: filepath.Join(dir, "data"), LogDir: filepath.Join(dir, "log")}
	check(t, Write(t.Context(), &Contents{Tree: tree, Epoch: 4}, place))
	d := newDirs(parseConfig(t, place.DataDir, "dataLogDir="+place.LogDir))
	r, err := d.Recover(t.Context(), nil)
	check(t, err)
	if z := r.Tree.LastZxid(); z != 0x300000005 || r.Tree.Digest() != tree.Digest() || !r.Tree.FromApache(0x100002d57e4000d) {
		t.Errorf("the server begins with zxid %v, digest %v", z, r.Tree.Digest())
	}
	check(t, d.Close())
	got, err := Read(t.Context(), place)
	check(t, err)
	if got.Tree.Digest() != tree.Digest() || got.Epoch != 4 || got.Voters != 0 {
		t.Errorf("digest %v, epoch %d, %d voters", got.Tree.Digest(), got.Epoch, got.Voters)
	}

	var places []Place
	for id := zab.SID(1); id <= 3; id++ {
		member := filepath.Join(dir, fmt.Sprint(id))
		places = append(places, Place{DataDir: member, LogDir: member, Server: id})
	}
	check(t, Write(t.Context(), &Contents{Tree: tree, Epoch: 4}, places...))
	for _, p := range places {
		got, err := Read(t.Context(), p)
		check(t, err)
		if got.Tree.Digest() != tree.Digest() || got.Epoch != 4 || got.Voters != 3 {
			t.Errorf("server %d: digest %v, epoch %d, %d voters", p.Server, got.Tree.Digest(), got.Epoch, got.Voters)
		}
	}
}

// TestWriteIsAllOrNothing interrupts Write: no server starts with what is there, and
// the next Write succeeds. It never touches a directory that has data.
func TestWriteIsAllOrNothing(t *testing.T) {
	tree := treetest.Imported(t)
	dir := t.TempDir()
	place := Place{DataDir: dir, LogDir: dir}
	start := func() error { return recoverOnce(t, parseConfig(t, dir)) }
	check(t, place.begin())
	id := NewIdentity()
	ref, err := Place{DataDir: dir}.writeTree(t.Context(), tree, &zab.State{}, &id)
	check(t, err)
	for _, name := range []string{"", datadirs.OwnerFile + ".tmp", "journal/00000000000000000001.wal"} {
		if name != "" { // more of what an interrupted attempt can leave
			check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			check(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
		}
		if err := start(); err == nil || !strings.Contains(err.Error(), "is not complete") {
			t.Errorf("with a part of the data (%s %s): %v", ref.Name, name, err)
		}
		if err := Check(parseConfig(t, dir)); err == nil || !strings.Contains(err.Error(), "run it again") {
			t.Errorf("zkd config check says %v", err)
		}
	}
	check(t, Write(t.Context(), &Contents{Tree: tree}, place))
	check(t, start())
	if err := Write(t.Context(), &Contents{Tree: tree}, place); err == nil || !strings.Contains(err.Error(), "there is data of zkd") {
		t.Errorf("over data: %v", err)
	}
	other := Place{DataDir: t.TempDir(), LogDir: t.TempDir()}
	check(t, os.Mkdir(filepath.Join(other.LogDir, "version-2"), 0o700))
	if err := Write(t.Context(), &Contents{Tree: tree}, other); err == nil || !strings.Contains(err.Error(), "version-2") {
		t.Errorf("beside Apache's files: %v", err)
	}
	if _, err := Read(t.Context(), Place{DataDir: t.TempDir(), LogDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "there is no data of zkd") {
		t.Errorf("of an empty directory: %v", err)
	}
}
