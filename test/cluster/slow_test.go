package cluster

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/jute"
)

var links = flag.Bool("links", false, "TestSlowLinks runs all rates, loads and joiners, which takes long, and not only three")

// narrow is an ensemble on slow links: the rate in each direction between two servers,
// what clients write meanwhile, and which server joins.
type narrow struct {
	rate   int    // bytes per second
	value  int    // bytes of a set, in bursts of burst; 0 for no writes
	joiner string // "empty", "late": it lacks a part of the log; "snapshot": that was purged
}

func (n narrow) String() string {
	load := "no writes"
	if n.value > 0 {
		load = fmt.Sprintf("sets of %d KB", n.value/1000)
	}
	return fmt.Sprintf("%.1f MB per s, %s, %s", float64(n.rate)/1e6, load, n.joiner)
}

// TestSlowLinks has a server join an ensemble on slow links while clients write in
// bursts. The leader stays, what was acknowledged is everywhere in the end, and the
// server joins. Without -links these are three cases, else all.
func TestSlowLinks(t *testing.T) {
	if testing.Short() {
		return
	}
	t.Parallel()
	list := []narrow{{500_000, 1_000_000, "late"}, {1_000_000, 1_000_000, "snapshot"}, {4_000_000, 100_000, "empty"}}
	if *links {
		list = nil
		for _, rate := range []int{500_000, 1_000_000, 4_000_000, 12_000_000} {
			for _, value := range []int{0, 100_000, 1_000_000} {
				for _, joiner := range []string{"empty", "late", "snapshot"} {
					list = append(list, narrow{rate, value, joiner})
				}
			}
		}
	}
	for _, n := range list {
		t.Run(n.String(), func(t *testing.T) {
			if !*links {
				t.Parallel()
			}
			n.run(t)
		})
	}
}

// burst is how long the bytes of a burst take: longer than heartbeats may be missing, so
// that a burst in front of them would depose the leader. That time is long enough for a
// busy machine.
const burst = 10

// slowly is the configuration: values of 1 MB, and snapshots and purges all the time.
var slowly = []string{
	"tickTime=400", "initLimit=50", "syncLimit=10", "zkd.electionTimeout=8000", "zkd.heartbeat=100", "jute.maxbuffer=2000000", "snapCount=500", "snapSizeLimitInKb=1000",
	"autopurge.snapRetainCount=3", "autopurge.purgeInterval=1", "maxSessionTimeout=120000", "maxClientCnxns=0",
}

func (n narrow) run(t *testing.T) {
	e := newEnsemble(t, shape{voters: 3, only: slowly})
	e.start()
	e.awaitAll()
	leader := e.awaitLeader()
	joiner := e.followers()[0]
	w := newWriter(t, leader, 100)
	size := min(3*n.rate, 12_000_000)
	w.write(size/100, 100)
	joiner.Kill()
	switch n.joiner {
	case "empty":
		if err := os.RemoveAll(joiner.Data); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(joiner.Data, 0o755); err != nil {
			t.Fatal(err)
		}
		joiner.identify(joiner.id)
	case "snapshot":
		purged := strings.Count(leader.Log(), "purged")
		for poll := 0; strings.Count(leader.Log(), "purged") < purged+3; poll++ {
			if poll == 200 {
				t.Fatal("the log is not purged")
			}
			w.write(100_000, 10)
		}
	}
	w.write(size/100, 30)
	epoch := epochOf(t, leader)

	for _, f := range e.net.flows {
		f.set(weather{rate: n.rate, shared: true})
	}
	begun := time.Now()
	linked := strings.Count(leader.Log(), "linked to a peer")
	joiner.start()
	if !awaitFor(patience, func() bool { return strings.Count(leader.Log(), "linked to a peer") > linked }) {
		t.Fatalf("server %d does not reach the leader", joiner.id)
	}
	var stop atomic.Bool
	var load sync.WaitGroup
	w.acked = 0
	if n.value > 0 {
		load.Go(func() {
			for bursts := 0; bursts < 2 || !stop.Load(); bursts++ {
				if !w.write(n.value, max(burst*n.rate/n.value, 2)) {
					return
				}
			}
		})
	}
	joined := awaitFor(3*time.Minute, func() bool { return joiner.mode() == "follower" })
	took := time.Since(begun)
	stop.Store(true)
	load.Wait()
	if !joined {
		t.Errorf("server %d has not joined after %v", joiner.id, took.Round(time.Second))
	}
	if now := epochOf(t, leader); leader.mode() != "leader" || now != epoch {
		t.Errorf("server %d led epoch %s, and is %q in epoch %s", leader.id, epoch, leader.mode(), now)
	}
	t.Logf("joined after %v; %d sets of %d bytes acknowledged meanwhile", took.Round(10*time.Millisecond), w.acked, n.value)
	e.net.heal()
	for _, s := range e.servers {
		w.check(s)
	}
}

