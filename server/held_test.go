package server

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
)

// The oracle of storms: under load, no part of what a server holds exceeds its bound;
// afterwards, all parts are empty.

// bounded checks the first half. A turn of the peer loop may exceed a bound.
func (s *testServer) bounded(t testing.TB) {
	t.Helper()
	turn := int64(replica.EvaluateWork*256 + 2*s.cfg.MaxBuffer)
	for _, h := range s.overview.holdings() {
		if h.Limit > 0 && h.Bytes > h.Limit+turn {
			t.Errorf("%s: %d bytes are held, the limit is %d", h.Part, h.Bytes, h.Limit)
		}
	}
}

// idle checks the second half. The core keeps entries for late learners.
func (s *testServer) idle(t testing.TB) {
	t.Helper()
	for p, h := range s.overview.holdings() {
		if part(p) == heldEntries {
			h.Items, h.Bytes = 0, max(h.Bytes-int64(s.limits.cache), 0)
		}
		if h.Items != 0 || h.Bytes != 0 {
			t.Errorf("%s: nothing is under way, and %d items with %d bytes are held", h.Part, h.Items, h.Bytes)
		}
	}
}

func (e *testEnsemble) bounded() {
	e.t.Helper()
	for _, s := range e.servers {
		if s != nil {
			s.bounded(e.t)
		}
	}
}

func (e *testEnsemble) idle() {
	e.t.Helper()
	e.settled()
	time.Sleep(2*time.Second + 7*time.Millisecond) // touches are reported; and no server ticks just now
	synctest.Wait()
	for _, s := range e.servers {
		if s != nil {
			s.idle(e.t)
		}
	}
}

// smallLimits are hit by a few requests.
func smallLimits(s *Server) {
	s.limits = limits{
		cache:     64 << 10,
		requests:  8 << 20,
		replies:   4 << 20,
		waiting:   16 << 20,
		proposals: 128 << 10,
		backlog:   256 << 10,
		log:       32 << 20,
		turn:      1 << 10,
	}
}

// replies reads the replies to requests, which must all have been done.
func (c *client) replies(xids []int32) (list []reply) {
	c.t.Helper()
	for i, xid := range xids {
		r := c.await(xid)
		if r.Err != 0 {
			c.t.Fatalf("reply %d of %d: %v", i, len(xids), r)
		}
		list = append(list, r)
	}
	return list
}

// Once more was uncommitted than the core keeps in memory, the leader kept every later
// transaction that it proposed: entries from the log were not looked up among its
// proposals, and these were only dropped in order.
func TestALeaderForgetsWhatIsCommitted(t *testing.T) {
	inTunedBubble(t, 3, smallLimits, nil, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		c := s.connect(t)
		c.create("/a", "")
		value := strings.Repeat("x", 100_000)
		release := e.stallDisks()
		var xids []int32
		for range 40 {
			xids = append(xids, c.send(jute.OpSetData, set("/a", value)))
		}
		synctest.Wait()
		e.bounded()
		release()
		c.replies(xids)
		e.idle()
		for range 3 {
			xids = xids[:0]
			for range 200 {
				xids = append(xids, c.send(jute.OpSetData, set("/a", value[:4000])))
			}
			c.replies(xids)
			e.idle()
		}
		s.noErrors(t)
	})
}

// A barrier among entries that the applier reads from the log was applied after all of
// them: its answer went to the wrong request, and the connection was cut.
func TestBarriersKeepTheirPlaceInAReplay(t *testing.T) {
	everythingFromTheLog := func(s *Server) { s.limits.backlog = 0 }
	for name, test := range map[string]struct {
		at   func(*testEnsemble) int
		tune func(*Server)
	}{
		"leader that has more uncommitted than it keeps": {(*testEnsemble).leader, smallLimits},
		"leader":   {(*testEnsemble).leader, everythingFromTheLog},
		"follower": {(*testEnsemble).follower, everythingFromTheLog},
	} {
		t.Run(name, func(t *testing.T) {
			inTunedBubble(t, 3, test.tune, nil, func(t *testing.T, e *testEnsemble) {
				s := e.servers[test.at(e)]
				c := s.connect(t)
				moving := s.connectFor(t, 8000)
				c.create("/a", "")
				value := strings.Repeat("x", 50_000)
				release := e.stallDisks()
				var xids []int32
				send := func(op jute.OpCode, body record) { xids = append(xids, c.send(op, body)) }
				for i := range 60 {
					send(jute.OpSetData, set("/a", fmt.Sprint(i, value)))
					if i%10 == 5 {
						send(jute.OpSync, &jute.SyncRequest{Path: "/"})
						send(jute.OpGetData, get("/a", false))
					}
				}
				resumed := s.dial(t, dialOptions{}) // a barrier too
				resumed.sendFrame((&jute.ConnectRequest{TimeoutMs: 8000, SessionID: moving.session, Password: moving.pass}).Append(nil))
				synctest.Wait()
				release()
				for i, r := range c.replies(xids) {
					if i%12 == 7 {
						if want := fmt.Sprint(i/12*10+5, value); dataOf(r) != want {
							t.Errorf("reply %d: read %.10q behind a sync, want %.10q", i, dataOf(r), want)
						}
					}
				}
				if resp := resumed.established(); resp.SessionID != moving.session {
					t.Errorf("resumed %v, got %+v", moving.session, resp)
				}
				if s.metrics.Replayed.Load() == 0 {
					t.Error("nothing was read from the log: the test tests nothing")
				}
				e.idle()
				for _, s := range e.servers[1:] {
					s.noErrors(t)
				}
			})
		})
	}
}

