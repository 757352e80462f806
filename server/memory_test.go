package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
)

// TestTreeShare: what a process may use is divided between the tree and the rest, and the limits of work in
// progress are parts of it.
func TestTreeShare(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ limit, tree, work int64 }{
		{0, 0, defaultLimits.sum()},
		{64 * mib, 16 * mib, 13 * mib},
		{128 * mib, 40 * mib, 26 * mib},
		{512 * mib, 215 * mib, 92 * mib},
		{16 << 30, 8676 * mib, 964 * mib},
	} {
		l := limitsWithin(tt.limit)
		tree, work := treeShare(tt.limit), l.sum()
		if tree/mib < tt.tree/mib-1 || tree/mib > tt.tree/mib+1 || work/mib < tt.work/mib-1 || work/mib > tt.work/mib+1 {
			t.Errorf("of %d MiB, the tree may take %d MiB and work %d; want %d and %d", tt.limit/mib, tree/mib, work/mib, tt.tree/mib, tt.work/mib)
		}
		if tt.limit > 0 && tree+tree/4+work > tt.limit*9/10 {
			t.Errorf("of %d MiB, the tree, a snapshot and work may take %d", tt.limit/mib, (tree+tree/4+work)/mib)
		}
	}
}

// TestMemoryWithoutSense: a limit at which no server can work refuses writes, and ends nothing.
func TestMemoryWithoutSense(t *testing.T) {
	for _, limit := range []int64{1, 3, 99, 100, 1 << 20, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			s := startWith(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data"), MemoryLimit: limit})
			c := s.connect(t)
			time.Sleep(2 * time.Second)
			want := jute.ErrNotReadOnly
			if limit == math.MaxInt64 {
				want = 0
			}
			if r := c.call(jute.OpCreate, create("/a", "", 0)); r.Err != want {
				t.Errorf("with %d bytes: %v, want %v", limit, r.Err, want)
			}
			if text := s.ask(t, "mntr", false); !strings.Contains(text, "zk_memory_used_percent") {
				t.Errorf("mntr:\n%s", text)
			}
		})
	}
}

// fill creates nodes of 1 KiB until the server refuses one, and returns how many there are.
func (c *client) fill(dir string) int {
	c.t.Helper()
	c.create(dir, "")
	for n := range 10_000 {
		switch r := c.call(jute.OpCreate, create(fmt.Sprint(dir, "/", n), strings.Repeat("x", 1024), 0)); r.Err {
		case 0:
		case jute.ErrNotReadOnly:
			return n
		default:
			c.t.Fatalf("create: %v", r.Err)
		}
	}
	c.t.Fatal("nothing is refused")
	return 0
}

// saysNoRoom checks what operators are shown of a server.
func (s *testServer) saysNoRoom(t *testing.T, remark string, treeFull bool) {
	t.Helper()
	line, note := "Memory: "+remark+"\n", "the memory is "+remark
	if text := s.ask(t, "srvr", false); strings.Contains(text, line) != (remark != "") || strings.Contains(text, "Memory: ") != (remark != "") {
		t.Errorf("srvr, want the line %q:\n%s", line, text)
	}
	if text := s.ask(t, "mntr", false); strings.Contains(text, "\nzk_tree_full\t1\n") != treeFull {
		t.Errorf("mntr, want zk_tree_full to be %v:\n%s", treeFull, text)
	}
	status, body := s.page("/readyz", "")
	if status != http.StatusOK || strings.Contains(body, note) != (remark != "") {
		t.Errorf("readyz is %d %q, want the note %q", status, body, note)
	}
}

