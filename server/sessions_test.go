package server

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

func (s *testServer) numSessions() int {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.NumSessions()
}

// TestConnectResponseEchoesReadOnlyByte covers clients that do not send the byte: they
// parse the response by the frame's length.
func TestConnectResponseEchoesReadOnlyByte(t *testing.T) {
	s := startServer(t)
	for _, resume := range []jute.SessionID{0, 12345} { // 12345 is refused
		for want, has := range map[int]bool{36: false, 37: true} {
			c := s.dial(t, dialOptions{})
			c.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000, SessionID: resume, Password: make([]byte, 16), HasReadOnly: has}).Append(nil))
			if f, err := c.frame(); len(f) != want {
				t.Errorf("resume %v, byte sent %v: response has %d bytes, want %d (%v)", resume, has, len(f), want, err)
			}
		}
	}
}

func TestTimeoutIsNegotiatedAtEachConnect(t *testing.T) {
	s := startServer(t)
	c := s.connectFor(t, 5000)
	for _, test := range []struct{ ask, want int32 }{
		{5000, 5000}, {1, 2000}, {0, 2000}, {-1, 2000}, {1 << 30, 20_000}, {-1 << 31, 2000}, {7777, 7777},
	} {
		if n := s.connectFor(t, test.ask); n.timeout != test.want {
			t.Errorf("new session: asked for %d, got %d, want %d", test.ask, n.timeout, test.want)
		}
		if c = c.resume(t, test.ask); c.timeout != test.want {
			t.Errorf("resumed session: asked for %d, got %d, want %d", test.ask, c.timeout, test.want)
		}
	}
}

func TestResumeKillsTheOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		old := s.connect(t)
		old.ephemeral("/e")
		c := old.resume(t, 10_000)
		if c.session != old.session || !bytes.Equal(c.pass, old.pass) {
			t.Errorf("resumed %v, got %v", old.session, c.session)
		}
		old.eof("old connection")
		if !c.exists("/e") {
			t.Error("ephemeral is gone")
		}
		c.ok(jute.OpCloseSession, nil)
		c.eof("closed session")
		if d := s.connect(t); d.exists("/e") {
			t.Error("ephemeral outlives its session")
		}
		if n := s.numSessions(); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
		s.noErrors(t)
	})
}

// TestWrongPasswordHarmsNobody checks that a client that only knows a session's id gets
// the answer for an expired one, and its owner stays connected.
func TestWrongPasswordHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		owner := s.connect(t)
		wrong := bytes.Clone(owner.pass)
		wrong[15] ^= 1
		for _, pass := range [][]byte{nil, {}, make([]byte, 16), wrong, owner.pass[:15], append(bytes.Clone(owner.pass), 0)} {
			thief := s.dial(t, dialOptions{})
			resp := thief.establish(&jute.ConnectRequest{TimeoutMs: 5000, SessionID: owner.session, Password: pass, HasReadOnly: true})
			if resp.SessionID != 0 || resp.TimeoutMs != 0 || !bytes.Equal(resp.Password, make([]byte, 16)) {
				t.Errorf("password % x: got %+v, want zeros", pass, resp)
			}
			thief.eof("wrong password")
			owner.set("/", "still here")
		}
	})
}

// TestClientAheadIsTurnedAwayWithoutAWord checks that such a client gets no answer, so
// that it looks for a server with the state that it has seen.
func TestClientAheadIsTurnedAwayWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		last := c.set("/", "x").Zxid
		for _, test := range []struct {
			seen jute.Zxid
			ok   bool
		}{{last + 1, false}, {1 << 60, false}, {last, true}, {0, true}, {-1, true}} {
			n := s.dial(t, dialOptions{})
			n.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000, SessionID: c.session, Password: c.pass, LastZxidSeen: test.seen}).Append(nil))
			if !test.ok {
				n.eof(fmt.Sprint("seen ", test.seen))
				c.set("/", "still here")
				last++
				continue
			}
			if r := n.established(); r.SessionID != c.session {
				t.Errorf("seen %v: got %+v", test.seen, r)
			}
			c = n
		}
	})
}