// Entries that are read from the log count for the next snapshot, relax the throttle and
// wake the writers of connections, like all others. Here all entries are read from the
// log.
func TestReplayedEntriesAreAppliedLikeOthers(t *testing.T) {
	dir := t.TempDir() // snapshots need real files
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "globalOutstandingLimit=20", "snapCount=100")
		e.dir = dir
		e.tune = func(s *Server) { s.limits.backlog = 0 }
		e.startAll()
		s := e.servers[e.leader()]
		time.Sleep(2 * time.Second)
		watcher := s.connect(t)
		watcher.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
		var clients []*client
		for i := range 4 {
			clients = append(clients, s.connect(t))
			clients[i].create(fmt.Sprint("/", i), "")
		}
		value := strings.Repeat("x", 10_000)
		xids := make([][]int32, len(clients))
		for range 50 {
			for i, c := range clients {
				xids[i] = append(xids[i], c.send(jute.OpSetData, set(fmt.Sprint("/", i), value)))
			}
		}
		for i, c := range clients {
			c.replies(xids[i])
		}
		for range 200 + 4 {
			watcher.must()
		}
		if n := s.metrics.Replayed.Load(); n < 200 {
			t.Errorf("%d entries were read from the log, want all", n)
		}
		e.idle()
		if n := s.metrics.Snapshot.Count(); n == 0 {
			t.Error("no snapshot was written")
		}
		s.noErrors(t)
	})
}

// A replay that comes too late, because a snapshot has replaced the history, is no longer
// needed: it must not end the server.
func TestAReplayIsSupersededByASnapshot(t *testing.T) {
	s := startServer(t)
	c := s.connect(t)
	for i := range 10 {
		c.create(fmt.Sprint("/", i), "")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The applier's goroutine has ended; the test takes its place.
	a := newApplier(s.Server)
	a.handover.superseded.Store(int64(a.state.Tree.LastZxid() + 100))
	if err := a.replayTo(t.Context(), a.state.Tree.LastZxid()+50); err != nil {
		t.Errorf("a replay that is not needed: %v", err)
	}
	before := a.state.Tree.LastZxid()
	a.applySome([]replica.Order{{Kind: replica.OrderBarrier}, {Kind: replica.OrderEntry}}, false)
	if a.state.Tree.LastZxid() != before {
		t.Error("an entry was applied that a snapshot will replace")
	}
	a.handover.superseded.Store(0)
	if err := a.replayTo(t.Context(), before+50); err == nil || !strings.Contains(err.Error(), "from the log") {
		t.Errorf("a replay of what the log does not have: %v", err)
	}
}

// Clients that do not read their events are disconnected when all of them together hold
// up too much, though each alone may hold up much more.
func TestClientsThatTakeNothingAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data")})
		smallLimits(s.Server)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := s.connectFor(t, 20_000)
		path := "/" + strings.Repeat("p", 20_000)
		c.create(path, "")
		var watchers []*client
		for range 10 {
			w := s.dial(t, dialOptions{window: 64 << 10})
			w.establish(&jute.ConnectRequest{TimeoutMs: 20_000, Password: make([]byte, 16)})
			w.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: path, Mode: jute.AddPersistent})
			watchers = append(watchers, w)
		}
		const events = 60
		for range events {
			c.set(path, "")
			s.bounded(t)
		}
		synctest.Wait()
		cut, complete := 0, 0
		for _, w := range watchers {
			n := 0
			for n < events {
				w.nc.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := w.next(); err != nil {
					break
				}
				n++
			}
			if n == events {
				complete++
			} else {
				cut++
			}
		}
		if cut == 0 || complete == 0 {
			t.Errorf("%d watchers were cut off, and %d heard of everything; want some of both", cut, complete)
		}
		c.ping()
		time.Sleep(2*time.Second + 7*time.Millisecond)
		synctest.Wait()
		s.idle(t)
	})
}

