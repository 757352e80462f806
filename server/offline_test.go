package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// importedTree returns a tree as an import makes it.
func importedTree(t *testing.T) *datatree.Tree {
	l := datatree.NewLoader()
	check(t, l.AddSession(0x100002d57e4000d, 30000, true))
	check(t, l.AddSession(7, 30000, false))
	for _, path := range []string{"", "/a", "/a/b", "/a-b", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		row := datatree.NodeRow{Czxid: 5, Mzxid: 0x300000002, Version: -7, Cversion: 9, Data: []byte(path)}
		if path == "/a/b" {
			row.Owner = jute.OwnerSession(0x100002d57e4000d)
		}
		check(t, l.AddZnode(path, &row, []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "world", ID: "anyone"}}}))
	}
	tree, err := l.FinishAt(0x300000005)
	check(t, err)
	return tree
}

// TestWriteState writes a state for a single server and for an ensemble, starts a server from
// it, and reads it again.
func TestWriteState(t *testing.T) {
	tree := importedTree(t)
	dir := t.TempDir()
	place := Place{DataDir: filepath.Join(dir, "data"), LogDir: filepath.Join(dir, "log")}
	check(t, WriteState(t.Context(), &State{Tree: tree, Epoch: 4}, place))
	s := newTestServer(t, Options{FS: fastFS{}, Config: parseConfig(t, place.DataDir, "dataLogDir="+place.LogDir)})
	check(t, s.Start(t.Context()))
	if z := s.state.Tree.LastZxid(); z != 0x300000005 || s.state.Tree.Digest() != tree.Digest() || !s.state.Tree.FromApache(0x100002d57e4000d) {
		t.Errorf("the server begins with zxid %v, digest %v", z, s.state.Tree.Digest())
	}
	check(t, s.Close())
	got, err := ReadState(t.Context(), place)
	check(t, err)
	if got.Tree.Digest() != tree.Digest() || got.Epoch != 4 || got.Voters != 0 {
		t.Errorf("digest %v, epoch %d, %d voters", got.Tree.Digest(), got.Epoch, got.Voters)
	}

	var places []Place
	for id := zab.SID(1); id <= 3; id++ {
		member := filepath.Join(dir, fmt.Sprint(id))
		places = append(places, Place{DataDir: member, LogDir: member, Server: id})
	}
	check(t, WriteState(t.Context(), &State{Tree: tree, Epoch: 4}, places...))
	for _, p := range places {
		got, err := ReadState(t.Context(), p)
		check(t, err)
		if got.Tree.Digest() != tree.Digest() || got.Epoch != 4 || got.Voters != 3 {
			t.Errorf("server %d: digest %v, epoch %d, %d voters", p.Server, got.Tree.Digest(), got.Epoch, got.Voters)
		}
	}
}

// TestWriteStateIsAllOrNothing interrupts WriteState: no server starts with what is there, and
// the next WriteState succeeds. It never touches a directory that has data.
func TestWriteStateIsAllOrNothing(t *testing.T) {
	tree := importedTree(t)
	dir := t.TempDir()
	place := Place{DataDir: dir, LogDir: dir}
	start := func() error {
		s := newTestServer(t, Options{FS: fastFS{}, Config: parseConfig(t, dir)})
		if err := s.Start(t.Context()); err != nil {
			return err
		}
		return s.Close()
	}
	check(t, place.begin())
	id := newIdent()
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
		if err := CheckData(parseConfig(t, dir)); err == nil || !strings.Contains(err.Error(), "run it again") {
			t.Errorf("zkd config check says %v", err)
		}
	}
	check(t, WriteState(t.Context(), &State{Tree: tree}, place))
	check(t, start())
	if err := WriteState(t.Context(), &State{Tree: tree}, place); err == nil || !strings.Contains(err.Error(), "there is data of zkd") {
		t.Errorf("over data: %v", err)
	}
	other := Place{DataDir: t.TempDir(), LogDir: t.TempDir()}
	check(t, os.Mkdir(filepath.Join(other.LogDir, "version-2"), 0o700))
	if err := WriteState(t.Context(), &State{Tree: tree}, other); err == nil || !strings.Contains(err.Error(), "version-2") {
		t.Errorf("beside Apache's files: %v", err)
	}
	if _, err := ReadState(t.Context(), Place{DataDir: t.TempDir(), LogDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "there is no data of zkd") {
		t.Errorf("of an empty directory: %v", err)
	}
}

// TestApachePassword resumes a session that Apache's server has opened, with the password of
// that server, which the client also gets back. Such a password is of no use for a session of
// zkd.
func TestApachePassword(t *testing.T) {
	dir := t.TempDir()
	check(t, WriteState(t.Context(), &State{Tree: importedTree(t)}, Place{DataDir: dir, LogDir: dir}))
	s := startOn(t, fastFS{}, dir)
	resume := func(id jute.SessionID, password session.Password) jute.ConnectResponse {
		return s.dial(t, dialOptions{}).establish(&jute.ConnectRequest{TimeoutMs: 30000, SessionID: id, Password: password[:]})
	}
	const moved, own jute.SessionID = 0x100002d57e4000d, 7
	r := resume(moved, session.ApachePassword(moved))
	if r.SessionID != moved || session.Password(r.Password) != session.ApachePassword(moved) {
		t.Errorf("the session was resumed as %v, password %x", r.SessionID, r.Password)
	}
	for id, password := range map[jute.SessionID]session.Password{moved: session.ApachePassword(moved + 1), own: session.ApachePassword(own), 99: session.ApachePassword(99)} {
		if r := resume(id, password); r.SessionID != 0 {
			t.Errorf("session %v was resumed with a wrong password", id)
		}
	}
	if r := resume(own, s.keys.Load().Password(own)); r.SessionID != own || session.Password(r.Password) != s.keys.Load().Password(own) {
		t.Errorf("zkd's session was resumed as %v", r.SessionID)
	}
}