// TestMemoryOfOneMember: the leader refuses what the member with the least memory can't hold, whichever of them leads,
// and takes it again when something is deleted, or when that member is away.
func TestMemoryOfOneMember(t *testing.T) {
	const small = 3
	tune := func(s *Server) {
		s.memory.tree = 1 << 30
		if s.id == small {
			s.memory.tree = datatree.New().Memory() + 1<<20
		}
	}
	inTunedBubble(t, 3, tune, nil, func(t *testing.T, e *testEnsemble) {
		for _, dir := range []string{"/a", "/b"} {
			leader := e.servers[e.leader()]
			c := leader.connect(t)
			n := c.fill(dir)
			if n < 100 {
				t.Errorf("%d nodes of 1 KiB in a tree of 1 MiB", n)
			}
			time.Sleep(2 * time.Second)
			leader.saysNoRoom(t, "full: the tree may not grow, by the memory of server 3: writes that need more are refused", true)
			if !leader.said("the tree has no room to grow") {
				t.Errorf("the log has %q", leader.messages())
			}
			operator := leader.connect(t)
			if r := operator.call(jute.OpCreate, create(dir+"/e", strings.Repeat("x", 1100), jute.ModeEphemeral)); r.Err != jute.ErrNotReadOnly {
				t.Errorf("an ephemeral: %v", r.Err)
			}
			operator.set(dir+"/0", "shorter")
			for i := range n {
				operator.ok(jute.OpDelete, &jute.DeleteRequest{Path: fmt.Sprint(dir, "/", i), Version: -1})
			}
			operator.ok(jute.OpDelete, &jute.DeleteRequest{Path: dir, Version: -1})
			time.Sleep(2 * time.Second)
			leader.saysNoRoom(t, "", false)
			operator.create(dir, "")
			if dir == "/a" {
				old := e.leader()
				e.kill(old)
				e.leader()
				e.start(old)
				e.settled()
				time.Sleep(2 * time.Second)
			}
		}
		c := e.servers[e.leader()].connect(t)
		c.fill("/c")
		if e.leader() == small {
			return // it can't hold more while it leads
		}
		e.kill(small)
		time.Sleep(10 * time.Second)
		c.create("/c/more", strings.Repeat("x", 4096))
	})
}

// TestMemoryIsShort: a server whose process uses most of its memory, for whatever, takes nothing that needs
// more, until a collection shows that there is memory again.
func TestMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, inUse, collections atomic.Int64
		opts := Options{FS: crashfs.New(1), Config: parseConfig(t, "/data"), MemoryLimit: 1 << 30}
		s := newTestServer(t, opts)
		s.memory.measure = func() (int64, int64) { return live.Load() << 30 / 100, inUse.Load() << 30 / 100 }
		s.memory.collect = func() { collections.Add(1) }
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c := s.connect(t)
		c.create("/a", "data")
		for _, step := range []struct {
			live, inUse int64
			short       bool
		}{{74, 94, false}, {76, 80, true}, {72, 80, true}, {69, 80, false}, {60, 95, true}, {60, 92, true}, {60, 90, false}} {
			live.Store(step.live)
			inUse.Store(step.inUse)
			time.Sleep(2 * time.Second)
			want, remark := jute.Code(0), ""
			if step.short {
				want, remark = jute.ErrNotReadOnly, "short: writes that need more are refused on all servers"
			}
			if r := c.call(jute.OpCreate, create("/b", "", 0)); r.Err != want {
				t.Errorf("with %d and %d percent: %v, want %v", step.live, step.inUse, r.Err, want)
			}
			if !step.short {
				c.ok(jute.OpDelete, &jute.DeleteRequest{Path: "/b", Version: -1})
			}
			c.set("/a", "same")
			c.stay(10 * time.Second)
			s.saysNoRoom(t, remark, step.short)
		}
		if n := collections.Load(); n < 4 || n > 20 {
			t.Errorf("%d collections", n)
		}
		c.create("/c", "")
	})
}

// TestWatchesTakeTooMuchMemory: beyond their part of the memory no watch is set, and one that is restored ends
// the connection at twice the part. Reads without one are answered.
func TestWatchesTakeTooMuchMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data"), MemoryLimit: 16 << 20})
		c := s.connect(t)
		c.create("/a", "data")
		watch := func(i int) reply {
			return c.call(jute.OpExists, &jute.PathWatchRequest{Path: fmt.Sprintf("/%01000d", i), Watch: true})
		}
		n := 0
		for watch(n).Err == jute.ErrNoNode {
			n++
		}
		if r := watch(n); r.Err != jute.ErrNotReadOnly || n < 1500 || n > 2000 {
			t.Errorf("after %d watches of 1,000 bytes: %v", n, r.Err)
		}
		if r := c.call(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/a", Mode: jute.AddPersistent}); r.Err != jute.ErrNotReadOnly {
			t.Errorf("addWatch: %v", r.Err)
		}
		c.get("/a")
		if text := s.ask(t, "mntr", false); !strings.Contains(text, "\nzk_watches_refused\t3\n") {
			t.Errorf("mntr:\n%s", text)
		}
		for range 2 * n {
			d := s.connect(t)
			p := &jute.SetWatchesRequest{RelativeZxid: c.zxid}
			for i := range 500 {
				p.Exist = append(p.Exist, fmt.Sprintf("/%d-%0900d", n, i))
			}
			n++
			d.send(jute.OpSetWatches, p)
			if _, err := d.frame(); err != nil {
				break
			}
		}
		if have, most := s.state.Watches.Memory(), s.memory.watches(); have < 2*most || have > 3*most {
			t.Errorf("watches take %d bytes, of %d", have, most)
		}
		c.stay(30 * time.Second)
		c.get("/a")
	})
}