// TestARefusedResumptionDisturbsNobody: whatever the reason why a session is not given to another
// connection, at the server of its connection or at another one, that connection stays.
func TestARefusedResumptionDisturbsNobody(t *testing.T) {
	ahead := func(r *jute.ConnectRequest) { r.LastZxidSeen = 1 << 60 }
	wrong := func(r *jute.ConnectRequest) { r.Password = make([]byte, 16) }
	for _, test := range []struct {
		name     string
		lines    []string
		change   func(r *jute.ConnectRequest)
		answered bool
	}{
		{"ahead", nil, ahead, false},
		{"wrong password", nil, wrong, true},
		{"wrong password, ahead", nil, func(r *jute.ConnectRequest) { wrong(r); ahead(r) }, true},
		{"local, ahead", upgradable, ahead, false},
		{"local, wrong password", upgradable, wrong, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, 3, test.lines, func(t *testing.T, e *testEnsemble) {
				for _, at := range []int{e.leader(), e.follower()} {
					holder := e.servers[at].connect(t)
					for _, s := range e.servers[1:] {
						n := s.dial(t, dialOptions{})
						r := &jute.ConnectRequest{TimeoutMs: 10_000, SessionID: holder.session, Password: holder.pass, LastZxidSeen: holder.zxid, HasReadOnly: true}
						test.change(r)
						n.sendFrame(r.Append(nil))
						if test.answered {
							if resp := n.established(); resp.SessionID != 0 {
								t.Errorf("it got session %v", resp.SessionID)
							}
						}
						n.eof(test.name)
						holder.set("/", "still here")
						holder.quiet("after a refused resumption")
					}
				}
			})
		})
	}
}

// TestAReadOnlyResumptionDisturbsNobody is the same on a server without a leader that serves
// read-only clients, while the session's connection waits for a leader.
func TestAReadOnlyResumptionDisturbsNobody(t *testing.T) {
	inBubble(t, 3, []string{"readonlymode.enabled=true", "zkd.interlude=60000"}, func(t *testing.T, e *testEnsemble) {
		holder := e.servers[1].connectFor(t, 40_000)
		e.settled()
		e.stop(2)
		e.stop(3)
		time.Sleep(5 * time.Second)
		for _, seen := range []jute.Zxid{0, 1 << 60} {
			n := e.servers[1].dial(t, dialOptions{})
			n.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, SessionID: holder.session, Password: holder.pass, LastZxidSeen: seen, HasReadOnly: true, ReadOnly: true}).Append(nil))
			n.eof("read-only")
		}
		e.start(2)
		e.settled()
		holder.set("/", "still here")
	})
}

// TestZxidOfAReplyIsGoodForAReconnect checks that a client that reconnects at once with
// the zxid of a reply is not rejected as being ahead, even if the transactions that were
// committed with it take long to apply.
func TestZxidOfAReplyIsGoodForAReconnect(t *testing.T) {
	var disk sync.Mutex
	fs := crashfs.New(1)
	s := startOn(t, fs, "/data")
	c, big := s.connect(t), s.connect(t)
	var m jute.MultiRequest
	for i := range 15_000 {
		m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpCreate, Path: "/e" + strconv.Itoa(i), ACL: openACL, Mode: jute.ModeEphemeral})
	}
	big.ok(jute.OpMulti, &m)
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			disk.Lock()
			defer disk.Unlock()
		}
		return nil
	})
	disk.Lock()
	first := c.send(jute.OpSetData, set("/", ""))
	c.nc.Out.Drained()
	big.send(jute.OpCloseSession, nil) // takes long to apply
	big.nc.Out.Drained()
	disk.Unlock()
	for xid := int32(1000); ; xid++ {
		// An auth packet is answered at once, and triggers the writing of waiting
		// replies.
		c.sendFrame(requestFrame(xid, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("a:b")}))
		r := c.must()
		if r.Xid != first {
			continue
		}
		n := s.dial(t, dialOptions{})
		n.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000, LastZxidSeen: r.Zxid}).Append(nil))
		if _, err := n.frame(); err != nil {
			t.Errorf("turned away with the zxid %v of the last reply: %v", r.Zxid, err)
		}
		return
	}
}

// TestSessionExpiresBetweenTimeoutAndATickLater also checks that its connection is closed
// without a message, and that all its ephemerals are deleted with one zxid.
func TestSessionExpiresBetweenTimeoutAndATickLater(t *testing.T) {
	for ms := range 8 {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t)
			time.Sleep(time.Duration(ms) * 137 * time.Millisecond)
			const timeout, tick = 4 * time.Second, time.Second
			watcher := s.connectFor(t, 20_000)
			watcher.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
			c := s.connectFor(t, int32(timeout.Milliseconds()))
			for i := range 3 {
				c.ephemeral("/e" + strconv.Itoa(i))
				watcher.must()
			}
			time.Sleep(700 * time.Millisecond)
			c.ping()
			last := time.Now()
			first := watcher.must()
			if took := time.Since(last); took < timeout || took > timeout+tick {
				t.Errorf("expired after %v, want between %v and %v", took, timeout, timeout+tick)
			}
			events := []reply{first, watcher.must(), watcher.must()}
			for _, e := range events {
				if e.event().Type != jute.EventDeleted || e.Zxid != first.Zxid {
					t.Errorf("events %v, want three NodeDeleted with one zxid", events)
				}
			}
			c.eof("expired session")
			n := s.dial(t, dialOptions{})
			if r := n.establish(&jute.ConnectRequest{TimeoutMs: 5000, SessionID: c.session, Password: c.pass}); r.SessionID != 0 {
				t.Errorf("resumed an expired session: %+v", r)
			}
			n.eof("expired session")
			s.noErrors(t)
		})
	}
}

