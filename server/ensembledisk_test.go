package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/server/wal"
)

func TestWipedServerIsTakenBack(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.leader()].connect(t)
		c.create("/a", "1")
		wiped := e.follower()
		e.kill(wiped)
		e.disks[wiped] = crashfs.New(99)
		e.start(wiped)
		e.settled()
		time.Sleep(3 * time.Second) // it is admitted
		// With it, two are a quorum again.
		e.kill(e.leader())
		e.leader()
		d := e.servers[wiped].connect(t)
		d.set("/a", "2")
	})
}

// A member starts for the first time when the others have founded the ensemble without it, and the
// leader is killed 300 ms later: the two others elect one. If it is killed before, they wait, and
// say for what.
func TestLateFounder(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		leads bool
	}{{300 * time.Millisecond, true}, {5 * time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 3)
			for id := 1; id <= 3; id++ {
				e.disks[id] = crashfs.New(uint64(id))
			}
			e.start(2)
			e.start(3)
			leader := e.leader()
			time.Sleep(5 * time.Second)
			e.start(1)
			time.Sleep(test.after)
			e.kill(leader)
			time.Sleep(10 * time.Second)
			other := e.servers[5-leader]
			if test.leads {
				if n := len(e.leaders()); n != 1 {
					t.Fatalf("%d leaders: %s", n, e.roles())
				}
				other.connect(t).create("/a", "1")
				return
			}
			want := fmt.Sprintf("too few voters for a majority: no link to server %d; server 1 has no vote: a leader has to admit it first", leader)
			if !other.said("no leader for 3 s: " + want) {
				t.Errorf("it says %q", other.messages())
			}
			if code, page := other.page("/readyz", ""); code != 503 || !strings.Contains(page, want) {
				t.Errorf("/readyz: %d %s", code, page)
			}
			e.start(leader)
			e.leader()
		})
	}
}

func TestWipedServersDoNotDecide(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		e.servers[e.leader()].connect(t).create("/a", "1")
		e.settled()
		for id := 1; id <= 3; id++ {
			e.stop(id)
		}
		// One returns with its data, one empty: two of three, but only one knows.
		e.disks[2] = crashfs.New(99)
		e.start(1)
		e.start(2)
		time.Sleep(time.Minute)
		for id := 1; id <= 2; id++ {
			if e.servers[id].service.serving.Load() {
				t.Fatalf("server %d serves: %s", id, e.roles())
			}
		}
		e.start(3)
		e.settled()
		if !e.servers[2].connect(t).exists("/a") {
			t.Error("an acknowledged write is lost")
		}
	})
}

func TestRollingRestart(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[1].connect(t)
		c.create("/a", "0")
		for round := range 2 {
			for id := 1; id <= 3; id++ {
				e.stop(id)
				s := e.servers[e.leader()]
				s.connect(t).set("/a", fmt.Sprint(round, id))
				e.start(id)
				e.settled()
			}
		}
		if v, _ := e.servers[2].connect(t).get("/a"); v != "1 3" {
			t.Errorf("read %q", v)
		}
	})
}

func TestColdStart(t *testing.T) {
	inBubble(t, 5, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.leader()].connect(t)
		for i := range 100 {
			c.create(fmt.Sprint("/n", i), "x")
		}
		for id := 1; id <= 5; id++ {
			e.kill(id)
		}
		for _, id := range []int{4, 2, 5} {
			e.start(id)
			time.Sleep(10 * time.Second)
		}
		e.leader()
		d := e.servers[4].connect(t)
		for i := range 100 {
			if !d.exists(fmt.Sprint("/n", i)) {
				t.Fatalf("acknowledged write %d is lost", i)
			}
		}
		e.start(1)
		e.start(3)
		e.settled()
	})
}

// startPurging starts three servers that take snapshots often, keep little of the log in memory, and
// purge what the last snapshots don't need. Snapshots need real files, in dir.
func startPurging(t *testing.T, dir string) *testEnsemble {
	e := newEnsemble(t, 3, "snapCount=50", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1")
	e.dir = dir
	e.tune = func(s *Server) { s.limits.cache = 64 << 10 }
	e.startAll()
	e.leader()
	time.Sleep(2 * time.Second)
	return e
}

// fill creates /n0 to /n299 with a value, and gives the servers time for six snapshots.
func fill(c *client) (value string) {
	value = strings.Repeat("x", 4000)
	for i := range 300 {
		c.create(fmt.Sprint("/n", i), value)
		if i%50 == 0 {
			time.Sleep(time.Second) // snapshots are written concurrently
			c.ping()
		}
	}
	return value
}

func TestSnapshotToALateServer(t *testing.T) {
	dir := t.TempDir() // snapshots need real files
	synctest.Test(t, func(t *testing.T) {
		e := startPurging(t, dir)
		late := e.follower()
		c := e.servers[e.leader()].connect(t)
		c.ephemeral("/before")
		e.stop(late)
		value := fill(c)
		d := e.servers[e.leader()].logWriter
		if _, err := d.NewReader(0); !errors.Is(err, wal.ErrPurged) {
			t.Fatalf("the log still reaches back to the beginning: %v", err)
		}
		e.start(late)
		e.settled()
		if e.servers[e.leader()].metrics.SnapshotsSent.Load() != 1 {
			t.Error("the late server was synchronized without a snapshot")
		}
		for _, id := range []int{late, late} { // and once more from its own disk
			l := e.servers[id].connect(t)
			if v, _ := l.get("/n299"); v != value || !l.exists("/before") {
				t.Fatal("the late server lacks data")
			}
			c.ping()
			e.stop(late)
			c.set("/n0", "y")
			e.start(late)
			e.settled()
		}
	})
}

// TestLostSnapshotsAreRepaired checks that a member whose snapshots are gone does not
// start, since they may return. With the flag that its message names it sets its data
// aside and gets everything from the leader; the same flag has no effect at a later
// start.
func TestLostSnapshotsAreRepaired(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := startPurging(t, dir)
		value := fill(e.servers[e.leader()].connect(t))
		e.settled()
		hurt := e.follower()
		e.stop(hurt)
		if err := os.RemoveAll(fmt.Sprintf("%s/%d/snap", dir, hurt)); err != nil {
			t.Fatal(err)
		}
		_, err := e.tryStart(hurt)
		if fault.KindOf(err) != fault.Missing {
			t.Fatalf("start without snapshots: %v, want a refusal", err)
		}
		order := regexp.MustCompile(`--set-data-aside=([0-9a-f]+)`).FindStringSubmatch(err.Error())
		if order == nil {
			t.Fatalf("the message names no way out: %v", err)
		}
		for range 2 {
			s, err := e.tryStart(hurt, func(o *Options) { o.SetDataAside = order[1] })
			if err != nil {
				t.Fatal(err)
			}
			e.settled()
			time.Sleep(3 * time.Second) // admitted again
			if s.standing.role.Load().NotCounted != "" {
				t.Errorf("it does not count: %s", s.standing.role.Load().NotCounted)
			}
			e.stop(hurt)
		}
		e.start(hurt)
		e.settled()
		e.stop(e.leader())
		e.leader()
		if v, _ := e.servers[hurt].connect(t).get("/n299"); v != value {
			t.Error("the repaired server lacks data")
		}
	})
}

func TestAloneAndBackToAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		c := e.servers[e.leader()].connect(t)
		c.create("/a", "1")
		e.settled()
		for id := 1; id <= 3; id++ {
			e.stop(id)
		}
		alone := startOn(t, e.disks[1], "/data")
		alone.connect(t).create("/b", "2")
		if err := alone.Close(); err != nil {
			t.Fatal(err)
		}
		// The rest of the old ensemble does not accept it as a member.
		e.start(1)
		e.start(2)
		time.Sleep(time.Minute)
		if e.servers[1].service.serving.Load() || e.servers[2].service.serving.Load() {
			t.Fatalf("two histories were joined: %s", e.roles())
		}
		e.stop(1)
		e.stop(2)
		e.disks[2], e.disks[3] = crashfs.New(20), crashfs.New(30)
		e.start(1)
		e.start(2)
		e.leader()
		e.start(3)
		e.settled()
		d := e.servers[3].connect(t)
		if !d.exists("/a") || !d.exists("/b") {
			t.Error("data is lost")
		}
	})
}

func TestEmptyServersWaitForData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "db.autocreate=false")
		for id := 1; id <= 3; id++ {
			e.disks[id] = crashfs.New(uint64(id))
		}
		e.start(1)
		e.start(2)
		time.Sleep(time.Minute)
		e.stop(1)
		e.start(1)
		time.Sleep(time.Minute)
		if e.servers[1].service.serving.Load() || e.servers[2].service.serving.Load() {
			t.Fatalf("empty servers made an ensemble: %s", e.roles())
		}
		for id := 1; id <= 2; id++ {
			e.stop(id)
			e.disks[id] = crashfs.New(uint64(10 + id))
			e.disks[id].MkdirAll("/data")
			f, err := e.disks[id].Create("/data/initialize")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
			e.start(id)
		}
		e.leader()
		e.start(3)
		e.settled()
		if w := e.servers[3].standing.role.Load().NotCounted; w != "" {
			time.Sleep(5 * time.Second)
			if w = e.servers[3].standing.role.Load().NotCounted; w != "" {
				t.Errorf("the third server does not count: %s", w)
			}
		}
	})
}

// TestLeaderStaysWithoutSyncs checks that with forceSync=no, where nothing waits for a
// sync, no disk looks stuck and no leader hands over because of it.
func TestLeaderStaysWithoutSyncs(t *testing.T) {
	inBubble(t, 3, []string{"forceSync=no"}, func(t *testing.T, e *testEnsemble) {
		first := e.leader()
		epoch := e.servers[first].standing.role.Load().Epoch
		c := e.servers[first].connect(t)
		c.create("/a", "0")
		for i := range 20 {
			time.Sleep(time.Second)
			c.set("/a", fmt.Sprint(i))
		}
		if now := e.leader(); now != first || e.servers[now].standing.role.Load().Epoch != epoch {
			t.Errorf("server %d leads in epoch %d, want %d in %d", now, e.servers[now].standing.role.Load().Epoch, first, epoch)
		}
		for id := 1; id <= 3; id++ {
			if n := e.servers[id].metrics.Fsync.Count(); n != 0 {
				t.Errorf("server %d counts %d syncs, and made none", id, n)
			}
		}
	})
}

// TestNoSnapshotWithoutDescriptors checks that a leader that can't open a snapshot for a learner rests before the learner
// asks again, until the link or the server ends.
func TestNoSnapshotWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		for _, tt := range []struct {
			ctx  context.Context
			err  error
			want time.Duration
		}{
			{t.Context(), fmt.Errorf("open: %w", syscall.EMFILE), time.Second},
			{t.Context(), fmt.Errorf("write: %w", syscall.ENOSPC), time.Second},
			{t.Context(), errLinkLost, 0},
			{ended, syscall.EMFILE, 0},
		} {
			began := time.Now()
			restAfter(tt.ctx, tt.err)
			if got := time.Since(began); got != tt.want {
				t.Errorf("%v: it rests for %v, want %v", tt.err, got, tt.want)
			}
		}
	})
}
