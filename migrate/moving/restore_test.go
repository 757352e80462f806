package moving

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// backupOf returns a backup of a small tree, and the tree's digest.
func backupOf(t *testing.T) (path string, digest datatree.Digest) {
	t.Helper()
	tree := datatree.New()
	var out datatree.Applied
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
	for i, op := range []datatree.Op{
		{Kind: datatree.OpCreateSession, TimeoutMs: 30_000},
		{Kind: datatree.OpCreate, Path: "/a", Data: []byte("1"), ACL: acl},
		{Kind: datatree.OpCreate, Path: "/a/b", Data: []byte("2"), ACL: acl, Owner: jute.OwnerSession(7)},
	} {
		tree.Apply(&datatree.Txn{Zxid: jute.MakeZxid(5, uint32(i+1)), Time: 1, Session: 7, Ops: []datatree.Op{op}}, &out)
	}
	dir := t.TempDir()
	if err := data.Write(t.Context(), &data.Contents{Tree: tree, Epoch: 5}, data.Place{DataDir: dir, LogDir: dir}); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "snap", "*.db"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0], tree.Digest()
}

// TestRestore restores a backup for a server, and for an ensemble whose epochs are ahead of all
// that the lost one may have had.
func TestRestore(t *testing.T) {
	path, digest := backupOf(t)
	for _, tt := range []struct {
		members []zab.SID
		dirs    []string
		epoch   uint32
	}{
		{nil, []string{""}, 5},
		{[]zab.SID{1, 2, 3}, []string{"1", "2", "3"}, 5 + epochsAhead},
	} {
		to := filepath.Join(t.TempDir(), "new")
		restore := Restore{From: path, To: to, Members: tt.members}
		r, err := restore.Run(t.Context())
		if err != nil || len(r.Written) != len(tt.dirs) || r.Nodes != 6 || r.Sessions != 1 || r.Ephemerals != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, name := range tt.dirs {
			dir := filepath.Join(to, name)
			s, err := data.Read(t.Context(), data.Place{DataDir: dir, LogDir: dir})
			if err != nil || s.Tree.Digest() != digest || s.Tree.LastZxid() != jute.MakeZxid(5, 3) || s.Epoch != tt.epoch {
				t.Errorf("%s: %+v, %v", dir, s, err)
			}
		}
		if _, err := restore.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "there is data") {
			t.Errorf("a second time: %v", err)
		}
	}
}

// TestRestoreDamaged writes nothing if the backup is damaged.
func TestRestoreDamaged(t *testing.T) {
	path, _ := backupOf(t)
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new")
	if _, err := (&Restore{From: path, To: to}).Run(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("%s: %v", to, err)
	}
}
