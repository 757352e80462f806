package server

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/zab"
)

// TestFormat1DataIsRead checks that a server serves the data of a single server in the
// first formats of log, identity and snapshot, without a file IDENTITY, both as a single
// server and as a member.
func TestFormat1DataIsRead(t *testing.T) {
	holds := func(t *testing.T, s *testServer, server zab.SID) {
		t.Helper()
		c := s.connect(t)
		a, _ := c.get("/a")
		if b, _ := c.get("/b"); a != "snapshot" || b != "log" {
			t.Errorf("/a is %q, /b is %q", a, b)
		}
		text, err := os.ReadFile(filepath.Join(s.cfg.DataDir, datadirs.OwnerFile))
		check(t, err)
		o, err := datadirs.DecodeOwner(text)
		if err != nil || o != (datadirs.Owner{Server: server, Incarnation: s.snapshots.ident.Incarnation}) {
			t.Errorf("the directory's owner is %+v, %v; want server %d", o, err, server)
		}
	}
	t.Run("alone", func(t *testing.T) {
		dir := t.TempDir()
		unpack(t, "testdata/format1.tar.gz", dir)
		synctest.Test(t, func(t *testing.T) {
			for range 2 { // the second time it has the current formats
				s := startOn(t, fastFS{}, dir)
				holds(t, s, 0)
				check(t, s.Close())
			}
		})
		if _, err := os.Stat(filepath.Join(dir, "unreferenced")); err == nil {
			t.Error("snapshots were moved away")
		}
	})
	t.Run("as a member", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			e := newVolumeEnsemble(t, dir, 3, true)
			unpack(t, "testdata/format1.tar.gz", e.dataDir(1))
			for range 2 {
				check(t, e.boot(1, 1<<30))
				check(t, e.boot(2, 1<<30))
				e.leader()
				e.settled()
				time.Sleep(3 * time.Second) // both are admitted
				holds(t, e.servers[1], 1)
				holds(t, e.servers[2], 2)
				e.stopAll()
			}
		})
	})
}

// unpack unpacks an archive into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(t, err)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			check(t, os.MkdirAll(path, 0o700))
			continue
		}
		b, err := io.ReadAll(r)
		check(t, err)
		check(t, os.WriteFile(path, b, 0o600))
	}
}
