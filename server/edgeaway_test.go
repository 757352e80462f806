package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	zk "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/edge"
	edgememory "github.com/zkd-project/zkd/edge/memory"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/server/base"
)

// awayFor is how long an edge that is cut off shows what it knows.
const awayFor = 20 * time.Second

// awayPaths are the nodes that are read. The last two are not shown while the servers are away: one is cached, and one is not kept at all.
var awayPaths = []string{"/known/a", "/known/b", "/conf/a", "/cached/a", "/far/a"}

func awayShows(path string) bool { return path[1] == 'k' || path[1:5] == "conf" }

// awayRun is an edge that is cut off from its servers at times, and its clients.
type awayRun struct {
	t     *testing.T
	rng   *rand.Rand
	e     *testEnsemble
	edge  *edge.Edge
	port  *memListener
	dials *relayDials  // of the edge
	slept atomic.Int64 // how long the edge's machine has been suspended

	writer *zk.Client // not by the edge
	writes map[string][]zk.Zxid

	lost  time.Time // since when the edge may reach no server
	cut   time.Time // since when it reaches none; zero if it can
	off   bool      // the edge can't connect
	whole time.Time // since when they can be reached

	readers  []*awayReader
	strict   *zk.Client // does not accept a read-only session
	answered int        // in read-only sessions
	fired    int        // watches of these
	wrong    []string
}

// awayReader is a client that accepts a read-only session.
type awayReader struct {
	*zk.Client
	watches map[string]*awayWatch
}

// awayWatch is a watch of a read-only session, on a node with a number of writes.
type awayWatch struct {
	*zk.Watch
	writes int
}