// TestARackExpires has many sessions with ephemerals that expire at the same time: the leader closes
// some, and each next one as soon as these are applied, not at the next tick of some clock.
func TestARackExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		watcher := s.connectFor(t, 20_000)
		watcher.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive})
		const sessions, each = 200, 20 // some fifty fill the smallest window
		for i := range sessions {
			c := s.connectFor(t, 4000)
			for j := range each {
				c.ephemeral(fmt.Sprintf("/e%d-%d", i, j))
				watcher.must()
			}
		}
		var began time.Time
		for i := range sessions * each {
			if e := watcher.must(); e.event().Type != jute.EventDeleted {
				t.Fatalf("event %v, want NodeDeleted", e)
			}
			if i == 0 {
				began = time.Now()
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the sessions are closed in %v", took)
		}
		s.noErrors(t)
	})
}

// TestAnyPacketKeepsASessionAlive covers pings, reads, writes, and a connection that is
// resumed with a new timeout.
func TestAnyPacketKeepsASessionAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connectFor(t, 2000)
		c.ephemeral("/e")
		for i := range 60 {
			time.Sleep(1990 * time.Millisecond)
			switch i % 4 {
			case 0:
				c.ping()
			case 1:
				c.get("/")
			case 2:
				c.set("/", "")
			case 3:
				c = c.resume(t, 2000)
			}
		}
		c = c.resume(t, 20_000)
		time.Sleep(19_900 * time.Millisecond)
		if !c.exists("/e") {
			t.Error("session expired before its new timeout")
		}
		c = c.resume(t, 2000)
		time.Sleep(3100 * time.Millisecond)
		c.eof("session with a shorter timeout")
	})
}

func TestSessionSurvivesARestartWithAFullTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connectFor(t, 4000)
		c.ephemeral("/e")
		absent := s.connectFor(t, 4000)
		absent.ephemeral("/gone")
		time.Sleep(3900 * time.Millisecond)
		c.ping()
		s = s.restart(t)
		c.eof("stopped server")
		c.srv = s
		time.Sleep(3900 * time.Millisecond)
		c = c.resume(t, 4000)
		if c.session == 0 || !c.exists("/e") || !c.exists("/gone") {
			t.Fatalf("session %v, its ephemeral %v, the other's %v", c.session, c.exists("/e"), c.exists("/gone"))
		}
		time.Sleep(1200 * time.Millisecond)
		if c.exists("/gone") {
			t.Error("a session that nobody resumed outlives the timeout after the restart")
		}
		if !c.exists("/e") {
			t.Error("the resumed session's ephemeral is gone")
		}
	})
}

// TestWritesOfTheOldConnectionNeverFollowTheNew checks that requests sent on an old
// connection do not take effect after those of the new one.
func TestWritesOfTheOldConnectionNeverFollowTheNew(t *testing.T) {
	s := startServer(t)
	watcher := s.connect(t)
	for round := range 100 {
		c := s.connect(t)
		path := "/m" + strconv.Itoa(round)
		c.create(path, "")
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 200 {
				if _, err := c.nc.Write(frameOf(requestFrame(int32(i+2), jute.OpSetData, set(path, "old")))); err != nil {
					return // the server has closed the connection
				}
			}
		})
		n := c.resume(t, 10_000)
		z := n.set(path, "new").Zxid
		wg.Wait()
		n.ok(jute.OpSync, &jute.PathRequest{Path: path})
		r := watcher.ok(jute.OpGetData, get(path, false))
		if got := dataOf(r); got != "new" {
			t.Fatalf("round %d: the node holds %q after %v wrote \"new\"", round, got, z)
		}
		n.ok(jute.OpCloseSession, nil)
	}
	s.noErrors(t)
}

// TestCloseSessionInThePipeline checks that the requests before it are done and answered,
// and those after it are not done.
func TestCloseSessionInThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.ephemeral("/e")
		c.send(jute.OpCreate, create("/before", "", 0))
		c.send(jute.OpGetData, get("/before", false))
		c.send(jute.OpCloseSession, nil)
		c.send(jute.OpCreate, create("/after", "", 0))
		c.send(jute.OpGetData, get("/before", false))
		for range 3 {
			if r := c.must(); r.Err != 0 {
				t.Errorf("before or at closeSession: %v", r)
			}
		}
		c.eof("closed session")
		o := s.connect(t)
		if !o.exists("/before") || o.exists("/after") || o.exists("/e") {
			t.Errorf("before %v, after %v, ephemeral %v", o.exists("/before"), o.exists("/after"), o.exists("/e"))
		}
		s.noErrors(t)
	})
}

