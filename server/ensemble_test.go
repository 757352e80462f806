package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/zkd-project/zkd/internal/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// peerNet is the network between the servers of an ensemble in memory. A link can
// be cut, or swallow what goes over it.
type peerNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by address
	conns     []*peerConn
	cut       map[[2]int]bool // directed: from, to
	lossy     map[[2]int]bool
}

func newPeerNet() *peerNet {
	return &peerNet{listeners: map[string]*memListener{}, cut: map[[2]int]bool{}, lossy: map[[2]int]bool{}}
}

// peerConn is one end of a link; what is written on a lossy link vanishes.
type peerConn struct {
	*memConn
	net      *peerNet
	from, to int
}

func (c *peerConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	lossy := c.net.lossy[[2]int{c.from, c.to}]
	c.net.mu.Unlock()
	if lossy {
		return len(p), nil
	}
	return c.memConn.Write(p)
}

func peerAddr(id int) string { return fmt.Sprintf("10.0.0.%d:2888", id) }

func (n *peerNet) listen(id int) func(network, addr string) (net.Listener, error) {
	return func(_, addr string) (net.Listener, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		l := newMemListener()
		n.listeners[addr] = l
		return l, nil
	}
}

func (n *peerNet) dial(from int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(_ context.Context, _, addr string) (net.Conn, error) {
		var to int
		fmt.Sscanf(addr, "10.0.0.%d:2888", &to)
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listeners[addr]
		if l == nil || n.cut[[2]int{from, to}] || n.cut[[2]int{to, from}] {
			return nil, syscall.ECONNREFUSED
		}
		near, far := l.pair(fmt.Sprintf("10.0.0.%d", from), 16<<20)
		here, there := &peerConn{near, n, from, to}, &peerConn{far, n, to, from}
		if err := l.accept(there); err != nil {
			return nil, err
		}
		n.conns = append(n.conns, here, there)
		return here, nil
	}
}

// sever cuts the links between a and b, or heals them.
func (n *peerNet) sever(a, b int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]int{a, b}], n.cut[[2]int{b, a}] = cut, cut
	n.conns = slices.DeleteFunc(n.conns, func(c *peerConn) bool {
		if c.from == a && c.to == b || c.from == b && c.to == a {
			c.Close()
			return true
		}
		return false
	})
}

// swallow makes what a sends to b vanish.
func (n *peerNet) swallow(a, b int, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lossy[[2]int{a, b}] = on
}

// testEnsemble is an ensemble of whole servers in memory.
type testEnsemble struct {
	t       testing.TB
	mu      sync.Mutex // of servers, where clients look for one
	net     *peerNet
	disks   []*crashfs.FS // by id; nil for the operating system's files
	dir     string        // of data, in each disk
	servers []*testServer // by id; nil while down
	lines   []string
}

// startEnsemble starts n servers, with the given lines of configuration. It works
// in a synctest bubble.
func startEnsemble(t testing.TB, n int, lines ...string) *testEnsemble {
	t.Helper()
	e := newEnsemble(t, n, lines...)
	for id := 1; id <= n; id++ {
		e.disks[id] = crashfs.New(uint64(id))
		e.start(id)
	}
	return e
}

func newEnsemble(t testing.TB, n int, lines ...string) *testEnsemble {
	e := &testEnsemble{t: t, net: newPeerNet(), disks: make([]*crashfs.FS, n+1), dir: "/data", servers: make([]*testServer, n+1)}
	e.lines = append(e.lines, "initLimit=10", "syncLimit=5")
	for id := 1; id <= n; id++ {
		e.lines = append(e.lines, fmt.Sprintf("server.%d=10.0.0.%d:2888:3888", id, id))
	}
	e.lines = append(e.lines, lines...)
	t.Cleanup(e.close)
	return e
}

