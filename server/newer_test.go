package server

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// laterEntries are entries of a later version, and a server's messages about them.
var laterEntries = []struct {
	name  string
	entry zab.Entry
	want  string
}{
	{"a later format of transactions", zab.Entry{Data: []byte{99}},
		"transaction format 99 was written by a later version of zkd; this version reads 1"},
	{"a later kind of operation", zab.Entry{Data: laterOp()},
		"transaction operation kind 99 was written by a later version of zkd; this version reads 0 to 12"},
	{"a later type of entry", zab.Entry{Type: 9, Data: []byte{1}},
		"entry type 9 was written by a later version of zkd; this version reads 0 to 3"},
}

// laterOp returns a transaction with an operation of a kind that does not exist.
func laterOp() []byte {
	txn := datatree.Txn{Ops: []datatree.Op{{Kind: datatree.OpCheck}}}
	b := txn.Append(nil)
	b[len(b)-2] = 99
	return b
}

// TestLaterEntryStopsAFollower checks that a follower that does not understand an entry
// ends, and names both versions. It used to acknowledge the entry, and to panic when it
// was committed. Its disk stays unchanged.
func TestLaterEntryStopsAFollower(t *testing.T) {
	for _, tt := range laterEntries {
		inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
			e.servers[e.leader()].connect(t).create("/a", "1")
			e.settled()
			id := e.follower()
			s := e.servers[id]
			status, last := s.standing.role.Load(), s.state.Applied()
			entry := tt.entry
			entry.Zxid, entry.Prev = last+1, last
			m := zab.Message{Kind: zab.MsgAppend, Epoch: status.Epoch, Prev: last, Commit: last + 1, Entries: []zab.Entry{entry}}
			// The entry as it arrives over the link.
			var came zab.Message
			if err := came.Decode(m.Append(nil)); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			links{s.loop, s.life.Context()}.Receive(status.Leader, status.LeaderGen, &came)
			err := s.mustFail(t)
			if fault.KindOf(err) != fault.Newer || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), fmt.Sprintf("server %d sent what this server can't read", status.Leader)) {
				t.Errorf("%s: the server ended with %v, want %q", tt.name, err, tt.want)
			}
			time.Sleep(time.Second)
			e.stop(id)
			e.start(id) // the entry was not the leader's, and nothing of it is in the log
			e.settled()
			if got := e.servers[id].state.Applied(); got != last && got.Epoch() == last.Epoch() {
				t.Errorf("%s: applied %v, want %v", tt.name, got, last)
			}
		})
	}
}

// TestLaterEntryInTheLogStopsTheStart checks that the start ends before anything is
// changed or applied, for a single server and for a member, which would otherwise set its
// log aside.
func TestLaterEntryInTheLogStopsTheStart(t *testing.T) {
	for _, tt := range laterEntries {
		for _, lines := range [][]string{nil, {"initLimit=5", "syncLimit=2", "zkd.myid=1", "server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2"}} {
			fs := crashfs.New(1)
			ident := data.NewIdentity()
			log, _, err := wal.Open(wal.Options{FS: fs, Dir: data.LogDir("/data"), SegmentSize: 128 << 10, Ident: ident.Encode()})
			check(t, err)
			sound := datatree.Txn{Zxid: 1, Err: jute.ErrNoNode}
			check(t, log.Append([]wal.Record{
				{Kind: wal.Append, Zxid: 1, Payload: sound.Append(nil)},
				{Kind: wal.Append, Type: uint8(tt.entry.Type), Zxid: 2, Prev: 1, Payload: tt.entry.Data},
			}))
			_, err = log.Sync()
			check(t, err)
			check(t, log.Close())
			owner := datadirs.Owner{Incarnation: ident.Incarnation}
			check(t, vfs.Replace(fs, "/data/"+datadirs.OwnerFile, owner.Encode(), ""))
			before := fs.Files()
			s := newTestServer(t, Options{FS: fs, Config: parseConfig(t, "/data", lines...)})
			err = s.Start(t.Context())
			if fault.KindOf(err) != fault.Newer || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "Start the version of zkd that wrote it") {
				t.Errorf("%s: start: %v, want %q", tt.name, err, tt.want)
			}
			if after := fs.Files(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%s: files %v, then %v", tt.name, before, after)
			}
		}
	}
}

// TestLaterSnapshotFromTheLeaderStopsAFollower checks that a follower ends if it can't
// load such a snapshot: asking for it again would not help.
func TestLaterSnapshotFromTheLeaderStopsAFollower(t *testing.T) {
	w := newWorld(t, 3, true)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		for id := 1; id <= 3; id++ {
			check(t, e.boot(id, 1<<30))
		}
		e.settled()
		s := e.servers[e.follower()]
		s.snapshots.mu.Lock()
		ref := s.snapshots.mu.refs[len(s.snapshots.mu.refs)-1]
		s.snapshots.mu.Unlock()
		snap := filepath.Join(dir, "snap")
		check(t, os.MkdirAll(snap, 0o700))
		b, err := os.ReadFile(s.snapshots.store.Path(ref.Name))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(snap, ref.Name), b, 0o600))
		makeNewer(t, dir)
		b, err = os.ReadFile(filepath.Join(snap, ref.Name))
		check(t, err)
		ref.CRC = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		before := inventory(t, []string{s.cfg.DataDir})
		synctest.Wait() // the peer loop also updates the wanted snapshot after a turn
		s.loop.arrivals.setWanted(2, 1)
		if err := (links{s.loop, s.life.Context()}).Stream(2, appendSnapHeader(nil, 1, &ref), bytes.NewReader(b)); fault.KindOf(err) != fault.Newer {
			t.Errorf("the stream: %v", err)
		}
		const want = "snapshot format 99 was written by a later version of zkd; this version reads 1 to 2"
		if err := s.mustFail(t); fault.KindOf(err) != fault.Newer || !strings.Contains(err.Error(), want) {
			t.Errorf("the server ended with %v, want %q", err, want)
		}
		for name := range inventory(t, []string{s.cfg.DataDir}) {
			if _, known := before[name]; !known && filepath.Ext(name) == ".db" {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// mustFail waits until the server ends by itself, and returns the error.
func (s *testServer) mustFail(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.Failed():
		return err
	case <-time.After(time.Minute):
		t.Fatal("the server does not end")
		return nil
	}
}