func awaitFor(most time.Duration, done func() bool) bool {
	for end := time.Now().Add(most); !done(); {
		if time.Now().After(end) {
			return false
		}
		<-time.After(100 * time.Millisecond)
	}
	return true
}

var zxidLine = regexp.MustCompile(`(?m)^Zxid: 0x([0-9a-f]+)`)

// epochOf returns the epoch of a server's last zxid.
func epochOf(t *testing.T, s *server) string {
	t.Helper()
	text, err := ask.Within(patience, s.addr, "srvr")
	m := zxidLine.FindStringSubmatch(text)
	if err != nil || m == nil || len(m[1]) < 9 {
		t.Fatalf("server %d: srvr: %v %q", s.id, err, text)
	}
	return m[1][:len(m[1])-8]
}

// writer is a session at the leader that sets nodes, each to a value that it remembers.
type writer struct {
	t     *testing.T
	conn  *conn
	nodes int
	tags  int
	last  []string // by node: the value that was acknowledged last
	acked int
}

func newWriter(t *testing.T, s *server, nodes int) *writer {
	t.Helper()
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000}, 2*patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &writer{t: t, conn: c, nodes: nodes, last: make([]string, nodes)}
	for i := range nodes {
		if err := c.do(&op{code: jute.OpCreate2, path: w.path(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *writer) path(i int) string { return fmt.Sprintf("/n%d", i) }

// write sets count nodes at once, and waits until all is acknowledged. It reports
// whether that went well.
func (w *writer) write(size, count int) bool {
	ops := make([]*op, count)
	for i := range ops {
		w.tags++
		o := &op{code: jute.OpSetData, path: w.path(w.tags % w.nodes), version: -1}
		o.data = strings.Repeat("x", size) + fmt.Sprintf(",%d", w.tags)
		ops[i] = o
		w.conn.Put(o.code, o.request())
	}
	if err := w.conn.Flush(); err != nil {
		w.t.Errorf("write: %v", err)
		return false
	}
	for i, o := range ops {
		h, body, err := w.conn.Next()
		if err == nil {
			err = o.answer(h, body)
		}
		if err != nil || o.err != 0 {
			w.t.Errorf("set %d of a burst of %d: %v %v", i, count, err, o.err)
			return false
		}
		w.last[(w.tags-count+i+1)%w.nodes] = o.data
		w.acked++
	}
	return true
}

// check reads at a server what was acknowledged.
func (w *writer) check(s *server) {
	w.t.Helper()
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000}, 2*patience)
	if err != nil {
		w.t.Errorf("server %d: %v", s.id, err)
		return
	}
	defer c.Close()
	if err := c.do(&op{code: jute.OpSync, path: "/"}); err != nil {
		w.t.Errorf("server %d: sync: %v", s.id, err)
		return
	}
	for i, want := range w.last {
		o := &op{code: jute.OpGetData, path: w.path(i)}
		if err := c.do(o); err != nil || o.got != want {
			w.t.Errorf("server %d: %s ends with %q, not with %q (%v)", s.id, o.path, tagOf(o.got), tagOf(want), err)
		}
	}
}