func (e *testEnsemble) start(id int) *testServer {
	e.t.Helper()
	dir := e.dir
	var fs vfs.FS
	if e.disks[id] != nil {
		fs = e.disks[id]
	} else {
		dir = fmt.Sprintf("%s/%d", dir, id)
	}
	cfg := parseConfig(e.t, dir, append(slices.Clone(e.lines), fmt.Sprintf("zkd.myid=%d", id))...)
	s := newTestServer(e.t, Options{
		FS:          fs,
		Config:      cfg,
		ListenPeers: e.net.listen(id),
		DialPeer:    e.net.dial(id),
	})
	if testing.Verbose() {
		s.Server.log = zaptest.NewLogger(e.t, zaptest.WrapOptions(zap.Fields(zap.Int("on", id)))).
			WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, s.Server.log.Core()) }))
	}
	if err := s.Start(context.Background()); err != nil {
		e.t.Fatalf("start server %d: %v", id, err)
	}
	e.set(id, s)
	return s
}

func (e *testEnsemble) set(id int, s *testServer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers[id] = s
}

func (e *testEnsemble) close() {
	for _, s := range e.servers {
		if s != nil {
			s.Close()
		}
	}
}

// stop ends a server in order.
func (e *testEnsemble) stop(id int) {
	s := e.servers[id]
	e.set(id, nil)
	if err := s.Close(); err != nil {
		e.t.Errorf("close server %d: %v", id, err)
	}
}

// kill ends a server as a power cut does: what was not synced is gone.
func (e *testEnsemble) kill(id int) {
	s := e.servers[id]
	e.set(id, nil)
	left := e.disks[id].Crash(nil)
	for other := range e.servers {
		e.net.sever(id, other, true)
	}
	e.disks[id].SetHook(func(op crashfs.Op) error { return crashfs.ErrInjected })
	s.Close()
	e.disks[id] = left
	for other := range e.servers {
		e.net.sever(id, other, false)
	}
}

// leader waits until there is a leader in service and a quorum that follows it.
func (e *testEnsemble) leader() int {
	e.t.Helper()
	for range 6000 {
		for id, s := range e.servers {
			if s == nil || !s.leads() {
				continue
			}
			following := 1
			for other, f := range e.servers {
				if f != nil && other != id {
					if st := f.role.Load(); st.Role == zab.Following && int(st.Leader) == id {
						following++
					}
				}
			}
			if following > (len(e.servers)-1)/2 {
				return id
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("no leader within a minute: %s", e.roles())
	return 0
}

func (e *testEnsemble) roles() string {
	var b strings.Builder
	for id, s := range e.servers {
		if s != nil {
			st := s.role.Load()
			fmt.Fprintf(&b, "%d: %s of epoch %d, leader %d (%s), applied %v; ", id, explainRole(*st), st.Epoch, st.Leader, st.Reason, s.lastApplied())
		}
	}
	return b.String()
}

// settled waits until all servers that are up serve, have applied the same, and
// have equal trees.
func (e *testEnsemble) settled() {
	e.t.Helper()
	for range 6000 {
		if e.agree() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("servers do not come to agree within a minute: %s", e.roles())
}

func (e *testEnsemble) agree() bool {
	var first *testServer
	for _, s := range e.servers {
		switch {
		case s == nil:
		case !s.serving.Load():
			return false
		case first == nil:
			first = s
		default:
			if s.lastApplied() != first.lastApplied() || s.digest() != first.digest() {
				return false
			}
		}
	}
	return first != nil
}

func (e *testEnsemble) follower() int {
	e.t.Helper()
	leader := e.leader()
	for id, s := range e.servers {
		if s != nil && id != leader {
			if st := s.role.Load(); st.Role == zab.Following {
				return id
			}
		}
	}
	e.t.Fatal("no follower")
	return 0
}

func TestEnsembleServesWritesAndReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		leader := e.leader()
		follower := e.follower()
		c := e.servers[follower].connect(t)
		r := c.ok(jute.OpCreate, create("/a", "1", 0))
		if r.Zxid != jute.MakeZxid(1, 2) {
			t.Errorf("first write is %v, want epoch 1, behind the session's creation", r.Zxid)
		}
		d := e.servers[leader].connect(t)
		d.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
		d.ok(jute.OpGetData, &jute.PathWatchRequest{Path: "/a", Watch: true})
		c.ok(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: []byte("2"), Version: -1})
		if ev := d.must(); ev.Xid != jute.XidNotification {
			t.Errorf("got %v, want the event", ev)
		}
		e.settled()
	})
}