func (r *awayRun) fails(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf("%v: ", time.Since(r.whole).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// atMost returns a context for a request.
func atMost(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	time.AfterFunc(d, cancel)
	return ctx
}

func (r *awayRun) connect(accepts bool) *zk.Client {
	c, err := zk.New("10.0.0.9:2181", zk.Options{
		AllowReadOnly: accepts, PlainSession: true, RenewSession: true, Logger: zk.NoLog, Timeout: 6 * time.Second, Rand: rand.New(rand.NewPCG(r.rng.Uint64(), 1)),
		Dial: func(context.Context, string, string) (net.Conn, error) { return r.port.dial("10.0.2.1", 1<<20) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// write is a write of somebody else, if there is a quorum.
func (r *awayRun) write(path string) {
	n := len(r.writes[path]) + 1
	stat, err := r.writer.Set(atMost(20*time.Second), path, []byte(strconv.Itoa(n)), zk.AnyVersion)
	if err != nil {
		r.t.Fatal(err)
	}
	r.writes[path] = append(r.writes[path], stat.Mzxid)
}

// read has a client read a node, maybe with a watch.
func (r *awayRun) read(c *awayReader, path string) {
	seen, asked := c.Status().LastZxid, time.Now()
	watch := r.rng.IntN(3) == 0 && c.watches[path] == nil && c.State() == zk.StateReadOnly
	get := c.Get
	if watch {
		get = c.GetW
	}
	n, err := get(atMost(200*time.Millisecond), path)
	readOnly := c.State() == zk.StateReadOnly
	away := !r.cut.IsZero() && asked.Sub(r.cut) > 100*time.Millisecond
	switch {
	case errors.Is(err, zk.ErrNotReadOnly):
		if !readOnly && r.cut.IsZero() && time.Since(r.whole) > 10*time.Second {
			r.fails("%s is refused to a session of the servers", path)
		}
		return
	case errors.Is(err, zk.ErrNoNode):
		r.fails("%s is missing", path)
		return
	case err != nil:
		return
	}
	number, _ := strconv.Atoi(string(n.Data))
	switch all := r.writes[path]; {
	case number < 1 || number > len(all) || all[number-1] != n.Stat.Mzxid:
		r.fails("%s has %q of %v, and its writes are of %v", path, n.Data, n.Stat.Mzxid, all)
	case number < len(all) && all[number] <= seen:
		r.fails("%s has %d of %v, and the session has seen %v, with the next one of %v", path, number, n.Stat.Mzxid, seen, all[number])
	}
	if watch && readOnly {
		c.watches[path] = &awayWatch{n.Watch, number}
	}
	if !away {
		return
	}
	if r.answered++; !readOnly {
		r.fails("%s is shown while the servers are away, and the client has not learned that its session is read-only", path)
	}
	since := time.Since(r.cut)
	switch {
	case since > awayFor:
		r.fails("%s is shown %v after the servers were reached", path, since)
	case time.Since(r.lost) < edgememory.AwayAfter && r.cut.Sub(r.whole) > 10*time.Second: // when it had noticed that it reached them
		r.fails("%s is shown %v after the servers were reached, and they were not away", path, since)
	case !awayShows(path):
		r.fails("%s is shown", path)
	}
	for _, f := range r.edge.Figures() {
		if f.Name == "zk_edge_stale_age_ms" && time.Duration(f.Value)*time.Millisecond < since-time.Millisecond {
			r.fails("the age of what is shown is %d ms, %v after the servers were reached", f.Value, since)
		}
	}
}

// change has a client try to change something.
func (r *awayRun) change(c *awayReader) {
	path := awayPaths[r.rng.IntN(len(awayPaths))]
	_, err := c.Set(atMost(200*time.Millisecond), path, []byte("by a reader"), 1<<30) // a version that it never has
	err2 := c.Sync(atMost(200*time.Millisecond), path)
	if away := !r.cut.IsZero() && time.Since(r.cut) > time.Second; away && (err == nil || errors.Is(err, zk.ErrBadVersion) || err2 == nil) {
		r.fails("while the servers are away: set: %v, sync: %v", err, err2)
	}
}

// step does something.
func (r *awayRun) step() {
	c := r.readers[r.rng.IntN(len(r.readers))]
	switch n := r.rng.IntN(100); {
	case n < 60:
		r.read(c, awayPaths[r.rng.IntN(len(awayPaths))])
	case n < 65:
		r.change(c)
	case n < 70:
		for path, w := range c.watches {
			r.fires(path, w)
		}
		c.watches = map[string]*awayWatch{}
		c.Close(atMost(time.Millisecond))
		c.Client = r.connect(true)
	case n < 75:
		if _, err := r.strict.Get(atMost(200*time.Millisecond), "/known/a"); errors.Is(err, zk.ErrNotReadOnly) {
			r.fails("a client that does not accept read-only sessions is refused")
		}
		if r.strict.State() == zk.StateReadOnly {
			r.fails("a client that does not accept read-only sessions has one")
		}
	case n < 85 && (r.cut.IsZero() || r.off):
		r.write(awayPaths[r.rng.IntN(len(awayPaths))])
	case n < 88 && r.cut.IsZero():
		r.cutOff()
	case n < 89:
		time.Sleep(time.Duration(r.rng.IntN(10)) * time.Second)
	case n < 91 && !r.cut.IsZero():
		r.back()
	default:
		time.Sleep(time.Duration(r.rng.IntN(800)) * time.Millisecond)
	}
}

// cutOff ends all servers, or what the edge reaches them by.
func (r *awayRun) cutOff() {
	r.lost = time.Now()
	if r.rng.IntN(2) == 0 {
		r.off = true
		r.dials.mu.Lock()
		for _, nc := range r.dials.conns {
			nc.Close()
		}
		r.dials.conns = nil
		r.dials.mu.Unlock()
	} else {
		for id := 1; id <= 3; id++ {
			r.e.kill(id)
		}
	}
	r.cut = time.Now()
}

// back brings the servers back, and checks that all clients have sessions with them soon.
func (r *awayRun) back() {
	if !r.off {
		for id := 1; id <= 3; id++ {
			r.e.start(id)
		}
		r.e.leader()
	}
	r.off, r.cut, r.whole = false, time.Time{}, time.Now()
	if r.rng.IntN(2) == 0 {
		return
	}
	time.Sleep(30 * time.Second) // the pauses between attempts are shorter
	for i, c := range append(r.readers, &awayReader{Client: r.strict}) {
		if state := c.State(); state != zk.StateConnected {
			r.fails("30 s after the servers have come back, client %d is %v", i, state)
		}
		for path, w := range c.watches {
			r.fires(path, w)
			delete(c.watches, path)
		}
	}
}

// fires checks that a watch that was set in a read-only session has fired, if it had to and its client has had a server since.
func (r *awayRun) fires(path string, w *awayWatch) {
	if !r.cut.IsZero() || time.Since(r.whole) < 30*time.Second || len(r.writes[path]) == w.writes {
		return
	}
	_, err := w.Next(atMost(20 * time.Second))
	if errors.Is(err, context.DeadlineExceeded) {
		r.fails("a watch on %s with %d writes does not fire, and there are %d", path, w.writes, len(r.writes[path]))
	} else if err == nil {
		r.fired++
	}
}

func (r *awayRun) dial(_ context.Context, _, address string) (net.Conn, error) {
	if r.off {
		return nil, syscall.ECONNREFUSED
	}
	return r.dials.dial("10.0.1.1", address)
}

// newAway starts an edge that all is well with, and its clients.
func newAway(t *testing.T, seed uint64) *awayRun {
	r := &awayRun{t: t, rng: rand.New(rand.NewPCG(seed, 1)), e: startEnsemble(t, 3), port: newMemListener(), writes: map[string][]zk.Zxid{}, whole: time.Now()}
	r.e.leader()
	time.Sleep(2 * time.Second) // all are admitted
	r.dials = &relayDials{e: r.e}
	others := &relayDials{e: r.e}
	var err error
	r.writer, err = zk.Connect(t.Context(), relayServers, zk.Options{Dial: others.from(witnessIP), KeepSession: true, Logger: zk.NoLog, Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(seed, 2))})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range awayPaths {
		for _, p := range []string{path[:len(path)-2], path} {
			if _, err := r.writer.Create(t.Context(), p, nil, zk.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Fatal(err)
			}
		}
		r.write(path)
	}
	r.edge, err = edge.New(edge.Options{
		Upstream: relayServers, Connections: int(seed % 2), MaxClients: 100, Version: "3.9.5-x", Log: slog.New(slog.DiscardHandler),
		Client: zk.Options{Dial: r.dial, Logger: zk.NoLog, Rand: nil},
		Cached: []string{"/cached", "/known"}, CachedBytes: 1 << 20, Stale: []string{"/known", "/conf"}, StaleFor: awayFor, Clock: r.clock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.edge.Serve("", r.port)
	r.strict = r.connect(false)
	for range 3 {
		r.readers = append(r.readers, &awayReader{r.connect(true), map[string]*awayWatch{}})
	}
	time.Sleep(5 * time.Second)
	return r
}

// clock returns the edge's clock. While its machine is suspended, timers and the monotonic clock stand still.
func (r *awayRun) clock() *base.Clock {
	began := time.Now()
	return &base.Clock{
		Read: func() (time.Duration, time.Time) {
			return time.Since(began), time.Now().Add(time.Duration(r.slept.Load()))
		},
		SuspendedTotal: func() time.Duration { return time.Duration(r.slept.Load()) },
	}
}

func (r *awayRun) end() {
	for _, c := range r.readers {
		c.Close(atMost(time.Millisecond))
	}
	r.strict.Close(atMost(time.Millisecond))
	r.edge.Close()
	r.writer.Close(atMost(time.Second))
}

// runAway has anything happen.
func runAway(t *testing.T, seed uint64) *awayRun {
	r := newAway(t, seed)
	for range 500 {
		r.step()
	}
	if !r.cut.IsZero() {
		r.back()
	}
	r.end()
	return r
}

// states checks the states of the clients that accept a read-only session, and of the one that does not.
func (r *awayRun) states(when string, accepts func(zk.State) bool, strict func(zk.State) bool) {
	for _, c := range r.readers {
		if state := c.State(); !accepts(state) {
			r.t.Errorf("%s: a client that accepts a read-only session is %v", when, state)
		}
	}
	if state := r.strict.State(); !strict(state) {
		r.t.Errorf("%s: a client that does not is %v", when, state)
	}
}

// TestEdgeWithoutServers kills all servers of an edge, until it does not show what it knows any longer, and starts them again.
func TestEdgeWithoutServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAway(t, 1)
		defer r.end()
		connected := func(s zk.State) bool { return s == zk.StateConnected }
		lost := func(s zk.State) bool { return !s.Connected() }
		readOnly := func(s zk.State) bool { return s == zk.StateReadOnly }
		r.states("at first", connected, connected)
		for id := 1; id <= 3; id++ {
			r.e.kill(id)
		}
		time.Sleep(12 * time.Second) // sessions have a timeout of 6 s
		r.states("without servers", readOnly, lost)
		for _, path := range awayPaths {
			n, err := r.readers[0].Get(t.Context(), path)
			refused := errors.Is(err, zk.ErrNotReadOnly)
			if refused == awayShows(path) || err == nil && string(n.Data) != "1" {
				t.Errorf("%s: %q, %v", path, n.Data, err)
			}
		}
		if _, err := r.readers[0].Set(t.Context(), "/known/a", nil, zk.AnyVersion); !errors.Is(err, zk.ErrNotReadOnly) {
			t.Errorf("set: %v", err)
		}
		time.Sleep(awayFor)
		r.states("when too much time has gone", lost, lost)
		for id := 1; id <= 3; id++ {
			r.e.start(id)
		}
		r.e.leader()
		time.Sleep(30 * time.Second)
		r.states("with servers", connected, connected)
	})
}

// TestSuspendedEdgeShowsNothingOld: the machine of an edge that shows what it knew is suspended for longer than it may.
func TestSuspendedEdgeShowsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAway(t, 1)
		defer r.end()
		for id := 1; id <= 3; id++ {
			r.e.kill(id)
		}
		time.Sleep(12 * time.Second)
		if n, err := r.readers[0].Get(t.Context(), "/known/a"); err != nil {
			t.Fatalf("before: %q, %v", n.Data, err)
		}
		r.slept.Store(int64(awayFor))
		if n, err := r.readers[0].Get(t.Context(), "/known/a"); !errors.Is(err, zk.ErrNotReadOnly) {
			t.Errorf("%q, %v", n.Data, err)
		}
		time.Sleep(2 * time.Second)
		lost := func(s zk.State) bool { return !s.Connected() }
		r.states("after the machine was suspended", lost, lost)
	})
}

// TestWokenEdgeAsksTheServers: an edge whose machine was suspended answers nothing from memory before its caches are known to be up to date: what they have
// may be as old as the suspension, and their connections may not work any more.
func TestWokenEdgeAsksTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAway(t, 1)
		defer r.end()
		fromMemory := func() bool {
			t.Helper()
			before := r.figure("zk_edge_cached_reads_total")
			if _, err := r.readers[0].Get(t.Context(), "/cached/a"); err != nil {
				t.Fatal(err)
			}
			return r.figure("zk_edge_cached_reads_total") > before
		}
		if !fromMemory() {
			t.Fatal("nothing is answered from memory")
		}
		r.slept.Store(int64(time.Hour))
		if fromMemory() {
			t.Error("it is answered from memory at once")
		}
		time.Sleep(2 * time.Second)
		if !fromMemory() {
			t.Error("nothing is answered from memory any more")
		}
	})
}

func (r *awayRun) figure(name string) int64 {
	for _, f := range r.edge.Figures() {
		if f.Name == name {
			return int64(f.Value)
		}
	}
	r.t.Fatalf("there is no figure %s", name)
	return 0
}

// TestEdgeAway: while an edge reaches no server, clients that accept that read what was known, nothing older than what they have seen, for as long as is
// configured, and change nothing. When there is a server again they have its sessions, and what their watches have missed.
func TestEdgeAway(t *testing.T) {
	if testing.Short() {
		return // a seed does not say in which order goroutines run: for make nightly
	}
	first := seeds.First(t)
	answered, fired := 0, 0
	for seed := first; seed < first+4; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runAway(t, seed)
				for _, wrong := range r.wrong {
					t.Error(wrong)
				}
				answered, fired = answered+r.answered, fired+r.fired
			})
		})
	}
	t.Logf("%d reads were answered while the servers were away, and %d watches of then have fired", answered, fired)
	if answered == 0 {
		t.Error("nothing was read while the servers were away")
	}
}