// A leader that can't propose for a while accepts requests up to a bound. Beyond it the connection with
// most of them ends, and not the one that has sent the last, wherever their clients are.
func TestALeaderEndsWhoHasMostWaiting(t *testing.T) {
	tune := func(s *Server) {
		smallLimits(s)
		s.limits.log, s.limits.waiting = 256<<10, 1<<20
	}
	inTunedBubble(t, 3, tune, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.servers[e.leader()]
		heavy := e.servers[e.follower()].connect(t)
		heavy.create("/heavy", "")
		small := []*client{leader.connect(t), e.servers[e.follower()].connect(t)}
		release := e.stallDisks()
		waiting := func() int64 { return leader.overview.holdings()[heldWaiting].Bytes }
		for range 60 { // the leader proposes the first ones
			if waiting() < 1<<20-100_000 {
				heavy.send(jute.OpSetData, set("/heavy", strings.Repeat("x", 50_000)))
				synctest.Wait()
			}
		}
		if n := waiting(); n < 1<<20-100_000 || n > 1<<20 {
			t.Errorf("%d bytes wait", n)
		}
		xids := make([][]int32, len(small))
		for i, c := range small {
			for range 10 {
				xids[i] = append(xids[i], c.send(jute.OpSetData, set("/heavy", strings.Repeat("y", 15_000))))
			}
		}
		synctest.Wait()
		e.bounded()
		release()
		for i, c := range small {
			c.replies(xids[i])
		}
		for answered := 0; ; answered++ {
			heavy.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := heavy.next(); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("the connection with most requests has %d replies and does not end", answered)
			} else if err != nil {
				break
			}
		}
		e.idle()
	})
}

// A leader that can't propose for a while accepts requests up to a bound. It refuses
// requests beyond it, from its own clients and from those of the others: their
// connections end. It does and answers the accepted ones.
func TestALeaderRefusesWhatIsTooMuch(t *testing.T) {
	tune := func(s *Server) {
		smallLimits(s)
		s.limits.log, s.limits.waiting = 256<<10, 1<<20
	}
	inTunedBubble(t, 3, tune, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.servers[e.leader()]
		counters := []*client{leader.connect(t), e.servers[e.follower()].connect(t)}
		small := leader.connect(t)
		small.create("/small", "")
		value := strings.Repeat("x", 50_000)
		for i, c := range counters {
			c.create(fmt.Sprint("/", i), "")
		}
		release := e.stallDisks()
		sent := make([]int, len(counters))
		for i, c := range counters {
			for range 100 {
				c.xid++
				if _, err := c.nc.Write(frameOf(requestFrame(c.xid, jute.OpSetData, set(fmt.Sprint("/", i), value)))); err != nil {
					break
				}
				sent[i]++
			}
		}
		synctest.Wait()
		e.bounded()
		release()
		for i, c := range counters {
			answered := 0
			for {
				c.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
				r, err := c.next()
				if err != nil {
					break
				}
				if r.Err != 0 {
					t.Errorf("client %d: %v", i, r)
				}
				answered++
			}
			if answered == sent[i] {
				t.Errorf("client %d: all of its %d requests were taken in", i, sent[i])
			}
			resumed := c.resumeAt(t, leader)
			node := resumed.ok(jute.OpExists, get(fmt.Sprint("/", i), false))
			var stat jute.Stat
			d := jute.NewDecoder(node.body)
			stat.Decode(&d)
			if int(stat.Version) < answered {
				t.Errorf("client %d: %d writes were answered, and %d done", i, answered, stat.Version)
			}
		}
		small.set("/small", "x")
		e.idle()
	})
}

// A client with a few requests under way is read, while another one has all that globalOutstandingLimit
// allows. From twice the limit on, each connection has one.
func TestWhoHasFewRequestsIsRead(t *testing.T) {
	inBubble(t, 3, []string{"globalOutstandingLimit=20"}, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		clients := make([]*client, 6)
		for i := range clients {
			clients[i] = s.connect(t)
		}
		synctest.Wait()
		release := e.stallDisks()
		var sent [6][]int32
		send := func(i, n, want int) {
			for range n {
				sent[i] = append(sent[i], clients[i].send(jute.OpSetData, set("/", "")))
			}
			synctest.Wait()
			if got := s.overview.read().WaitingRequests; got != int64(want) {
				t.Errorf("after client %d has sent %d, %d requests wait, want %d", i, n, got, want)
			}
		}
		send(0, 60, 21)
		send(1, 8, 29)
		send(2, 8, 29+20/3)
		send(3, 8, 35+20/4)
		send(4, 8, 41)
		send(5, 8, 42)
		release()
		for i, c := range clients {
			c.replies(sent[i])
		}
		e.idle()
		if n := s.overview.read().WaitingRequests; n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}

// A paused reader ends with its connection. It used to wait for the next batch to be
// applied, which may not come while there is no leader.
func TestAPausedReaderEndsWithItsConnection(t *testing.T) {
	inBubble(t, 3, []string{"globalOutstandingLimit=1"}, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		s := e.servers[leader]
		c := s.connect(t)
		release := e.stallDisks()
		for range 5 {
			c.send(jute.OpSetData, set("/", ""))
		}
		synctest.Wait()
		if s.overview.read().Stalls == 0 {
			t.Fatal("the reader is not paused")
		}
		for id := range e.servers {
			e.net.sever(leader, id, true)
		}
		c.eof("the connection to a leader that steps down")
		synctest.Wait()
		if n, waiting := s.connections(), s.overview.read().WaitingRequests; n != 0 || waiting != 0 {
			t.Errorf("%d connections with %d requests are left", n, waiting)
		}
		release()
		for id := range e.servers {
			e.net.sever(leader, id, false)
		}
		e.idle()
	})
}