// resumeAt goes on with c's session at another server.
func (c *client) resumeAt(t testing.TB, s *testServer) *client {
	t.Helper()
	n := s.dial(t, dialOptions{})
	n.establish(&jute.ConnectRequest{TimeoutMs: c.timeout, LastZxidSeen: c.zxid, SessionID: c.session, Password: c.pass, HasReadOnly: true})
	return n
}

// inBubble runs a test of an ensemble in fake time.
func inBubble(t *testing.T, n int, lines []string, test func(t *testing.T, e *testEnsemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, n, lines...)
		e.leader()
		time.Sleep(2 * time.Second) // all are admitted
		e.settled()
		test(t, e)
	})
}

func TestSessionOutlivesTheLeader(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		follower, leader := e.follower(), e.leader()
		c := e.servers[follower].connect(t)
		c.ephemeral("/lock")
		c.create("/a", "1")
		e.kill(leader)
		c.eof("the connection to a follower that lost its leader")
		e.leader()
		c = c.resumeAt(t, e.servers[e.follower()])
		if c.session == 0 || !c.exists("/lock") {
			t.Fatalf("session %v or its ephemeral is gone with the leader", c.session)
		}
		c.set("/a", "2")
		e.start(leader)
		e.settled()
	})
}

func TestOnlySilenceExpiresSessions(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		follower := e.servers[e.follower()]
		alive, silent := follower.connectFor(t, 6000), follower.connectFor(t, 6000)
		alive.ephemeral("/alive")
		silent.ephemeral("/silent")
		begin := time.Now()
		watcher := e.servers[e.leader()].connectFor(t, 20_000)
		for gone := false; !gone; {
			time.Sleep(time.Second)
			alive.ping()
			watcher.ping()
			gone = !watcher.exists("/silent")
			switch took := time.Since(begin); {
			case gone && took < 6*time.Second:
				t.Fatalf("session of 6 s expired after %v", took)
			case !gone && took > 10*time.Second:
				t.Fatalf("session of 6 s is alive after %v", took)
			}
		}
		silent.eof("the connection of an expired session")
		for range 60 {
			time.Sleep(time.Second)
			alive.ping()
			watcher.ping()
		}
		if !alive.exists("/alive") {
			t.Error("a session that pinged has expired")
		}
		other := silent.resumeAt(t, e.servers[e.leader()])
		if other.session != 0 {
			t.Errorf("expired session was resumed as %v", other.session)
		}
	})
}

func TestNewLeaderGivesFullTimeouts(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connectFor(t, 6000)
		c.ephemeral("/e")
		time.Sleep(4 * time.Second)
		e.stop(e.leader())
		e.leader()
		time.Sleep(4 * time.Second) // 8 s after the last touch, 4 s into the new epoch
		if c = c.resumeAt(t, e.servers[e.leader()]); c.session == 0 {
			t.Error("the session expired before the new leader could hear of it")
		}
	})
}

func TestSessionMovesBetweenServers(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		begin := time.Now()
		old := e.servers[follower].connect(t)
		old.create("/a", "1")
		c := old.resumeAt(t, e.servers[leader])
		if c.session != old.session {
			t.Fatalf("session %v became %v", old.session, c.session)
		}
		old.eof("the connection from which the session moved")
		c.set("/a", "2")
		back := c.resumeAt(t, e.servers[follower])
		c.eof("the connection to the leader from which the session moved")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the connections from which the session moved were open for %v", took)
		}
		if v, _ := back.get("/a"); v != "2" {
			t.Errorf("after moving back the session reads %q, and it had written 2", v)
		}
	})
}