// TestSnapshotIsGivenUp: a snapshot for which too much of the former tree is kept, and that does not end, is
// given up, so that changes continue. The next one is written.
func TestSnapshotIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		opts := Options{FS: fs, Config: parseConfig(t, "/data", "snapCount=1000000"), MemoryLimit: 1 << 30}
		s := newTestServer(t, opts)
		s.memory.tree = 1 << 20
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c := s.connect(t)
		value := strings.Repeat("x", 100_000)
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			c.create(path, value)
		}
		well := make(chan struct{})
		fs.SetHook(func(op crashfs.Op) error {
			if strings.Contains(op.Name, "/tmp/") {
				<-well
			}
			return nil
		})
		s.snapshots.askFor()
		before := time.Now()
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			c.set(path, value)
		}
		c.set("/a", value)
		if d := time.Since(before); d < snapshotPatience || d > 2*snapshotPatience {
			t.Errorf("five sets took %v", d)
		}
		fs.SetHook(nil)
		close(well)
		time.Sleep(time.Second)
		if !s.said("snapshot failed") {
			t.Errorf("the log has %q", s.messages())
		}
		if ref, ok := s.snapshots.Last(); ok && ref.Zxid > 0 {
			t.Errorf("the log refers to %+v", ref)
		}
		s.snapshots.askFor()
		time.Sleep(time.Second)
		if ref, _ := s.snapshots.Last(); ref.Zxid != s.state.Applied() {
			t.Errorf("the newest snapshot is %+v", ref)
		}
		digest := s.digest()
		if s.restart(t).digest() != digest {
			t.Error("another tree after a restart")
		}
	})
}

// TestSnapshotWithoutMemoryForTwoTrees: a server that has a tree, and gets another one from the leader, drops its own
// first if it has no memory for both. A server whose memory can't hold the tree says so, and tries again when
// it has more.
func TestSnapshotWithoutMemoryForTwoTrees(t *testing.T) {
	dir := t.TempDir() // snapshots need real files
	synctest.Test(t, func(t *testing.T) {
		const late = 2
		share := int64(0)
		e := newEnsemble(t, 3, "snapCount=40", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1")
		e.dir = dir
		e.tune = func(s *Server) {
			s.limits.cache = 64 << 10
			if s.id == late {
				s.memory.tree = share
			}
		}
		e.startAll()
		time.Sleep(2 * time.Second)
		work := func() {
			c := e.servers[e.leader()].connect(t)
			value := strings.Repeat("x", 20_000)
			for i := range 100 {
				c.call(jute.OpCreate, create(fmt.Sprintf("/n%04d", i), value, 0))
			}
			for i := range 300 {
				c.set(fmt.Sprintf("/n%04d", i%100), value)
				if i%20 == 0 {
					time.Sleep(time.Second) // snapshots are written concurrently
				}
			}
		}
		work()
		e.settled()
		had := e.servers[late].state.Applied()
		e.stop(late)
		work()
		if _, err := e.servers[e.leader()].logWriter.NewReader(had); !errors.Is(err, wal.ErrPurged) {
			t.Fatalf("the log still reaches back to %v: %v", had, err)
		}
		share = 1 << 20
		s := e.start(late)
		time.Sleep(10 * time.Second)
		if s.service.Serving() || !s.said("it needs as much memory as the other members") {
			t.Errorf("%s; the log has %q", e.roles(), s.messages())
		}
		e.stop(late)
		share = 2 << 20
		s = e.start(late)
		if s.memory.holds(s.state.TreeMemory(), s.state.TreeMemory()) {
			t.Fatalf("a tree of %d bytes has room twice", s.state.TreeMemory())
		}
		e.settled()
		if ref, _ := s.snapshots.Last(); !ref.Installed {
			t.Error("it got no snapshot")
		}
		s.connect(t).get("/n0001")
	})
}
