package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits/shares"
)

// reader reads all the time, and counts the answers.
func (e *testEnsemble) reader(id int) *atomic.Int64 {
	c, n := e.servers[id].connect(e.t), new(atomic.Int64)
	frame := frameOf(requestFrame(1, jute.OpExists, get("/", false)))
	go func() {
		for {
			if _, err := c.nc.Write(frame); err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			if _, err := c.frame(); err != nil {
				return
			}
			n.Add(1)
		}
	}()
	return n
}

// TestLimitsOverTheEnsemble has a client on one server, and then one on each of three: a limit is that of all together. When the
// leader has gone, another one divides it.
func TestLimitsOverTheEnsemble(t *testing.T) {
	const limit = 100
	inBubble(t, 3, []string{"zkd.limit.all=subtree / requests/s=100"}, func(t *testing.T, e *testEnsemble) {
		follower := e.follower()
		counts := make([]*atomic.Int64, 4)
		counts[follower] = e.reader(follower)
		time.Sleep(3 * time.Second)
		served := func(what string, d time.Duration, least, most float64, of ...int) {
			t.Helper()
			sum := int64(0)
			for _, id := range of {
				sum -= counts[id].Load()
			}
			time.Sleep(d)
			for _, id := range of {
				sum += counts[id].Load()
			}
			if perSecond := float64(sum) / d.Seconds(); perSecond < least || perSecond > most {
				t.Errorf("%s: %.1f requests a second, want %v to %v", what, perSecond, least, most)
			}
		}
		served("a client alone", 5*time.Second, limit-1, limit+1, follower)
		for id := range counts[1:] {
			if id++; id != follower {
				counts[id] = e.reader(id)
			}
		}
		time.Sleep(5 * time.Second)
		served("three clients", 10*time.Second, 0.9*limit, 1.15*limit, 1, 2, 3)
		served("one of three", 5*time.Second, limit/3-2, limit/3+2, follower)
		old := e.leader()
		e.stop(old)
		counts[old] = new(atomic.Int64)
		e.leader()
		time.Sleep(shares.Word + 5*time.Second)
		served("two clients with another leader", 10*time.Second, 0.9*limit, 1.15*limit, 1, 2, 3)
		for id := 1; id <= 3; id++ {
			if id != old {
				e.servers[id].noErrors(t)
			}
		}
	})
}

// TestLimitsBesideAnEarlierVersion upgrades a follower of earlier servers, which do not know of shares, and has an earlier follower of later ones.
// Nobody is told what it does not know, and that follower counts by itself.
func TestLimitsBesideAnEarlierVersion(t *testing.T) {
	earlier := func(o *Options) { o.reads = format.History.Range().Most }
	later := func(*Options) {}
	for name, versions := range map[string][2]func(*Options){"earlier leader": {earlier, later}, "earlier follower": {later, earlier}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3, "zkd.limit.all=subtree / requests/s=100")
				start := func(id int, version func(*Options)) {
					if _, err := e.tryStart(id, version); err != nil {
						t.Fatal(err)
					}
				}
				for id := 1; id <= 3; id++ {
					e.disks[id] = crashfs.New(uint64(id))
					start(id, versions[0])
				}
				e.leader()
				e.settled()
				other := e.follower()
				e.stop(other)
				start(other, versions[1])
				e.settled()
				counts := make([]*atomic.Int64, 4)
				for id := range counts[1:] {
					counts[id+1] = e.reader(id + 1)
				}
				time.Sleep(5 * time.Second)
				before := counts[other].Load()
				time.Sleep(5 * time.Second)
				if got := counts[other].Load() - before; got < 495 || got > 505 {
					t.Errorf("server %d serves %d requests in 5 s, with a limit of 100 a second", other, got)
				}
				for id := 1; id <= 3; id++ {
					e.servers[id].noErrors(t)
				}
			})
		})
	}
}