func TestClientAheadIsRefused(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		for other := range e.servers {
			e.net.sever(follower, other, true)
		}
		c := e.servers[leader].connect(t)
		c.create("/a", "1")
		n := e.servers[follower].dial(t, dialOptions{})
		n.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, LastZxidSeen: c.zxid, SessionID: c.session, Password: c.pass}).Append(nil))
		n.eof("a server that has seen less than its client")
	})
}

func TestIsolatedLeaderStepsDown(t *testing.T) {
	for _, how := range []string{"cut", "one-way out", "one-way in"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				old := e.leader()
				c := e.servers[old].connect(t)
				c.create("/a", "1")
				for id := 1; id <= 3; id++ {
					if id == old {
						continue
					}
					switch how {
					case "cut":
						e.net.sever(old, id, true)
					case "one-way out":
						e.net.swallow(old, id, true)
					case "one-way in":
						e.net.swallow(id, old, true)
					}
				}
				begin := time.Now()
				lost := c.send(jute.OpSetData, set("/a", "2"))
				c.eof("the connection to a leader without a quorum")
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("a leader without a quorum served for %v", took)
				}
				now := e.leader()
				if now == old {
					t.Fatalf("server %d leads and has no quorum", old)
				}
				d := e.servers[now].connect(t)
				d.set("/a", "3")
				for id := 1; id <= 3; id++ {
					e.net.sever(old, id, false)
					e.net.swallow(old, id, false)
					e.net.swallow(id, old, false)
				}
				e.settled()
				if v, _ := e.servers[old].connect(t).get("/a"); v != "3" {
					t.Errorf("the old leader has %q, want 3 (request %d was lost)", v, lost)
				}
			})
		})
	}
}

func TestSyncIsABarrier(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		w, r := e.servers[e.leader()].connect(t), e.servers[e.follower()].connect(t)
		w.create("/a", "0")
		for i := range 50 {
			w.set("/a", fmt.Sprint(i))
			r.send(jute.OpSync, &jute.SyncRequest{Path: "/"})
			got := r.send(jute.OpGetData, get("/a", false))
			r.must()
			if v := dataOf(r.await(got)); v != fmt.Sprint(i) {
				t.Fatalf("read %q behind sync, and %d had been written", v, i)
			}
		}
	})
}

func TestSyncKeepsItsPlaceAmongWrites(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		c.create("/a", "")
		var xids []int32
		for i := range 100 {
			xids = append(xids, c.send(jute.OpSetData, set("/a", fmt.Sprint(i))),
				c.send(jute.OpSync, &jute.SyncRequest{Path: "/a"}), c.send(jute.OpGetData, get("/a", false)))
		}
		for i, xid := range xids {
			r := c.must()
			if r.Xid != xid {
				t.Fatalf("reply %d is to request %d, want %d", i, r.Xid, xid)
			}
			if i%3 == 2 && dataOf(r) != fmt.Sprint(i/3) {
				t.Fatalf("read %q behind write %d", dataOf(r), i/3)
			}
		}
	})
}

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

func TestWipedServersDoNotDecide(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		e.servers[e.leader()].connect(t).create("/a", "1")
		e.settled()
		for id := 1; id <= 3; id++ {
			e.stop(id)
		}
		// One comes back whole, one empty: two of three, but only one knows.
		e.disks[2] = crashfs.New(99)
		e.start(1)
		e.start(2)
		time.Sleep(time.Minute)
		for id := 1; id <= 2; id++ {
			if e.servers[id].serving.Load() {
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

func TestObserver(t *testing.T) {
	inBubble(t, 3, []string{"server.4=10.0.0.4:2888:3888:observer"}, func(t *testing.T, e *testEnsemble) {
		e.disks = append(e.disks, crashfs.New(4))
		e.servers = append(e.servers, nil)
		o := e.start(4)
		e.settled()
		if word := o.ask(t, "srvr", false); !strings.Contains(word, "Mode: observer\n") {
			t.Errorf("srvr: %s", word)
		}
		c := o.connect(t)
		c.create("/a", "1")
		c.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
		if v, _ := c.get("/a"); v != "1" {
			t.Errorf("read %q from the observer", v)
		}
		// It does not count: with two voters gone, nobody leads.
		leader := e.leader()
		for id := 1; id <= 3; id++ {
			if id != leader {
				e.stop(id)
			}
		}
		c.eof("the connection to an observer without a leader")
	})
}

func TestLeaderWithoutClients(t *testing.T) {
	inBubble2(t, 3, []string{"leaderServes=no"}, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		n := e.servers[leader].dial(t, dialOptions{})
		n.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16)}).Append(nil))
		n.eof("a leader that does not serve")
		e.servers[e.follower()].connect(t).create("/a", "1")
	})
}