// TestSessionsStorm creates many sessions with ephemerals concurrently and closes,
// expires or disconnects them. Nothing of them is left.
func TestSessionsStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		keeper := s.connectFor(t, 20_000)
		keeper.create("/all", "")
		const sessions = 2000
		var wg sync.WaitGroup
		ids := make([]jute.SessionID, sessions)
		for i := range sessions {
			wg.Go(func() {
				c := s.connectFor(t, 4000)
				ids[i] = c.session
				c.ephemeral("/all/" + strconv.Itoa(i))
				switch i % 3 {
				case 0:
					c.ok(jute.OpCloseSession, nil)
					c.eof("closed session")
				case 1:
					c.nc.Close()
				}
			})
		}
		wg.Wait()
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != sessions {
			t.Errorf("%d different ids for %d sessions", n, sessions)
		}
		keeper.ping()
		time.Sleep(5100 * time.Millisecond)
		r := keeper.ok(jute.OpGetChildren, get("/all", false))
		var children jute.GetChildrenResponse
		d := jute.NewDecoder(r.body)
		if children.Decode(&d); len(children.Children) != 0 {
			t.Errorf("%d ephemerals are left", len(children.Children))
		}
		if n, c := s.numSessions(), s.connections(); n != 1 || c != 1 {
			t.Errorf("%d sessions and %d connections are left, want the keeper's", n, c)
		}
		if n := s.overview.read().WaitingRequests; n != 0 {
			t.Errorf("%d requests count as waiting", n)
		}
		if n := s.tracker.Len(); n != 1 {
			t.Errorf("tracker has %d sessions", n)
		}
		s.noErrors(t)
	})
}

func TestBadHandshakesAreClosedWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=100000")
		good := (&jute.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16), HasReadOnly: true}).Append(nil)
		for what, stream := range map[string][]byte{
			"negative length":        {0xff, 0xff, 0xff, 0xff},
			"length over the limit":  {0, 1, 0x86, 0xa1},
			"garbage":                []byte("GET / HTTP/1.1\r\n\r\n"),
			"empty frame":            {0, 0, 0, 0},
			"truncated request":      frameOf(good[:20]),
			"password longer than f": frameOf(append(bytes.Clone(good[:24]), 0, 0, 1, 0)),
		} {
			c := s.dial(t, dialOptions{})
			c.nc.Write(stream)
			c.eof(what)
		}
		silent := s.dial(t, dialOptions{})
		silent.nc.Write([]byte{0, 0})
		begun := time.Now()
		silent.eof("no connect request")
		if took := time.Since(begun); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("a silent connection was closed after %v, want 10 s to 20 s", took)
		}
		if n := s.metrics.Sessionless.Load(); n != 1 {
			t.Errorf("%d connections counted as without session, want 1", n)
		}
		if n := s.numSessions(); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestBadFramesEndOnlyTheirConnection sends them after a session is established.
func TestBadFramesEndOnlyTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		other := s.connect(t)
		for what, stream := range map[string]string{
			"negative length":       "\xff\xff\xff\xff",
			"length over the limit": "\x00\x10\x00\x00",
			"short header":          "\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00",
			"empty frame":           "\x00\x00\x00\x00",
		} {
			c := s.connect(t)
			c.create("/"+strings.ReplaceAll(what, " ", ""), "")
			c.nc.Write([]byte(stream))
			c.eof(what)
			other.ping()
		}
		c := s.connect(t)
		c.sendFrame(requestFrame(1, jute.OpSetData, set("/", string(make([]byte, 0xfffff-8-4-1-4-4)))))
		if r := c.must(); r.Err != 0 {
			t.Errorf("frame of 0xFFFFF bytes: %v", r)
		}
	})
}

// TestResumeOfAnExpiringSession resumes a session whose close is not proposed yet: no
// client is told that the session lives, nor that it is gone before it is.
func TestResumeOfAnExpiringSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		s.tracker.MarkClosing(c.session)
		early := s.dial(t, dialOptions{})
		again := jute.ConnectRequest{TimeoutMs: 10_000, SessionID: c.session, Password: c.pass}
		early.sendFrame(again.Append(nil))
		early.eof("a session that is about to be closed")
		s.submissions.Put(replica.Submission{Request: evaluate.Request{Op: jute.OpCloseSession, Session: c.session}})
		if r := s.dial(t, dialOptions{}).establish(&again); r.SessionID != 0 {
			t.Errorf("resumed the closed session: %+v", r)
		}
		s.noErrors(t)
	})
}
