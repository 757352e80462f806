package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/wal"
)

// historyFormat returns the version of format.History that the log needs.
func historyFormat(fsys vfs.FS, dataLogDir string) (needs uint32, err error) {
	_, err = wal.Verify(wal.Options{FS: fsys, Dir: data.LogDir(dataLogDir), CheckEntry: func(r *wal.Record) error {
		e := data.EntryOf(r)
		needs = max(needs, history.FormatOf(&e))
		return nil
	}})
	return needs, err
}

// TestUpgradeIsAnnounced has the data of an earlier version. Before the first start of this one a check says
// that it is final, and the start logs that; the second start does neither.
func TestUpgradeIsAnnounced(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/format1.tar.gz", dir)
	cfg := parseConfig(t, dir)
	const want = "log segment 1 becomes 2, log identity 1 becomes 2, snapshot 1 becomes 2"
	if remark := data.UpgradeRemark(t.Context(), cfg); !strings.Contains(remark, "log segment 1 becomes 2, snapshot 1 becomes 2") {
		t.Errorf("before the start: %q", remark)
	}
	found, err := data.Formats(t.Context(), cfg)
	if got := data.OlderFormats(found); err != nil || got != want {
		t.Errorf("before the start: %v, %v, want %q", found, err, want)
	}
	announced := func(s *testServer) (list []string) {
		for _, e := range s.logged.FilterMessageSnippet("the data is of an earlier version of zkd").All() {
			list = append(list, fmt.Sprint(e.ContextMap()["formats"]))
		}
		return list
	}
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, fastFS{}, dir)
		if got := announced(s); len(got) != 1 || got[0] != want {
			t.Errorf("the first start logged %q, want %q", got, want)
		}
		s.connect(t).create("/new", "")
		s = s.restart(t)
		if got := announced(s); len(got) != 1 || got[0] != "snapshot 1 becomes 2" { // the next one is written later
			t.Errorf("the second start logged %q", got)
		}
		check(t, s.Close())
	})
	if needs, err := historyFormat(fastFS{}, dir); err != nil || needs < datatree.FormatOwner {
		t.Errorf("the log has format %d, %v", needs, err)
	}
}

// TestRollingUpgrade restarts an ensemble of servers that read the transactions of an earlier version
// only, one by one, as servers that read all, and two of them back, while a client writes. Nothing is
// lost, and the history gets nothing that the earlier version can't read, until all servers read it. From then on
// a server of that version is refused.
func TestRollingUpgrade(t *testing.T) {
	const earlier = 2
	synctest.Test(t, func(t *testing.T) {
		reads := uint32(earlier)
		e := newEnsemble(t, 3)
		e.tune = func(s *Server) { s.opts.reads = reads }
		written := 0
		write := func() {
			t.Helper()
			for id := 1; id <= 3; id++ {
				s := e.servers[id]
				if s == nil {
					continue
				}
				e.await("it serves", s.service.serving.Load)
				c := s.connect(t) // opens a session
				for range 5 {
					c.create(fmt.Sprint("/w", written), "")
					written++
				}
				c.ok(jute.OpCloseSession, nil)
			}
		}
		restart := func(id int, as uint32) {
			t.Helper()
			e.stop(id)
			e.leader() // the others have noticed if it was the leader
			write()
			reads = as
			e.start(id)
			e.settled()
			write()
		}
		readable := func(when string) {
			t.Helper()
			e.settled()
			for id := 1; id <= 3; id++ {
				if needs, err := historyFormat(e.disks[id], e.dir); err != nil || needs > earlier {
					t.Errorf("%s: the history of server %d needs format %d, %v", when, id, needs, err)
				}
			}
		}
		for id := 1; id <= 3; id++ {
			e.disks[id] = crashfs.New(uint64(id))
			e.start(id)
		}
		e.leader()
		write()
		first, second := 1, 2
		last := e.leader()
		if last != 3 {
			first, second = last%3+1, (last+1)%3+1
		}
		restart(first, 0)
		readable("one server is upgraded")
		restart(second, 0)
		readable("two servers are upgraded")
		restart(second, earlier)
		restart(first, earlier)
		readable("all are back")
		restart(first, 0)
		restart(second, 0)
		restart(last, 0)
		e.settled()
		write()
		e.settled()
		if needs, err := historyFormat(e.disks[1], e.dir); err != nil || needs < datatree.FormatOwner {
			t.Errorf("all are upgraded: the history needs format %d, %v", needs, err)
		}
		c := e.servers[e.leader()].connect(t)
		for i := range written {
			if !c.exists(fmt.Sprint("/w", i)) {
				t.Errorf("/w%d is lost", i)
			}
		}
		e.stop(first)
		reads = earlier
		e.start(first)
		time.Sleep(10 * time.Second)
		if e.servers[first].service.serving.Load() {
			t.Error("a server of the earlier version serves")
		}
	})
}