// inBubble2 is inBubble for an ensemble of which not all serve.
func inBubble2(t *testing.T, n int, lines []string, test func(t *testing.T, e *testEnsemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, n, lines...)
		e.leader()
		time.Sleep(2 * time.Second)
		test(t, e)
	})
}

func TestReadOnlyMode(t *testing.T) {
	inBubble(t, 3, []string{"readonlymode.enabled=true"}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[1].connect(t)
		c.create("/a", "1")
		e.settled()
		e.stop(2)
		e.stop(3)
		time.Sleep(5 * time.Second)
		s := e.servers[1]
		if word := s.ask(t, "isro", false); word != "ro" {
			t.Errorf("isro: %q", word)
		}
		n := s.dial(t, dialOptions{})
		resp := n.establish(&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true})
		if !resp.ReadOnly || resp.SessionID == 0 {
			t.Fatalf("connect response %+v", resp)
		}
		if v, _ := n.get("/a"); v != "1" {
			t.Errorf("read %q", v)
		}
		for _, op := range []struct {
			op   jute.OpCode
			body record
		}{{jute.OpSetData, set("/a", "2")}, {jute.OpSync, &jute.SyncRequest{Path: "/"}}} {
			if r := n.call(op.op, op.body); r.Err != jute.ErrNotReadOnly {
				t.Errorf("%v: %v, want NOTREADONLY", op.op, r.Err)
			}
		}
		rw := s.dial(t, dialOptions{})
		rw.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}).Append(nil))
		rw.eof("a client that wants to write")
		e.start(2)
		n.eof("the read-only connection, now that there is a leader")
		e.settled()
		if word := s.ask(t, "isro", false); word != "rw" {
			t.Errorf("isro: %q", word)
		}
	})
}

func TestLocalSessions(t *testing.T) {
	inBubble(t, 3, []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.follower()]
		before := s.lastApplied()
		c := s.connect(t)
		if s.lastApplied() != before {
			t.Error("a local session took a transaction")
		}
		c.create("/a", "1")
		if other := c.resumeAt(t, e.servers[e.leader()]); other.session != 0 {
			t.Error("a local session was resumed on another server")
		}
		c.ephemeral("/e") // makes it global
		if other := c.resumeAt(t, e.servers[e.leader()]); other.session != c.session {
			t.Error("an upgraded session was not resumed on another server")
		}
		c.eof("the old connection")
	})
}

func TestLocalSessionCannotOwn(t *testing.T) {
	inBubble(t, 3, []string{"localSessionsEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		if r := c.call(jute.OpCreate, create("/e", "", jute.ModeEphemeral)); r.Err != jute.ErrEphemeralOnLocalSession {
			t.Errorf("ephemeral of a local session: %v", r.Err)
		}
		c.ok(jute.OpCloseSession, nil)
		c.eof("a closed session")
	})
}

