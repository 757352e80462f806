package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

// restorable is a server or an ensemble of which there are a backup and the directory of a server.
type restorable struct {
	client   *client
	backup   string // at the moment to go back to
	place    data.Place
	at, last jute.Zxid // that moment, and what came after it
}

// loseAfterBackup lets a client write before and after a backup of a server.
func loseAfterBackup(t *testing.T, s *testServer, place data.Place) *restorable {
	t.Helper()
	c := s.connect(t)
	c.create("/kept", "")
	c.ephemeral("/mine")
	l := &restorable{client: c, place: place, at: c.set("/kept", "1").Zxid}
	snap, err := s.pages().TakeSnapshot(t.Context())
	check(t, err)
	b, err := io.ReadAll(snap)
	check(t, errors.Join(err, snap.Close()))
	l.backup = filepath.Join(t.TempDir(), "backup.db")
	check(t, os.WriteFile(l.backup, b, 0o600))
	for range 5 {
		l.last = c.set("/kept", "undone").Zxid
	}
	return l
}

// check compares what a server of the restored data does with docs/backup.md: sessions in the backup
// continue, what came after it is gone, and a feed that has seen that is told so.
func (l *restorable) check(t *testing.T, name string, s *testServer, ahead bool) {
	t.Helper()
	if ahead {
		l.client.zxid = l.last // as its client has seen
	} else {
		l.client.zxid = 0 // a server without an ensemble refuses it otherwise
	}
	c := l.client.resumeAt(t, s)
	if c.session != l.client.session {
		t.Fatalf("%s: the session %v is %v", name, l.client.session, c.session)
	}
	if data, _ := c.get("/kept"); data != "1" || !c.exists("/mine") {
		t.Errorf("%s: /kept is %q", name, data)
	}
	if ahead && c.set("/kept", "2").Zxid <= l.last {
		t.Errorf("%s: zxid %v, and its client has seen %v", name, c.zxid, l.last)
	}
	if status, problem := s.feed(t, fmt.Sprint("after=", l.last)); status != http.StatusGone {
		t.Errorf("%s: a feed after what is undone: %d %s", name, status, problem)
	}
	if status, events := s.feed(t, fmt.Sprint("after=", l.at)); status != http.StatusOK {
		t.Errorf("%s: a feed after the moment: %d %s", name, status, events)
	}
	sub := s.subscriber(t, nil)
	if r := sub.subscribe(all(1, l.last)); !r.Compacted || r.Zxid > l.at {
		t.Errorf("%s: a feed on a connection: %+v", name, r)
	}
	if r := sub.subscribe(all(2, l.at)); r.Compacted {
		t.Errorf("%s: a feed on a connection after the moment: %+v", name, r)
	}
}

// TestRestored restores a backup, and the data of a server at a moment, for an ensemble and for a server
// without one.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		single := data.Place{DataDir: t.TempDir()}
		single.LogDir = single.DataDir
		s := startOn(t, fastFS{}, single.DataDir)
		losses := map[string]*restorable{"a server": loseAfterBackup(t, s, single)}
		check(t, s.Close())

		e := newEnsemble(t, 3, "forceSync=no")
		e.dir = t.TempDir()
		e.startAll()
		id := e.leader()
		time.Sleep(2 * time.Second) // all are admitted
		member := data.Place{DataDir: fmt.Sprintf("%s/%d", e.dir, id), Server: zab.SID(id)}
		member.LogDir = member.DataDir
		losses["a member"] = loseAfterBackup(t, e.servers[id], member)
		e.close()

		for from, l := range losses {
			for _, at := range []string{"backup", "moment"} {
				l.restore(t, from+"'s "+at, at == "backup")
			}
		}
	})
}

// state returns what is restored.
func (l *restorable) state(t *testing.T, backup bool) *data.Contents {
	t.Helper()
	st, err := data.ReadAt(t.Context(), l.place, history.Moment{Zxid: l.at})
	if backup {
		st, err = data.ReadSnapshot(t.Context(), l.backup)
	}
	check(t, err)
	return st
}

func (l *restorable) restore(t *testing.T, name string, backup bool) {
	t.Helper()
	alone := data.Place{DataDir: t.TempDir()}
	alone.LogDir = alone.DataDir
	check(t, data.Write(t.Context(), l.state(t, backup), alone))
	s := startOn(t, fastFS{}, alone.DataDir)
	l.check(t, name+" for a server", s, false)
	check(t, s.Close())

	e := newEnsemble(t, 3, "forceSync=no")
	e.dir = t.TempDir()
	var places []data.Place
	for id := 1; id <= 3; id++ {
		dir := fmt.Sprintf("%s/%d", e.dir, id)
		places = append(places, data.Place{DataDir: dir, LogDir: dir, Server: zab.SID(id)})
	}
	st := l.state(t, backup)
	st.Epoch += 1000 // as zkd restore does
	check(t, data.Write(t.Context(), st, places...))
	e.startAll()
	l.check(t, name+" for an ensemble", e.servers[e.leader()], true)
	e.close()
}

// TestMomentsAreOfTheLeadersClock goes back to a time with snapshots that servers took whose clocks are behind
// and ahead of the leader's: a snapshot is from before that time if its transactions are.
func TestMomentsAreOfTheLeadersClock(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leader time.Duration // the time of the last transaction, seen from the clock that the snapshot has
		at     time.Duration
		before bool
	}{
		{"the server is behind", 10 * time.Second, 5 * time.Second, false},
		{"the server is behind, and the time after the transaction", 10 * time.Second, 11 * time.Second, true},
		{"the server is ahead", -time.Minute, -30 * time.Second, true},
		{"the server is ahead, and the time before the transaction", -time.Minute, -61 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			tree := treetest.Imported(t)
			tree.Apply(&datatree.Txn{Zxid: tree.LastZxid() + 1, Time: now.Add(tt.leader).UnixMilli(), Ops: []datatree.Op{{Kind: datatree.OpError}}}, new(datatree.Applied))
			dir := t.TempDir()
			place := data.Place{DataDir: dir, LogDir: dir}
			check(t, data.Write(t.Context(), &data.Contents{Tree: tree, Epoch: 4}, place))
			at := history.Moment{Time: now.Add(tt.at)}
			if _, err := data.ReadAt(t.Context(), place, at); (err == nil) != tt.before {
				t.Errorf("of a dataDir: %v", err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "snap", "*.db"))
			check(t, err)
			a, err := archive.One(t.Context(), files[0])
			check(t, err)
			if _, err := a.StateAt(t.Context(), at); (err == nil) != tt.before {
				t.Errorf("of an archive: %v", err)
			}
		})
	}
}