func TestLinearizableReads(t *testing.T) {
	inBubble(t, 3, []string{"zkd.linearizableReads=true"}, func(t *testing.T, e *testEnsemble) {
		w, r := e.servers[e.leader()].connect(t), e.servers[e.follower()].connect(t)
		w.create("/a", "0")
		for i := range 50 {
			w.set("/a", fmt.Sprint(i))
			if v, _ := r.get("/a"); v != fmt.Sprint(i) {
				t.Fatalf("read %q, and %d had been written", v, i)
			}
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

// An ensemble that is stopped as a whole, in any order, comes back with all it
// had, in whatever order its servers start.
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

func TestConfigNode(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		want := "server.1=10.0.0.1:2888:3888:participant\nserver.2=10.0.0.2:2888:3888:participant\nserver.3=10.0.0.3:2888:3888:participant\nversion=100000000"
		for id := 1; id <= 3; id++ {
			if v, _ := e.servers[id].connect(t).get("/zookeeper/config"); v != want {
				t.Errorf("server %d: configuration is %q, want %q", id, v, want)
			}
		}
	})
}

// A server that was away for so long that the others' logs do not reach back gets
// a snapshot, and what came behind it.
func TestSnapshotToALateServer(t *testing.T) {
	dir := t.TempDir() // snapshots need real files
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "snapCount=50", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1")
		e.dir = dir
		for id := 1; id <= 3; id++ {
			e.start(id)
		}
		e.leader()
		time.Sleep(2 * time.Second)
		late := e.follower()
		c := e.servers[e.leader()].connect(t)
		c.ephemeral("/before")
		e.stop(late)
		value := strings.Repeat("x", 16_000) // more in all than is kept in memory
		for i := range 1000 {
			c.create(fmt.Sprintf("/n%04d", i), value)
			if i%50 == 0 {
				time.Sleep(time.Second) // snapshots are written beside the work
				c.ping()
			}
		}
		d := e.servers[e.leader()].logWriter
		if _, err := d.NewReader(0); !errors.Is(err, wal.ErrPurged) {
			t.Fatalf("the log still reaches back to the beginning: %v", err)
		}
		e.start(late)
		e.settled()
		if e.servers[e.leader()].metrics.snapshotsSent.Load() != 1 {
			t.Error("the late server was synchronized without a snapshot")
		}
		for _, id := range []int{late, late} { // and once more from its own disk
			l := e.servers[id].connect(t)
			if v, _ := l.get("/n0999"); v != value || !l.exists("/before") {
				t.Fatal("the late server lacks data")
			}
			c.ping()
			e.stop(late)
			c.set("/n0000", "y")
			e.start(late)
			e.settled()
		}
	})
}

// A server whose snapshots are gone has a log that begins in the air. The others
// have everything, so it is repaired without an operator.
func TestLostSnapshotsAreRepaired(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "snapCount=50", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1")
		e.dir = dir
		for id := 1; id <= 3; id++ {
			e.start(id)
		}
		e.leader()
		time.Sleep(2 * time.Second)
		c := e.servers[e.leader()].connect(t)
		value := strings.Repeat("x", 16_000)
		for i := range 1000 {
			c.create(fmt.Sprintf("/n%04d", i), value)
			if i%50 == 0 {
				time.Sleep(time.Second)
				c.ping()
			}
		}
		e.settled()
		hurt := e.follower()
		e.stop(hurt)
		if err := os.RemoveAll(fmt.Sprintf("%s/%d/snap", dir, hurt)); err != nil {
			t.Fatal(err)
		}
		e.start(hurt)
		e.settled()
		time.Sleep(3 * time.Second) // admitted again
		e.stop(e.leader())
		e.leader()
		if v, _ := e.servers[hurt].connect(t).get("/n0999"); v != value {
			t.Error("the repaired server lacks data")
		}
	})
}

// With the others lost for good, a server's data goes on alone, and founds a new
// ensemble later, with all that it had.
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
		// What is left of the old ensemble does not take it for one of its own.
		e.start(1)
		e.start(2)
		time.Sleep(time.Minute)
		if e.servers[1].serving.Load() || e.servers[2].serving.Load() {
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

// With db.autocreate=false an empty server joins, and never begins an ensemble of
// its own, however many of them there are.
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
		if e.servers[1].serving.Load() || e.servers[2].serving.Load() {
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
		if w := e.servers[3].role.Load().Weightless; w != "" {
			time.Sleep(5 * time.Second)
			if w = e.servers[3].role.Load().Weightless; w != "" {
				t.Errorf("the third server does not count: %s", w)
			}
		}
	})
}
